"""``completion/complete``: names of Looms, which every Project has alike; ids of other things are not told (E5)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from apps.core.caller import Caller
from apps.core.errors import Issue, invalid_request
from apps.mcp import prompts, resources

#: As many as the protocol allows in one result.
_MOST = 100


def complete(caller: Caller, ref: Mapping[str, Any], argument: Mapping[str, Any]) -> dict[str, Any]:
    """The result; raises :class:`LoomError` for what cannot be completed at all."""
    values = _values(caller, ref, argument["name"], argument["value"].lower())
    return {"completion": {"values": values[:_MOST], "total": len(values), "hasMore": len(values) > _MOST}}


def _values(caller: Caller, ref: Mapping[str, Any], name: str, begun: str) -> list[str]:
    if ref["type"] == "ref/prompt":
        prompts.find(caller, ref["name"], place="/ref/name")
        _check(name, prompts.INPUT)
        return []
    kind = next((kind for kind in resources.KINDS if kind.template == ref["uri"]), None)
    if kind is None:
        hint = "Send the uriTemplate of one of resources/templates/list."
        raise invalid_request("completion/complete", [Issue("choice", "/ref/uri", hint)])
    _check(name, kind.variable)
    if kind is not resources.LOOM:
        return []
    return [loom.loom_name for loom in resources.looms(caller) if loom.loom_name.lower().startswith(begun)]


def _check(name: str, known: str) -> None:
    if name != known:
        raise invalid_request(
            "completion/complete", [Issue("choice", "/argument/name", f"Only `{known}` stands there.")]
        )
