"""Reasoning: a program, an input and a model come to an output, or to a clear failure (B3, B6, B9).

The loop runs in the caller's thread and calls back in it, outside any event loop, so that Tools and callbacks may use
the database.  A request goes out only after ``before_request`` agreed, is counted once, and is never sent again behind
the caller's back.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from apps.agent_sessions.domain.programs import Program
from apps.agent_sessions.runtime.ended import Access, Check, Ended, Limits, ToolFunction, Usage


def reason(
    program: Program,
    input: Any,
    *,
    tools: Mapping[str, ToolFunction],
    access: Access,
    limits: Limits,
    before_request: Callable[[], bool],
    report: Callable[[Usage], None],
    check: Check | None = None,
) -> Ended:
    """Have ``access``'s model carry out ``program`` on ``input``.

    ``tools``: what each of the program's Tools does, by id; it gets the arguments, unchecked, and returns JSON or
    raises ``ended.ToolRefused`` with what the model should read.  Other exceptions of theirs come out of here.
    ``before_request``: called right before each request; ``False`` stops there.  ``report``: called after each
    response and each Tool call with the usage so far.  ``check``: what else keeps an output from being one.
    """
    # The library takes a second to load, and its clients more: commands and web processes do without.
    from apps.agent_sessions.runtime.rounds import carry_out

    return carry_out(
        program,
        input,
        tools=tools,
        access=access,
        limits=limits,
        before_request=before_request,
        report=report,
        check=check,
    )
