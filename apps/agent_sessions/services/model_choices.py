"""The models that operators choose in the console for a Project's agents, roles and default (R15)."""

from __future__ import annotations

import datetime as dt
import uuid
from collections.abc import Iterable
from dataclasses import dataclass

from django.db import transaction

from apps.agent_sessions.domain.model_choices import DEFAULT, Assigned, Origin, Resolved, Subject, SubjectKind
from apps.agent_sessions.models import ModelChoice
from apps.agent_sessions.runtime.models import Catalogue, Model
from apps.agent_sessions.services.models import known_models, unknown_model
from apps.agent_sessions.services.provider_keys import keyed_providers
from apps.core.database import lock_name
from apps.core.errors import invalid_request
from apps.core.ids import new_id
from apps.looms.domain.graph import AgentStepSpec, LoomGraph

#: A page shows no more.
_MOST = 500


def model_choices(*, project_id: uuid.UUID) -> dict[Subject, str]:
    """What was chosen in the console for this Project: model ids by subject."""
    rows = ModelChoice.objects.filter(project_id=project_id).values_list("kind", "name", "model")
    return {Subject(SubjectKind(kind), name): model for kind, name, model in rows}


def choose_model(*, project_id: uuid.UUID, subject: Subject, model: str, by: str, now: dt.datetime) -> str | None:
    """Have ``subject`` get ``model`` in this Project from the next Step on; returns the choice before, if any.

    ``INVALID_REQUEST`` for a model that is not there, ``UNAVAILABLE`` when the file of models cannot be used.
    """
    known = known_models()
    if known.find(model) is None:
        raise invalid_request("ModelChoice", [unknown_model(known, model, "Choose a model that is there.")])
    with transaction.atomic():
        lock_name("model_choices", project_id)
        row = ModelChoice.objects.filter(project_id=project_id, kind=subject.kind, name=subject.name).first()
        before = None if row is None else row.model
        if before != model:
            row = row or ModelChoice(id=new_id(), project_id=project_id, kind=subject.kind, name=subject.name)
            row.model, row.chosen_by, row.chosen_at = model, by, now
            row.save()
    return before


def forget_model_choice(*, project_id: uuid.UUID, subject: Subject) -> str | None:
    """Go back to the setting's model; returns the choice there was, if any."""
    with transaction.atomic():
        lock_name("model_choices", project_id)
        row = ModelChoice.objects.filter(project_id=project_id, kind=subject.kind, name=subject.name).first()
        if row is None:
            return None
        row.delete()
        return row.model


def resolved_for(graph: LoomGraph, known: Catalogue, chosen: Assigned) -> list[Resolved]:
    """The models that the Agent Steps of a Loom get, in its order."""
    return [known.resolve(agent=f"{graph.loom}/{step.agent}", role=step.model, chosen=chosen) for step in _steps(graph)]


def resolved_models(known: Catalogue, chosen: Assigned) -> list[Resolved]:
    """What matters where no Loom is named: the default, and every choice whose model has gone."""
    gone = [Resolved(model, Origin.CONSOLE, each) for each, model in chosen.items() if known.find(model) is None]
    return [known.resolve(agent=None, role=None, chosen=chosen), *gone]


def choice_gone(resolved: Resolved) -> str:
    """What is said of a choice whose model is not there any more."""
    return (
        f"the model {resolved.model_id}, which was chosen in the console for {resolved.subject}, is not there any "
        "more. An operator chooses another on the console's page Models; nothing is taken in its place."
    )


def _steps(graph: LoomGraph) -> list[AgentStepSpec]:
    return [step for stage in graph.stages.values() for step in stage.steps.values() if isinstance(step, AgentStepSpec)]


@dataclass(frozen=True, slots=True)
class Assignment:
    """Which model one subject gets in a Project, and why.

    ``role`` is the role of an agent's Step.  ``model`` is ``None`` when the model of this id has gone.  ``choice`` is
    what was chosen for this very subject, and ``otherwise`` what it would get without.
    """

    subject: Subject
    role: str | None
    resolved: Resolved
    model: Model | None
    lacks_key: bool
    choice: str | None
    chosen_by: str
    chosen_at: dt.datetime | None
    otherwise: Resolved


def list_assignments(*, project_id: uuid.UUID, graphs: Iterable[LoomGraph]) -> list[Assignment]:
    """The default, then roles, then agents: those of ``graphs``, of the setting, and of earlier choices.

    An agent whose Steps have several roles is there once for each.  ``UNAVAILABLE`` when the models cannot be read.
    """
    known, keyed = known_models(), keyed_providers(project_id)
    rows = {Subject(SubjectKind(row.kind), row.name): row for row in ModelChoice.objects.filter(project_id=project_id)}
    chosen = {subject: row.model for subject, row in rows.items()}
    steps = {(f"{graph.loom}/{step.agent}", step.model) for graph in graphs for step in _steps(graph)}
    named = {*known.assigned, *chosen}
    roles = {role for _, role in steps if role} | {each.name for each in named if each.kind is SubjectKind.ROLE}
    agents = {agent for agent, _ in steps}
    steps |= {(each.name, None) for each in named if each.kind is SubjectKind.AGENT and each.name not in agents}

    def assignment(subject: Subject, agent: str | None, role: str | None) -> Assignment:
        resolved = known.resolve(agent=agent, role=role, chosen=chosen)
        without = {each: model for each, model in chosen.items() if each != subject}
        model, row = known.find(resolved.model_id), rows.get(subject)
        return Assignment(
            subject=subject,
            role=role if agent else None,
            resolved=resolved,
            model=model,
            lacks_key=model is not None and model.needs_key and model.provider not in keyed,
            choice=None if row is None else row.model,
            chosen_by="" if row is None else row.chosen_by,
            chosen_at=None if row is None else row.chosen_at,
            otherwise=known.resolve(agent=agent, role=role, chosen=without),
        )

    found = [
        assignment(DEFAULT, None, None),
        *(assignment(Subject(SubjectKind.ROLE, role), None, role) for role in sorted(roles)),
        *(
            assignment(Subject(SubjectKind.AGENT, agent), agent, role)
            for agent, role in sorted(steps, key=lambda each: (each[0], each[1] or ""))
        ),
    ]
    return found[:_MOST]
