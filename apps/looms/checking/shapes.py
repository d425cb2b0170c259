"""Every key that may stand in ``loom.yaml``, as strict pydantic models."""

from __future__ import annotations

import re
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict, Discriminator, Field, Tag
from pydantic_core import PydanticCustomError

from apps.looms.domain.durations import parse_duration
from apps.looms.domain.graph import DEFAULT_MAX_VISITS
from apps.looms.domain.names import END, MAX_ID, NAME, REFERENCE

MAX_ATTEMPTS = 100
_AGENT_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")
_EXCEPTION = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*", re.ASCII)


def _error(message: str) -> PydanticCustomError:
    # Braces in a message would be taken for its context's fields.
    return PydanticCustomError("loom", "{message}", {"message": message})


def _name(value: str) -> str:
    if value == END:
        raise _error("`end` is where a route ends; choose another name.")
    if not NAME.fullmatch(value):
        raise _error("Use 1 to 64 lower-case letters, digits and _, beginning with a letter.")
    return value


def _reference(value: str) -> str:
    if not REFERENCE.fullmatch(value):
        raise _error("Write module:name, such as steps:collect.")
    return value


def _file_name(value: str) -> str:
    if not _AGENT_NAME.fullmatch(value):
        raise _error("Use 1 to 64 letters, digits, _ and -.")
    return value


def _exception(value: str) -> str:
    if not _EXCEPTION.fullmatch(value):
        raise _error("Name an exception class, such as ConnectionError or httpx.TransportError.")
    return value


def _outcome(value: str) -> str:
    if not value.strip() or len(value) > MAX_ID or not value.isprintable():
        raise _error(f"An outcome is a text of 1 to {MAX_ID} printable characters.")
    return value


def _duration(value: str) -> str:
    try:
        parse_duration(value)
    except ValueError as error:
        raise _error(str(error)) from None
    return value


def _timeout(value: str) -> str:
    if parse_duration(_duration(value)) <= 0:
        raise _error("A timeout must be longer than 0s.")
    return value


def _words(value: str) -> str:
    if not value.strip():
        raise _error("Write some words here.")
    return value


Name = Annotated[str, AfterValidator(_name)]
Reference = Annotated[str, AfterValidator(_reference)]
FileName = Annotated[str, AfterValidator(_file_name)]
Words = Annotated[str, AfterValidator(_words)]
Routes = Annotated[dict[Annotated[str, AfterValidator(_outcome)], str], Field(min_length=1)]
MaxVisits = Annotated[int, Field(ge=1, le=1_000_000)]


class Shape(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)


class RetryShape(Shape):
    attempts: Annotated[int, Field(ge=1, le=MAX_ATTEMPTS)]
    backoff: Annotated[str, AfterValidator(_duration)] = "1s"
    errors: Annotated[list[Annotated[str, AfterValidator(_exception)]], Field(min_length=1)] | None = None


class CodeShape(Shape):
    code: Reference
    timeout: Annotated[str, AfterValidator(_timeout)] | None = None
    retry: RetryShape | None = None
    on_interrupt: Annotated[str, Field(pattern="^(fail|rerun)$")] = "fail"
    max_visits: MaxVisits = DEFAULT_MAX_VISITS
    on: Routes


class AgentShape(Shape):
    agent: FileName
    model: Words | None = None
    timeout: Annotated[str, AfterValidator(_timeout)] | None = None
    output: Reference
    tools: list[Reference] = []
    end_tool: Reference | None = None
    skills: list[FileName] = []
    max_visits: MaxVisits = DEFAULT_MAX_VISITS
    on: Routes


def kind_of(value: Any) -> str:
    """Which shape a Step is meant to have."""
    return "agent" if isinstance(value, dict) and "agent" in value and "code" not in value else "code"


StepShape = Annotated[Annotated[CodeShape, Tag("code")] | Annotated[AgentShape, Tag("agent")], Discriminator(kind_of)]


class StageShape(Shape):
    state: Reference | None = None
    initialize: Reference | None = None
    entry: str
    steps: Annotated[dict[Name, StepShape], Field(min_length=1)]
    on: Routes


class LoomShape(Shape):
    loom: Name
    title: Words
    description: Words
    input: Reference | None = None
    settings: Reference | None = None
    requires: list[str] = []
    exclusive: bool = False
    entry: str
    stages: Annotated[dict[Name, StageShape], Field(min_length=1)]
