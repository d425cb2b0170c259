"""The typed search Tools of a background agent that is no Loom's (B2, B7)."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from apps.agent_sessions.domain.programs import ProgramTool


@dataclass(frozen=True, slots=True)
class SearchTool:
    """``run`` takes the Project and the arguments, unchecked, and returns JSON.

    It raises :class:`~apps.core.errors.LoomError` for what the model should read.
    """

    declared: ProgramTool
    run: Callable[[uuid.UUID, dict[str, Any]], Any]


_tools: dict[str, SearchTool] = {}


def register_search_tool(tool: SearchTool) -> None:
    """Give ``tool`` to every background agent with instructions of its own; called when Django starts."""
    _tools[tool.declared.id] = tool


def search_tools() -> list[SearchTool]:
    """The Tools, in the order of their ids."""
    return [_tools[name] for name in sorted(_tools)]
