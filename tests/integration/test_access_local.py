"""What a start on a data folder makes for local clients, and what of it stays the same across starts (N2, N4)."""

from __future__ import annotations

import datetime as dt
import json
import os
import stat
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth import get_user_model

from apps.access.connection import CONNECTION_FILE, find_running
from apps.access.domain import tokens
from apps.access.domain.entries import MCP_ENTRIES, REST_ENTRY
from apps.access.models import Credential
from apps.access.services.credentials import authenticate, create_credential, revoke_credential
from apps.access.services.local import LocalAccess, prepare_local_access
from apps.access.services.projects import create_project
from apps.core import clock
from apps.core.caller import Source

pytestmark = pytest.mark.django_db


def started(folder: Path) -> LocalAccess:
    access = prepare_local_access(folder, now=clock.now())
    access.write_connection(url="http://127.0.0.1:1", instance_id="i", pid=1)
    return access


def put(folder: Path, name: str, token: Any) -> None:
    """Another token in the file, as somebody may have written it there."""
    path = folder / CONNECTION_FILE
    body = json.loads(path.read_text())
    body["entries"][name]["token"] = token
    path.write_text(json.dumps(body))


@pytest.mark.rule("N2", "N4")
def test_each_entry_has_a_credential_that_opens_it_and_stays_across_starts(tmp_path: Path) -> None:
    first = started(tmp_path)
    for entry in (*MCP_ENTRIES, REST_ENTRY):
        text = f"Bearer {first.tokens[entry.source]}"
        assert authenticate(authorization=text, entry=entry, now=clock.now()).project_name == "default"
    assert stat.S_IMODE((tmp_path / CONNECTION_FILE).stat().st_mode) == 0o600
    again = started(tmp_path)
    assert again.tokens == first.tokens
    assert Credential.objects.count() == len(first.tokens)
    assert (first.new_password is None, again.new_password) == (False, None)
    assert get_user_model().objects.filter(is_superuser=True).count() == 1


@pytest.mark.rule("N2", "K12")
@pytest.mark.parametrize(
    "what",
    ["revoked", "expired", "another secret", "another project's", "another source's", "no credential", "a number"],
)
def test_a_kept_credential_that_opens_nothing_is_replaced_and_no_other(tmp_path: Path, what: str) -> None:
    first = started(tmp_path)
    kept = tokens.read(first.tokens[Source.CLI])
    assert kept is not None
    mine = Credential.objects.filter(public_id=kept.public_id)
    match what:
        case "revoked":
            revoke_credential(public_id=kept.public_id, now=clock.now())
        case "expired":
            mine.update(expires_at=clock.now() - dt.timedelta(seconds=1))
        case "another secret":
            mine.update(secret_digest="0" * 64)
        case "another project's":
            other = create_project(name="other", now=clock.now())
            put(tmp_path, "cli", create_credential(project=other, source=Source.CLI, label="x", now=clock.now())[1])
        case "another source's":
            put(tmp_path, "cli", first.tokens[Source.STUDIO])
        case "no credential":
            put(tmp_path, "cli", "loom_cli_nothing")
        case "a number":
            put(tmp_path, "cli", 7)
    again = started(tmp_path)
    (entry,) = (entry for entry in MCP_ENTRIES if entry.source is Source.CLI)
    caller = authenticate(authorization=f"Bearer {again.tokens[Source.CLI]}", entry=entry, now=clock.now())
    assert caller.project_name == "default"
    assert again.tokens[Source.CLI] != first.tokens[Source.CLI]
    unchanged = {source: text for source, text in again.tokens.items() if source is not Source.CLI}
    assert unchanged == {source: first.tokens[source] for source in unchanged}
    assert started(tmp_path).tokens == again.tokens


@pytest.mark.rule("N4")
@pytest.mark.parametrize(
    ("pid", "lives"),
    [(os.getpid(), True), (2**22 + 1, False), (None, False), ("x", False), (10**30, False), ([], False)],
)
def test_a_service_is_found_only_while_its_process_lives(tmp_path: Path, pid: Any, lives: bool) -> None:
    started(tmp_path)
    path = tmp_path / CONNECTION_FILE
    path.write_text(json.dumps({**json.loads(path.read_text()), "pid": pid}))
    assert (find_running(tmp_path) is not None) is lives


def test_a_service_of_another_account_lives_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    started(tmp_path)

    def not_ours(pid: int, number: int) -> None:
        raise PermissionError(1, "Operation not permitted")

    # Whoever runs the tests may be root, to whom the system never says so.
    monkeypatch.setattr(os, "kill", not_ours)
    assert find_running(tmp_path) is not None
