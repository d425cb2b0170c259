"""Tools: functions that an agent may call, with schemas from their annotations."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from inspect import Parameter
from typing import Annotated, Any, Final, TypeVar, get_origin, get_type_hints, overload

from pydantic import BaseModel, ConfigDict, Field, PydanticUserError, TypeAdapter, create_model
from pydantic.errors import PydanticInvalidForJsonSchema, PydanticSchemaGenerationError

from apps.looms.authoring.steps import ToolCall
from apps.looms.domain.durations import MAX_SECONDS, parse_duration

F = TypeVar("F", bound=Callable[..., Any])
DEFAULT_TIMEOUT_SECONDS: Final = 60.0
_ID = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,63}")
_MARK = "__loomsvc_tool__"


def _reason(error: PydanticUserError) -> str:
    return (error.message or type(error).__name__).splitlines()[0]


class ToolUnusable(ValueError):
    """The function cannot be a Tool; the message says what to change."""


@dataclass(frozen=True)
class Tool:
    """A declared Tool.  The types are read late, when everything that they name is defined."""

    id: str
    function: Callable[..., Any]
    timeout_seconds: float

    @property
    def description(self) -> str:
        return inspect.getdoc(self.function) or ""

    @cached_property
    def arguments(self) -> type[BaseModel]:
        """The model of the arguments; its fields are aliased to the parameters, whatever they are called.
        Raises :class:`ToolUnusable`."""
        fields: dict[str, Any] = {}
        for index, parameter in enumerate(self._parameters()):
            if parameter.name not in self._hints:
                raise ToolUnusable(f"annotate parameter `{parameter.name}` with its type")
            default = ... if parameter.default is Parameter.empty else parameter.default
            fields[f"argument_{index}"] = (
                Annotated[self._hints[parameter.name], Field(alias=parameter.name)],
                default,
            )
        config = ConfigDict(extra="forbid", allow_inf_nan=False, title=f"{self.id} input")
        try:
            return create_model("ToolInput", __config__=config, **fields)
        except (PydanticUserError, PydanticSchemaGenerationError) as error:
            raise ToolUnusable(f"give its parameters types that JSON can carry ({_reason(error)})") from None

    @cached_property
    def output(self) -> TypeAdapter[Any]:
        """The type of what it returns.  Raises :class:`ToolUnusable`."""
        if "return" not in self._hints:
            raise ToolUnusable("annotate what it returns (`-> Saved`, or `-> None`)")
        try:
            return TypeAdapter(self._hints["return"])
        except (PydanticUserError, PydanticSchemaGenerationError) as error:
            raise ToolUnusable(f"return a type that JSON can carry ({_reason(error)})") from None

    @cached_property
    def input_schema(self) -> dict[str, Any]:
        """JSON Schema of the arguments."""
        return self._schema(lambda: self.arguments.model_json_schema(by_alias=True))

    @cached_property
    def output_schema(self) -> dict[str, Any]:
        """JSON Schema of the output."""
        return self._schema(lambda: self.output.json_schema(mode="serialization"))

    @staticmethod
    def _schema(make: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        try:
            return make()
        except (PydanticInvalidForJsonSchema, PydanticUserError) as error:
            raise ToolUnusable(f"use types that have a JSON Schema ({_reason(error)})") from None

    def keyword_arguments(self, checked: BaseModel) -> dict[str, Any]:
        """The arguments for a call, from a checked :attr:`arguments` model."""
        fields = type(checked).model_fields.items()
        return {str(field.alias): getattr(checked, name) for name, field in fields}

    @cached_property
    def _hints(self) -> dict[str, Any]:
        try:
            return get_type_hints(self.function, include_extras=True)
        except Exception as error:
            raise ToolUnusable(f"make its annotations importable ({type(error).__name__}: {error})") from None

    def _parameters(self) -> list[Parameter]:
        """Those after the first, which is the :class:`ToolCall`."""
        parameters = list(inspect.signature(self.function).parameters.values())
        if not parameters or parameters[0].kind not in (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD):
            raise ToolUnusable("give it a first parameter `call: ToolCall[...]`")
        first, *others = parameters
        hint = self._hints.get(first.name)
        if hint is not None and (get_origin(hint) or hint) is not ToolCall:
            raise ToolUnusable(f"its first parameter `{first.name}` must be a ToolCall")
        for parameter in others:
            if parameter.kind not in (Parameter.POSITIONAL_OR_KEYWORD, Parameter.KEYWORD_ONLY):
                raise ToolUnusable(f"replace `{parameter}` by named parameters")
        return others


@overload
def tool(function: F, /) -> F: ...
@overload
def tool(*, id: str | None = None, timeout: float | str | None = None) -> Callable[[F], F]: ...


def tool(function: Any = None, /, *, id: str | None = None, timeout: float | str | None = None) -> Any:
    """Declare a Tool: its description is the docstring, its schemas come from the annotations.

    ``id`` defaults to the function's name; ``timeout`` is in seconds or a text such as ``2m`` (A12).
    """

    def declare(declared: F) -> F:
        chosen = declared.__name__ if id is None else id
        if not _ID.fullmatch(chosen):
            raise ValueError(f"Tool id {chosen!r}: use a letter or _, then up to 63 letters, digits, _ and -")
        setattr(declared, _MARK, Tool(chosen, declared, _seconds(timeout)))
        return declared

    return declare if function is None else declare(function)


def _seconds(timeout: float | str | None) -> float:
    if timeout is None:
        return DEFAULT_TIMEOUT_SECONDS
    seconds = parse_duration(timeout) if isinstance(timeout, str) else float(timeout)
    if not 0 < seconds <= MAX_SECONDS:
        raise ValueError("A Tool's timeout must be longer than 0 seconds and at most 366 days.")
    return seconds


def declared_tool(function: Any) -> Tool | None:
    """What ``@tool`` declared about a function."""
    found = getattr(function, _MARK, None)
    return found if isinstance(found, Tool) else None
