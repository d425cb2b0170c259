"""How reasoning goes on and how it ends: usage, limits, access to a model, and the three endings (B3, B9)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from apps.core.errors import Issue

#: What a Tool does with its arguments.
ToolFunction = Callable[[dict[str, Any]], Any]
#: What keeps an output from being one.
Check = Callable[[Any], list[Issue]]


@dataclass(frozen=True, slots=True)
class Usage:
    """What was used so far.  A request counts once it went out, whatever came back; tokens as the provider says."""

    requests: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    tool_calls: int = 0

    @property
    def total_tokens(self) -> int:
        return self.input_tokens + self.output_tokens

    def plus(self, *, requests: int = 0, input_tokens: int = 0, output_tokens: int = 0, tool_calls: int = 0) -> Usage:
        """The sum, as a new value."""
        return Usage(
            self.requests + requests,
            self.input_tokens + input_tokens,
            self.output_tokens + output_tokens,
            self.tool_calls + tool_calls,
        )


@dataclass(frozen=True, slots=True)
class Limits:
    """Where reasoning is ended if the model does not end it.  Durations are seconds.

    ``turns``: responses of the model.  ``request_retries``: further tries at one request that the provider
    did not take, after ``retry_seconds`` and twice as long each time, or as the provider says; none is waited for
    longer than ``retry_wait_seconds``.
    """

    turns: int = 40
    tool_calls: int = 256
    seconds: float = 1800
    request_seconds: float = 300
    output_repairs: int = 3
    request_retries: int = 2
    retry_seconds: float = 1
    retry_wait_seconds: float = 30
    max_value_bytes: int = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Access:
    """How a model is reached.

    ``kind`` names the wire: ``offline``, ``openai``, ``anthropic``.  ``provider`` is the id that a key is kept
    for, ``model`` the provider's own name of the model.  ``allowed_hosts``: hosts (``name`` or ``name:port``)
    that may be reached though their address is not public (B6).  ``script``: what the offline model plays.
    """

    kind: str
    provider: str
    model: str
    base_url: str | None = None
    api_key: str | None = field(default=None, repr=False)
    allowed_hosts: frozenset[str] = frozenset()
    stream: bool = False
    max_tokens: int | None = None
    needs_key: bool = True
    script: Any = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class Succeeded:
    """The output fits the program's schema."""

    output: Any
    usage: Usage


@dataclass(frozen=True, slots=True)
class Failed:
    """Why there is no output: ``code`` is an error code in lower case (B4), ``reason`` a word for programs.

    ``message`` holds nothing that a provider sent.  ``recovery`` says what can be done: ``{"action": …, …}``.
    """

    code: str
    reason: str
    message: str
    usage: Usage
    recovery: dict[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class Cancelled:
    """It was stopped at a boundary; nothing went out after it."""

    usage: Usage


Ended = Succeeded | Failed | Cancelled


class ToolRefused(Exception):
    """Raised by a Tool for what the model should read; it may go on."""


class Stopped(Exception):
    """Raised by a Tool when the work is not the caller's any more: reasoning ends as :class:`Cancelled`."""
