"""Sessions of the initialize era, socket-level, at two web processes (N5)."""

# ruff: noqa: F811 - the fixtures come from mcp_live
from __future__ import annotations

import datetime as dt
import re
import uuid
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from mcp_live import LEGACY, MODERN, Live, _other_server, _server, live, other  # noqa: F401
from mcp_session import Session, open_session

from apps.access.domain.entries import MCP_ENTRIES
from apps.access.services.credentials import authenticate, create_credential
from apps.access.services.projects import ensure_default_project
from apps.core import clock, conf
from apps.core.caller import Caller, Source
from apps.mcp import models, sessions
from apps.runs.services.sweeping import sweep


def caller_of(live: Live) -> Caller:
    authorization = f"Bearer {live.tokens['agent_ide']}"
    return authenticate(authorization=authorization, entry=MCP_ENTRIES[0], now=clock.now())


@pytest.mark.rule("N5")
def test_a_session_opened_at_one_web_process_is_known_at_every_other(live: Live, other: Live) -> None:
    session = open_session(live)
    assert re.fullmatch(r"[\x21-\x7e]{40,}", session.id)
    assert session.at(other).request("ping").status == 200
    assert session.at(other).notify("notifications/initialized").status == 202
    assert open_session(other).id != session.id


@pytest.mark.rule("N5", "K1")
def test_the_id_of_a_session_is_stored_as_a_digest_only(live: Live) -> None:
    session = open_session(live)
    row = models.Session.objects.values().get()
    assert session.id not in str(row)
    assert (row["entry"], row["version"], row["shows_forms"]) == ("/mcp", LEGACY[0], True)


@pytest.mark.rule("N5")
def test_an_unknown_or_ended_session_is_404_everywhere(live: Live, other: Live) -> None:
    unknown = Session(live, str(uuid.uuid4()), LEGACY[0])
    for message in ("ping", "tools/list", "tools/call", "no/such"):
        assert unknown.request(message).status == 404
    for odd in ("", "ü", "x" * 5000):
        assert Session(live, odd, LEGACY[0]).request("ping").status == 404
    assert unknown.send(b"", method="DELETE").status == 404
    session = open_session(live)
    ended = session.at(other).send(b"", method="DELETE")
    assert (ended.status, ended.body) == (204, b"")
    assert session.request("ping").status == 404
    assert session.notify("notifications/cancelled").status == 404
    assert session.send(b"", method="DELETE").status == 404


@pytest.mark.rule("N5", "K6")
def test_a_session_serves_the_credential_and_the_entry_that_opened_it_and_no_other(live: Live) -> None:
    session = open_session(live)
    project = ensure_default_project(now=clock.now())
    _, token = create_credential(project=project, source=Source.AGENT_IDE, label="neighbour", now=clock.now())
    stranger = Live(live.port, {"agent_ide": token})
    refused = session.at(stranger).request("ping")
    unknown = Session(live, "unknown", LEGACY[0]).request("ping")
    assert (refused.status, refused.body) == (unknown.status, unknown.body) == (404, unknown.body)
    assert session.at(stranger).send(b"", method="DELETE").status == 404
    at_codex = Session(live, session.id, session.version, path="/mcp/codex")
    assert at_codex.request("ping").status == 404
    assert session.request("ping").status == 200


@pytest.mark.rule("N5")
def test_a_session_speaks_the_revision_that_was_agreed_where_a_request_names_none(live: Live) -> None:
    for version in LEGACY:
        session = open_session(live, version)
        assert session.request("ping", headers={"MCP-Protocol-Version": None}).status == 200
        assert session.request("ping", headers={"MCP-Protocol-Version": "1999-01-01"}).status == 400


@pytest.mark.rule("N5")
def test_a_session_means_nothing_to_the_stateless_revision(live: Live) -> None:
    session = open_session(live)
    headers: dict[str, str | None] = {"Mcp-Session-Id": session.id}
    assert live.modern("tools/list", headers=headers).status == 200
    assert live.modern("tools/list", headers={"Mcp-Session-Id": "unknown"}).status == 200
    gone = live.send(b"", method="DELETE", headers={**headers, "MCP-Protocol-Version": MODERN})
    assert gone.status == 405
    assert session.request("ping").status == 200


@pytest.mark.rule("N5")
def test_a_request_that_opens_no_session_leaves_none_behind(live: Live) -> None:
    live.legacy("initialize", {"protocolVersion": 7}, version=None)
    live.legacy("tools/list")
    live.send({"jsonrpc": "2.0", "method": "initialize"})
    assert not models.Session.objects.exists()


@pytest.mark.rule("N5")
def test_a_session_ends_when_it_is_not_used_and_at_the_end_of_its_life(live: Live) -> None:
    settings = conf.settings()
    idle = dt.timedelta(seconds=settings.session_idle_seconds)
    caller, opened = caller_of(live), clock.now()
    text = sessions.open_session(caller=caller, version=LEGACY[0], shows_forms=False, now=opened)

    def is_known(after: dt.timedelta) -> bool:
        return sessions.find_session(caller=caller, text=text, now=opened + after) is not None

    assert not is_known(idle)
    used = dt.timedelta()
    while used < dt.timedelta(seconds=settings.session_seconds) - idle:
        used += idle * 0.9
        assert is_known(used), "a session in use goes on"
    assert not is_known(dt.timedelta(seconds=settings.session_seconds))


@pytest.mark.rule("N5")
def test_the_sweep_removes_what_is_over_and_nothing_else(live: Live) -> None:
    open_session(live)
    idle = dt.timedelta(seconds=conf.settings().session_idle_seconds)
    with clock.moved(idle):
        kept = open_session(live)
        assert sweep(now=clock.now()).others == 1
        assert models.Session.objects.count() == 1
        assert kept.request("ping").status == 200


@pytest.mark.rule("N5", "K24")
def test_past_the_bound_the_session_longest_without_use_gives_way(live: Live, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sessions, "MOST_SESSIONS", 3)
    opened = [open_session(live) for _ in range(5)]
    assert [session.request("ping").status for session in opened] == [404, 404, 200, 200, 200]


@pytest.mark.rule("N5")
def test_a_session_costs_one_read_and_no_write(live: Live) -> None:
    caller = caller_of(live)
    text = sessions.open_session(caller=caller, version=LEGACY[0], shows_forms=True, now=clock.now())
    with CaptureQueriesContext(
        connection,
    ) as statements:
        found: Any = sessions.find_session(caller=caller, text=text, now=clock.now())
    assert found.shows_forms
    assert len(statements) == 1
    assert statements[0]["sql"].startswith("SELECT")
