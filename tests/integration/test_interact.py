"""`interact`: what goes before a form of the client, and the admission of what the human answered in it."""

from __future__ import annotations

import uuid
from dataclasses import replace
from typing import Any

import pytest

from apps.core.caller import Source
from apps.core.errors import LoomError
from apps.ledger.models import Event, Operation
from apps.runs.contracts import AnswerAsk
from apps.runs.endpoints import answer_interaction
from tests.conftest import Service

pytestmark = pytest.mark.django_db(transaction=True)

YES = [{"questionId": "q", "isSkipped": False, "answer": "yes"}]
NO = [{"questionId": "q", "isSkipped": False, "answer": "no"}]


@pytest.fixture
def agent(service: Service) -> Service:
    """The service as an agent at its Entry calls it."""
    return replace(service, caller=replace(service.caller, source=Source.AGENT_IDE, entry="/mcp"))


def waiting(service: Service, *endings: str, **do: Any) -> dict[str, Any]:
    run = service.finish(do=[{"ending": ending, **do} for ending in endings or ("ask",)])
    assert run["status"] == "waiting"
    return run


def asking(service: Service, run: dict[str, Any]) -> dict[str, Any]:
    """Arguments of `interact` under a fresh identity."""
    identity = {"operationId": str(uuid.uuid4()), "serviceInstanceId": service.instance_id}
    return {**identity, "runId": run["runId"], "actionId": run["pendingAction"]["id"]}


def answered(service: Service, arguments: dict[str, Any], answer: Any) -> dict[str, Any]:
    """What a face makes of the answer that came back from its form."""
    try:
        return answer_interaction(service.caller, AnswerAsk.parse({**arguments, "answer": answer})).to_wire()
    except LoomError as error:
        return {"error": error.to_wire(), **error.attachments}


@pytest.mark.rule("H4", "H5")
def test_where_no_form_can_be_shown_the_action_is_handed_over_and_nothing_is_stored(agent: Service) -> None:
    run = waiting(agent)
    before = Operation.objects.count()
    arguments = asking(agent, run)
    shown = agent.call("interact", **arguments)
    assert shown == {"action": run["pendingAction"], "run": run, "presented": "unsupported"}
    assert Operation.objects.count() == before
    assert agent.run(run["runId"]) == run
    sent = agent.call("answer_ask", **arguments, answer=YES)
    assert sent["receipt"]["status"] == "accepted", "nothing was stored, so the operationId is free"


@pytest.mark.rule("H4", "O2")
@pytest.mark.parametrize(
    ("other", "code"),
    [
        ({"actionId": "0198c1f2-7c7e-7000-8000-000000000000"}, "CONFLICT"),
        ({"runId": "0198c1f2-7c7e-7000-8000-000000000000"}, "NOT_FOUND"),
        ({"serviceInstanceId": "0198c1f2-7c7e-7000-8000-000000000000"}, "INSTANCE_CHANGED"),
        ({"actionId": "x"}, "INVALID_REQUEST"),
    ],
)
def test_what_cannot_be_answered_is_refused_before_it_is_shown(
    agent: Service, other: dict[str, str], code: str
) -> None:
    run = waiting(agent)
    before = Operation.objects.count()
    refused = agent.call("interact", **{**asking(agent, run), **other})
    assert refused["error"]["code"] == code
    assert "receipt" not in refused
    assert Operation.objects.count() == before


@pytest.mark.rule("H4", "H3", "R4", "R11")
def test_an_action_that_is_over_is_not_shown_again(agent: Service) -> None:
    run = waiting(agent, "ask", "again", "ask")
    first = asking(agent, run)
    agent.operate("answer_ask", runId=run["runId"], actionId=first["actionId"], answer=YES)
    assert agent.call("interact", **first)["error"]["code"] == "CONFLICT", "it is answered"
    agent.work()
    assert agent.call("interact", **first)["error"]["code"] == "CONFLICT", "the Run waits for another one"
    second = asking(agent, agent.run(run["runId"]))
    agent.operate("cancel_run", runId=run["runId"])
    assert "cancelled" in agent.call("interact", **second)["error"]["message"]
    agent.reopen()
    historical = agent.call("interact", **{**second, "serviceInstanceId": agent.instance_id})
    assert "historical" in historical["error"]["message"]


@pytest.mark.rule("H4", "H6", "O1", "O3")
def test_a_humans_answer_is_an_operation_of_its_own_kind_given_by_a_person(agent: Service) -> None:
    run = waiting(agent, only_person=True)
    arguments = asking(agent, run)
    assert agent.call("answer_ask", **arguments, answer=YES)["error"]["code"] == "FORBIDDEN"
    admitted = answered(agent, arguments, YES)
    assert admitted["receipt"]["kind"] == "interact"
    assert (admitted["receipt"]["status"], admitted["receipt"]["effect"]) == ("accepted", "applied")
    assert admitted["run"]["status"] == "queued"
    stored = Event.objects.get(type="ActionAnswered")
    assert stored.data["answeredBy"] == {"principal": "credential:test", "source": "agent_ide", "via": "native"}
    agent.work()
    assert agent.run(run["runId"])["status"] == "completed"


@pytest.mark.rule("H4", "O3")
def test_a_known_identity_gets_its_receipt_whether_asked_or_answered_again(agent: Service) -> None:
    run = waiting(agent, "ask", "again", "ask")
    arguments = asking(agent, run)
    receipt = answered(agent, arguments, YES)["receipt"]
    assert answered(agent, arguments, YES)["receipt"] == receipt
    agent.work()
    asked = agent.call("interact", **{**arguments, "operationId": arguments["operationId"].upper()})
    assert asked["receipt"] == receipt
    assert asked["run"] == agent.run(run["runId"]), "as it is now"
    assert "presented" not in asked
    other_answer = answered(agent, arguments, NO)
    following = asking(agent, agent.run(run["runId"]))
    other_action = agent.call("interact", **{**following, "operationId": arguments["operationId"]})
    for refused in (other_answer, other_action):
        assert refused["error"]["code"] == "CONFLICT"
        assert "other parameters" in refused["error"]["message"]
    assert Event.objects.filter(type="ActionAnswered").count() == 1


@pytest.mark.rule("H4", "O3", "E5")
def test_an_identity_that_was_used_otherwise_is_a_conflict(agent: Service, service: Service) -> None:
    run = waiting(agent)
    arguments = asking(agent, run)
    paused = {name: arguments[name] for name in ("operationId", "serviceInstanceId", "runId")}
    agent.call("pause_run", **paused)
    other_kind = agent.call("interact", **arguments)
    assert "pause_run" in other_kind["error"]["message"]
    native = asking(agent, run)
    answered(agent, native, YES)
    other_entry = service.call("interact", **native)
    for refused in (other_kind, other_entry):
        assert refused["error"]["code"] == "CONFLICT"
        assert "receipt" not in refused


@pytest.mark.rule("H3", "H4", "O6")
def test_a_native_answer_is_checked_and_only_the_first_valid_one_wins(agent: Service, service: Service) -> None:
    run = waiting(agent)
    arguments = asking(agent, run)
    wrong = answered(agent, arguments, [{"questionId": "q", "isSkipped": True}])
    assert wrong["error"]["code"] == "INVALID_REQUEST"
    assert [issue["path"] for issue in wrong["error"]["validation"]["issues"]] == ["/answer/0/isSkipped"]
    assert answered(agent, arguments, YES)["receipt"]["status"] == "accepted", "corrected, under the same identity"
    late = asking(agent, run)
    refused = answered(agent, late, NO)
    assert (refused["error"]["code"], refused["receipt"]["status"]) == ("CONFLICT", "rejected")
    assert "receipt" not in service.call("interact", **late), "at another Entry"
    again = agent.call("interact", **late)
    assert (again["error"], again["receipt"]) == (refused["error"], refused["receipt"])
