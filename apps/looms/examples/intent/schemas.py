"""What Intent takes, what its Stages file, and what its agents submit; every text and list is bounded."""

import os
import re
from pathlib import Path
from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator

#: Control characters, and those that turn the direction of what a person reads.
UNWELCOME = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")

MAX_CHECKS = 10
#: Bytes of JSON that a request, a specification or a plan may have: then all that is made of them fits
#: into the 1 MiB that a value may have.
MAX_JSON = 64 * 1024


def _readable(text: str) -> str:
    if not text.strip():
        raise ValueError("Write some words here.")
    if UNWELCOME.search(text):
        raise ValueError("Leave out control characters; line breaks and tabs are fine.")
    return text


def _argument(text: str) -> str:
    if not text.isprintable():
        raise ValueError("An argument has printable characters only, and no line breaks.")
    return text


Line = Annotated[str, Field(min_length=1, max_length=200), AfterValidator(_readable)]
Paragraph = Annotated[str, Field(min_length=1, max_length=1000), AfterValidator(_readable)]
Text = Annotated[str, Field(min_length=1, max_length=4000), AfterValidator(_readable)]
Argument = Annotated[str, Field(max_length=500), AfterValidator(_argument)]
Command = Annotated[list[Argument], Field(min_length=1, max_length=20)]
RequirementId = Annotated[str, Field(pattern=r"^R[1-9][0-9]?$", description="R1, R2 and so on.")]


class Strict(BaseModel):
    """A member that nobody knows is a mistake."""

    model_config = ConfigDict(extra="forbid")


class Short(Strict):
    """It is bounded as a whole, beside its single texts and lists."""

    @model_validator(mode="after")
    def _is_short(self) -> "Short":
        if len(self.model_dump_json().encode()) > MAX_JSON:
            raise ValueError(f"Make it shorter: as JSON it may have {MAX_JSON} bytes.")
        return self


# -- what a Run is given ---------------------------------------------------------------------------


class Request(Short):
    """A wish, and where it is to come true."""

    wish: Annotated[str, Field(min_length=1, max_length=10_000), AfterValidator(_readable)] = Field(
        description="What is wanted, in plain words."
    )
    folder: str = Field(
        min_length=1,
        max_length=4096,
        description="Absolute path of the folder to write into, on the service's machine. It must exist, in a place "
        "that the operator allows.",
    )
    checks: list[Command] = Field(
        default=[],
        max_length=MAX_CHECKS,
        description='Commands that must succeed in the end, as argument arrays: [["python", "-m", "unittest"]].',
    )
    check_seconds: int = Field(default=120, ge=1, le=600, description="How long one check may take.")
    repairs: int = Field(default=3, ge=0, le=10, description="How often the developer may try again.")


class Settings(BaseModel):
    """LOOM_INTENT_ROOTS and LOOM_INTENT_COMMANDS are separated as PATH is."""

    #: Folders in which a Run may have its folder.
    roots: str = ""
    #: Programs that checks may run: names found on PATH, or absolute paths that are called by their last part.
    commands: str = ""
    #: Whether a client may not hand on confirmations that a person gave it: they must come from the person.
    only_person: bool = False

    def folders(self) -> list[Path]:
        """The allowed folders, with links resolved."""
        return [Path(root).resolve() for root in self.roots.split(os.pathsep) if root.strip()]


# -- what the Stages file --------------------------------------------------------------------------
# An Artifact outlives the Release that wrote it, so each model has a version.


class Requirement(Strict):
    """One thing that must hold in the end."""

    id: RequirementId
    text: Paragraph = Field(description="What must hold, in one sentence.")
    acceptance: Paragraph = Field(description="How one can tell: an example with input and expected output.")


class Specification(Short):
    """What is wanted. It says nothing about how."""

    version: Literal[1] = 1
    title: Line
    summary: Text
    requirements: list[Requirement] = Field(min_length=1, max_length=40)
    out_of_scope: list[Paragraph] = Field(default=[], max_length=20)
    assumptions: list[Paragraph] = Field(default=[], max_length=20)

    @model_validator(mode="after")
    def _ids_differ(self) -> "Specification":
        ids = [one.id for one in self.requirements]
        if len(set(ids)) < len(ids):
            raise ValueError("Give each requirement an id of its own.")
        return self


class PlannedFile(Strict):
    """A file that may be made, changed or removed."""

    path: Line = Field(description="Path inside the folder, as src/words.py; tests/ stands for any file below it.")
    purpose: Paragraph


class Decision(Strict):
    """A choice that somebody may want to know the reason of."""

    decision: Paragraph
    reason: Paragraph


class Check(Strict):
    """A command that succeeds with exit code 0."""

    command: Command = Field(description='An argument array, as ["python", "-m", "unittest"]. There is no shell.')
    purpose: Paragraph = Field(description="What it shows when it succeeds.")


class Plan(Short):
    """How the specification is to come true."""

    version: Literal[1] = 1
    approach: Text
    files: list[PlannedFile] = Field(min_length=1, max_length=60)
    decisions: list[Decision] = Field(default=[], max_length=20)
    checks: list[Check] = Field(default=[], max_length=MAX_CHECKS)


class Solution(Strict):
    """The plan as it was confirmed; ``checks`` are those of the request and those of the plan."""

    version: Literal[1] = 1
    plan: Plan
    checks: list[Check]


class File(Strict):
    """A file of the folder as Code found it."""

    path: str
    size: int
    sha256: str


class Manifest(Strict):
    """What a round left in the folder, by Code's own look at it; ``summary`` is what the developer says."""

    version: Literal[1] = 1
    round: int
    summary: str
    written: list[str]
    removed: list[str]
    files: list[File]


class CheckResult(Strict):
    """What came of a check. Only Code makes these."""

    command: list[str]
    purpose: str
    ended: Literal["passed", "failed", "timed_out", "not_started"]
    exit_code: int | None
    seconds: float
    #: The end of what it printed, and how many bytes before that were left out.
    output: str
    left_out: int

    @property
    def has_passed(self) -> bool:
        return self.ended == "passed"


class Judgement(Strict):
    """What the examiner found about one requirement."""

    requirement: RequirementId
    is_met: bool
    reason: Paragraph = Field(description="What shows it: a check, or a file and what stands in it.")


class Report(Strict):
    """What a round came to."""

    version: Literal[1] = 1
    round: int
    verdict: Literal["validated", "repair", "unfinished"]
    checks: list[CheckResult]
    #: None when a check failed: then nobody was asked to judge.
    judgements: list[Judgement] | None
    summary: str


# -- what the agents submit ------------------------------------------------------------------------


class AskedOption(Strict):
    """An answer that is offered; the person may write another."""

    id: Annotated[str, Field(pattern=r"^[a-z0-9_-]{1,40}$")]
    label: Line


class AskedQuestion(Strict):
    """One question to the person whose wish it is."""

    id: Annotated[str, Field(pattern=r"^[a-z0-9_-]{1,40}$")]
    question: Paragraph
    why: Paragraph = Field(description="What depends on the answer.")
    options: list[AskedOption] = Field(default=[], max_length=8)
    is_skippable: bool = Field(default=False, description="Whether you can go on with an assumption of your own.")


class Drafted(Strict):
    """The analyst's result: a specification was saved, or questions must be answered first."""

    outcome: Literal["drafted", "asks"]
    questions: list[AskedQuestion] = Field(default=[], max_length=8)

    @model_validator(mode="after")
    def _questions_fit(self) -> "Drafted":
        if bool(self.questions) != (self.outcome == "asks"):
            raise ValueError("Send questions with the outcome asks, and only then.")
        if len({one.id for one in self.questions}) < len(self.questions):
            raise ValueError("Give each question an id of its own.")
        if any(len({o.id for o in one.options}) < len(one.options) for one in self.questions):
            raise ValueError("Give each option of a question an id of its own.")
        return self


class Planned(Strict):
    """The architect's result; the plan itself was saved by a Tool."""

    outcome: Literal["planned"]


class Built(Strict):
    """The developer's result; the files themselves are in the folder."""

    outcome: Literal["built"]
    summary: Text = Field(description="What you did, and what you could not do.")


class Examined(Strict):
    """The examiner's result; the judgements were saved by a Tool."""

    outcome: Literal["examined"]
    summary: Text = Field(description="What the person should know, in a few sentences.")
