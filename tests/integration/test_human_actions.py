"""A person is asked: nobody holds the Run meanwhile, the wait outlives everything, and who answered is kept."""

from __future__ import annotations

import shutil
import sys
import uuid
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from apps.access.domain.entries import MCP_ENTRIES, REST_ENTRY, Entry
from apps.access.models import Project
from apps.access.services.projects import create_project
from apps.core import clock
from apps.core.caller import Caller, Source
from apps.core.database import database_time_after
from apps.ledger.models import Operation
from apps.looms.services import catalog, releases
from apps.runs.models import Action, Run, State
from apps.runs.services.leasing import take_lease
from apps.runs.services.steering import answer_ask
from apps.runs.services.sweeping import sweep
from tests.conftest import Service, caller_in
from tests.integration.attacking import make_loom

pytestmark = pytest.mark.django_db(transaction=True)

YES = [{"questionId": "q", "isSkipped": False, "answer": "yes"}]


def waiting(service: Service, **asks: Any) -> tuple[str, str]:
    """A Run that waits for an answer to ``q``; its id and the Action's."""
    run = service.finish(do=[{"ending": "ask", **asks}, {"ending": "done"}])
    assert run["status"] == "waiting", run
    return run["runId"], run["pendingAction"]["id"]


def answered(service: Service, run_id: str) -> list[dict[str, Any]]:
    """``data`` of the answers that the Run's events tell of."""
    events = service.call("list_run_events", runId=run_id)["events"]
    return [event["data"] for event in events if event["type"] == "ActionAnswered"]


def nothing_is_due(service: Service) -> None:
    assert take_lease(owner="w", instance_id=uuid.UUID(service.instance_id), now=clock.now()) is None


# -- a wait costs nothing and is not lost


@pytest.mark.rule("H7", "R2")
@pytest.mark.parametrize("ending", ["ask", "confirm"])
def test_a_run_that_waits_for_a_person_has_no_lease_no_deadline_and_nothing_due(service: Service, ending: str) -> None:
    run_id = service.finish(do=[{"ending": ending}])["runId"]
    run = Run.objects.get(pk=run_id)
    assert (run.status, run.lease_owner) == ("waiting", "")
    assert (run.lease_expires_at, run.deadline_at, run.due_at) == (None, None, None)
    before = service.run(run_id)
    nothing_is_due(service)
    assert sweep(now=clock.now()).interrupted == 0
    service.work()
    assert service.run(run_id) == before


@pytest.mark.rule("H7")
def test_a_sleep_is_no_action_and_holds_no_lease_either(service: Service, loom_paths: Path) -> None:
    body = "return step.sleep_until(step.now() + dt.timedelta(days=30), then=woken)"
    name = make_loom(loom_paths, "reminding", body, more="\ndef woken(step):\n    return 'done'\n")
    run = service.finish(name)
    assert run["status"] == "queued"
    assert "pendingAction" not in run
    assert Run.objects.get(pk=run["runId"]).lease_owner == ""
    nothing_is_due(service)
    service.reopen()
    nothing_is_due(service)
    Run.objects.filter(pk=run["runId"]).update(due_at=database_time_after(-1))
    service.work()
    assert service.run(run["runId"])["status"] == "completed"


@pytest.mark.rule("H7", "R13")
def test_a_wait_outlives_restarts_and_its_answer_runs_the_continuation_alone(service: Service, tmp_path: Path) -> None:
    effects = tmp_path / "effects"
    run_id, action = waiting(service, record="asked")
    begun = service.run(run_id)
    for _ in range(3):
        service.reopen()
        service.work()
    assert service.run(run_id) == begun, "no new Action, no new revision, nothing repeated"
    Run.objects.filter(pk=run_id).update(input={**begun["input"], "effects": str(effects)})
    result = service.operate("answer_ask", runId=run_id, actionId=action, answer=YES)
    assert result["receipt"]["serviceInstanceId"] == service.instance_id
    assert result["run"]["status"] == "queued"
    service.reopen()
    service.work()
    done = service.run(run_id)
    assert (done["status"], done["historical"]) == ("completed", False)
    assert len(effects.read_text().splitlines()) == 1
    assert State.objects.filter(run_id=run_id).latest("id").data["trail"] == ["act:ask", "answered:yes"]


ASKING = "return step.confirm('Go on?', then=later)"
LATER = "\ndef later(step, answer):\n    step.append_record({'by': '%s'}, record_id='who')\n    return 'done'\n"


@pytest.mark.rule("H7", "F23")
def test_the_continuation_is_that_of_the_release_that_asked_even_in_a_fresh_process_without_the_folder(
    service: Service, loom_paths: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_loom(loom_paths, "asking", ASKING, more=LATER % "old")
    run = service.finish("asking")
    steps = loom_paths / "asking" / "steps.py"
    steps.write_text(steps.read_text().replace("'old'", "'new'"))
    assert service.finish("asking")["releaseDigest"] != run["releaseDigest"]
    shutil.rmtree(loom_paths / "asking")
    monkeypatch.setattr(releases, "_loaded", {})
    monkeypatch.setattr(catalog, "_catalog", catalog._NOTHING_SEEN)
    for module in [name for name in sys.modules if name.startswith("loom_release_")]:
        monkeypatch.delitem(sys.modules, module)
    service.reopen()
    service.operate("answer_ask", runId=run["runId"], actionId=run["pendingAction"]["id"], answer={"isConfirmed": True})
    service.work()
    assert service.run(run["runId"])["status"] == "completed"
    assert service.call("get_record", recordId="who")["record"]["data"] == {"by": "old"}


# -- what is no answer changes nothing


@pytest.mark.rule("H3", "O6", "FR-B5")
def test_a_wrong_answer_leaves_the_action_and_its_operation_id_free_for_the_right_one(service: Service) -> None:
    run_id, action = waiting(service)
    before = service.run(run_id)
    identity = {"operationId": str(uuid.uuid4()), "serviceInstanceId": service.instance_id}
    for wrong in (None, "yes", [], [{**YES[0], "answer": 5}], [*YES, *YES], {"isConfirmed": True}):
        refused = service.call("answer_ask", **identity, runId=run_id, actionId=action, answer=wrong)
        assert refused["error"]["code"] == "INVALID_REQUEST", wrong
        assert all(issue["path"].startswith("/answer") for issue in refused["error"]["validation"]["issues"])
        assert "receipt" not in refused
    assert service.run(run_id) == before
    assert not Operation.objects.filter(kind="answer_ask").exists()
    right = service.call("answer_ask", **identity, runId=run_id, actionId=action, answer=YES)
    assert right["receipt"]["effect"] == "applied"


@pytest.mark.rule("H3", "O6")
def test_a_stale_or_foreign_action_is_a_conflict_with_a_receipt_and_the_present_one_still_waits(
    service: Service,
) -> None:
    run = service.finish(do=[{"ending": "ask"}, {"ending": "again"}, {"ending": "confirm"}])
    run_id, first = run["runId"], run["pendingAction"]["id"]
    service.operate("answer_ask", runId=run_id, actionId=first, answer=YES)
    service.work()
    present = service.run(run_id)
    assert present["pendingAction"]["id"] != first
    _, other = waiting(service)
    for stale in (first, other, str(uuid.uuid4())):
        refused = service.operate("answer_ask", runId=run_id, actionId=stale, answer=YES)
        assert (refused["error"]["code"], refused["receipt"]["status"]) == ("CONFLICT", "rejected")
        assert refused["run"] == present
    assert len(answered(service, run_id)) == 1


@pytest.mark.rule("H3", "O3")
def test_the_first_answer_wins_and_is_replayed_to_whoever_sent_it(service: Service) -> None:
    run_id, action = waiting(service)
    identity = {"operationId": str(uuid.uuid4()), "serviceInstanceId": service.instance_id}
    no = [{**YES[0], "answer": "no"}]
    first = service.call("answer_ask", **identity, runId=run_id, actionId=action, answer=YES)
    assert service.operate("answer_ask", runId=run_id, actionId=action, answer=no)["error"]["code"] == "CONFLICT"
    service.work()
    again = service.call("answer_ask", **identity, runId=run_id, actionId=action, answer=YES)
    assert again["receipt"] == first["receipt"]
    assert (
        service.call("answer_ask", **identity, runId=run_id, actionId=action, answer=no)["error"]["code"] == "CONFLICT"
    )
    assert Action.objects.get(pk=action).answer == YES
    assert len(answered(service, run_id)) == 1


@pytest.mark.rule("E5", "H3")
def test_an_action_of_another_project_is_answered_as_one_that_never_was(service: Service) -> None:
    run_id, action = waiting(service)
    stranger = caller_in(create_project(name="strangers", now=clock.now()))
    unknown = str(uuid.uuid4())
    told, never = (
        service.operate("answer_ask", caller=stranger, runId=asked, actionId=action, answer="wrong")
        for asked in (run_id, unknown)
    )
    assert told["error"]["code"] == "NOT_FOUND"
    assert told["error"]["message"].replace(run_id, unknown) == never["error"]["message"]
    assert told.keys() == never.keys()
    assert told["receipt"].keys() == never["receipt"].keys()
    assert service.run(run_id)["pendingAction"]["id"] == action


# -- who answered


def at(entry: Entry) -> Caller:
    project = Project.objects.get(name="trials")
    return Caller(project.pk, project.name, f"credential:{entry.name}", entry.source, entry.path, entry.profile)


@pytest.mark.rule("H6", "K13", "O10")
@pytest.mark.parametrize("only_person", [False, True])
@pytest.mark.parametrize("entry", [*MCP_ENTRIES, REST_ENTRY], ids=lambda entry: entry.name)
def test_every_door_answers_under_its_own_name_and_an_agents_not_for_a_person(
    service: Service, entry: Entry, only_person: bool
) -> None:
    run_id, action = waiting(service, only_person=only_person)
    before = service.run(run_id)
    assert before["pendingAction"]["onlyPerson"] is only_person
    result = service.operate("answer_ask", caller=at(entry), runId=run_id, actionId=action, answer=YES)
    if only_person and entry.source is Source.AGENT_IDE:
        assert result["error"]["code"] == "FORBIDDEN"
        assert all(way in result["error"]["message"] for way in ("native form", "console", "answer_ask", "Studio"))
        assert "receipt" not in result
        assert service.run(run_id) == before
        assert not Operation.objects.filter(kind="answer_ask").exists()
        return
    via = {"cli": "cli", "rest": "rest"}.get(entry.name, "answer_ask")
    who = {"principal": f"credential:{entry.name}", "source": entry.source.value, "via": via}
    assert answered(service, run_id) == [{"actionId": action, "answeredBy": who}]
    assert Action.objects.get(pk=action).answered_by == who
    service.work()
    assert service.run(run_id)["status"] == "completed"


@pytest.mark.rule("H6")
def test_an_agents_native_form_may_answer_what_only_a_person_may(service: Service) -> None:
    from apps.runs.contracts import AnswerAsk

    run_id, action = waiting(service, only_person=True)
    agent = replace(service.caller, source=Source.AGENT_IDE, entry="/mcp")
    identity = {"operationId": str(uuid.uuid4()), "serviceInstanceId": service.instance_id}
    request = AnswerAsk.parse({**identity, "runId": run_id, "actionId": action, "answer": YES})
    assert answer_ask(caller=agent, request=request, via="native", now=clock.now()).status == "accepted"
    who = {"principal": "credential:test", "source": "agent_ide", "via": "native"}
    assert [data["answeredBy"] for data in answered(service, run_id)] == [who]


@pytest.mark.rule("H6", "H3")
def test_a_wrong_answer_of_an_agent_is_told_as_wrong_before_it_is_told_as_an_agents(service: Service) -> None:
    run_id, action = waiting(service, only_person=True)
    agent = replace(service.caller, source=Source.AGENT_IDE, entry="/mcp")
    told = service.operate("answer_ask", caller=agent, runId=run_id, actionId=action, answer=[])
    assert told["error"]["code"] == "INVALID_REQUEST"
