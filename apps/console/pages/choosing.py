"""What pages with filters share: the Project in the address, and lists to choose from."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass

from django.http import Http404, HttpRequest

from apps.console.permissions import Operator


@dataclass(frozen=True, slots=True)
class Choice:
    """One entry of a list to choose from."""

    value: str
    title: str
    chosen: bool


def choices(chosen: str, values: Mapping[str, str]) -> list[Choice]:
    """``values`` by what they are called, one of them ``chosen``."""
    return [Choice(value, title, chosen == value) for value, title in values.items()]


def typed(request: HttpRequest, name: str) -> str:
    """A filter as it was typed, bounded, without what no database takes."""
    return request.GET.get(name, "").replace("\x00", "").strip()[:200]


def project_in(request: HttpRequest, operator: Operator) -> uuid.UUID:
    """The Project that the address names, else the first one that the operator sees; 404 when there is none."""
    name = typed(request, "project")
    for project_id, project in operator.projects.items():
        if name in ("", project):
            return project_id
    raise Http404


def projects_to_choose(operator: Operator, chosen: uuid.UUID | None) -> list[Choice]:
    """The operator's Projects by name."""
    named = operator.projects.get(chosen, "") if chosen else ""
    return choices(named, {name: name for name in operator.projects.values()})
