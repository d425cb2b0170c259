"""A Release in this process: its graph, its models and functions, its settings."""

from __future__ import annotations

import base64
import hashlib
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, cast

from pydantic import BaseModel, ValidationError

from apps.core import json_text
from apps.core.errors import Issue
from apps.core.validation import issues_of
from apps.looms.authoring.tools import Tool
from apps.looms.domain.graph import LoomGraph
from apps.looms.domain.names import REFERENCE
from apps.looms.importing import import_module
from apps.looms.messages import printable
from apps.looms.secret_values import SecretValues

logger = logging.getLogger("loomsvc.looms")

_MAX_NAME = 100


#: The largest file of a Skill that is read at once, in bytes (A7).
MAX_ASSET_BYTES = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Asset:
    """A file beside a ``SKILL.md``; ``id`` is ``skill/path``."""

    id: str
    name: str
    content: bytes = field(repr=False)

    @property
    def size(self) -> int:
        """In bytes."""
        return len(self.content)

    @property
    def sha256(self) -> str:
        """Of its bytes, 64 hex digits."""
        return hashlib.sha256(self.content).hexdigest()

    def encoded(self) -> tuple[Literal["utf8", "base64"], str]:
        """Its content for JSON: as it is where it is text, else as base64."""
        try:
            text = self.content.decode()
        except UnicodeDecodeError:
            text = "\x00"
        # NUL is valid UTF-8 but no JSON of ours holds it.
        return ("base64", base64.b64encode(self.content).decode()) if "\x00" in text else ("utf8", text)


@dataclass(frozen=True, slots=True)
class Skill:
    """Instructions that an agent may draw on."""

    name: str
    description: str
    content: str
    assets: tuple[Asset, ...]


@dataclass(frozen=True)
class AgentTask:
    """Everything that the agent of one Agent Step is given."""

    agent_id: str
    name: str
    description: str
    instructions: str
    skills: tuple[Skill, ...]
    tools: tuple[Tool, ...]
    #: The id of the Tool that closes the others.
    end_tool: str | None
    output: type[BaseModel]

    def output_schema(self) -> dict[str, Any]:
        """JSON Schema of what is to be submitted."""
        return self.output.model_json_schema(by_alias=True, mode="validation")

    def read_output(self, value: Any, *, max_bytes: int = json_text.MAX_VALUE_BYTES) -> tuple[Any, list[Issue]]:
        """The outcome that a result comes to, a default's too, or what keeps it from being a result."""
        read, issues = fit(self.output, value, max_bytes=max_bytes)
        return getattr(read, "outcome", None), issues

    def tool(self, tool_id: str) -> Tool | None:
        """The declared Tool of this id."""
        return next((tool for tool in self.tools if tool.id == tool_id), None)


@dataclass(frozen=True)
class LoadedLoom:
    """One Release, ready to run.  Everything that its graph names has been found."""

    digest: str
    graph: LoomGraph
    package: str
    #: Installed version of each distribution that it requires.
    requires: Mapping[str, str]
    settings: BaseModel | None = field(repr=False)
    secrets: SecretValues = field(repr=False)
    #: ``module:name`` → what it is, for every name in the graph.
    names: Mapping[str, Any] = field(repr=False)
    #: (Stage, Agent Step) → its task.
    agents: Mapping[tuple[str, str], AgentTask] = field(repr=False)

    @property
    def name(self) -> str:
        return self.graph.loom

    def input_schema(self) -> dict[str, Any] | None:
        """JSON Schema of the input; ``None`` when any JSON but blank text is taken (R5)."""
        model = self._input_model()
        return None if model is None else model.model_json_schema(by_alias=True, mode="validation")

    def check_input(self, value: Any, *, max_bytes: int = json_text.MAX_VALUE_BYTES) -> list[Issue]:
        """What keeps ``value`` from being an input; pointers are relative to it (R5)."""
        model = self._input_model()
        if model is not None:
            return fit(model, value, max_bytes=max_bytes)[1]
        if isinstance(value, str) and not value.strip():
            return [Issue("length", "", "Send any JSON but a blank text.")]
        return json_text.find_issues(value, max_bytes=max_bytes)

    def read_input(self, value: Any) -> Any:
        """A checked input as the declared model, or as it is.  Raises pydantic's ``ValidationError``."""
        model = self._input_model()
        return value if model is None else _read(model, value)

    def read_previous(self, stage: str, step: str, value: Any) -> Any:
        """What a Step left for the next: an agent's output as its model, else the outcome."""
        task = self.agents.get((stage, step))
        return value if task is None else _read(task.output, value)

    def code(self, stage: str, step: str) -> Callable[..., Any]:
        """The function of a Code Step.  Raises ``KeyError``."""
        function: Callable[..., Any] = self.names[getattr(self.graph.step(stage, step), "code", "")]
        return function

    def initializer(self, stage: str) -> Callable[..., Any] | None:
        """The function that makes a Stage's first State; ``None`` in a Stage without State."""
        reference = self.graph.stages[stage].initialize
        return None if reference is None else cast("Callable[..., Any]", self.names[reference])

    def state_type(self, stage: str) -> type[BaseModel] | None:
        """The model of a Stage's State."""
        reference = self.graph.stages[stage].state
        return None if reference is None else cast("type[BaseModel]", self.names[reference])

    def continuation(self, reference: str) -> Callable[..., Any]:
        """The function that a wait named.  Raises ``LookupError`` when the Release has none such."""
        match = REFERENCE.fullmatch(reference)
        try:
            function = getattr(import_module(self.package, match[1]), match[2]) if match else None
        except (ImportError, AttributeError):
            function = None
        if not callable(function):
            raise LookupError(f"This Release has no function {reference}.")
        return cast("Callable[..., Any]", function)

    def _input_model(self) -> type[BaseModel] | None:
        reference = self.graph.input
        return None if reference is None else cast("type[BaseModel]", self.names[reference])


def _read(model: type[BaseModel], value: Any) -> BaseModel:
    return model.model_validate_json(json_text.dumps(value), strict=True)


def fit(model: type[BaseModel], value: Any, *, max_bytes: int) -> tuple[BaseModel | None, list[Issue]]:
    """``value`` as the model, or what keeps it from being one; pointers are relative to it."""
    issues = json_text.find_issues(value, max_bytes=max_bytes)
    if issues:
        return None, issues
    try:
        return _read(model, value), []
    except ValidationError as error:
        return None, issues_of(error, value)
    except BaseException as error:  # an author's own check may raise anything, and takes nobody along
        name = printable(type(error).__name__, _MAX_NAME)
        logger.warning("a check of %s raised %s", model.__name__, name, exc_info=True)
        hint = f"The Loom's own check of it failed ({name}). Send another value, or tell the Loom's author."
        return None, [Issue("value", "", hint)]
