"""Asking a client's human for input under a key: one primitive, which each era writes in its own way (H4, N5).

A Tool that needs input returns an :class:`Ask` instead of a result.  It is run again with what was
:class:`Given` under the key of the question, so nothing waits inside a Tool.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from mcp_types.version import is_version_at_least

from apps.core import conf, json_text
from apps.core.caller import Caller
from apps.core.contracts import Contract

METHOD = "elicitation/create"
#: The first revision that can ask at all, and the first that gives options titles as JSON Schema does.
_FIRST, _FIRST_WITH_TITLES = "2025-06-18", "2025-11-25"


class Action(enum.StrEnum):
    """What became of a form."""

    #: It was filled in and sent.
    ACCEPT = "accept"
    #: The human said no to it.
    DECLINE = "decline"
    #: It was closed without a word.
    CANCEL = "cancel"
    #: The client did not show it after all.
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Ask:
    """A form: flat JSON Schema ``properties``, those of ``required`` must be filled in.

    It never asks for a secret: what is typed there passes through the client.
    """

    key: str
    message: str
    properties: Mapping[str, Mapping[str, Any]]
    required: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Given:
    """What came back for the question ``key``; ``content`` is filled for :attr:`Action.ACCEPT` only."""

    key: str
    action: Action
    content: Mapping[str, Any]


#: A Tool that may ask: (caller, raw arguments, what was given) → its result, or what it asks.
Interaction = Callable[[Caller, Any, Given | None], Contract | Ask]


def shows_forms(capabilities: Any, version: str) -> bool:
    """Whether a client that declared ``capabilities`` takes forms; without modes, forms are meant."""
    declared = capabilities.get("elicitation") if isinstance(capabilities, dict) else None
    if not isinstance(declared, dict) or not is_version_at_least(version, _FIRST):
        return False
    return "form" in declared or "url" not in declared


def request_of(ask: Ask, version: str) -> dict[str, Any]:
    """The request to the client, ``{method, params}``, as the revision writes it."""
    titled = is_version_at_least(version, _FIRST_WITH_TITLES)
    properties = {name: dict(shape) if titled else _untitled(shape) for name, shape in ask.properties.items()}
    schema: dict[str, Any] = {"type": "object", "properties": properties}
    if ask.required:
        schema["required"] = list(ask.required)
    params: dict[str, Any] = {"message": ask.message, "requestedSchema": schema}
    return {"method": METHOD, "params": {"mode": "form", **params} if titled else params}


def _untitled(shape: Mapping[str, Any]) -> dict[str, Any]:
    """Options as 2025-06-18 has them: values, with the titles in a list beside."""
    older = {name: value for name, value in shape.items() if name != "oneOf"}
    if "oneOf" in shape:
        older["enum"] = [option["const"] for option in shape["oneOf"]]
        older["enumNames"] = [option["title"] for option in shape["oneOf"]]
    return older


def given_of(key: str, result: Any) -> Given | None:
    """What a client's result says; ``None`` when it is no answer to a form."""
    action = result.get("action") if isinstance(result, dict) else None
    if action not in (Action.ACCEPT, Action.DECLINE, Action.CANCEL):
        return None
    content = result.get("content") if action == Action.ACCEPT else None
    # What no ledger can keep counts as not filled in, and is asked for again.
    fits = isinstance(content, dict) and not json_text.find_issues(content, max_bytes=conf.settings().max_value_bytes)
    return Given(key, Action(action), content if fits and content else {})
