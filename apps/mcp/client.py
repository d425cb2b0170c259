"""A client of the running service, found through ``connection.json`` (N4).

It speaks the stateless revision, so a call is one POST and one answer; see docs/decisions/0010.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any

import httpx
from mcp_types import CLIENT_CAPABILITIES_META_KEY, PROTOCOL_VERSION_META_KEY

from apps.access.connection import find_running
from apps.core import json_text
from apps.core.errors import ErrorCode, LoomError, invalid_request
from apps.mcp.protocol import METHOD_HEADER, MODERN_VERSIONS, NAME_HEADER, VERSION_HEADER

_VERSION = MODERN_VERSIONS[-1]
#: Seconds until a service that says nothing is given up.
_CONNECT_SECONDS = 5
_ANSWER_SECONDS = 60
#: What helps when the service refuses a credential of its own connection file.
NOT_TAKEN = "The service takes the credential in connection.json no more; `loomsvc up`, started anew, makes another."


class NotRunning(Exception):
    """No service answers for the data folder."""

    def __init__(self, folder: Path) -> None:
        super().__init__(
            f"No loomsvc runs on {folder}. Start it with `loomsvc up`, or name its data folder with --data."
        )


class AnswerLost(Exception):
    """A request went out and no answer came: what it did is not known here."""


class Service:
    """Calls of one Entry's Tools, and reads of the REST face."""

    def __init__(self, http: httpx.Client, connection: Mapping[str, Any], entry: str, folder: Path) -> None:
        self._http = http
        self._entry = connection["entries"][entry]
        self._studio = connection["entries"]["studio"]
        self._folder = folder
        self._ids = count(1)

    def call(self, tool: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """The Tool's structured result.

        Raises :class:`LoomError` as the service meant it, :class:`NotRunning`, or :class:`AnswerLost`.
        """
        meta = {PROTOCOL_VERSION_META_KEY: _VERSION, CLIENT_CAPABILITIES_META_KEY: {}}
        message = {
            "jsonrpc": "2.0",
            "id": next(self._ids),
            "method": "tools/call",
            "params": {"name": tool, "arguments": dict(arguments), "_meta": meta},
        }
        headers = {
            **_bearer(self._entry),
            "accept": "application/json, text/event-stream",
            VERSION_HEADER: _VERSION,
            METHOD_HEADER: "tools/call",
            NAME_HEADER: tool,
        }
        body = self._answer("POST", self._entry["path"], json=message, headers=headers)
        result = body.get("result")
        if not isinstance(result, dict) or not isinstance(result.get("structuredContent"), dict):
            raise _refused(body)
        structured: dict[str, Any] = result["structuredContent"]
        if result.get("isError"):
            raise _told(structured)
        return structured

    def attempts(self, run_id: str, *, most: int = 200) -> list[dict[str, Any]]:
        """A Run's attempts, at most the first ``most``."""
        found: list[dict[str, Any]] = self._page(run_id, "attempts", {"limit": most})["attempts"]
        return found

    def answer_to(self, run_id: str, action_id: str) -> dict[str, Any] | None:
        """The event that says who answered an Action and when; ``None`` while nobody has."""
        where: dict[str, Any] = {"limit": 200}
        while True:
            page = self._page(run_id, "events", where)
            for event in page["events"]:
                if event["type"] == "ActionAnswered" and event["data"]["actionId"] == action_id:
                    found: dict[str, Any] = event
                    return found
            if "nextCursor" not in page:
                return None
            where["cursor"] = page["nextCursor"]

    def _page(self, run_id: str, what: str, where: Mapping[str, Any]) -> dict[str, Any]:
        """A page of what only REST lists of a Run, so read with the operator's studio credential."""
        page = self._answer("GET", f"/api/v1/runs/{run_id}/{what}", params=where, headers=_bearer(self._studio))
        if what not in page:
            raise _refused(page)
        return page

    def _answer(self, method: str, path: str, **options: Any) -> dict[str, Any]:
        try:
            response = self._http.request(method, path, **options)
        except (httpx.ConnectError, httpx.ConnectTimeout):
            raise NotRunning(self._folder) from None
        except httpx.HTTPError as error:
            raise AnswerLost(f"The service gave no answer ({type(error).__name__}).") from None
        try:
            body = json_text.parse(response.content)
        except json_text.NotJson:
            body = None
        if not isinstance(body, dict):
            raise LoomError(ErrorCode.UNAVAILABLE, f"What answers there is not loomsvc (HTTP {response.status_code}).")
        if response.status_code == httpx.codes.INTERNAL_SERVER_ERROR:
            # It failed, or was stopped, amid the request: nobody can say what of it was done.
            raise AnswerLost(_refused(body).message)
        return body


def _told(structured: dict[str, Any]) -> LoomError:
    """The Tool's refusal, in either form (E1, B4)."""
    error = structured.pop("error")
    refusal = _of_envelope(error) if "request_id" in structured else LoomError.from_wire(error)
    refusal.attachments = structured
    return refusal


def _of_envelope(error: Mapping[str, Any]) -> LoomError:
    recovery = error["recovery"]
    page = f" {recovery['setup_url']}" if recovery and recovery.get("setup_url") else ""
    refusal = LoomError.from_wire({**error, "code": error["code"].upper(), "message": f"{error['message']}{page}"})
    # Its message is the same whatever is wrong; ours names the first place.
    return invalid_request(refusal.contract or "", refusal.issues) if refusal.issues else refusal


def _bearer(entry: Mapping[str, Any]) -> dict[str, str]:
    return {"authorization": f"Bearer {entry['token']}"}


def _refused(body: Mapping[str, Any]) -> LoomError:
    """A refusal before any Tool was reached: of the credential, or of the request as such."""
    rpc = body.get("error")
    wire = rpc.get("data") if isinstance(rpc, dict) else body
    if not isinstance(wire, dict) or "code" not in wire:
        message = rpc.get("message") if isinstance(rpc, dict) else None
        return LoomError(ErrorCode.UNAVAILABLE, str(message or "The service refused the request."))
    refusal = LoomError.from_wire(wire)
    if refusal.code is ErrorCode.UNAUTHENTICATED:
        return LoomError(refusal.code, NOT_TAKEN)
    return refusal


@contextmanager
def connect(folder: Path, *, entry: str = "cli") -> Iterator[Service]:
    """The service that runs on ``folder``; raises :class:`NotRunning`."""
    connection = find_running(folder)
    if connection is None or entry not in connection["entries"]:
        raise NotRunning(folder)
    timeout = httpx.Timeout(_ANSWER_SECONDS, connect=_CONNECT_SECONDS)
    # Straight to loopback: a proxy from the environment would see the credential.
    with httpx.Client(base_url=connection["url"], timeout=timeout, trust_env=False) as http:
        yield Service(http, connection, entry, folder)
