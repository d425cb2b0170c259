"""What a person reads before they confirm, as Markdown.

The words are an agent's: they stand in one line each or behind ``>``, so that none of them can pass
for a heading of the page.
"""

import re
import shlex
from collections.abc import Iterable

from .schemas import Request, Solution, Specification


def specification_page(specification: Specification) -> str:
    return "\n".join(
        [
            f"# Is this what you want: {_line(specification.title)}",
            "",
            *_quoted(specification.summary),
            "",
            "## What must hold",
            "",
            *(
                f"- **{one.id}** {_line(one.text)} *Shown by:* {_line(one.acceptance)}"
                for one in specification.requirements
            ),
            *_section("Not part of it", (_line(one) for one in specification.out_of_scope)),
            *_section("Assumed", (_line(one) for one in specification.assumptions)),
        ]
    )


def solution_page(solution: Solution, request: Request) -> str:
    """The commands come first: confirming is what lets them run."""
    plan = solution.plan
    return "\n".join(
        [
            "# Shall it be made like this?",
            "",
            *_commands(solution, request),
            "",
            "## Files that may be made, changed or removed",
            "",
            *(f"- {_code(one.path)} {_line(one.purpose)}" for one in plan.files),
            "",
            "## How",
            "",
            *_quoted(plan.approach),
            *_section("Decisions", (f"{_line(one.decision)} *Because:* {_line(one.reason)}" for one in plan.decisions)),
        ]
    )


def _commands(solution: Solution, request: Request) -> list[str]:
    if not solution.checks:
        return ["There are **no checks**: only the examiner, an agent, will judge the result."]
    limit = f"for up to {request.check_seconds} s each, up to {request.repairs + 1} times"
    return [
        f"If you confirm, these commands will run in the folder, {limit}. They run what the agent writes, "
        "with the rights of the service's account:",
        "",
        *(f"- {_code(shlex.join(one.command))} {_line(one.purpose)}" for one in solution.checks),
    ]


def _section(title: str, items: Iterable[str]) -> list[str]:
    listed = [f"- {item}" for item in items]
    return ["", f"## {title}", "", *listed] if listed else []


def _line(text: str) -> str:
    return " ".join(text.split())


def _quoted(text: str) -> list[str]:
    return [f"> {line}".rstrip() for line in text.splitlines()]


def _code(text: str) -> str:
    """Code that no backtick in ``text`` ends."""
    longest = max((len(run) for run in re.findall("`+", text)), default=0)
    marks = "`" * (longest + 1)
    return f"{marks} {text} {marks}" if longest else f"`{text}`"
