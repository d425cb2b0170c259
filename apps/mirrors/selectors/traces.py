"""A Run's trace at a boundary, as the lines of a Mirror (M1)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict
from typing import Any

from apps.core import clock
from apps.core.errors import ErrorCode, LoomError
from apps.ledger.selectors.mirroring import event_lines, operation_lines
from apps.looms.selectors.releases import StoredRelease
from apps.mirrors.bundles.writing import Line, Subject
from apps.mirrors.domain.operations import TELLING, group_of, made_before
from apps.results.selectors.mirroring import artifact_line, record_lines, revision_keys
from apps.runs.domain.boundaries import HeldBoundary
from apps.runs.domain.statuses import EventType
from apps.runs.selectors import mirroring as runs

_CALL_EVENTS = (EventType.AGENT_CALL_OPENED, EventType.AGENT_CALL_CLAIMED, EventType.AGENT_CALL_CLOSED)
_TOOL_EVENTS = (EventType.TOOL_CALL_STARTED, EventType.TOOL_CALL_SETTLED)


def subject_of(held: HeldBoundary) -> Subject:
    """What its Mirror is of."""
    return Subject(
        trace_id=str(held.trace_id),
        run_id=str(held.run_id),
        loom_name=held.loom_name,
        release_digest=held.release_digest,
        boundary=held.boundary,
        event_seq=held.event_seq,
    )


def trace_lines(held: HeldBoundary, release: StoredRelease) -> Mapping[str, Iterator[Line]]:
    """The lines of each file; each is read from the ledger as it is asked for."""
    artifacts, records = runs.touched_artifacts(held.run_id, before=held.step_seq)
    return {
        "actions.jsonl": _actions(held),
        "agent-calls.jsonl": _agent_calls(held),
        "artifacts.jsonl": _artifacts(held, artifacts),
        "events.jsonl": _events(held),
        "log.jsonl": _log(held),
        "operations.jsonl": _operations(held),
        "records.jsonl": record_lines(project_id=held.project_id, record_ids={*records, *held.record_ids}),
        "release.jsonl": iter([_release(release)]),
        "run.jsonl": _run(held),
        "states.jsonl": runs.state_lines(held.run_id, before=held.step_seq, also=held.state.id if held.state else None),
        "steps.jsonl": runs.step_lines(held.run_id, before=held.step_seq),
        "tool-receipts.jsonl": _tool_receipts(held),
    }


def _release(release: StoredRelease) -> Line:
    return {"digest": release.digest, "loomName": release.loom_name, "requires": dict(release.requires)}


def _run(held: HeldBoundary) -> Iterator[Line]:
    yield {
        "runId": str(held.run_id),
        "traceId": str(held.trace_id),
        "loomName": held.loom_name,
        "releaseDigest": held.release_digest,
        "exclusive": held.exclusive,
        "input": held.input,
        **runs.run_members(held.run_id),
        "held": {
            "boundary": held.boundary,
            **asdict(held.position),
            "outcome": held.outcome,
            "result": held.result,
            "visits": dict(held.visits),
            "stateId": str(held.state.id) if held.state else None,
            "dependencies": [
                {
                    "artifactId": one.artifact_id,
                    "loomName": one.loom_name,
                    "stageName": one.stage_name,
                    "revision": one.revision,
                    "digest": one.digest,
                    "removed": one.removed,
                }
                for one in held.dependencies
            ],
            "artifactIds": list(held.artifact_ids),
            "recordIds": list(held.record_ids),
            "reachedAt": clock.to_wire(held.reached_at),
        },
    }


def _events(held: HeldBoundary) -> Iterator[Line]:
    for event in event_lines(held.run_id, up_to=held.event_seq):
        # What a Tool call logged stands with the rest of the log.
        data = {name: value for name, value in event["data"].items() if name != "log"} if _logged(event) else None
        yield event if data is None else {**event, "data": data}


def _logged(event: Line) -> bool:
    return event["type"] == EventType.TOOL_CALL_SETTLED and "log" in event["data"]


def _log(held: HeldBoundary) -> Iterator[Line]:
    yield from runs.log_lines(held.run_id, before=held.step_seq)
    settled = event_lines(held.run_id, up_to=held.event_seq, types=[EventType.TOOL_CALL_SETTLED])
    for event in filter(_logged, settled):
        for number, line in enumerate(event["data"]["log"], start=1):
            yield {"stepSeq": None, "eventSeq": event["seq"], "number": number, **line}


def _actions(held: HeldBoundary) -> Iterator[Line]:
    waited = event_lines(held.run_id, up_to=held.event_seq, types=[EventType.STEP_WAITED])
    asked = {event["data"]["actionId"] for event in waited if "actionId" in event["data"]}
    yield from runs.action_lines(held.run_id, asked)


def _operations(held: HeldBoundary) -> Iterator[Line]:
    events = event_lines(held.run_id, up_to=held.event_seq, types=TELLING)
    left = made_before((event["type"], event["data"]) for event in events)
    for operation in operation_lines(held.run_id):
        group = group_of(operation["kind"])
        if left[group]:
            left[group] -= 1
            yield operation


def _agent_calls(held: HeldBoundary) -> Iterator[Line]:
    opened: dict[str, Any] = {}
    for event in event_lines(held.run_id, up_to=held.event_seq, types=_CALL_EVENTS):
        data, at = event["data"], event["at"]
        if event["type"] == EventType.AGENT_CALL_OPENED:
            opened = {
                **{name: data[name] for name in ("callId", "agentId", "stage", "step", "visit")},
                "openedSeq": event["seq"],
                "openedAt": at,
                "claimedBy": None,
                "claimedAt": None,
            }
        elif event["type"] == EventType.AGENT_CALL_CLAIMED:
            opened = {**opened, "claimedBy": data["claimedBy"], "claimedAt": at}
        else:
            closed = {"closedSeq": event["seq"], "closedAt": at, "closedAs": data["closedAs"]}
            yield {**opened, **closed, "result": data.get("result")}


def _tool_receipts(held: HeldBoundary) -> Iterator[Line]:
    started: dict[tuple[str, str], Line] = {}
    for event in event_lines(held.run_id, up_to=held.event_seq, types=_TOOL_EVENTS):
        data = event["data"]
        key = (data["callId"], data["toolCallId"])
        if event["type"] == EventType.TOOL_CALL_STARTED:
            started[key] = event
            continue
        began = started.pop(key)
        yield {
            **{name: data[name] for name in ("callId", "toolCallId", "toolId", "status")},
            "input": began["data"]["input"],
            "output": data.get("output"),
            "error": data.get("error"),
            "startedSeq": began["seq"],
            "startedAt": began["at"],
            "settledSeq": event["seq"],
            "settledAt": event["at"],
        }


def _artifacts(held: HeldBoundary, touched: set[tuple[str, str, str, int]]) -> Iterator[Line]:
    """The revisions read or written; what a restored Run brought along and its Project never had, too."""
    last_seen = {(one.loom_name, one.stage_name, one.artifact_id, one.revision): one for one in held.dependencies}
    found = {
        (key.loom_name, key.stage_name, key.revision, key.artifact_id): key
        for key in revision_keys(project_id=held.project_id, wanted=touched | last_seen.keys())
        # A restored Run's number may be another revision's here; what it saw is told by the digest.
        if (one := last_seen.get((key.loom_name, key.stage_name, key.artifact_id, key.revision))) is None
        or one.digest == key.digest
    }
    # Numbered as where it came from, it may have the number of another Artifact that stood at its place here.
    brought = {
        key: one
        for one in held.dependencies
        if (key := (one.loom_name, one.stage_name, one.revision, one.artifact_id)) not in found
    }
    for key in sorted({*found, *brought}):
        if key in found:
            yield artifact_line(found[key].key)
            continue
        one = brought[key]
        data = None
        if not one.removed:
            kept = runs.kept_artifacts(held.run_id, [one.digest])
            found_data = [value for artifact_id, _, value in kept if artifact_id == one.artifact_id]
            if not found_data:
                raise LoomError(
                    ErrorCode.CONFLICT,
                    f"What the Run saw of Artifact {one.artifact_id} is not kept in this Project, so no Mirror of this "
                    "boundary can be whole. Export it where the Run came from, or at a later boundary.",
                )
            data = found_data[0]
        yield {
            "artifactId": one.artifact_id,
            "loomName": one.loom_name,
            "stageName": one.stage_name,
            "revision": one.revision,
            "removed": one.removed,
            "digest": one.digest,
            "data": data,
            "runId": str(held.run_id),
            "createdAt": clock.to_wire(held.reached_at),
        }
