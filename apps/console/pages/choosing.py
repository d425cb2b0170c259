"""What pages with filters share: what was typed, the Project in the address, lists to choose from, and pages."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TypeVar

from django.http import Http404, HttpRequest, QueryDict

from apps.console.permissions import Operator
from apps.core.errors import LoomError

Page = TypeVar("Page")


@dataclass(frozen=True, slots=True)
class Choice:
    """One entry of a list to choose from."""

    value: str
    title: str
    chosen: bool


def choices(chosen: str, values: Mapping[str, str]) -> list[Choice]:
    """``values`` by what they are called, one of them ``chosen``."""
    return [Choice(value, title, chosen == value) for value, title in values.items()]


def choices_named(chosen: str, values: Iterable[str]) -> list[Choice]:
    """``values`` that are called what they are."""
    return choices(chosen, {value: value for value in values})


def typed(query: QueryDict, name: str) -> str:
    """A filter as it was typed, bounded, without what no database takes."""
    return query.get(name, "").replace("\x00", "").strip()[:200]


def narrowed(projects: Mapping[uuid.UUID, str], name: str) -> list[uuid.UUID]:
    """All of these Projects, or the one that a filter names."""
    return [key for key, known in projects.items() if name in ("", known)]


def project_in(request: HttpRequest, operator: Operator) -> uuid.UUID:
    """The Project that the address names, else the first one that the operator sees; 404 when there is none."""
    found = narrowed(operator.projects, typed(request.GET, "project"))
    if not found:
        raise Http404
    return found[0]


def page_in(request: HttpRequest, read: Callable[[str | None], Page], of: str) -> tuple[Page, str]:
    """What ``read`` has for the cursor in the address; for a stranger's the first page, and words that say so."""
    try:
        return read(request.GET.get("cursor") or None), ""
    except (LoomError, ValueError):
        return read(None), f"That page does not belong to {of}; this is the first one."
