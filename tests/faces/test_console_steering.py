"""What is done in the console is done through the ledger, once, and whoever comes late is told (O1–O10, H3, H6)."""

from __future__ import annotations

import html
import uuid
from typing import Any

import pytest
from console_people import form, operator, page, press, root, signed_in, text_of

from apps.ledger.models import Operation
from apps.runs.models import Action


def shown(response: Any) -> str:
    return html.unescape(text_of(response))


@pytest.mark.rule("O10", "O1")
def test_a_write_is_an_operation_of_the_operator(service: Any) -> None:
    run_id = service.finish(do=[{"ending": "ask"}])["runId"]
    client = signed_in(operator("ada", "see_project", "pause_run"))
    found = client.post(f"{page(run_id)}pause/", form(client, page(run_id), f"{page(run_id)}pause/"), follow=True)
    assert "Asked to pause" in shown(found)
    stored = Operation.objects.get(run_id=run_id, kind="pause_run")
    assert (stored.principal, stored.source, stored.entry) == ("operator:ada", "console", "/admin")
    audit = shown(client.get(page(run_id, "audit")))
    assert "operator:ada" in audit
    assert "credential:test" in audit


@pytest.mark.rule("O3")
def test_a_form_that_is_sent_twice_is_one_operation(service: Any) -> None:
    run_id = service.start(do=[{"ending": "ask"}])
    client = signed_in(root())
    address = f"{page(run_id)}pause/"
    fields = form(client, page(run_id), address)
    for _ in range(2):
        assert "Paused." in shown(client.post(address, fields, follow=True))
    assert Operation.objects.filter(run_id=run_id, kind="pause_run").count() == 1
    other = form(client, page(run_id), f"{page(run_id)}cancel/")
    crossed = client.post(f"{page(run_id)}cancel/", {**other, "operationId": fields["operationId"]})
    assert crossed.status_code == 409
    assert "was used for pause_run" in shown(crossed)
    assert service.run(run_id)["status"] == "paused"


@pytest.mark.rule("R9", "R10", "R11")
def test_pause_resume_one_step_and_cancel(service: Any) -> None:
    run_id = service.start(do=[{"ending": "again"}, {"ending": "again"}, {"ending": "done"}])
    client = signed_in(root())
    press(client, run_id, "pause")
    assert "Rests before work/act" in shown(client.get(page(run_id)))
    press(client, run_id, "resume-step")
    service.work()
    assert service.run(run_id)["status"] == "paused"
    assert "whose result is saved" in shown(client.get(page(run_id)))
    press(client, run_id, "resume")
    service.work()
    assert service.run(run_id)["status"] == "completed"
    assert "Ended with outcome done." in shown(client.get(page(run_id)))
    other = service.start(do=[{"ending": "done"}])
    press(client, other, "cancel")
    assert service.run(other)["status"] == "cancelled"
    assert "Was cancelled at work/act." in shown(client.get(page(other)))


@pytest.mark.rule("R10")
def test_a_resume_for_another_revision_is_refused(service: Any) -> None:
    run_id = service.start(do=[{"ending": "again"}, {"ending": "done"}])
    client = signed_in(root())
    press(client, run_id, "pause")
    address = f"{page(run_id)}resume/"
    fields = form(client, page(run_id), address)
    press(client, run_id, "resume-step")
    service.work()
    late = client.post(address, fields)
    assert late.status_code == 409
    assert "it changed since you looked" in shown(late)
    assert client.post(address, {**fields, "expectedRevision": "x"}).status_code == 400


@pytest.mark.rule("H6", "H3")
def test_an_answer_is_the_operators_and_counts_as_a_persons(service: Any) -> None:
    run_id = service.finish(do=[{"ending": "ask", "only_person": True}, {"ending": "done"}])["runId"]
    found = press(signed_in(operator("ada", "see_project", "answer_ask")), run_id, "answer", own0="by all means")
    assert found.status_code == 302
    action = Action.objects.get(run_id=run_id)
    assert action.answered_by == {"principal": "operator:ada", "source": "console", "via": "console"}
    assert action.answer == [{"questionId": "q", "isSkipped": False, "answer": "by all means"}]
    service.work()
    after = shown(signed_in(root()).get(page(run_id)))
    assert "Last answer, by operator:ada (console)" in after
    assert "by all means" in after


INCOMPLETE = [
    ("ask", {}, "This one needs an answer."),
    ("ask", {"own0": "   "}, "This one needs an answer."),
    ("ask", {"skip0": "yes"}, "This question must be answered."),
    ("ask", {"skip0": "yes", "own0": "words"}, "Answer it or skip it, not both."),
    ("confirm", {}, "Say yes or no."),
    ("confirm", {"confirmed": "perhaps", "feedback": "words"}, "Say yes or no."),
]


@pytest.mark.rule("H1", "H2")
def test_an_incomplete_answer_comes_back_with_its_words_and_what_is_missing(service: Any) -> None:
    client = signed_in(root())
    asking = {ending: service.finish(do=[{"ending": ending}])["runId"] for ending in ("ask", "confirm")}
    for ending, filled, said in INCOMPLETE:
        found = press(client, asking[ending], "answer", **filled)
        assert found.status_code == 400, filled
        assert said in shown(found), filled
        assert "Nothing was sent yet" in shown(found)
        if "words" in filled.values():
            assert ">words</textarea>" in shown(found)
    assert {service.run(run_id)["status"] for run_id in asking.values()} == {"waiting"}
    assert not Operation.objects.filter(kind="answer_ask").exists()


@pytest.mark.rule("H2")
def test_a_confirmation_is_answered_with_a_word_to_it(service: Any) -> None:
    run_id = service.finish(do=[{"ending": "confirm"}, {"ending": "done"}])["runId"]
    press(signed_in(root()), run_id, "answer", confirmed="no", feedback="not yet")
    assert Action.objects.get(run_id=run_id).answer == {"isConfirmed": False, "feedback": "not yet"}


@pytest.mark.rule("H3", "H6")
@pytest.mark.parametrize(
    "filled",
    [{"own0": "do not"}, {"own0": ""}, {"own0": "do not", "skip0": "yes"}],
    ids=["whole", "empty", "both ways"],
)
def test_a_late_form_says_who_answered_when_and_what(service: Any, filled: dict[str, str]) -> None:
    run_id = service.finish(do=[{"ending": "ask"}])["runId"]
    ada, ben = (signed_in(operator(name, "see_project", "answer_ask")) for name in ("ada", "ben"))
    address = f"{page(run_id)}answer/"
    fields = form(ben, page(run_id), address)
    press(ada, run_id, "answer", own0="ship it")
    late = ben.post(address, {**fields, **filled})
    assert late.status_code == 409
    told = shown(late)
    answered = Action.objects.get(run_id=run_id)
    assert "answered already, by operator:ada (console) at" in told
    assert answered.answered_at is not None and answered.answered_at.strftime("%Y-%m-%d %H:%M") in told
    assert "The answer was: ship it" in told
    assert answered.answer[0]["answer"] == "ship it"


@pytest.mark.rule("O2")
def test_a_form_from_before_a_restart_does_nothing_and_says_so(service: Any) -> None:
    run_id = service.finish(do=[{"ending": "ask"}])["runId"]
    client = signed_in(root())
    address = f"{page(run_id)}pause/"
    fields = form(client, page(run_id), address)
    service.reopen()
    late = client.post(address, fields)
    assert late.status_code == 409
    assert "started anew after this page was made" in shown(late)
    assert not service.run(run_id)["pauseRequested"]
    assert press(client, run_id, "pause").status_code == 302


@pytest.mark.rule("O6", "R10")
@pytest.mark.parametrize("text", ["", "x", "-1", "1.0", " 1", "²", "\u0663", "1" * 16])
def test_what_is_no_number_in_a_form_is_refused_in_words(service: Any, text: str) -> None:
    run_id = service.start(do=[])
    service.operate("pause_run", runId=run_id)
    client = signed_in(root())
    address = f"{page(run_id)}resume/"
    refused = client.post(address, {**form(client, page(run_id), address), "expectedRevision": text})
    assert refused.status_code == 400
    assert service.run(run_id)["status"] == "paused"


@pytest.mark.rule("O6")
def test_a_form_of_nonsense_is_refused_without_a_trace(service: Any) -> None:
    run_id = service.finish(do=[{"ending": "ask"}])["runId"]
    client = signed_in(root())
    for fields in ({}, {"operationId": "x", "serviceInstanceId": "y"}, {"operationId": str(uuid.uuid4())}):
        for verb in ("pause", "cancel", "answer"):
            assert client.post(f"{page(run_id)}{verb}/", {**fields, "actionId": "z"}).status_code == 400
    assert not Operation.objects.filter(run_id=run_id).exclude(kind="run").exists()
