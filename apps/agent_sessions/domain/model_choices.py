"""Which model an Agent Step gets: the Project's choice in the console, else the setting's, else the built-in (R15).

Both are read by subject, and the narrowest subject that either names decides: the agent, then the role, then the
default.  Nothing stands in for a model that is named and not there.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass


class SubjectKind(enum.StrEnum):
    """What a model can be assigned to, the narrowest first."""

    AGENT = "agent"
    ROLE = "role"
    DEFAULT = "default"


class Origin(enum.StrEnum):
    """Who said which model it is."""

    CONSOLE = "console"
    SETTING = "setting"
    BUILT_IN = "built_in"


@dataclass(frozen=True, slots=True)
class Subject:
    """``name`` is an agent as ``loomName/agentId``, a role of `loom.yaml`, or blank for the default."""

    kind: SubjectKind
    name: str = ""

    def __str__(self) -> str:
        return "the default" if self.kind is SubjectKind.DEFAULT else f"{self.kind.value} {self.name}"


DEFAULT = Subject(SubjectKind.DEFAULT)

#: Model ids by what they are assigned to.
Assigned = Mapping[Subject, str]


@dataclass(frozen=True, slots=True)
class Resolved:
    """The model's id, who said it, and of which subject."""

    model_id: str
    origin: Origin
    subject: Subject


def subjects_of(*, agent: str | None, role: str | None) -> list[Subject]:
    """What can decide for an Agent Step, the narrowest first."""
    named = [(SubjectKind.AGENT, agent), (SubjectKind.ROLE, role)]
    return [*(Subject(kind, name) for kind, name in named if name), DEFAULT]


def resolve_model(
    *, agent: str | None, role: str | None, chosen: Assigned, setting: Assigned, built_in: str
) -> Resolved:
    """Of the narrowest subject that is named: what was ``chosen`` in the console, else what the ``setting`` says."""
    for subject in subjects_of(agent=agent, role=role):
        if subject in chosen:
            return Resolved(chosen[subject], Origin.CONSOLE, subject)
        if subject in setting:
            return Resolved(setting[subject], Origin.SETTING, subject)
    return Resolved(built_in, Origin.BUILT_IN, DEFAULT)
