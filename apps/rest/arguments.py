"""From a URL to the JSON arguments that an Endpoint's input contract checks (E3)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, MutableMapping
from typing import Any
from urllib.parse import parse_qsl, unquote

from apps.core import json_text
from apps.core.errors import Issue, invalid_request

_INTEGER = re.compile(r"-?(0|[1-9][0-9]*)")
_BOOLEANS = {"true": True, "false": False}


def _types(schema: Mapping[str, Any], definitions: Mapping[str, Any]) -> Iterator[str]:
    """The JSON types that ``schema`` takes at its top level."""
    if "$ref" in schema:
        yield from _types(definitions[schema["$ref"].rpartition("/")[2]], definitions)
    for choice in (*schema.get("anyOf", ()), *schema.get("oneOf", ())):
        yield from _types(choice, definitions)
    declared = schema.get("type", ())
    yield from [declared] if isinstance(declared, str) else declared


#: Stands for a slash that a client percent-encoded.  A character of private use: no id holds it.
_ENCODED_SLASH = "\ue02f"


def with_encoded_slashes(scope: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """The ASGI ``scope`` with a path in which an encoded slash divides no segments.

    Servers decode the path, and ``/artifacts/a%2Frevisions`` would ask for the revisions of ``a``.
    """
    raw = scope.get("raw_path") or b""
    if b"%2f" not in raw.lower():
        return scope
    segments = raw.decode("ascii", "replace").split("/")
    return {**scope, "path": "/".join(unquote(segment).replace("/", _ENCODED_SLASH) for segment in segments)}


def from_path(text: str, member: str, schema: Mapping[str, Any]) -> Any:
    """The value of ``member`` in the path."""
    return coerce(text.replace(_ENCODED_SLASH, "/"), member, schema)


def coerce(text: str, member: str, schema: Mapping[str, Any]) -> Any:
    """URL text as the JSON type that ``member`` of the input ``schema`` has.

    Only integers and booleans are turned, and only when written as JSON writes them; anything else
    stays text, so ``020`` is no number and the contract says what it expected.
    """
    types = set(_types(schema.get("properties", {}).get(member, {}), schema.get("$defs", {})))
    if "string" in types:
        return text
    if "integer" in types and _INTEGER.fullmatch(text):
        return json_text.parse(text)
    if "boolean" in types and text in _BOOLEANS:
        return _BOOLEANS[text]
    return text


def from_query(query: str, schema: Mapping[str, Any], contract: str) -> dict[str, Any]:
    """The members in a query string; a repeated one is an issue, an unknown one is left to the contract."""
    try:
        pairs = parse_qsl(query, keep_blank_values=True, encoding="utf-8", errors="strict")
    except UnicodeDecodeError:
        raise invalid_request(contract, [Issue("encoding", "", "Percent-encode the query as UTF-8.")]) from None
    members = json_text.DuplicateKeys((name, coerce(text, name, schema)) for name, text in pairs)
    names = [name for name, _ in pairs]
    members.duplicates = tuple(name for name in members if names.count(name) > 1)
    return members


def refuse_query(query: str, contract: str) -> None:
    """A request with a body has its members there."""
    issues = [
        Issue("unknown_member", json_text.pointer([name]), "Send members in the JSON body, not in the query.")
        for name, _ in parse_qsl(query, keep_blank_values=True)
    ]
    if issues:
        raise invalid_request(contract, issues)


def with_path(members: Any, path: Mapping[str, Any], contract: str) -> Any:
    """``members`` and those the path names; naming one twice with two values is an issue.

    Whatever is no object is handed on as it is, for the contract to refuse.
    """
    if not isinstance(members, dict):
        return members
    issues = [
        Issue("conflict", json_text.pointer([name]), f"Leave `{name}` out; the path already says it.")
        for name, value in path.items()
        if name in members and members[name] != value
    ]
    if issues:
        raise invalid_request(contract, issues)
    # In place: the marks that the parser left on a member named twice must not be lost.
    members.update(path)
    return members
