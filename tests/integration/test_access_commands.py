"""The commands that make, list and end credentials and Projects."""

from __future__ import annotations

import datetime as dt
import io
import json
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.db import OperationalError

from apps.access.domain import tokens
from apps.access.domain.entries import MCP_ENTRIES, REST_ENTRY
from apps.access.models import Credential, Project
from apps.access.services.credentials import authenticate
from apps.access.services.projects import ensure_default_project
from apps.core import clock
from apps.core.errors import ErrorCode, LoomError

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _default_project() -> None:
    ensure_default_project(now=clock.now())


def run(*arguments: str) -> str:
    out = io.StringIO()
    call_command(*arguments, stdout=out)
    return out.getvalue()


def made(*more: str, source: str = "studio") -> dict[str, Any]:
    found: dict[str, Any] = json.loads(run("token_create", "--source", source, "--label", "My IDE", "--json", *more))
    return found


@pytest.mark.rule("N1")
@pytest.mark.parametrize("entry", [*MCP_ENTRIES, REST_ENTRY], ids=lambda entry: entry.name)
def test_a_created_credential_opens_its_entry(entry: Any) -> None:
    token = made(source=entry.source.value)["token"]
    caller = authenticate(authorization=f"Bearer {token}", entry=entry, now=clock.now())
    assert (caller.project_name, caller.source) == ("default", entry.source)


@pytest.mark.rule("N2", "K1", "K2")
def test_the_text_of_a_credential_is_printed_once_and_kept_nowhere() -> None:
    out = run("token_create", "--source", "cli", "--label", "x")
    (text,) = [word for word in out.split() if word.startswith("loom_cli_")]
    token = tokens.read(text)
    assert token
    assert out.count(token.secret) == 1
    assert f"token_revoke {token.public_id}" in out
    stored = json.dumps([str(value) for row in Credential.objects.values_list() for value in row])
    for shown in (stored, run("token_list"), run("token_list", "--json")):
        assert not any(token.secret[at : at + 8] in shown for at in range(len(token.secret) - 8))


@pytest.mark.rule("N2")
def test_a_credential_ends_after_the_days_it_was_given() -> None:
    body = made("--expires-days", "3")
    header = f"Bearer {body['token']}"
    assert authenticate(authorization=header, entry=REST_ENTRY, now=clock.now() + dt.timedelta(days=2.9))
    with pytest.raises(LoomError) as refused:
        authenticate(authorization=header, entry=REST_ENTRY, now=clock.now() + dt.timedelta(days=3.1))
    assert refused.value.code is ErrorCode.UNAUTHENTICATED
    assert made()["expiresAt"] is None


@pytest.mark.rule("N2")
def test_the_list_says_which_credentials_are_live_revoked_and_expired() -> None:
    assert "token_create" in run("token_list")
    live, revoked, expired = made(), made(), made("--expires-days", "1")
    run("token_revoke", revoked["publicId"])
    with clock.moved(dt.timedelta(days=2)):
        rows = json.loads(run("token_list", "--json"))
        table = run("token_list")
    assert [(row["publicId"], row["status"]) for row in rows] == [
        (live["publicId"], "live"), (revoked["publicId"], "revoked"), (expired["publicId"], "expired"),
    ]  # fmt: skip
    assert len(table.splitlines()) == 4
    assert "My IDE" in table


@pytest.mark.rule("N2", "K12")
def test_a_revoked_credential_opens_nothing_and_keeps_the_time_it_was_revoked() -> None:
    body = made()
    first = run("token_revoke", body["publicId"])
    with clock.moved(dt.timedelta(hours=1)):
        assert run("token_revoke", body["publicId"]) == first
    with pytest.raises(LoomError) as refused:
        authenticate(authorization=f"Bearer {body['token']}", entry=REST_ENTRY, now=clock.now())
    assert refused.value.code is ErrorCode.UNAUTHENTICATED


@pytest.mark.rule("E6")
def test_a_leaked_credential_can_be_revoked_by_its_text_which_is_not_printed_again() -> None:
    body = made()
    out = run("token_revoke", body["token"])
    assert body["publicId"] in out
    assert body["token"] not in out
    assert Credential.objects.get().revoked_at


def test_revoking_what_does_not_exist_says_where_to_look() -> None:
    with pytest.raises(CommandError, match="token_list"):
        run("token_revoke", "nothing")
    with pytest.raises(CommandError) as caught:
        run("token_revoke", "loom_studio_aaaaaaaaaaaa_mistyped")
    assert "mistyped" not in str(caught.value)


@pytest.mark.parametrize(
    "arguments",
    [
        ["--source", "console", "--label", "x"],
        ["--source", "admin", "--label", "x"],
        ["--source", "cli"],
        ["--label", "x"],
        ["--source", "cli", "--label", "  "],
        ["--source", "cli", "--label", "a\nb"],
        ["--source", "cli", "--label", "\x1b[31m"],
        ["--source", "cli", "--label", "x" * 201],
        ["--source", "cli", "--label", "x", "--project", "unknown"],
        *(
            ["--source", "cli", "--label", "x", "--expires-days", d]
            for d in ("0", "-1", "1.5", "x", "", "9" * 30, "0" * 9 + "9" * 20, "٣")
        ),
    ],
)
def test_wrong_arguments_make_no_credential(arguments: list[str]) -> None:
    with pytest.raises(CommandError):
        run("token_create", *arguments)
    assert not Credential.objects.exists()


def test_a_project_is_created_once_and_credentials_can_live_there() -> None:
    assert "token_create --project team-a" in run("project_create", "team-a")
    assert made("--project", "team-a")["project"] == "team-a"
    with pytest.raises(CommandError, match="CONFLICT"):
        run("project_create", "team-a")
    for wrong in ("", "Team", "-a", "a/b", "a\n", "x" * 64, "ü"):
        with pytest.raises(CommandError, match=r"^INVALID_REQUEST: [^\n]*/name"):
            run("project_create", "--", wrong)
    assert set(Project.objects.values_list("name", flat=True)) == {"default", "team-a"}


@pytest.mark.parametrize("command", ["token_create", "token_list", "token_revoke", "project_create"])
def test_each_command_takes_the_data_folder(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        call_command(command, "--help")
    assert "--data DIR" in capsys.readouterr().out
    assert run("token_list", "--data", "somewhere")


def test_a_ledger_that_is_not_there_is_said_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    def lost(**_: Any) -> None:
        raise OperationalError("no such table: access_credential")

    monkeypatch.setattr("apps.access.management.commands.token_list.credentials", lost)
    with pytest.raises(CommandError, match=r"`loomsvc migrate`[^\n]*\Z"):
        run("token_list")
