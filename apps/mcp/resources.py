"""Resources: what can be read under an address of its own, for people to attach and for agents to point at (N5).

Each kind is declared once and read by the handler of an Endpoint, so who may see what, and what an id
that is unknown or another Project's is told (E5), is decided where the Tools have it decided.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

from apps.core import json_text
from apps.core.addresses import address
from apps.core.caller import Caller
from apps.core.contracts import Contract, Empty
from apps.core.errors import ErrorCode, Issue, LoomError, invalid_request, not_found
from apps.looms.contracts import LoomSummary
from apps.looms.endpoints import list_looms
from apps.results.contracts import ArtifactMetadata
from apps.results.endpoints import ARTIFACT_BY_ID, GET_RECORD, LIST_ARTIFACTS
from apps.runs.endpoints import GET_RUN

MIME_TYPE = "application/json"
#: A client puts a resource into a conversation as a whole, so less is let through than a Tool may return.
MOST_BYTES = 256 * 1024
#: The longest id there is: 200 characters of four bytes, each byte escaped.
MOST_OF_A_URI = 2500
_URI = re.compile(r"loom://([a-z]+)/([^/?#\x00-\x20\x7f]+)")
_BAD_ESCAPE = re.compile(r"%(?![0-9A-Fa-f]{2})")


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of thing that has addresses.  ``instead`` is the Tool that reads what is too large here."""

    name: str
    folder: str
    variable: str
    description: str
    instead: str
    read: Callable[[Caller, str], Contract | None]

    @property
    def template(self) -> str:
        return f"loom://{self.folder}/{{{self.variable}}}"

    def uri_of(self, value: str) -> str:
        """The address of one thing."""
        return address(self.folder, value)


def looms(caller: Caller) -> list[LoomSummary]:
    """Every Loom, as ``list_looms`` shows it."""
    return list_looms(caller, Empty()).looms


def _loom(caller: Caller, name: str) -> Contract | None:
    return next((loom for loom in looms(caller) if loom.loom_name == name), None)


def _run(caller: Caller, run_id: str) -> Contract:
    return GET_RUN.call(caller, {"runId": run_id}).run


def _artifact(caller: Caller, artifact_id: str) -> Contract | None:
    return ARTIFACT_BY_ID.call(caller, {"artifactId": artifact_id}).artifact


def _record(caller: Caller, record_id: str) -> Contract | None:
    return GET_RECORD.call(caller, {"recordId": record_id}).record


LOOM = Kind(
    "Loom", "looms", "name", "A Loom as `list_looms` shows it, with the schema of its input.", "list_looms", _loom
)
RUN = Kind("Run", "runs", "id", "A Run as it stands, as `get_run` shows it.", "get_run", _run)
ARTIFACT = Kind("Artifact", "artifacts", "id", "The current Artifact with its data.", "get_artifact", _artifact)
RECORD = Kind("Record", "records", "id", "A Record with its data.", "get_record", _record)
KINDS = (LOOM, RUN, ARTIFACT, RECORD)


def templates() -> dict[str, Any]:
    """The result of ``resources/templates/list``."""
    return {
        "resourceTemplates": [
            {
                "uriTemplate": kind.template,
                "name": kind.name.lower(),
                "title": kind.name,
                "description": kind.description,
                "mimeType": MIME_TYPE,
            }
            for kind in KINDS
        ]
    }


def page(caller: Caller, cursor: str | None) -> dict[str, Any]:
    """The result of ``resources/list``: the Looms, then the Project's Artifacts, a page at a time."""
    artifacts = LIST_ARTIFACTS.call(caller, {} if cursor is None else {"cursor": cursor}).artifacts
    listed = [_listed_loom(loom) for loom in looms(caller)] if cursor is None else []
    result: dict[str, Any] = {"resources": [*listed, *map(_listed_artifact, artifacts.data)]}
    return result if artifacts.next_cursor is None else {**result, "nextCursor": artifacts.next_cursor}


def read(caller: Caller, uri: str) -> dict[str, Any]:
    """The result of ``resources/read``; raises :class:`LoomError`."""
    kind, value = _parse(uri)
    try:
        found = kind.read(caller, value)
    except LoomError as error:
        if error.code is not ErrorCode.INVALID_REQUEST:
            raise
        raise _no_address(issue.suggestion for issue in error.issues) from None
    if found is None:
        raise not_found(kind.name, value)
    text = json_text.canonical(found.to_wire())
    if len(text) > MOST_BYTES:
        message = (
            f"This {kind.name} has {len(text)} bytes of JSON and a resource has {MOST_BYTES} at most; "
            f"read it with the Tool {kind.instead}."
        )
        raise LoomError(ErrorCode.PAYLOAD_TOO_LARGE, message)
    return {"contents": [{"uri": uri, "mimeType": MIME_TYPE, "text": text.decode()}]}


def _parse(uri: str) -> tuple[Kind, str]:
    """What kind of thing the address is of, and which; nothing in it is ever a path."""
    match = _URI.fullmatch(uri) if len(uri) <= MOST_OF_A_URI else None
    kind = next((kind for kind in KINDS if match is not None and match[1] == kind.folder), None)
    if match is None or kind is None:
        forms = ", ".join(kind.template for kind in KINDS)
        raise _no_address([f"Send one of {forms}; at most {MOST_OF_A_URI} characters, the last part percent-encoded."])
    if _BAD_ESCAPE.search(match[2]):
        raise _no_address(["Write a percent sign as %25; two hexadecimal digits follow any other."])
    # What is no UTF-8 becomes lone surrogates, which no id has.
    return kind, unquote(match[2], errors="surrogateescape")


def _no_address(suggestions: Iterable[str]) -> LoomError:
    return invalid_request("resources/read", [Issue("pattern", "/uri", suggestion) for suggestion in suggestions])


def _listed_loom(loom: LoomSummary) -> dict[str, Any]:
    description = f"Loom, {loom.status}: {loom.description}" if loom.description else f"Loom, {loom.status}"
    return {
        "uri": LOOM.uri_of(loom.loom_name),
        "name": loom.loom_name,
        "title": loom.title,
        "description": description,
        "mimeType": MIME_TYPE,
    }


def _listed_artifact(artifact: ArtifactMetadata) -> dict[str, Any]:
    return {
        "uri": ARTIFACT.uri_of(artifact.artifact_id),
        "name": artifact.artifact_id,
        "title": f"{artifact.loom_name} · {artifact.stage_name}",
        "description": f"Artifact, revision {artifact.revision}, of Run {artifact.run_id}",
        "mimeType": MIME_TYPE,
        "annotations": {"lastModified": artifact.updated_at},
    }
