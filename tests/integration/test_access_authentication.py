"""Who stands behind a credential: the cost and the evenness of finding out."""

from __future__ import annotations

import datetime as dt
import hmac
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from apps.access.domain import tokens
from apps.access.domain.entries import MCP_ENTRIES, REST_ENTRY
from apps.access.models import Credential
from apps.access.services.credentials import authenticate, create_credential, revoke_credential
from apps.access.services.projects import create_project
from apps.core import clock
from apps.core.caller import Source
from apps.core.errors import ErrorCode, LoomError

pytestmark = pytest.mark.django_db
ENTRY = {entry.path: entry for entry in MCP_ENTRIES}["/internal/mcp"]


@pytest.fixture
def token() -> str:
    """A credential of the command line in the Project ``looms``."""
    project = create_project(name="looms", now=clock.now())
    return create_credential(project=project, source=Source.CLI, label="test", now=clock.now())[1]


def attempt(text: str) -> ErrorCode | None:
    try:
        authenticate(authorization=f"Bearer {text}", entry=ENTRY, now=clock.now())
    except LoomError as error:
        return error.code
    return None


def with_secret(text: str, secret: str) -> str:
    """``text`` with another secret and the checksum that goes with it."""
    read = tokens.read(text)
    assert read is not None
    return tokens.Token(read.kind, read.public_id, secret).text


def spoiled(text: str, place: int) -> str:
    """``text`` with one letter of its secret changed."""
    read = tokens.read(text)
    assert read is not None
    letter = "a" if read.secret[place] != "a" else "b"
    return with_secret(text, read.secret[:place] + letter + read.secret[place:][1:])


@pytest.mark.rule("N1", "N2")
def test_a_caller_has_everything_that_its_credential_fixes(token: str) -> None:
    caller = authenticate(authorization=f"bearer   {token} ", entry=ENTRY, now=clock.now())
    credential = Credential.objects.get()
    assert (caller.project_id, caller.project_name) == (credential.project_id, "looms")
    assert (caller.principal, caller.credential_id) == (f"credential:{credential.public_id}", credential.pk)
    assert (caller.source, caller.entry) == (Source.CLI, "/internal/mcp")


def test_authentication_costs_one_statement_without_an_order(token: str) -> None:
    assert attempt(token) is None
    with CaptureQueriesContext(
        connection,
    ) as said:
        assert attempt(token) is None
    assert len(said) == 1
    assert "ORDER BY" not in said[0]["sql"]


@pytest.mark.rule("N2")
def test_last_use_is_written_once_an_hour(token: str) -> None:
    now = clock.now().replace(minute=10, second=5)
    for minutes in (0, 10, 49):
        authenticate(authorization=f"Bearer {token}", entry=ENTRY, now=now + dt.timedelta(minutes=minutes))
    first = Credential.objects.get().last_used_at
    assert first == now.replace(minute=0, second=0, microsecond=0)
    authenticate(authorization=f"Bearer {token}", entry=ENTRY, now=now + dt.timedelta(minutes=50))
    assert Credential.objects.get().last_used_at == first + dt.timedelta(hours=1)


@pytest.mark.rule("K3")
@pytest.mark.parametrize("case", ["unknown id", "first letter wrong", "last letter wrong", "revoked", "expired"])
def test_every_bad_credential_costs_the_same_statement_and_one_comparison(
    token: str, case: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    match case:
        case "unknown id":
            sent = tokens.mint(Source.CLI).text
        case "first letter wrong":
            sent = spoiled(token, 0)
        case "last letter wrong":
            sent = spoiled(token, 42)
        case "revoked":
            revoke_credential(public_id=Credential.objects.get().public_id, now=clock.now())
            sent = token
        case _:
            Credential.objects.update(expires_at=clock.now())
            sent = token
    compared: list[tuple[int, int]] = []
    real = hmac.compare_digest

    def compare(left: Any, right: Any) -> bool:
        compared.append((len(left), len(right)))
        return real(left, right)

    monkeypatch.setattr(hmac, "compare_digest", compare)
    with CaptureQueriesContext(connection) as said:
        assert attempt(sent) is ErrorCode.UNAUTHENTICATED
    assert len(said) == 1
    # The checksum of the text itself, which is public, and the digest.
    assert compared == [(6, 6), (64, 64)]


@pytest.mark.rule("N1")
def test_a_credential_of_another_source_is_forbidden(token: str) -> None:
    with pytest.raises(LoomError) as refused:
        authenticate(authorization=f"Bearer {token}", entry=REST_ENTRY, now=clock.now())
    assert refused.value.code is ErrorCode.FORBIDDEN


@pytest.mark.rule("N1", "K1")
@pytest.mark.parametrize(
    "shape",
    ["{}x", "x{}", "{} {}", "{},{}", "{}\n", "Bearer {}", "{}\x00", "\u200c{}", '"{}"'],
)
def test_a_credential_with_anything_around_it_is_none(token: str, shape: str) -> None:
    text = shape.replace("{}", token)
    expected = None if text.strip() == token else ErrorCode.UNAUTHENTICATED
    assert attempt(text) is expected


@pytest.mark.rule("N1")
@pytest.mark.parametrize("header", [None, "", "Bearer", "Bearer ", "Basic {}", "{}", "Bearer\t{}", "Token {}"])
def test_another_scheme_or_none_is_unauthenticated(token: str, header: str | None) -> None:
    sent = None if header is None else header.replace("{}", token)
    with pytest.raises(LoomError) as refused:
        authenticate(authorization=sent, entry=ENTRY, now=clock.now())
    assert refused.value.code is ErrorCode.UNAUTHENTICATED
    assert token not in refused.value.message
