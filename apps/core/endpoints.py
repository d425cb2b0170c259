"""An Endpoint is declared once and served by every face.

The MCP Tool with its schemas, the REST view, the OpenAPI document and the command all come from
the one declaration; a face only finds out who calls, validates, makes one call and renders.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from apps.core.caller import Caller, Source
from apps.core.contracts import Contract
from apps.core.errors import LoomError

I = TypeVar("I", bound=Contract)
O = TypeVar("O", bound=Contract)


class Kind(enum.StrEnum):
    """What a call does to the ledger."""

    READ = "read"
    #: Carries ``operationId`` and ``serviceInstanceId``; admitted through the operations ledger.
    OPERATION = "operation"
    #: Work at an agent call: its own ids (``claimId``, ``toolCallId``) make it safe to repeat.
    AGENT = "agent"
    #: Work at a background agent, proven by its session's secret.
    SESSION = "session"
    #: A write that names what is to be there afterwards: repeating it changes nothing.
    IDEMPOTENT = "idempotent"


@dataclass(frozen=True, slots=True)
class Route:
    """The REST address under ``/api/v1``.  ``{name}`` segments are members of the input contract."""

    method: str
    path: str
    #: Output members whose ``null`` means "no such thing" over REST (E4): answered 404.
    null_is_missing: str | None = None


@dataclass(frozen=True, slots=True)
class ErrorForm:
    """The body of an Endpoint's errors where it is not E1's (B4)."""

    shape: type[Contract]
    render: Callable[[LoomError], Contract]


@dataclass(frozen=True)
class Endpoint(Generic[I, O]):
    """One thing a caller can do.

    ``handler`` takes the :class:`Caller` and the validated input and returns the output contract or
    raises :class:`~apps.core.errors.LoomError`.  It may use the database and may block.
    """

    name: str
    title: str
    description: str
    input: type[I]
    output: type[O]
    handler: Callable[[Caller, I], O]
    kind: Kind
    route: Route | None = None
    destructive: bool = False
    #: Whether the same call again changes nothing more.
    idempotent: bool = True
    #: Whether it may reach beyond the service.
    open_world: bool = False
    #: Whether a call may take as long as an author's code does: it waits on threads of its own.
    long_running: bool = False
    #: Where the Tool is listed; ``None`` means every Entry.
    sources: frozenset[Source] | None = None
    #: False: a REST-only view (lists of events, revisions, …), not an MCP Tool.
    tool: bool = True
    #: ``None``: as rule E1 has it.
    error_form: ErrorForm | None = None

    @property
    def read_only(self) -> bool:
        return self.kind is Kind.READ

    def call(self, caller: Caller, arguments: Any) -> O:
        """Validate raw JSON ``arguments`` and run the handler."""
        return self.handler(caller, self.input.parse(arguments))

    def refusal(self, error: LoomError) -> dict[str, Any]:
        """The structured result for ``error``, with what it brings along."""
        if self.error_form is not None:
            return self.error_form.render(error).to_wire()
        return {"error": error.to_wire(), **error.attachments}


_registry: dict[str, Endpoint[Any, Any]] = {}


def register(endpoint: Endpoint[I, O]) -> Endpoint[I, O]:
    """Make ``endpoint`` known to every face; a name is registered once."""
    if endpoint.name in _registry:
        raise ValueError(f"Endpoint {endpoint.name} is registered twice")
    _registry[endpoint.name] = endpoint
    return endpoint


def all_endpoints() -> Iterator[Endpoint[Any, Any]]:
    """Every Endpoint, in the order of registration."""
    yield from _registry.values()


def tools_for(source: Source) -> list[Endpoint[Any, Any]]:
    """The Endpoints that are Tools at an Entry of ``source``."""
    return [e for e in _registry.values() if e.tool and (e.sources is None or source in e.sources)]
