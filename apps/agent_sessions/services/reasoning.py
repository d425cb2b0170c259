"""Reasoning, its library imported when it is first needed: that takes a second, and few processes reason."""

from __future__ import annotations

from typing import Any

from apps.agent_sessions.domain.programs import Program
from apps.agent_sessions.runtime.ended import Ended


def reason(program: Program, input: Any, **how: Any) -> Ended:
    """:func:`apps.agent_sessions.runtime.reasoning.reason`."""
    from apps.agent_sessions.runtime import reasoning

    return reasoning.reason(program, input, **how)
