"""`loomsvc doctor`: what it finds wrong, the cure it names, and what it never shows."""

from __future__ import annotations

import datetime as dt
import json
import os
import shutil
import socket
from collections import namedtuple
from dataclasses import replace
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command
from django.db import connection

from apps.access.domain import tokens
from apps.access.services.credentials import create_credential
from apps.access.services.local import prepare_local_access
from apps.access.services.projects import ensure_default_project
from apps.core import clock, findings
from apps.core import doctoring as core_doctoring
from apps.core.caller import Source
from apps.core.database import database_time, missing_triggers, unsound_settings
from apps.core.findings import AREAS, Finding, Health
from apps.core.redaction import REDACTED
from apps.runs.services import executors
from tests.conftest import Service

pytestmark = pytest.mark.django_db

PASSWORD = "sentinel-password-of-the-broker"


@pytest.fixture
def folder(settings: Any, tmp_path: Path) -> Path:
    """The data folder of a service that runs as it should."""
    tmp_path.chmod(0o700)
    settings.LOOMSVC = replace(settings.LOOMSVC, data_dir=tmp_path, loom_paths=())
    settings.EMBEDDED = True
    prepare_local_access(tmp_path, now=clock.now()).write_connection(
        url="http://127.0.0.1:8300", instance_id="x", pid=os.getpid()
    )
    return tmp_path


def found(area: str, health: Health | None = None) -> list[Finding]:
    """What is found in one area, but for what is well there."""
    every = [one for where, one in findings.examine() if where == area]
    return [one for one in every if (one.health is health if health else one.health is not Health.OK)]


def only(area: str) -> Finding:
    (finding,) = found(area)
    assert finding.cure
    return finding


def doctor(**options: Any) -> tuple[str, int]:
    out = StringIO()
    try:
        call_command("doctor", stdout=out, **options)
    except SystemExit as ended:
        return out.getvalue(), int(str(ended.code))
    return out.getvalue(), 0


@pytest.mark.rule("N8")
def test_what_is_well_is_said_of_every_area(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setattr(executors, "_executors", {})
    every = list(findings.examine())
    assert list(dict.fromkeys(area for area, _ in every)) == list(AREAS)
    assert [one.message for _, one in every if REDACTED in one.message] == [], "what is said holds no secret"
    wrong = [(area, one.message) for area, one in every if one.health is not Health.OK]
    assert {area for area, _ in wrong} <= {"database", "entries"}, wrong


def test_a_missing_folder_and_an_open_one_are_told_apart(folder: Path, settings: Any) -> None:
    folder.chmod(0o755)
    assert (only("folder").health, only("folder").cure) == (Health.WARNING, f"chmod go-rwx {folder}")
    settings.LOOMSVC = replace(settings.LOOMSVC, data_dir=folder / "nowhere")
    assert only("folder").health is Health.PROBLEM
    assert not (folder / "nowhere").exists(), "and it is left alone"
    settings.EMBEDDED = False
    assert found("folder") == [], "a process of a deployment makes it when it needs it"


@pytest.mark.parametrize(
    ("free", "health"), [(50 * 1024**2, Health.PROBLEM), (500 * 1024**2, Health.WARNING), (50 * 1024**3, None)]
)
def test_a_disk_that_fills_up_is_told_in_time(
    folder: Path, monkeypatch: pytest.MonkeyPatch, free: int, health: Health | None
) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda _: namedtuple("Usage", "free")(free))
    assert [one.health for one in found("disk")] == ([health] if health else [])


@pytest.mark.rule("F22")
@pytest.mark.parametrize(
    ("seconds", "health"), [(0, None), (-3, Health.WARNING), (3, Health.WARNING), (3600, Health.PROBLEM)]
)
def test_clocks_that_differ_are_told(
    folder: Path, monkeypatch: pytest.MonkeyPatch, seconds: float, health: Health | None
) -> None:
    monkeypatch.setattr(core_doctoring, "database_time", lambda: clock.now() + dt.timedelta(seconds=seconds))
    assert [one.health for one in found("clock")] == ([health] if health else [])


def test_the_database_says_its_time_and_its_settings_are_sound() -> None:
    assert abs((database_time() - clock.now()).total_seconds()) < 5
    if connection.vendor == "postgresql":
        assert unsound_settings() == []


@pytest.mark.django_db(transaction=True)
def test_a_setting_that_loses_what_was_acknowledged_is_told(folder: Path) -> None:
    is_postgresql = connection.vendor == "postgresql"
    name, off, on = ("synchronous_commit", "off", "on") if is_postgresql else ("synchronous", "0", "2")
    change = f"SET {name} = " if is_postgresql else f"PRAGMA {name} = "
    try:
        with connection.cursor() as cursor:
            cursor.execute(change + off)
        told = [one for one in found("database", Health.WARNING) if one.message.startswith(f"The database's {name} is")]
        assert len(told) == 1 and told[0].cure
    finally:
        with connection.cursor() as cursor:
            cursor.execute(change + on)
    assert unsound_settings() == []


def test_migrations_that_are_due_are_a_problem_and_the_ledger_is_then_left_alone(folder: Path) -> None:
    from django.db.migrations.recorder import MigrationRecorder

    MigrationRecorder(connection).record_unapplied("results", "0003_enter_earlier_results")
    assert only("database").cure == "Stop the service, then: loomsvc migrate"
    assert found("clients", Health.OK) and found("entries", Health.OK) == found("clock", Health.OK) == []


def test_a_database_in_which_nothing_was_ever_set_up_may_be_the_wrong_one(folder: Path) -> None:
    """A command that looked for a ledger with SQLite, while the service's is PostgreSQL, leaves such a file behind."""
    from django.db.migrations.recorder import MigrationRecorder

    MigrationRecorder(connection).flush()
    told = only("database")
    assert told.message == "There is no ledger yet."
    assert "DATABASE_URL" in str(told.cure)


@pytest.mark.rule("B7")
def test_the_triggers_of_the_search_are_looked_for() -> None:
    from apps.results.doctoring import TRIGGERS_POSTGRESQL, TRIGGERS_SQLITE

    names = TRIGGERS_POSTGRESQL if connection.vendor == "postgresql" else TRIGGERS_SQLITE
    assert missing_triggers(names) == []
    assert missing_triggers(["no_such_trigger"]) == ["no_such_trigger"]


@pytest.mark.rule("FR-H15", "E6")
def test_a_broker_that_is_not_there_is_told_without_its_password(folder: Path, settings: Any) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        settings.EMBEDDED = False
        settings.REDIS_URL = f"redis://:{PASSWORD}@127.0.0.1:{free.getsockname()[1]}/0"
        told = only("broker")
    assert told.health is Health.PROBLEM
    assert "Redis at 127.0.0.1:" in told.message
    assert PASSWORD not in str(told)


def test_a_loom_that_does_not_load_is_named_with_the_command_that_says_more(folder: Path, settings: Any) -> None:
    bad = folder / "looms" / "bad"
    bad.mkdir(parents=True)
    (bad / "loom.yaml").write_text("loom: bad\nstages: 1\n")
    bad.chmod(0o777)
    settings.LOOMSVC = replace(settings.LOOMSVC, loom_paths=(folder / "looms",))
    (broken,) = found("looms", Health.PROBLEM)
    assert "Loom bad does not load: loom.yaml" in broken.message
    assert broken.cure == f"loomsvc loom_check {bad} names every mistake."
    assert any(one.cure == f"chmod -R go-w {bad}" for one in found("looms", Health.WARNING))


@pytest.mark.rule("B1")
def test_models_that_cannot_be_read_and_keys_that_are_missing_are_told(folder: Path, settings: Any) -> None:
    models = folder / "models.yaml"
    settings.LOOMSVC = replace(settings.LOOMSVC, models_file=models)
    models.write_text("providers: {acme: {kind: openai, models: [one]}}\nroles: {writing: acme/one}\n")
    assert "no Project has a key" in only("models").message
    assert "role writing: acme/one" in str(found("models", Health.OK))
    settings.LOOMSVC = replace(settings.LOOMSVC, models_file=folder / "other.yaml")
    (folder / "other.yaml").write_text("providers: 7")
    assert only("models").health is Health.PROBLEM


@pytest.mark.rule("B5", "K17")
def test_a_key_that_cannot_be_read_is_told_and_none_is_shown(folder: Path) -> None:
    from apps.agent_sessions.models import ProviderKey
    from apps.agent_sessions.services.provider_keys import set_provider_key

    project = ensure_default_project(now=clock.now())
    for provider in ("acme", "other"):
        set_provider_key(project_id=project.pk, provider=provider, key=f"sk-{PASSWORD}", by="test", now=clock.now())
    assert found("models") == []
    one, two = ProviderKey.objects.order_by("provider")
    ProviderKey.objects.filter(pk=one.pk).update(ciphertext=two.ciphertext)
    assert only("models").message == "The key for acme in Project default cannot be read."
    assert PASSWORD not in str(list(findings.examine()))


@pytest.mark.rule("N2", "N4")
def test_a_connection_file_is_looked_at_closely(folder: Path) -> None:
    path = folder / "connection.json"
    path.chmod(0o644)
    assert only("clients").cure == f"chmod 600 {path}"
    path.chmod(0o600)
    body = json.loads(path.read_text())
    path.write_text(json.dumps({**body, "pid": 2**30}))
    assert only("clients").cure == "Start it: loomsvc up"
    known = tokens.read(body["entries"]["cli"]["token"])
    assert known is not None
    for text in ("loom_cli_x", replace(known, secret="x" * 43).text, tokens.mint(Source.CLI).text):
        path.write_text(json.dumps({**body, "entries": {"cli": {"path": "/internal/mcp", "token": text}}}))
        assert "for cli are not valid" in only("clients").message
    path.write_text("{")
    assert only("clients").health is Health.PROBLEM


def test_a_credential_that_ends_soon_is_told_with_the_command_for_the_next(folder: Path) -> None:
    soon = clock.now() + dt.timedelta(days=2)
    create_credential(
        project=ensure_default_project(now=clock.now()),
        source=Source.STUDIO,
        label="x",
        now=clock.now(),
        expires_at=soon,
    )
    assert only("clients").cure == "loomsvc token_create --source studio --project default --label TEXT"


@pytest.mark.rule("N8", "R15")
def test_each_kind_of_entry_is_ready_or_says_why(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(executors, "_executors", {})
    told = found("entries", Health.WARNING)
    assert [one.message.partition(":")[0] for one in told] == [
        "Agent Steps do not run at /mcp and /mcp/codex in Project default",
        "Agent Steps do not run at /internal/mcp, /internal/mcp/studio, /api/v1 and the console in Project default",
    ]


@pytest.mark.rule("N8", "R15")
def test_status_says_the_same_to_one_caller(folder: Path, service: Service, settings: Any) -> None:
    assert service.call("status")["service"]["ready"] is True
    assert found("entries") == []
    models = folder / "models.yaml"
    models.write_text("providers: {acme: {kind: openai, models: [one]}}\ndefault: acme/one\n")
    settings.LOOMSVC = replace(settings.LOOMSVC, models_file=models)
    status = service.call("status")["service"]
    assert status["ready"] is False
    assert status["notReadyBecause"] in str(found("entries", Health.WARNING))
    agent = replace(service.caller, source=Source.AGENT_IDE, entry="/mcp")
    assert service.call("status", caller=agent)["service"]["ready"] is True


@pytest.mark.rule("E6")
def test_nothing_that_opens_anything_is_shown(folder: Path, settings: Any) -> None:
    texts = [entry["token"] for entry in json.loads((folder / "connection.json").read_text())["entries"].values()]
    for options in ({}, {"as_json": True}):
        said, _ = doctor(**options)
        assert not [text for text in texts if text in said or text[-20:] in said]
        assert settings.SECRET_KEY not in said


def test_the_exit_code_and_the_json_say_whether_something_is_a_problem(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said, code = doctor(as_json=True)
    body = json.loads(said)
    assert (code, body["ok"]) == (0, True)
    assert {"area": "folder", "status": "ok", "message": f"Data folder {folder}"} in body["findings"]
    (folder / "connection.json").chmod(0o666)
    said, code = doctor(as_json=True)
    assert (code, json.loads(said)["ok"]) == (1, False)
    shown, code = doctor()
    assert code == 1
    assert "✗ problem" in shown and f"→ chmod 600 {folder}" in shown.replace("\n", "")


def test_a_check_that_fails_itself_stops_no_other(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def crash() -> Any:
        raise RuntimeError("sentinel of the crash")

    monkeypatch.setitem(findings._checks, ("disk", "crash"), (crash, False))
    assert only("disk").message == "This could not be looked at (RuntimeError)."
    assert found("clock", Health.OK)
