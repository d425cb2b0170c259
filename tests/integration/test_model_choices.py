"""Models chosen in the console for a Project: kept, resolved when a Step begins, and never replaced by another."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from apps.access.services.projects import create_project
from apps.agent_sessions.domain.model_choices import DEFAULT, Origin, Subject, SubjectKind
from apps.agent_sessions.models import ModelChoice, ModelUsage
from apps.agent_sessions.services.model_choices import (
    choose_model,
    forget_model_choice,
    list_assignments,
    model_choices,
)
from apps.core import clock, findings
from apps.core.errors import ErrorCode, LoomError
from apps.ledger.models import Event
from apps.looms.services import catalog
from tests.conftest import Service

pytestmark = pytest.mark.django_db(transaction=True)

#: The Agent Step of `agentic`.
WRITER = Subject(SubjectKind.AGENT, "agentic/thinker")
SCRIPTED = "providers: {acme: {kind: openai, models: [one, two]}, free: {kind: openai, key: none, models: [three]}}\n"


@pytest.fixture
def models(settings: Any, tmp_path: Path) -> Any:
    """Has the file of models say this, from now on."""
    files = iter(range(9))

    def says(text: str) -> None:
        file = tmp_path / f"models-{next(files)}.yaml"
        file.write_text(text)
        settings.LOOMSVC = replace(settings.LOOMSVC, models_file=file)

    says(SCRIPTED)
    return says


def choose(service: Service, subject: Subject, model: str) -> str | None:
    return choose_model(project_id=service.caller.project_id, subject=subject, model=model, by="ada", now=clock.now())


def forget(service: Service, subject: Subject) -> str | None:
    return forget_model_choice(project_id=service.caller.project_id, subject=subject)


@pytest.mark.rule("R15")
def test_a_choice_is_kept_once_for_each_subject_of_a_project_and_can_be_taken_back(
    service: Service, models: Any
) -> None:
    there = create_project(name="elsewhere", now=clock.now()).pk
    assert choose(service, DEFAULT, "acme/one") is None
    assert choose(service, DEFAULT, "acme/two") == "acme/one"
    assert choose(service, WRITER, "free/three") is None
    assert model_choices(project_id=service.caller.project_id) == {DEFAULT: "acme/two", WRITER: "free/three"}
    assert model_choices(project_id=there) == {}
    assert forget_model_choice(project_id=there, subject=DEFAULT) is None
    assert forget(service, DEFAULT) == "acme/two"
    assert forget(service, DEFAULT) is None
    assert model_choices(project_id=service.caller.project_id) == {WRITER: "free/three"}


@pytest.mark.rule("R15")
def test_the_same_choice_again_keeps_who_made_it(service: Service, models: Any) -> None:
    choose(service, WRITER, "acme/one")
    before = ModelChoice.objects.values().get()
    again = choose_model(
        project_id=service.caller.project_id, subject=WRITER, model="acme/one", by="bob", now=clock.now()
    )
    assert again == "acme/one"
    assert ModelChoice.objects.values().get() == before


@pytest.mark.rule("R15")
def test_a_model_that_is_not_there_is_not_chosen(service: Service, models: Any) -> None:
    with pytest.raises(LoomError) as refused:
        choose(service, WRITER, "acme/on")
    assert refused.value.code is ErrorCode.INVALID_REQUEST
    assert (refused.value.issues[0].path, "acme/one" in refused.value.issues[0].suggestion) == ("/model", True)
    assert not ModelChoice.objects.exists()


@pytest.mark.rule("R15")
def test_a_choice_counts_from_the_next_step_on_with_its_own_program_digest(service: Service, models: Any) -> None:
    models(f"{SCRIPTED}default: free/three\n")
    run_id = service.start("agentic")
    # Chosen after the Run was admitted: what counts is when the Step begins.
    choose(service, DEFAULT, "offline")
    service.work()
    assert service.run(run_id)["status"] == "completed"
    assert list(ModelUsage.objects.values_list("model", flat=True)) == ["offline"]
    assert opened(run_id)["model"] == "offline"
    # What the setting says itself makes the same program.
    forget(service, DEFAULT)
    models("{}")
    again = opened(service.finish("agentic")["runId"])
    assert again["programDigest"] == opened(run_id)["programDigest"]


def opened(run_id: str) -> dict[str, Any]:
    """What the ledger keeps of a model that began a Step."""
    found: dict[str, Any] = Event.objects.get(run_id=run_id, type="AgentCallOpened").data
    return found


@pytest.mark.rule("R15")
@pytest.mark.parametrize("subject", [DEFAULT, WRITER], ids=str)
def test_a_chosen_model_without_its_key_refuses_the_loom_and_another_project_is_not_touched(
    service: Service, models: Any, subject: Subject
) -> None:
    project = create_project(name="elsewhere", now=clock.now())
    choose(service, subject, "acme/one")
    refused = service.operate("run", loomName="agentic", input="x")
    assert (refused["error"]["code"], refused["receipt"]["status"]) == ("UNAVAILABLE", "rejected")
    assert "the model acme/one needs a key for acme" in refused["error"]["message"]
    assert service.call("status")["service"]["ready"] is (subject != DEFAULT)
    there = replace(service.caller, project_id=project.pk, project_name="elsewhere")
    assert service.call("status", there)["service"]["ready"] is True


@pytest.mark.rule("R15")
@pytest.mark.parametrize("subject", [DEFAULT, WRITER], ids=str)
def test_a_chosen_model_that_has_gone_is_said_and_nothing_is_taken_in_its_place(
    service: Service, models: Any, subject: Subject
) -> None:
    choose(service, subject, "free/three")
    run_id = service.start("agentic")
    models("{}")
    service.work()
    paused = service.run(run_id)
    assert (paused["status"], paused["lastError"]["code"]) == ("paused", "MODEL_REQUEST_FAILED")
    said = f"the model free/three, which was chosen in the console for {subject}, is not there any more"
    assert said in paused["lastError"]["message"]
    assert not ModelUsage.objects.exists()
    status = service.call("status")["service"]
    assert (status["ready"], said in status["notReadyBecause"]) == (False, True)
    refused = service.operate("run", loomName="agentic", input="x")
    assert (refused["error"]["code"], said in refused["error"]["message"]) == ("UNAVAILABLE", True)

    forget(service, subject)
    assert service.call("status")["service"]["ready"] is True
    service.operate("resume_run", runId=run_id, expectedRevision=paused["revision"])
    service.work()
    assert service.run(run_id)["status"] == "completed"


@pytest.mark.rule("R15")
def test_a_choice_for_another_agent_keeps_no_loom_from_running(service: Service, models: Any) -> None:
    choose(service, Subject(SubjectKind.AGENT, "other/agent"), "acme/one")
    choose(service, Subject(SubjectKind.ROLE, "unheard"), "acme/one")
    assert service.finish("agentic")["status"] == "completed"


@pytest.mark.rule("R15", "N8")
def test_the_doctor_tells_each_choice_and_what_is_wrong_with_it(service: Service, models: Any) -> None:
    choose(service, DEFAULT, "free/three")
    choose(service, Subject(SubjectKind.ROLE, "planning"), "acme/one")
    choose(service, WRITER, "acme/two")
    models("providers: {acme: {kind: openai, models: [one]}, free: {kind: openai, key: none, models: [three]}}\n")
    told = {
        one.message: one for area, one in findings.examine() if area == "models" and "console's choice" in one.message
    }
    said = {message: one.health.value for message, one in told.items()}
    project = service.caller.project_name
    assert said == {
        f"In Project {project} the console's choice for the default is free/three": "ok",
        f"In Project {project} the console's choice for role planning is acme/one, and the Project has no key for "
        "acme.": "warning",
        f"In Project {project} the console's choice for agent agentic/thinker is acme/two, and that model is not there "
        "any more: its Agent Steps do not begin.": "problem",
    }
    assert all(one.cure for one in told.values() if one.health.value != "ok")


@pytest.mark.rule("R15")
def test_a_list_of_who_gets_what_and_why_costs_two_statements(service: Service, models: Any) -> None:
    models(f"{SCRIPTED}roles: {{planning: acme/one}}\nagents: {{other/agent: free/three}}\n")
    choose(service, WRITER, "acme/two")
    choose(service, Subject(SubjectKind.ROLE, "earlier"), "free/three")
    models(f"{SCRIPTED.replace(', two', '')}roles: {{planning: acme/one}}\nagents: {{other/agent: free/three}}\n")
    graphs = [loom.graph for loom in catalog.loadable()]
    with CaptureQueriesContext(connection) as seen:
        found = list_assignments(project_id=service.caller.project_id, graphs=graphs)
    assert len(seen) == 2
    by_subject = {str(one.subject): one for one in found}
    assert found[0].subject == DEFAULT
    assert (found[0].resolved.model_id, found[0].resolved.origin) == ("offline", Origin.BUILT_IN)
    planning = by_subject["role planning"]
    assert (planning.resolved.model_id, planning.resolved.origin, planning.lacks_key) == (
        "acme/one", Origin.SETTING, True,
    )  # fmt: skip
    writer = by_subject["agent agentic/thinker"]
    assert (writer.resolved.model_id, writer.resolved.origin, writer.model) == ("acme/two", Origin.CONSOLE, None)
    assert (writer.choice, writer.otherwise.model_id, writer.chosen_by) == ("acme/two", "offline", "ada")
    assert by_subject["agent other/agent"].resolved.origin is Origin.SETTING
    assert by_subject["role earlier"].choice == "free/three"
