"""Endpoints bound to their addresses: what a view and the OpenAPI document need to know."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from pydantic.json_schema import JsonSchemaMode, models_json_schema

from apps.core.contracts import Contract, WireSchema
from apps.core.endpoints import Endpoint, ErrorForm, Route
from apps.rest.problems import Problem

_MEMBER = re.compile(r"\{(\w+)\}")
_LITERAL = re.compile(r"[a-z0-9._-]+")
METHODS = ("GET", "POST")
REFERENCE = "#/components/schemas/{model}"


@dataclass(frozen=True, slots=True)
class Shapes:
    """The JSON Schemas of all contracts, in one name space with unique names."""

    inputs: Mapping[type[Contract], str]
    outputs: Mapping[type[Contract], str]
    definitions: Mapping[str, dict[str, Any]]


@dataclass(frozen=True, eq=False)
class Binding:
    """One Endpoint at one address, and its neighbours, with whom it shares the component names."""

    endpoint: Endpoint[Any, Any]
    route: Route
    neighbours: tuple[Endpoint[Any, Any], ...]

    @property
    def contract(self) -> str:
        """The input contract's name, as validation names it (E3)."""
        return self.endpoint.input.__name__

    @functools.cached_property
    def schema(self) -> dict[str, Any]:
        """The input contract's JSON Schema."""
        given: type[Contract] = self.endpoint.input
        return given.wire_schema()

    @property
    def path_members(self) -> tuple[str, ...]:
        return tuple(_MEMBER.findall(self.route.path))

    @property
    def shapes(self) -> Shapes:
        return shapes_of(self.neighbours)

    def regex(self) -> str:
        """The address without a trailing slash, as a regular expression.

        A UUID is one segment, so that a malformed one reaches the contract; other ids are any text,
        slashes too, because Code may choose them (contract section 1).
        """
        return "/".join(map(self._segment, self.route.path.strip("/").split("/")))

    def _segment(self, segment: str) -> str:
        found = _MEMBER.fullmatch(segment)
        if not found:
            return segment.replace(".", r"\.")
        schema = self.schema["properties"][found[1]]
        return f"(?P<{found[1]}>{'[^/]+' if schema.get('format') == 'uuid' else '.+'})"


def bind(endpoints: Iterable[Endpoint[Any, Any]]) -> list[dict[str, Binding]]:
    """The Endpoints that have a route, by path and method, the most particular path first.

    Raises ``ValueError`` for a route that cannot be served.
    """
    routed = tuple(endpoint for endpoint in endpoints if endpoint.route is not None)
    paths: dict[str, dict[str, Binding]] = {}
    for endpoint in routed:
        assert endpoint.route is not None
        binding = Binding(endpoint, endpoint.route, routed)
        _check(binding)
        if paths.setdefault(endpoint.route.path, {}).setdefault(endpoint.route.method, binding) is not binding:
            raise ValueError(f"{endpoint.name}: {endpoint.route.method} {endpoint.route.path} is taken")
    return [paths[path] for path in sorted(paths, key=_particular)]


def _check(binding: Binding) -> None:
    name, route = binding.endpoint.name, binding.route
    if route.method not in METHODS:
        raise ValueError(f"{name}: {route.method} is not served; use {' or '.join(METHODS)}")
    if unknown := set(binding.path_members) - set(binding.schema.get("properties", {})):
        raise ValueError(f"{name}: {route.path} names {', '.join(sorted(unknown))}, not in {binding.contract}")
    for segment in route.path.strip("/").split("/"):
        if not _MEMBER.fullmatch(segment) and not _LITERAL.fullmatch(segment):
            raise ValueError(f"{name}: {route.path}: {segment!r} is neither a literal nor a member")


def _particular(path: str) -> tuple[int, list[bool]]:
    """Longer paths first, then those whose earlier segments are literal."""
    segments = path.strip("/").split("/")
    return -len(segments), [segment.startswith("{") for segment in segments]


def error_forms(endpoints: Iterable[Endpoint[Any, Any]]) -> list[ErrorForm]:
    """Every form of error beside the problem."""
    return [endpoint.error_form for endpoint in endpoints if endpoint.error_form is not None]


@functools.cache
def shapes_of(endpoints: tuple[Endpoint[Any, Any], ...]) -> Shapes:
    """All contracts of ``endpoints`` and the problem, generated together so that no two share a name."""
    inputs: dict[type[Contract], None] = dict.fromkeys(endpoint.input for endpoint in endpoints)
    outputs: dict[type[Contract], None] = dict.fromkeys(
        [*(endpoint.output for endpoint in endpoints), Problem, *(form.shape for form in error_forms(endpoints))]
    )
    modes: list[tuple[type[Any], JsonSchemaMode]] = [(model, "validation") for model in inputs]
    modes += [(model, "serialization") for model in outputs]
    references, document = models_json_schema(
        modes,
        by_alias=True,
        ref_template=REFERENCE,
        schema_generator=WireSchema,
    )
    return Shapes(
        inputs={model: _name(references[model, "validation"]) for model in inputs},
        outputs={model: _name(references[model, "serialization"]) for model in outputs},
        definitions=document["$defs"],
    )


def _name(reference: dict[str, Any]) -> str:
    found: str = reference["$ref"]
    return found.rpartition("/")[2]
