"""What a Code Step asks a person, and what it gets back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Option:
    """One answer that is offered; a person may write something else."""

    id: str
    label: str
    description: str | None = None


@dataclass(frozen=True, slots=True)
class Question:
    """One question; ``id`` is unique among those asked together."""

    id: str
    question: str
    is_skippable: bool = False
    description: str | None = None
    options: Sequence[Option] = ()


@dataclass(frozen=True, slots=True)
class Answer:
    """``answer`` is the option's id or the text as given; ``None`` when the question was skipped."""

    question_id: str
    is_skipped: bool
    answer: str | None


@dataclass(frozen=True, slots=True)
class Confirmation:
    """Yes or no, and what the person had to say to it."""

    is_confirmed: bool
    feedback: str | None = None
