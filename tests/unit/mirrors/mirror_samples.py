"""Bundles to read, damage and forge: a small whole one, or one that hypothesis makes up."""

from __future__ import annotations

import io
import json
import uuid
from typing import Any

from hypothesis import strategies as st

from apps.core import json_text
from apps.looms.packages import digest_of
from apps.mirrors.bundles.checking import Content, check_content
from apps.mirrors.bundles.layout import Limits
from apps.mirrors.bundles.reading import Bundle, open_copy
from apps.mirrors.bundles.sources import Source, ZipSource
from apps.mirrors.bundles.taking import take
from apps.mirrors.bundles.writing import Subject, write_bundle

LIMITS = Limits(bundle_bytes=20_000_000, value_bytes=1024 * 1024)
TIME = "2026-11-30T12:00:00.000000Z"
NOTHING = json_text.digest(None)


def number_id(number: int) -> str:
    return str(uuid.UUID(int=number))


def trace(
    *,
    values: list[Any] | None = None,
    texts: list[str] | None = None,
    events: int = 3,
    files: dict[str, bytes] | None = None,
    requires: dict[str, str] | None = None,
) -> tuple[Subject, dict[str, list[dict[str, Any]]], dict[str, bytes]]:
    """What a Run at boundary 1 may leave: ``values`` are its input, State, Artifact, Record, answer and so on."""
    value = iter(
        values or [{"n": 1}, {"count": 2}, {"report": "α"}, [1, None], {"isConfirmed": True}, "done", {"t": 1}]
    )
    text = iter(texts or ["report", "record-1", "note"])
    files = {"loom.yaml": b"loom: x\n", "steps.py": b"\xff\x00"} if files is None else files
    requires = requires or {}
    digest = digest_of(files, requires)
    input_, state, artifact, record, answer, result, tool = (next(value) for _ in range(7))
    artifact_id, record_id, message = (next(text) for _ in range(3))
    place = {"loomName": "inventory", "stageName": "file"}
    written = {"runId": number_id(2), "createdAt": TIME}
    lines: dict[str, list[dict[str, Any]]] = {
        "run.jsonl": [
            {
                "runId": number_id(2), "traceId": number_id(1), "loomName": "inventory", "releaseDigest": digest,
                "exclusive": True, "input": input_,
                "execution": {"source": "cli", "agentExecutor": "service_model", "profile": None},
                "origin": {"operationId": number_id(3), "serviceInstanceId": number_id(4)},
                "restoredFrom": None, "createdAt": TIME,
                "held": {
                    "boundary": 1, "stage": "file", "step": "write", "visit": 1, "outcome": "done", "result": result,
                    "visits": {"file/write": 1}, "stateId": number_id(5),
                    "dependencies": [
                        {
                            "artifactId": artifact_id, **place, "revision": 1, "removed": False,
                            "digest": json_text.digest(artifact),
                        }
                    ],
                    "artifactIds": [artifact_id], "recordIds": [record_id], "reachedAt": TIME,
                },
            }
        ],
        "steps.jsonl": [
            {
                "stepSeq": 0, "stage": "file", "step": "write", "visit": 1, "kind": "step", "segment": 0, "attempt": 1,
                "status": "completed", "outcome": "done", "error": None, "stateId": number_id(5), "boundary": 1,
                "result": result, "eventSeq": events, "reads": [], "writes": [{"recordId": record_id}],
                "queuedAt": TIME, "startedAt": None, "endedAt": TIME,
            }
        ],
        "log.jsonl": [{"stepSeq": 0, "eventSeq": None, "number": 1, "level": "info", "message": message}],
        "states.jsonl": [
            {
                "stateId": number_id(5), "stage": "file", "digest": json_text.digest(state), "data": state,
                "createdAt": TIME,
            }
        ],
        "actions.jsonl": [
            {
                "actionId": number_id(6), "kind": "confirmation", "request": {"context": message}, "onlyPerson": False,
                "answer": answer, "answeredBy": {"via": "native"}, "createdAt": TIME, "answeredAt": TIME,
            }
        ],
        "agent-calls.jsonl": [
            {
                "callId": number_id(7), "agentId": "writer", "stage": "file", "step": "write", "visit": 1,
                "openedSeq": 1, "openedAt": TIME, "claimedBy": None, "claimedAt": None, "closedSeq": 3,
                "closedAt": TIME, "closedAs": "completed", "result": result,
            }
        ],
        "tool-receipts.jsonl": [
            {
                "callId": number_id(7), "toolCallId": message, "toolId": "add", "status": "completed", "input": tool,
                "output": tool, "error": None, "startedSeq": 2, "startedAt": TIME, "settledSeq": 3, "settledAt": TIME,
            }
        ],
        "operations.jsonl": [
            {
                "operationId": number_id(3), "serviceInstanceId": number_id(4), "kind": "run",
                "parametersDigest": NOTHING, "entry": "/mcp", "source": "agent_ide", "principal": "credential:x",
                "revision": 1, "createdAt": TIME, "decidedAt": TIME,
            }
        ],
        "events.jsonl": [
            {"seq": seq, "type": "StepCompleted", "at": TIME, "data": {"boundary": 1, "v": tool}}
            for seq in range(1, events + 1)
        ],
        "artifacts.jsonl": [
            {
                "artifactId": artifact_id, **place, "revision": 1, "removed": False, "data": artifact,
                "digest": json_text.digest(artifact), **written,
            }
        ],
        "records.jsonl": [
            {"recordId": record_id, **place, "digest": json_text.digest(record), "data": record, **written}
        ],
        "release.jsonl": [{"digest": digest, "loomName": "inventory", "requires": requires}],
    }  # fmt: skip
    return Subject(number_id(1), number_id(2), "inventory", digest, 1, events), lines, files


def written(made: Any = None) -> bytes:
    """The zip of a trace."""
    subject, lines, files = made or trace()
    out = io.BytesIO()
    write_bundle(out, subject, lines, files)
    return out.getvalue()


def zip_source(data: bytes, limits: Limits = LIMITS) -> Source:
    return ZipSource(io.BytesIO(data), len(data), limits)


def taken(source: Source, limits: Limits = LIMITS) -> tuple[Bundle, Content]:
    """The bundle taken in and checked in full, as the service does it."""
    out = io.BytesIO()
    manifest = take(source, out)
    bundle = open_copy(out, out.tell(), manifest, limits)
    return bundle, check_content(bundle)


def entries_of(data: bytes) -> dict[str, bytes]:
    """Every entry with its bytes."""
    source = zip_source(data)
    return {name: b"".join(source.chunks(name)) for name in source.sizes}


_KEYS = st.text(st.characters(codec="utf-8", exclude_characters="\x00"), max_size=6)
#: Any JSON of the ledger, odd keys and numbers included.
JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53) + 1, 2**53 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(codec="utf-8", exclude_characters="\x00"), max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_KEYS, inner, max_size=3),
    max_leaves=8,
).map(lambda value: json.loads(json_text.dumps(value)))
PRINTABLE = st.text(st.characters(codec="utf-8", categories=("L", "N", "P", "S")), min_size=1, max_size=30)
PATHS = st.from_regex(r"[a-z]{1,8}(/[a-z]{1,8}){0,2}\.py", fullmatch=True)


@st.composite
def traces(draw: st.DrawFn) -> Any:
    return trace(
        values=draw(st.lists(JSON, min_size=7, max_size=7)),
        texts=draw(st.lists(PRINTABLE, min_size=3, max_size=3)),
        events=draw(st.integers(1, 5)),
        files=draw(st.dictionaries(PATHS, st.binary(max_size=50), max_size=4)),
        requires=draw(st.dictionaries(st.from_regex(r"[a-z]{1,8}", fullmatch=True), st.just("1.0"), max_size=2)),
    )
