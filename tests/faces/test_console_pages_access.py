"""Credentials in the console: made and shown once, revoked, by whoever may, and all of it is kept (K2, K14, K25)."""

from __future__ import annotations

import re
import uuid
from typing import Any

import pytest
from console_people import operator, root, signed_in, text_of, with_role
from django.db import OperationalError
from django.test import Client

from apps.access.domain.entries import MCP_ENTRIES
from apps.access.models import Credential
from apps.access.services.credentials import authenticate
from apps.access.services.projects import create_project
from apps.core import clock
from apps.core.errors import ErrorCode, LoomError
from apps.core.ids import new_id

ACCESS = "/admin/console/access/"
FILLED = {"project": "trials", "source": "agent_ide", "label": "The IDE of Ada", "days": "30"}


def make(client: Client, **changed: str) -> Any:
    return client.post(f"{ACCESS}create/", {"form": str(new_id()), **FILLED, **changed})


def token_in(response: Any) -> str:
    found = re.search(r"loom_\w+", text_of(response))
    assert found
    return found[0]


@pytest.mark.rule("K2", "N2")
def test_a_credential_is_shown_once_opens_what_it_says_and_is_kept_nowhere(service: Any) -> None:
    client = signed_in(root())
    answer = make(client)
    assert answer.status_code == 200
    assert "no-store" in answer.headers["Cache-Control"]
    token = token_in(answer)
    caller = authenticate(authorization=f"Bearer {token}", entry=MCP_ENTRIES[0], now=clock.now())
    assert caller.project_name == "trials"
    secret = token.rpartition("_")[2]
    for address in (ACCESS, "/admin/console/audit/", "/admin/access/credential/"):
        shown = text_of(client.get(address))  # type: ignore[arg-type]
        assert secret not in shown
    listed = text_of(client.get(ACCESS))  # type: ignore[arg-type]
    assert "The IDE of Ada" in listed
    assert "live" in listed


@pytest.mark.rule("K2", "K25")
def test_a_form_that_is_sent_twice_makes_one_credential_and_shows_it_once(service: Any) -> None:
    client = signed_in(root())
    rendered = re.findall(r'name="form" value="([0-9a-f-]{36})"', text_of(client.get(ACCESS)))  # type: ignore[arg-type]
    again = re.findall(r'name="form" value="([0-9a-f-]{36})"', text_of(client.get(ACCESS)))  # type: ignore[arg-type]
    assert rendered != again
    token = token_in(make(client, form=rendered[0]))
    second = make(client, form=rendered[0])
    assert second.status_code == 409
    assert "This form has made its credential" in text_of(second)
    assert token.rpartition("_")[2] not in text_of(second)
    assert Credential.objects.count() == 1
    trail = text_of(client.get("/admin/console/audit/"))  # type: ignore[arg-type]
    assert trail.count("for agent_ide in Project trials: The IDE of Ada") == 1
    assert make(client, form="nonsense").status_code == 400
    assert Credential.objects.count() == 1


@pytest.mark.rule("K3", "K25")
def test_a_revoked_credential_opens_nothing_and_both_changes_are_in_the_audit_trail(service: Any) -> None:
    client = signed_in(root("ada"))
    token = token_in(make(client))
    public_id = Credential.objects.get().public_id
    done = client.post(f"{ACCESS}{public_id}/revoke/", follow=True)
    assert f"Credential {public_id} (The IDE of Ada) is revoked" in text_of(done)  # type: ignore[arg-type]
    with pytest.raises(LoomError) as refused:
        authenticate(authorization=f"Bearer {token}", entry=MCP_ENTRIES[0], now=clock.now())
    assert refused.value.code is ErrorCode.UNAUTHENTICATED
    again = client.post(f"{ACCESS}{public_id}/revoke/", follow=True)
    assert "had been revoked before" in text_of(again)  # type: ignore[arg-type]
    trail = text_of(client.get("/admin/console/audit/"))  # type: ignore[arg-type]
    assert trail.count(f"made {public_id} for agent_ide in Project trials: The IDE of Ada") == 1
    assert trail.count(f"revoked {public_id}: The IDE of Ada") == 1
    assert "ada" in trail


@pytest.mark.rule("K25")
def test_a_credential_is_not_revoked_without_its_record(service: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from apps.console.pages import access

    client = signed_in(root())
    make(client)

    def full(**_: Any) -> None:
        raise OperationalError("the disk is full")

    monkeypatch.setattr(access, "record_credential", full)
    credential = Credential.objects.get()
    with pytest.raises(OperationalError):
        client.post(f"{ACCESS}{credential.public_id}/revoke/")
    credential.refresh_from_db()
    assert credential.revoked_at is None


@pytest.mark.parametrize(
    ("field", "value", "said"),
    [
        ("label", " ", "A label is one line"),
        ("label", "a\nb", "A label is one line"),
        ("label", "a" * 201, "A label is one line"),
        ("days", "0", "whole number of days"),
        ("days", "1.5", "whole number of days"),
        ("days", "99999", "whole number of days"),
        ("source", "console", "Choose which Entries it opens"),
        ("project", "nonsense", "Choose its home"),
    ],
)
def test_what_is_wrong_is_said_at_its_field_and_nothing_is_made(
    service: Any, field: str, value: str, said: str
) -> None:
    answer = make(signed_in(root()), **{field: value})
    assert answer.status_code == 400
    assert said in text_of(answer)
    assert not Credential.objects.exists()


@pytest.mark.rule("K14", "K15")
def test_only_who_may_in_that_project_makes_or_revokes(service: Any) -> None:
    here, elsewhere = service.caller.project_id, create_project(name="elsewhere", now=clock.now()).pk
    make(signed_in(root()))
    public_id = Credential.objects.get().public_id
    revoke = f"{ACCESS}{public_id}/revoke/"
    for user, making, revoking in (
        (operator("viewer", "see_project"), 403, 403),
        (operator("blind", "manage_credentials"), 403, 403),
        (with_role(operator("away", "see_project"), elsewhere, "see_project", "manage_credentials"), 403, 403),
        (with_role(operator("stranger"), elsewhere, "see_project", "manage_credentials"), 400, 404),
    ):
        client = signed_in(user)
        assert make(client).status_code == making, user.username
        assert client.post(revoke).status_code == revoking, user.username
        assert "The IDE of Ada" not in text_of(client.get(ACCESS)), user.username  # type: ignore[arg-type]
    assert Credential.objects.filter(revoked_at=None).count() == 1
    allowed = signed_in(with_role(operator("here"), here, "see_project", "manage_credentials"))
    assert make(allowed).status_code == 200
    assert allowed.post(revoke).status_code == 302
    strict = signed_in(root("strict"), enforce_csrf_checks=True)
    assert make(strict).status_code == 403
    assert strict.post(revoke).status_code == 403
    assert strict.get(f"{ACCESS}create/").status_code == 302
    assert strict.get(revoke).status_code == 302


def test_older_credentials_are_a_page_away(service: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from apps.console.pages import access

    monkeypatch.setattr(access, "ROWS", 2)
    client = signed_in(root())
    for number in range(3):
        make(client, label=f"label {number}")
    first = text_of(client.get(ACCESS))  # type: ignore[arg-type]
    assert "label 2" in first
    assert "label 0" not in first
    before = re.search(r"before=([0-9a-f-]+)", first)
    assert before
    assert "label 0" in text_of(client.get(f"{ACCESS}?before={before[1]}"))  # type: ignore[arg-type]
    assert client.get(f"{ACCESS}?before=x").status_code == 404
    assert client.post(f"{ACCESS}{uuid.uuid4().hex[:8]}/revoke/").status_code == 404
