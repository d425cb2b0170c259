"""Running a leased segment's Code, outside any transaction."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TypeVar

from django.db import connection, connections

from apps.core import conf
from apps.core.database import DATABASE_TROUBLE
from apps.core.ids import new_id
from apps.looms import segments
from apps.looms.segments import AnswerInput, ArtifactValue, RecordValue, SegmentInput, SegmentOutput
from apps.results.contracts import ArtifactDetail, RecordDetail
from apps.results.selectors import results
from apps.runs.domain.statuses import RunStatus
from apps.runs.models import Run
from apps.runs.services.leasing import Leased

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class LedgerReader:
    """What Code may read: Artifacts and Records of its own Project."""

    project_id: uuid.UUID

    def artifact_at(self, loom_name: str, stage_name: str) -> ArtifactValue | None:
        place = {"loom_name": loom_name, "stage_name": stage_name}
        return _artifact(off_the_loop(lambda: results.artifact_at(project_id=self.project_id, **place)))

    def artifact(self, artifact_id: str) -> ArtifactValue | None:
        return _artifact(
            off_the_loop(lambda: results.artifact_by_id(project_id=self.project_id, artifact_id=artifact_id))
        )

    def record(self, record_id: str) -> RecordValue | None:
        return _record(off_the_loop(lambda: results.record_by_id(project_id=self.project_id, record_id=record_id)))

    def latest_record(self, loom_name: str, stage_name: str) -> RecordValue | None:
        place = {"loom_name": loom_name, "stage_name": stage_name}
        return _record(off_the_loop(lambda: results.latest_record(project_id=self.project_id, **place)))


def off_the_loop(read: Callable[[], T]) -> T:
    """Read the ledger from Code, ``async`` Code included: Django refuses to in a thread that runs an event loop."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return _again_if_cut(read)

    def read_and_close() -> T:
        try:
            return read()
        finally:
            connections.close_all()

    with ThreadPoolExecutor(max_workers=1) as thread:
        return thread.submit(read_and_close).result()


def _again_if_cut(read: Callable[[], T]) -> T:
    """``read``, on a new connection when the one that Code has held all the while was cut."""
    try:
        return read()
    except DATABASE_TROUBLE:
        connection.close()
        return read()


def _artifact(found: ArtifactDetail | None) -> ArtifactValue | None:
    if found is None:
        return None
    return ArtifactValue(found.artifact_id, found.loom_name, found.stage_name, found.revision, found.data)


def _record(found: RecordDetail | None) -> RecordValue | None:
    return None if found is None else RecordValue(found.record_id, found.loom_name, found.stage_name, found.data)


def idempotency_key(leased: Leased) -> str:
    """The same for all attempts at one segment of a visit, another for any other (R12)."""
    where = leased.position
    return str(uuid.uuid5(leased.run_id, f"{where.stage}/{where.step}/{where.visit}/{leased.due.segment}"))


def _cancelled(leased: Leased) -> Callable[[], bool]:
    def asked() -> bool:
        held = Run.objects.filter(pk=leased.run_id, fence=leased.fence, status=RunStatus.RUNNING)
        return not off_the_loop(held.exists)

    return asked


def execute(leased: Leased) -> SegmentOutput:
    """Run the segment's Code.  Never raises: whatever Code does is in the output."""
    assert not connection.in_atomic_block, "Code never runs inside a transaction"
    key = idempotency_key(leased)
    previous = leased.previous
    answer = leased.answer
    return segments.run_segment(
        SegmentInput(
            run_id=str(leased.run_id),
            loom=leased.loom,
            kind=segments.SegmentKind(leased.due.kind.value),
            stage=leased.position.stage,
            step=leased.position.step,
            visit=leased.position.visit,
            attempt=leased.due.attempts + 1,
            idempotency_key=key,
            input=leased.input,
            previous=previous["value"] if previous else None,
            previous_step=(previous["stage"], previous["step"]) if previous else None,
            state=leased.state,
            continuation=leased.due.continuation,
            answer=AnswerInput(answer["kind"], answer["value"]) if answer else None,
            now=leased.segment_time,
            seed=key,
            results=LedgerReader(leased.project_id),
            cancelled=_cancelled(leased),
            new_id=lambda: str(new_id()),
            max_value_bytes=conf.settings().max_value_bytes,
            # Code with a timeout has a thread of its own, and what it read a connection of its own.
            thread_done=connections.close_all,
        )
    )
