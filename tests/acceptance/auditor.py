"""What must hold in every ledger, whatever was done to the service: plain SQL and the effect file, no tolerance."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import psycopg

#: Events of agent calls and their Tools, with what they say.
_AGENT_EVENTS = """
    SELECT run_id, seq, type, data::json->>'callId' AS call_id, data::json->>'toolCallId' AS tool_call_id,
        data::json->>'closedAs' AS how, data::json->>'status' AS status
    FROM ledger_event WHERE (type LIKE 'AgentCall%%' OR type LIKE 'ToolCall%%')
        AND run_id IN (SELECT id FROM runs_run WHERE agent_executor = 'mcp_client')"""

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
            OR (status = 'waiting' AND (pending_action_id IS NULL) = (pending_agent_call IS NULL))
            OR (status <> 'running' AND (lease_expires_at IS NOT NULL OR lease_owner <> ''))
            OR (status <> 'waiting' AND (pending_action_id IS NOT NULL OR pending_agent_call IS NOT NULL))""",
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
    "a Run that waits for another agent call than its open one": """
        SELECT r.id, r.pending_agent_call, c.id FROM runs_run r
        FULL JOIN (SELECT * FROM agents_agentcall WHERE closed_as = '') c ON c.run_id = r.id
        WHERE (r.pending_agent_call IS NOT NULL OR c.id IS NOT NULL) AND (
            r.pending_agent_call::json->>'id' IS DISTINCT FROM c.id::text
            OR (r.pending_agent_call::json->>'phase' = 'claimed') IS DISTINCT FROM (c.claim_digest <> ''))""",
    "two open calls of one Run": """
        SELECT run_id FROM agents_agentcall WHERE closed_as = '' GROUP BY 1 HAVING count(*) > 1""",
    "an agent call without its events, or with one too many": f"""
        SELECT c.id, c.closed_as, e.opened, e.claimed, e.closed FROM agents_agentcall c
        LEFT JOIN (SELECT run_id, call_id, count(*) FILTER (WHERE type = 'AgentCallOpened') AS opened,
                count(*) FILTER (WHERE type = 'AgentCallClaimed') AS claimed,
                count(*) FILTER (WHERE type = 'AgentCallClosed') AS closed,
                max(how) FILTER (WHERE type = 'AgentCallClosed') AS how
            FROM ({_AGENT_EVENTS}) s GROUP BY 1, 2) e ON e.run_id = c.run_id AND e.call_id = c.id::text
        WHERE e.opened IS DISTINCT FROM 1 OR e.claimed <> (c.claim_digest <> '')::int
            OR e.closed <> (c.closed_as <> '')::int OR e.how IS DISTINCT FROM nullif(c.closed_as, '')""",
    "usage of a Run that is not its attempts'": """
        SELECT r.id, r.usage, a.requests FROM runs_run r LEFT JOIN (
            SELECT run_id, sum((usage::json->>'requests')::int) AS requests FROM runs_stepattempt GROUP BY 1) a
            ON a.run_id = r.id
        WHERE r.status IN ('completed', 'failed', 'cancelled')
            AND coalesce((r.usage::json->>'requests')::int, 0) <> coalesce(a.requests, 0)""",
    "an agent event of no call": f"""
        SELECT e.run_id, e.seq FROM ({_AGENT_EVENTS}) e WHERE NOT EXISTS (
            SELECT 1 FROM agents_agentcall c WHERE c.run_id = e.run_id AND c.id::text = e.call_id)""",
    "an agent event after its call was closed": f"""
        SELECT e.run_id, e.seq FROM ({_AGENT_EVENTS}) e JOIN ({_AGENT_EVENTS}) c
            ON c.run_id = e.run_id AND c.call_id = e.call_id AND c.type = 'AgentCallClosed' AND c.seq < e.seq""",
    "a Tool receipt and events that tell of different things": f"""
        SELECT c.id, t.tool_call_id, t.status, e.began, e.settled, e.how FROM (
            SELECT run_id, call_id, tool_call_id, count(*) FILTER (WHERE type = 'ToolCallStarted') AS began,
                count(*) FILTER (WHERE type = 'ToolCallSettled') AS settled,
                max(status) FILTER (WHERE type = 'ToolCallSettled') AS how
            FROM ({_AGENT_EVENTS}) s WHERE tool_call_id IS NOT NULL GROUP BY 1, 2, 3) e
        FULL JOIN agents_toolreceipt t ON t.call_id::text = e.call_id AND t.tool_call_id = e.tool_call_id
        LEFT JOIN agents_agentcall c ON c.id = t.call_id OR c.id::text = e.call_id
        WHERE e.began IS DISTINCT FROM 1 OR e.settled > 1
            OR (t.id IS NULL AND (c.receipts_until > clock_timestamp() OR c.receipts_until IS NULL OR e.settled <> 1))
            OR (t.id IS NOT NULL AND t.status <> coalesce(e.how, 'running'))""",
    "an agent call that miscounts its Tool calls": f"""
        SELECT c.id, c.receipts_made, count(e.seq) FROM agents_agentcall c LEFT JOIN ({_AGENT_EVENTS}) e
            ON e.run_id = c.run_id AND e.call_id = c.id::text AND e.type = 'ToolCallStarted'
        GROUP BY c.id, c.receipts_made HAVING count(e.seq) <> c.receipts_made""",
    "a Tool that runs for a closed call, or beside another": """
        SELECT c.id, c.closed_as, count(*) FROM agents_agentcall c JOIN agents_toolreceipt t ON t.call_id = c.id
        WHERE t.status = 'running' GROUP BY c.id, c.closed_as HAVING count(*) > 1 OR c.closed_as <> ''""",
    "a Tool call whose lease nobody has kept for long, or that runs without one": """
        SELECT id, status, lease_expires_at FROM agents_toolreceipt
        WHERE (status = 'running' AND lease_expires_at IS NULL)
            OR lease_expires_at < clock_timestamp() - make_interval(secs => %(patience)s)""",
    "receipts that leave the protocol before their call is closed and settled, or never": """
        SELECT c.id, c.closed_as, c.receipts_until FROM agents_agentcall c
        WHERE (c.receipts_until IS NOT NULL) <> (c.closed_as <> '' AND NOT EXISTS (
            SELECT 1 FROM agents_toolreceipt t WHERE t.call_id = c.id AND t.lease_expires_at IS NOT NULL))""",
    "an agent call whose Step ended otherwise": """
        SELECT c.id, c.closed_as, array_agg(a.status) FROM agents_agentcall c
        LEFT JOIN runs_stepattempt a ON a.run_id = c.run_id AND a.stage = c.stage AND a.step = c.step
            AND a.visit = c.visit AND a.kind = 'step'
            AND (a.started_at IS NULL OR a.started_at >= coalesce(c.claimed_at, c.created_at))
        WHERE c.closed_as <> '' AND (c.claim_digest <> '' OR c.closed_as <> 'cancelled')
        GROUP BY c.id, c.closed_as
        HAVING array_agg(a.status) IS DISTINCT FROM ARRAY[CASE c.closed_as WHEN 'interrupted' THEN 'indeterminate'
            ELSE c.closed_as END]::varchar[]""",
    "a Run that went on although its agent did not complete its Step": """
        SELECT r.id, r.status, c.closed_as FROM agents_agentcall c JOIN runs_run r ON r.id = c.run_id
        WHERE (c.closed_as IN ('failed', 'interrupted') AND r.status <> 'failed')
            OR (c.closed_as = 'cancelled' AND r.status <> 'cancelled')""",
}


def audit(database_url: str, effects: Iterable[Path] = (), *, patience: float = 22) -> None:
    """Fail with everything in the ledger that must not be there.

    ``effects``: files to which each Step appended a line before all else; every line belongs to an
    attempt, and every attempt that landed a result has its line.
    """
    with psycopg.connect(database_url) as connection:
        wrong = forbidden(connection, patience=patience)
        for file in effects:
            if file.exists():
                wrong += _effects_against_attempts(connection, file.read_text().splitlines())
    assert not wrong, "\n".join(wrong)


def forbidden(connection: psycopg.Connection[Any], *, patience: float = 22) -> list[str]:
    """Everything in the ledger that must not be there."""
    return [
        f"{what}: {row}"
        for what, statement in FORBIDDEN.items()
        for row in connection.execute(statement, {"patience": patience}).fetchall()
    ]


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
