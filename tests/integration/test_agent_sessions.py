"""Background agents on the ledger: started, proven, bounded, counted (contract section 10)."""

# ruff: noqa: F811 - the fixture comes from background_agents
from __future__ import annotations

import datetime as dt
import hmac
import uuid
from dataclasses import replace
from typing import Any

import pytest
from background_agents import Client, client, used, without_request_id  # noqa: F401
from django.db import connection
from django.test.utils import CaptureQueriesContext

from apps.access.services.projects import create_project
from apps.agent_sessions.domain import proofs
from apps.agent_sessions.models import AgentSession, ModelUsage
from apps.agent_sessions.runtime.ended import Succeeded, ToolRefused, Usage
from apps.agent_sessions.services import ending, leasing, working
from apps.core import clock
from tests.conftest import caller_in

SCHEMA = {
    "type": "object",
    "properties": {"title": {"type": "string"}, "pages": {"type": "integer", "minimum": 1}},
    "required": ["title", "pages"],
    "additionalProperties": False,
}


SIX = {"agent_session_id", "state", "program_digest", "output", "error", "usage"}


@pytest.mark.rule("B2", "B3")
def test_an_agent_is_started_polled_and_succeeds_with_what_fits_its_schema(client: Client) -> None:
    started = client.start(output_schema=SCHEMA, input={"title": "Looms", "pages": 3})
    assert set(started) == {"id", "session_secret", "agent_session_id", "state", "program_digest"}
    assert started["state"] == "queued"
    before = client.status()
    assert set(before) == SIX
    assert (before["state"], before["output"], before["error"]) == ("queued", None, None)
    assert before["usage"] == dict.fromkeys(
        ("requests", "input_tokens", "output_tokens", "total_tokens", "tool_calls"), 0
    )
    client.work()
    after = client.status()
    assert set(after) == SIX and after["state"] == "succeeded", after
    assert after["output"] == {"title": "Looms", "pages": 3} and after["error"] is None
    assert after["usage"]["requests"] == 1
    for name in ("agent_session_id", "program_digest"):
        assert before[name] == after[name] == started[name]
    assert client.status() == after, "reading changes nothing"


@pytest.mark.rule("B3", "B8")
def test_the_digest_pins_model_instructions_tools_and_schema(client: Client) -> None:
    programs = [
        {},
        {},
        {"instructions": "Be brief."},
        {"output_schema": SCHEMA},
        {"agent": "assist/writer", "input": {}},
    ]
    digests = [client.start(**arguments)["program_digest"] for arguments in programs]
    assert digests[0] == digests[1] and len(set(digests)) == 4


@pytest.mark.rule("B2")
def test_a_looms_agent_works_with_its_tools_on_a_state_of_its_own(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = []

    def play(program: Any, input: Any, *, tools: Any, check: Any, before_request: Any, **_: Any) -> Any:
        assert before_request()
        seen.append(tools["add"]({"line": "one"}))
        seen.append(tools["add"]({"line": "two", "times": 2}))
        with pytest.raises(ToolRefused, match="/line"):
            tools["add"]({"line": 3})
        with pytest.raises(ToolRefused, match="politely"):
            tools["refuse"]({})
        seen.append(tools["finish"]({}))
        seen.append([issue.path for issue in check({"outcome": "written"})])
        return Succeeded({"outcome": "written", "text": "t"}, Usage(1, 5, 7, 3))

    monkeypatch.setattr(working, "reason", play)
    for _ in range(2):
        client.start(agent="assist/writer", input={})
        client.work()
        assert client.status()["output"] == {"outcome": "written", "text": "t"}
        assert seen == [{"lines": 1}, {"lines": 3}, {"lines": 3}, ["/text"]], "each has a State of its own"
        seen.clear()


@pytest.mark.rule("B2", "B7")
def test_an_agent_of_ones_own_searches_its_project(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    client.service.finish(do=[{"artifact": {"text": "a warp and a weft"}}])
    found = []

    def play(program: Any, input: Any, *, tools: Any, before_request: Any, **_: Any) -> Any:
        assert before_request() and [tool.id for tool in program.tools] == ["search", "read_result"]
        found.append(tools["search"]({"query": "weft", "source": "ledger"}))
        with pytest.raises(ToolRefused, match="/query"):
            tools["search"]({})
        return Succeeded("found", Usage(1, 1, 1, 2))

    monkeypatch.setattr(working, "reason", play)
    for caller in (None, caller_in(create_project(name="strangers", now=clock.now()))):
        asking = Client(client.service, caller)
        asking.start()
        asking.work()
        assert asking.status()["state"] == "succeeded"
    assert [len(page["results"]) for page in found] == [1, 0], "in its own Project only"


@pytest.mark.rule("B2", "B4", "E3")
def test_everything_wrong_with_a_start_is_said_at_once_and_said_again_the_same(client: Client) -> None:
    def paths(**arguments: Any) -> list[tuple[str, str]]:
        first, second = client.start(**arguments), client.start(**arguments)
        assert without_request_id(first) == without_request_id(second)
        assert first["request_id"] != second["request_id"]
        error = first["error"]
        assert (error["code"], error["reason"]) == ("invalid_request", "malformed_request")
        assert error["validation"]["contract"] == "RunAgentRequest"
        return [(issue["code"], issue["path"]) for issue in error["validation"]["issues"]]

    assert paths(model=1, input=" ", output_schema=[], unknown=True) == [
        ("type", "/model"), ("value", "/input"), ("type", "/output_schema"), ("unknown_member", "/unknown"),
    ]  # fmt: skip
    assert paths(model="offlin", output_schema={"type": "objekt"}) == [
        ("choice", "/model"), ("schema", "/output_schema/type"),
    ]  # fmt: skip
    assert paths(agent="assist/nobody") == [("choice", "/agent")]
    assert paths(agent="nowhere/nobody", instructions="x") == [("conflict", "/instructions"), ("choice", "/agent")]
    assert paths(agent="assist/writer", input={"gate": 1}) == [("type", "/input/gate")]
    assert not AgentSession.objects.exists()


@pytest.mark.rule("K6", "B3", "FR-H11", "E5")
def test_whatever_is_wrong_with_a_proof_looks_and_costs_the_same(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    started = client.start()
    right = {"id": started["id"], "session_secret": started["session_secret"]}
    stranger = Client(client.service, caller_in(create_project(name="strangers", now=clock.now())))
    stranger.start()
    compared = []
    compare = hmac.compare_digest
    monkeypatch.setattr(proofs.hmac, "compare_digest", lambda a, b: compared.append((len(a), len(b))) or compare(a, b))

    def ask(who: Client, proof: dict[str, str], call: str) -> tuple[Any, ...]:
        compared.clear()
        with CaptureQueriesContext(
            connection,
        ) as statements:
            answer = getattr(who, call)(**proof)
        shapes = [entry["sql"].split(" WHERE ")[0] for entry in statements]
        return without_request_id(answer), shapes, list(compared)

    wrong = [
        (client, {**right, "id": str(uuid.uuid4())}),
        (client, {**right, "id": "no id"}),
        (client, {**right, "id": ""}),
        (client, {**right, "session_secret": ""}),
        (client, {**right, "session_secret": right["session_secret"][:-1] + "-"}),
        (client, {**right, "session_secret": stranger.proof["session_secret"]}),
        (client, stranger.proof),
        (stranger, right),
    ]
    for call in ("status", "cancel"):
        answers = [ask(who, proof, call) for who, proof in wrong]
        assert all(answer == answers[0] for answer in answers), answers
        said, statements, comparisons = answers[0]
        assert (said["error"]["code"], said["error"]["reason"]) == ("not_found", "unknown_session")
        assert len(statements) == 1 and comparisons == [(64, 64)]
    assert client.status()["state"] == "queued"


@pytest.mark.rule("K6", "B4", "FR-H11")
@pytest.mark.parametrize("call", ["agent_status", "cancel_agent"])
def test_a_missing_or_null_proof_is_refused_before_any_look_up(client: Client, call: str) -> None:
    client.start()
    assert client.proof
    for name in client.proof:
        rest = {key: value for key, value in client.proof.items() if key != name}
        for arguments in (rest, {**rest, name: None}):
            with CaptureQueriesContext(connection) as statements:
                said = client.service.call(call, **arguments)
            assert not statements.captured_queries
            assert said["error"]["code"] == "invalid_request"
            assert [issue["path"] for issue in said["error"]["validation"]["issues"]] == [f"/{name}"]


@pytest.mark.rule("K24")
def test_a_project_has_so_many_agents_at_once_and_others_their_own(client: Client, settings: Any) -> None:
    settings.LOOMSVC = replace(settings.LOOMSVC, agents_open=2)
    first = client.start()
    client.start()
    said = client.start()["error"]
    assert (said["code"], said["reason"]) == ("capacity", "too_many_active")
    other = Client(client.service, caller_in(create_project(name="others", now=clock.now())))
    assert "error" not in other.start()
    client.cancel(id=first["id"], session_secret=first["session_secret"])
    assert "error" not in client.start()


@pytest.mark.rule("K24")
def test_a_project_starts_so_many_agents_a_minute(client: Client, settings: Any) -> None:
    settings.LOOMSVC = replace(settings.LOOMSVC, agents_per_minute=2)
    client.start()
    client.start()
    said = client.start()["error"]
    assert (said["code"], said["reason"]) == ("rate_limited", "too_many_started")
    with clock.moved(dt.timedelta(seconds=61)):
        assert "error" not in client.start()


@pytest.mark.rule("B2")
def test_no_more_run_at_once_than_leave_runs_their_workers(client: Client, settings: Any) -> None:
    settings.LOOMSVC = replace(settings.LOOMSVC, agents_running=1)
    client.start()
    client.start()
    instance = uuid.UUID(client.service.instance_id)
    assert leasing.take_lease(owner="a", instance_id=instance, now=clock.now()) is not None
    assert leasing.take_lease(owner="b", instance_id=instance, now=clock.now()) is None


@pytest.mark.rule("R17")
def test_retention_removes_what_ended_before_this_instance_and_keeps_what_was_used(
    client: Client, settings: Any
) -> None:
    settings.LOOMSVC = replace(settings.LOOMSVC, retention_days=1)
    client.start()
    client.work()
    with clock.moved(dt.timedelta(days=3)):
        assert ending.remove_old_sessions(now=clock.now()) == 0, "nothing of the current instance"
        client.service.reopen()
        client.start()
        assert ending.remove_old_sessions(now=clock.now()) == 1
    assert client.status()["state"] == "queued"
    assert ModelUsage.objects.get().sessions == 1


@pytest.mark.rule("B3")
def test_usage_adds_up_by_project_model_and_day(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(working, "reason", used(Usage(1, 10, 1), Usage(2, 30, 4, 1)))
    for _ in range(2):
        client.start()
        client.work()
    counted = ModelUsage.objects.get()
    assert (counted.sessions, counted.requests) == (2, 4)
    assert (counted.input_tokens, counted.output_tokens, counted.tool_calls) == (60, 8, 2)
