"""What the attacks share: two that meet at once, Looms made for one test, connections that are cut."""

from __future__ import annotations

import random
import threading
import uuid
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from django.db import OperationalError, connection, transaction

from apps.agents.models import AgentCall
from apps.core import clock
from apps.ledger.models import Event, Operation
from apps.results.models import Record
from apps.runs.models import Run, StepAttempt
from apps.runs.services.executing import execute
from apps.runs.services.landing import SegmentResult, land
from apps.runs.services.leasing import Leased, take_lease
from tests.conftest import Service


def lease(service: Service, owner: str = "worker") -> Leased:
    leased = take_lease(owner=owner, instance_id=uuid.UUID(service.instance_id), now=clock.now())
    assert leased is not None
    return leased


def at_once(*bodies: Callable[[], None]) -> list[BaseException]:
    """Run each body on a thread of its own; what they raised."""
    raised: list[BaseException] = []

    def guarded(body: Callable[[], None]) -> None:
        try:
            body()
        except BaseException as error:
            raised.append(error)
        finally:
            connection.close()

    threads = [threading.Thread(target=guarded, args=(body,)) for body in bodies]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert not any(thread.is_alive() for thread in threads)
    return raised


def meet(chance: random.Random, *bodies: Callable[[], Any], apart: float = 0.004) -> list[Any]:
    """Begin all at once, each after a delay that is drawn; what each returned, in the order given."""
    answers: list[Any] = [None] * len(bodies)
    start = threading.Barrier(len(bodies))

    def contend(number: int, delay: float) -> None:
        start.wait()
        threading.Event().wait(delay)
        answers[number] = bodies[number]()

    contenders = [partial(contend, number, chance.uniform(0, apart)) for number in range(len(bodies))]
    assert at_once(*contenders) == []
    return answers


def begun(service: Service, **plan: Any) -> tuple[str, Leased]:
    """A Run whose first Code Step a worker has begun; its id and that Step."""
    run_id = service.start(**plan)
    init = lease(service)
    step = land([SegmentResult(init, execute(init), keep=True)], now=clock.now())[0].next
    assert step is not None
    return run_id, step


LOOM = """\
loom: {name}
title: {name}
description: Made by a test.
entry: only
stages:
  only:
    state: steps:Nothing
    initialize: steps:begin
    entry: act
    steps:
      act:
        code: steps:act
{extra}        on: {{done: end, again: act}}
    on: {{done: end}}
"""


STEPS = """\
import datetime as dt
import time
from pydantic import BaseModel
from loomsvc.authoring import *

class Nothing(BaseModel):
    pass

def begin(context):
    return Nothing()

def act(step: CodeStep[Nothing]):
    {body}
"""


def make_loom(folder: Path, name: str, body: str, *, extra: str = "", more: str = "") -> str:
    """A Loom of one Step with ``body``, ``extra`` keys of the Step and ``more`` functions; its name."""
    (folder / name).mkdir()
    keys = "".join(f"        {line}\n" for line in extra.splitlines())
    (folder / name / "loom.yaml").write_text(LOOM.format(name=name, extra=keys))
    (folder / name / "steps.py").write_text(STEPS.replace("{body}", body) + more)
    return name


def begun_loom(service: Service, loom: str) -> tuple[str, Leased]:
    """A Run of ``loom`` whose Step a worker has begun."""
    result = service.operate("run", loomName=loom, input={})
    assert "error" not in result, (result, service.call("list_looms"))
    init = lease(service)
    step = land([SegmentResult(init, execute(init), keep=True)], now=clock.now())[0].next
    assert step is not None
    return str(result["run"]["runId"]), step


def finished(service: Service, loom: str) -> dict[str, Any]:
    """A Run of ``loom`` after all that was due has been done; its view."""
    result = service.operate("run", loomName=loom, input={})
    assert "error" not in result, (result, service.call("list_looms"))
    service.work()
    return service.run(result["run"]["runId"])


def deadlocks() -> int:
    """How many PostgreSQL has broken up in this database."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_stat_force_next_flush()")
        cursor.execute("SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()")
        return int(cursor.fetchone()[0])


def only_on_postgresql() -> None:
    if connection.vendor != "postgresql":
        pytest.skip("SQLite has one writer at a time and one lock")


def end_backend() -> None:
    """Cut this thread's connection to PostgreSQL, as a restart or a firewall does."""
    import psycopg

    connection.ensure_connection()
    backend = connection.connection.info.backend_pid
    options = {k: v for k, v in connection.get_connection_params().items() if k in ("host", "port", "user")}
    with psycopg.connect(dbname=connection.settings_dict["NAME"], **options, autocommit=True) as other:
        other.execute("SELECT pg_terminate_backend(%s, 5000)", [backend])


def wait_until_blocked() -> None:
    """Return once some transaction waits for another."""
    with connection.cursor() as cursor:
        for _ in range(500):
            cursor.execute("SELECT pg_stat_clear_snapshot()")
            cursor.execute(
                "SELECT count(*) FROM pg_locks WHERE NOT granted AND pid IN (SELECT pid FROM pg_stat_activity "
                "WHERE datname = current_database())"
            )
            if cursor.fetchone()[0]:
                return
            threading.Event().wait(0.01)
    raise AssertionError("nobody waits")


def lines(path: Path) -> list[str]:
    return path.read_text().splitlines() if path.exists() else []


def landed_together(*steps: Leased) -> list[BaseException]:
    """Land both Steps so that the second meets the first's uncommitted rows; what went wrong."""
    from apps.runs.services import landing

    outputs = [execute(step) for step in steps]
    first_is_written = threading.Event()

    def first() -> None:
        with transaction.atomic():
            landing._land_one(SegmentResult(steps[0], outputs[0]), now=clock.now())
            first_is_written.set()
            wait_until_blocked()

    def second() -> None:
        assert first_is_written.wait(10)
        land([SegmentResult(steps[1], outputs[1])], now=clock.now())

    return at_once(first, second)


def die_once(real: Callable[..., Any], *, before: bool) -> Callable[..., Any]:
    """``real``, whose first answer is lost: it did nothing, or everything."""
    died: list[bool] = []

    def dying(*arguments: Any, **keywords: Any) -> Any:
        first = not died
        died.append(True)
        if first and before:
            raise OperationalError("server closed the connection unexpectedly")
        result = real(*arguments, **keywords)
        if first:
            raise OperationalError("server closed the connection unexpectedly")
        return result

    return dying


def check_run(service: Service, run_id: str) -> None:
    """What holds of every Run at every moment: the ledger's own evidence agrees with the view."""
    run = Run.objects.get(pk=run_id)
    stands_on = [run.pending_action_id is not None, run.pending_agent_call is not None]
    assert sum(stands_on) == (run.status == "waiting")
    assert (run.status == "running") == bool(run.lease_owner)
    assert run.status != "queued" or run.due_at is not None
    assert (run.status in ("completed", "failed", "cancelled")) == (run.finished_at is not None)
    assert not (run.pause_requested and run.status in ("paused", "completed", "failed", "cancelled"))
    check_calls(run)
    events = list(Event.objects.filter(run_id=run_id).order_by("seq").values_list("seq", "at"))
    assert [seq for seq, _ in events] == list(range(1, run.event_seq + 1))
    times = [at for _, at in events]
    assert times == sorted(times)
    attempts = list(StepAttempt.objects.filter(run_id=run_id).order_by("step_seq").values_list("step_seq", flat=True))
    assert attempts == list(range(run.step_seq))
    landed = StepAttempt.objects.filter(run_id=run_id, boundary__isnull=False).order_by("step_seq")
    assert list(landed.values_list("boundary", flat=True)) == list(range(1, run.boundary + 1))
    assert Record.objects.filter(run_id=run_id).count() == len(run.record_ids)
    for operation in Operation.objects.filter(run_id=run_id).exclude(kind="run"):
        assert operation.status in ("accepted", "rejected")
        grown = (operation.revision_after or 0) - (operation.revision_before or 0)
        assert grown == (1 if operation.effect == "applied" else 0)


def check_calls(run: Run) -> None:
    """An open call is what its Run waits for; calls and receipts have the events of what became of them."""
    events = list(Event.objects.filter(run_id=run.pk).order_by("seq").values_list("type", "data"))
    open_calls = []
    for call in AgentCall.objects.filter(run=run):
        mine = [(kind, data) for kind, data in events if data.get("callId") == str(call.pk)]
        expected = ["AgentCallOpened"] + ["AgentCallClaimed"] * bool(call.claim_digest)
        expected += ["AgentCallClosed"] * bool(call.closed_as)
        assert [kind for kind, _ in mine if kind.startswith("AgentCall")] == expected
        if call.closed_as:
            assert mine[-1][0] == "AgentCallClosed", "what became of its Tools comes before"
            assert mine[-1][1]["closedAs"] == call.closed_as
        else:
            open_calls.append({"id": str(call.pk), "phase": "claimed" if call.claim_digest else "available"})
        began = [data["toolCallId"] for kind, data in mine if kind == "ToolCallStarted"]
        settled = [(data["toolCallId"], data["status"]) for kind, data in mine if kind == "ToolCallSettled"]
        receipts = dict(call.receipts.order_by("id").values_list("tool_call_id", "status"))
        assert began == list(receipts)
        assert len(began) == call.receipts_made
        assert sorted(settled) == sorted(one for one in receipts.items() if one[1] != "running")
        assert len(receipts) - len(settled) <= (not call.closed_as), "one Tool runs at a time, and none once closed"
    pending = run.pending_agent_call
    assert open_calls == ([] if pending is None else [{"id": pending["id"], "phase": pending["phase"]}])
