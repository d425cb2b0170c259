"""The OpenAPI 3.1 description of an Endpoint, from the contracts that serve it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from drf_spectacular.openapi import AutoSchema
from drf_spectacular.plumbing import ComponentRegistry, ResolvedComponent

from apps.core.errors import ErrorCode, LoomError
from apps.rest.bindings import REFERENCE, Binding
from apps.rest.problems import MEDIA_TYPE, Problem, problem

_JSON = "application/json"
_EXAMPLE = problem(LoomError(ErrorCode.NOT_FOUND, "No Run 0198c1f2-7c7e-7000-8000-000000000000 in this Project."))


class EndpointSchema(AutoSchema):
    """Lets drf-spectacular find the views and assemble the document; the shapes are the contracts' own."""

    def get_operation(
        self, path: str, path_regex: str, path_prefix: str, method: str, registry: ComponentRegistry
    ) -> dict[str, Any]:
        self.registry, self.method = registry, method
        # Only EndpointView uses this class.
        bindings: Mapping[str, Binding] = getattr(self.view, "bindings")  # noqa: B009
        binding = bindings[method]
        operation = {
            "operationId": binding.endpoint.name,
            "summary": binding.endpoint.title,
            "description": binding.endpoint.description,
            "tags": [binding.route.path.strip("/").split("/")[0]],
            "security": self.get_auth(),
            **_input(binding),
            "responses": _responses(binding),
        }
        _register(registry, operation, binding.shapes.definitions)
        return operation


def _input(binding: Binding) -> dict[str, Any]:
    shape = binding.shapes.definitions[binding.shapes.inputs[binding.endpoint.input]]
    properties, required = shape.get("properties", {}), shape.get("required", [])
    in_path = binding.path_members
    in_query = [name for name in properties if name not in in_path] if binding.route.method == "GET" else []
    parameters = [
        {
            "name": name,
            "in": "path" if name in in_path else "query",
            "required": name in in_path or name in required,
            "schema": _without_null(properties[name]),
        }
        for name in (*in_path, *in_query)
    ]
    found: dict[str, Any] = {"parameters": parameters} if parameters else {}
    if binding.route.method == "POST":
        found["requestBody"] = _body(binding, shape)
    return found


def _body(binding: Binding, shape: Mapping[str, Any]) -> dict[str, Any]:
    """The input without what the path says."""
    in_path = binding.path_members
    required = [name for name in shape.get("required", []) if name not in in_path]
    schema = {**shape, "properties": {n: s for n, s in shape.get("properties", {}).items() if n not in in_path}}
    schema.pop("required", None)
    if required:
        schema["required"] = required
    body = schema if in_path else {"$ref": REFERENCE.format(model=binding.shapes.inputs[binding.endpoint.input])}
    return {"required": bool(required), "content": {_JSON: {"schema": body}}}


def _without_null(schema: dict[str, Any]) -> dict[str, Any]:
    """A URL cannot say null: an optional member is left out."""
    choices = [choice for choice in schema.get("anyOf", []) if choice.get("type") != "null"]
    if len(choices) != 1:
        return schema
    rest = {key: value for key, value in schema.items() if key not in ("anyOf", "default")}
    return {**choices[0], **rest}


def _responses(binding: Binding) -> dict[str, Any]:
    output = REFERENCE.format(model=binding.shapes.outputs[binding.endpoint.output])
    refused: dict[str, Any] = {
        MEDIA_TYPE: {
            "schema": {"$ref": REFERENCE.format(model=binding.shapes.outputs[Problem])},
            "example": _EXAMPLE.to_wire(),
        }
    }
    if binding.endpoint.error_form is not None:
        shape = binding.endpoint.error_form.shape
        refused = {_JSON: {"schema": {"$ref": REFERENCE.format(model=binding.shapes.outputs[shape])}}}
    return {
        "200": {"description": binding.endpoint.title, "content": {_JSON: {"schema": {"$ref": output}}}},
        "4XX": {"description": "Refused; `code` and `message` say why.", "content": refused},
        "5XX": {"description": "Not answered; `retryable` says whether to try again.", "content": refused},
    }


def _references(schema: Any) -> Iterator[str]:
    """The component names that ``schema`` points to."""
    if isinstance(schema, Mapping):
        found = schema.get("$ref")
        if isinstance(found, str):
            yield found.rpartition("/")[2]
        for value in schema.values():
            yield from _references(value)
    elif isinstance(schema, list):
        for value in schema:
            yield from _references(value)


def _register(registry: ComponentRegistry, schema: Any, definitions: Mapping[str, Any]) -> None:
    """Put every component that ``schema`` reaches into the document."""
    for name in _references(schema):
        component = ResolvedComponent(  # type: ignore[no-untyped-call]
            name=name, type=ResolvedComponent.SCHEMA, object=name, schema=definitions[name]
        )
        if component not in registry:
            registry.register(component)
            _register(registry, definitions[name], definitions)
