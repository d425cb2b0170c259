"""What must hold in every ledger, whatever was done to the service: plain SQL and the effect file, no tolerance."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import psycopg

#: Each statement finds what must not be.
FORBIDDEN = {
    "an accepted `run` without its one Run": """
        SELECT o.operation_id, count(r.id) FROM ledger_operation o
        LEFT JOIN runs_run r ON r.origin_operation_id = o.operation_id AND r.origin_instance_id = o.instance_id
            AND r.project_id = o.project_id
        WHERE o.kind = 'run' AND o.status = 'accepted' GROUP BY o.id, o.operation_id HAVING count(r.id) <> 1""",
    "a `run` that was not accepted, with a Run": """
        SELECT o.operation_id, o.status FROM ledger_operation o
        JOIN runs_run r ON r.origin_operation_id = o.operation_id AND r.origin_instance_id = o.instance_id
        WHERE o.kind = 'run' AND o.status <> 'accepted'""",
    "a Run that no accepted Operation started": """
        SELECT r.id FROM runs_run r WHERE r.origin_operation_id IS NOT NULL AND NOT EXISTS (
            SELECT 1 FROM ledger_operation o WHERE o.operation_id = r.origin_operation_id
            AND o.instance_id = r.origin_instance_id AND o.run_id = r.id AND o.status = 'accepted')""",
    "one identity with two receipts": """
        SELECT instance_id, project_id, operation_id FROM ledger_operation GROUP BY 1, 2, 3 HAVING count(*) > 1""",
    "a receipt decided without a time, or pending with one": """
        SELECT operation_id, status FROM ledger_operation WHERE (status = 'pending') = (decided_at IS NOT NULL)""",
    "a cancel that is accepted on a Run which is not terminal": """
        SELECT o.operation_id FROM ledger_operation o JOIN runs_run r ON r.id = o.run_id
        WHERE o.kind = 'cancel_run' AND o.status = 'accepted'
            AND r.status NOT IN ('cancelled', 'completed', 'failed')""",
    "a Run that stands on nothing": """
        SELECT id, status FROM runs_run WHERE
            (status = 'queued' AND due_at IS NULL)
            OR (status = 'running' AND (lease_expires_at IS NULL OR lease_owner = ''))
            OR (status = 'waiting' AND pending_action_id IS NULL)
            OR (status <> 'running' AND (lease_expires_at IS NOT NULL OR lease_owner <> ''))
            OR (status <> 'waiting' AND pending_action_id IS NOT NULL)""",
    "a Run whose lease ran out long ago": """
        SELECT id, lease_expires_at FROM runs_run
        WHERE status = 'running' AND lease_expires_at < clock_timestamp() - make_interval(secs => %(patience)s)""",
    "a terminal Run without its end, or another with one": """
        SELECT id, status FROM runs_run
        WHERE (status IN ('completed', 'failed', 'cancelled')) <> (finished_at IS NOT NULL)""",
    "events that are not numbered 1..n": """
        SELECT r.id, r.event_seq, count(e.seq), min(e.seq), max(e.seq) FROM runs_run r
        LEFT JOIN ledger_event e ON e.run_id = r.id GROUP BY r.id, r.event_seq
        HAVING count(e.seq) <> r.event_seq OR min(e.seq) <> 1 OR max(e.seq) <> r.event_seq""",
    "an event before the one before it": """
        SELECT run_id, seq FROM (
            SELECT run_id, seq, at, lag(at) OVER (PARTITION BY run_id ORDER BY seq) AS before FROM ledger_event) e
        WHERE at < before""",
    "attempts that are not numbered 0..n-1": """
        SELECT r.id, r.step_seq, count(a.id), max(a.step_seq) FROM runs_run r
        LEFT JOIN runs_stepattempt a ON a.run_id = r.id GROUP BY r.id, r.step_seq
        HAVING count(a.id) <> r.step_seq OR coalesce(max(a.step_seq) + 1, 0) <> r.step_seq""",
    "two committed results of one Step": """
        SELECT run_id, stage, step, visit FROM runs_stepattempt WHERE status = 'completed' AND kind <> 'initialize'
        GROUP BY 1, 2, 3, 4 HAVING count(*) > 1""",
    "two boundaries of one number": """
        SELECT run_id, boundary FROM runs_stepattempt WHERE boundary IS NOT NULL GROUP BY 1, 2 HAVING count(*) > 1""",
    "an attempt that ended before it began": """
        SELECT run_id, step_seq FROM runs_stepattempt WHERE ended_at < started_at""",
    "Artifact revisions that are not numbered 1..n": """
        SELECT a.id FROM results_artifact a LEFT JOIN results_artifactrevision v ON v.artifact_id = a.id
        GROUP BY a.id, a.revision HAVING count(v.id) <> a.revision OR coalesce(max(v.revision), 0) <> a.revision""",
}


def audit(database_url: str, effects: Iterable[Path] = (), *, patience: float = 22) -> None:
    """Fail with everything in the ledger that must not be there.

    ``effects``: files to which each Step appended a line before all else; every line belongs to an
    attempt, and every attempt that landed a result has its line.
    """
    wrong: list[str] = []
    with psycopg.connect(database_url) as connection:
        for what, statement in FORBIDDEN.items():
            found = connection.execute(statement, {"patience": patience}).fetchall()
            wrong += [f"{what}: {row}" for row in found]
        for file in effects:
            if file.exists():
                wrong += _effects_against_attempts(connection, file.read_text().splitlines())
    assert not wrong, "\n".join(wrong)


def snapshot(database_url: str) -> dict[str, Any]:
    """What may never change: Records, and Artifact revisions."""
    with psycopg.connect(database_url) as connection:
        return {
            "records": dict(connection.execute("SELECT id, digest || data FROM results_record").fetchall()),
            "revisions": dict(connection.execute("SELECT id, digest || data FROM results_artifactrevision").fetchall()),
        }


def only_grew(before: dict[str, Any], after: dict[str, Any]) -> None:
    """Fail unless everything in ``before`` is still there, unchanged."""
    for kind, rows in before.items():
        changed = {key for key, value in rows.items() if after[kind].get(key) != value}
        assert not changed, f"{kind} that changed or went: {changed}"


def _effects_against_attempts(connection: psycopg.Connection[Any], text: Sequence[str]) -> list[str]:
    made = Counter(tuple(line.split()[:3]) for line in text)
    runs = sorted({run for run, _, _ in made})
    rows = connection.execute(
        """SELECT a.run_id::text, a.step || '/' || a.visit, a.attempt::text, a.status
           FROM runs_stepattempt a WHERE a.kind <> 'initialize' AND a.run_id = ANY(%s::uuid[])""",
        [runs],
    ).fetchall()
    recorded = Counter((run, step, attempt) for run, step, attempt, _ in rows)
    landed = Counter((run, step, attempt) for run, step, attempt, s in rows if s in ("completed", "waited", "failed"))
    held = {
        (run, f"{step}/{visit}", str(attempts + 1))
        for run, step, visit, attempts in connection.execute(
            "SELECT id::text, step, visit, attempts FROM runs_run WHERE status = 'running' AND id = ANY(%s::uuid[])",
            [runs],
        ).fetchall()
    }
    wrong = [
        f"an effect that no attempt accounts for: {key}, {number} against {recorded[key]}"
        for key, number in made.items()
        if number > recorded[key] + (key in held)
    ]
    return wrong + [
        f"a landed attempt without its effect: {key}, {number} against {made[key]}"
        for key, number in landed.items()
        if made[key] < number
    ]
