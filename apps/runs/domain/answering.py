"""Whether an answer is complete, and who may give it (H1–H3, H6)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from apps.core.caller import Caller, Source
from apps.core.errors import Issue, invalid_request
from apps.looms.domain.answers import check_answers, check_confirmation

#: Sources behind which a person stands.
_PERSONAL_SOURCES = frozenset({Source.CLI, Source.STUDIO, Source.CONSOLE})


@dataclass(frozen=True, slots=True)
class Answered:
    """Who answered an Action, how, and when (on the wire), as it is kept with it (H6)."""

    by: dict[str, str]
    at: str

    def __str__(self) -> str:
        return f"by {self.by['principal']} ({self.by['source']}, via {self.by['via']}) at {self.at}"


def answered_via(caller: Caller) -> str:
    """How an answer that was sent as a call came in; native forms are told apart by whoever shows them (H6)."""
    if caller.source in (Source.CLI, Source.CONSOLE):
        return caller.source.value
    return "rest" if caller.source is Source.STUDIO and caller.entry.startswith("/api/") else "answer_ask"


def counts_as_person(source: Source, via: str) -> bool:
    """Whether an ``only_person`` Action takes an answer that came this way (H6)."""
    return source in _PERSONAL_SOURCES or via == "native"


def check_answer(kind: str, request: Any, answer: Any) -> None:
    """Raises ``INVALID_REQUEST`` with every issue; pointers start at ``/answer``."""
    issues = check_answers(request, answer) if kind == "questions" else check_confirmation(answer)
    if issues:
        raise invalid_request("Answer", [Issue(i.code, f"/answer{i.path}", i.suggestion) for i in issues])
