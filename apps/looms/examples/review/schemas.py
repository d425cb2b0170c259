"""What Review takes, keeps and files."""

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

MAX_TEXT = 30_000

Line = Annotated[str, StringConstraints(min_length=1, max_length=200, pattern=r"^[^\r\n]*[^\s][^\r\n]*$")]
Text = Annotated[str, StringConstraints(min_length=1, max_length=MAX_TEXT, pattern=r"\S")]
Verdict = Literal["as_it_is", "with_edits", "not_yet"]

CHECKS = ["Are the names, numbers and links right?", "May everybody who will read it know what it says?"]


class Request(BaseModel):
    """The text to review, and what to look at."""

    model_config = ConfigDict(extra="forbid")

    title: Line = Field(description="What people call the text.")
    text: Text = Field(description="The text, plain or Markdown.")
    audience: Line | None = Field(default=None, description="Who it is for.")
    max_words: int | None = Field(default=None, ge=1, description="How many words it may have.")
    avoid: list[Line] = Field(default=[], max_length=50, description="Words that should not be in it.")
    checks: list[Line] = Field(default=CHECKS, max_length=10, description="Yes-or-no questions for the reviewer.")


class Check(BaseModel):
    """``answer`` is ``yes``, ``no`` or the reviewer's own words; ``None`` when it was not looked at."""

    question: str
    answer: str | None = None


class Said(BaseModel):
    """What the reviewer answered in one round; ``verdict`` may be in their own words, and is then asked for again."""

    verdict: str
    point: str
    checks: list[Check] = []
    edits: str = ""
    notes: str | None = None


class Review(BaseModel):
    """``text`` has the edits of the rounds so far; ``problems`` and ``feedback`` lead to the next round."""

    text: str
    round: int = 0
    said: Said | None = None
    notes: list[str] = []
    problems: list[str] = []
    feedback: str | None = None

    def answers(self) -> Said:
        """What was said in the present round, once it was."""
        if self.said is None:
            raise LookupError("Nobody has answered yet.")
        return self.said


class Round(BaseModel):
    """What one round came to; ``said`` and ``is_confirmed`` are ``None`` where it did not get that far."""

    version: int = 1
    round: int
    said: Said | None
    problems: list[str] = []
    is_confirmed: bool | None = None
    feedback: str | None = None


class Measures(BaseModel):
    """A text in numbers."""

    words: int
    sentences: int
    longest_sentence: int
    minutes: int


class Report(BaseModel):
    """The reviewed text and what was said about it."""

    version: int = 1
    title: str
    text: str
    verdict: Verdict
    is_changed: bool
    rounds: int
    point: str
    checks: list[Check]
    notes: list[str]
    measures: Measures
    findings: list[str]
