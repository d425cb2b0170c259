"""Endpoints made for the tests of the REST face, and a client for them."""

from __future__ import annotations

import types
import uuid
from collections.abc import Callable
from typing import Any, Literal

from django.db import OperationalError
from django.test import Client

from apps.access.services.credentials import create_credential
from apps.access.services.projects import ensure_default_project
from apps.core import clock
from apps.core.caller import Caller, Source
from apps.core.contracts import Contract, Cursor, Empty, Json, PageLimit, UuidText
from apps.core.endpoints import Endpoint, Kind, Route
from apps.core.errors import ErrorCode, LoomError, not_found

SECRET = "the-database-password"


class ThingRef(Contract):
    thing_id: str


class RunRef(Contract):
    run_id: UuidText


class PauseThing(Contract):
    run_id: UuidText
    operation_id: UuidText
    note: str | None = None
    data: Json = None


class ListThings(Contract):
    limit: PageLimit = 50
    cursor: Cursor | None = None
    status: Literal["queued", "running"] | None = None
    deep: bool | None = None
    code: str | None = None


class Revision(Contract):
    thing_id: str
    revision: int


class Echo(Contract):
    """What arrived, and who sent it."""

    seen: dict[str, Json]
    project: str
    entry: str


class Found(Contract):
    thing: Echo | None


class Failure(Contract):
    kind: str


def echo(caller: Caller, given: Contract) -> Echo:
    return Echo(seen=given.to_wire(), project=caller.project_name, entry=caller.entry)


def find(caller: Caller, given: ThingRef) -> Found:
    return Found(thing=None if given.thing_id == "missing" else echo(caller, given))


def fail(caller: Caller, given: Failure) -> Empty:
    if given.kind == "bug":
        raise RuntimeError(f"SELECT secret FROM /srv/ledger with {SECRET}")
    if given.kind == "database":
        raise OperationalError(f"connection to {SECRET} lost")
    if given.kind == "receipt":
        raise LoomError(
            ErrorCode.BUSY, "Another Run.", attachments={"receipt": {"status": "rejected"}, "run": {"runId": "r"}}
        )
    if given.kind == "later":
        raise LoomError(ErrorCode.RATE_LIMITED, "Later.", retry_after=17)
    if given.kind == "run":
        raise not_found("Run", str(uuid.UUID(int=0)))
    raise LoomError(ErrorCode(given.kind), f"It is {given.kind}.", details={"why": "so"})


def make(
    name: str,
    given: type[Contract],
    handler: Callable[..., Contract],
    route: Route | None,
    output: type[Contract] = Echo,
) -> Endpoint[Any, Any]:
    kind = Kind.READ if route is None or route.method == "GET" else Kind.OPERATION
    return Endpoint(
        name=name, title=name.replace("_", " "), description=f"Sample {name}.", input=given, output=output,
        handler=handler, kind=kind, route=route,
    )  # fmt: skip


ENDPOINTS = (
    make("get_status", Empty, echo, Route("GET", "/status")),
    make("list_things", ListThings, echo, Route("GET", "/things")),
    make("make_thing", ListThings, echo, Route("POST", "/things")),
    make("get_thing", ThingRef, find, Route("GET", "/things/{thingId}", null_is_missing="thing"), Found),
    make("get_revision", Revision, echo, Route("GET", "/things/{thingId}/revisions/{revision}")),
    make("get_run", RunRef, echo, Route("GET", "/runs/{runId}")),
    make("pause_run", PauseThing, echo, Route("POST", "/runs/{runId}/pause")),
    make("fail", Failure, fail, Route("GET", "/failures/{kind}"), Empty),
    make("tool_only", Empty, echo, None),
)


def serve(settings: Any, endpoints: tuple[Endpoint[Any, Any], ...] = ENDPOINTS) -> None:
    """Let Django serve ``endpoints`` and nothing else."""
    from apps.rest.urls import patterns_for

    urlconf = types.ModuleType("sample_urls")
    urlconf.urlpatterns = patterns_for(endpoints)  # type: ignore[attr-defined]
    settings.ROOT_URLCONF = urlconf


def credential(source: Source = Source.STUDIO) -> str:
    project = ensure_default_project(now=clock.now())
    return create_credential(project=project, source=source, label="tests", now=clock.now())[1]


def signed_in(token: str | None = None) -> Client:
    """A client that sends a good credential with every request."""
    return Client(raise_request_exception=False, headers={"authorization": f"Bearer {token or credential()}"})
