"""Attacks on the ledger and the engine: lost answers, opposite lock orders, skewed clocks, hostile values."""

from __future__ import annotations

import datetime as dt
import itertools
import os
import random
import threading
import uuid
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from django.db import OperationalError, connection, transaction
from django.test.utils import CaptureQueriesContext

from apps.core import clock, conf, cursors, json_text
from apps.core.database import database_now, database_time_after, for_update
from apps.ledger.models import Event, Operation
from apps.results.models import Record
from apps.runs.models import Run, StepAttempt
from apps.runs.services import worker
from apps.runs.services.executing import execute
from apps.runs.services.landing import SegmentResult, land
from apps.runs.services.leasing import Leased, renew_leases, take_lease
from apps.runs.services.sweeping import remove_old_runs, sweep
from tests.conftest import Service

pytestmark = pytest.mark.django_db(transaction=True)


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


@pytest.mark.rule("FR-G5", "F13", "R13")
def test_a_run_that_ends_while_an_instance_is_opened_makes_no_deadlock(service: Service) -> None:
    only_on_postgresql()
    from apps.runs.services import landing

    _, step = begun(service, do=[{"ending": "done"}])
    output = execute(step)
    landed_uncommitted = threading.Event()

    def finish() -> None:
        with transaction.atomic():
            landing._land_one(SegmentResult(step, output), now=clock.now())
            landed_uncommitted.set()
            wait_until_blocked()

    def open_anew() -> None:
        assert landed_uncommitted.wait(10)
        service.reopen()

    assert at_once(finish, open_anew) == []
    assert Run.objects.get().status == "completed"


@pytest.mark.rule("FR-G5", "F13")
def test_the_pulse_and_the_opening_of_an_instance_lock_runs_in_one_order(service: Service) -> None:
    only_on_postgresql()
    ids = sorted(uuid.UUID(begun(service)[0]) for _ in range(2))
    # An UPDATE meets rows as they lie in the table or its index: the first Run's row comes last in both.
    Run.objects.filter(pk=ids[0]).update(lease_expires_at=database_time_after(60))
    first_is_held = threading.Event()

    def open_anew() -> None:
        with transaction.atomic():
            for_update(Run.objects.filter(pk=ids[0])).get()
            first_is_held.set()
            wait_until_blocked()
            for_update(Run.objects.filter(pk=ids[1])).get()

    def renew() -> None:
        assert first_is_held.wait(10)
        assert renew_leases(["worker"]) == 2

    assert at_once(open_anew, renew) == []


def lines(path: Path) -> list[str]:
    return path.read_text().splitlines() if path.exists() else []


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


@pytest.mark.rule("R6", "F10", "F11")
@pytest.mark.parametrize("before", [True, False], ids=["not committed", "committed"])
def test_a_landing_whose_answer_is_lost_goes_on_without_repeating_a_step(
    service: Service, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, before: bool
) -> None:
    effects = tmp_path / "effects"
    run_id = service.start(do=[{"ending": "again"}] * 3, effects=str(effects))
    monkeypatch.setattr(worker, "land", die_once(land, before=before))
    service.work()
    assert service.run(run_id)["status"] == "completed"
    assert [line.split()[1] for line in lines(effects)] == ["act/1", "act/2", "act/3", "act/4"]
    assert worker.owners() == []


@pytest.mark.rule("R6", "F11")
def test_a_connection_cut_at_the_commit_of_each_landing_costs_nothing(
    service: Service, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    only_on_postgresql()
    from apps.runs.services import landing

    cut: list[int] = []

    def reach(place: Any) -> None:
        if place == "after_effect_before_commit" and len(cut) % 2 == 0:
            end_backend()
        cut.append(1)

    effects = tmp_path / "effects"
    run_id = service.start(do=[{"ending": "again"}] * 2, effects=str(effects))
    monkeypatch.setattr(landing, "reach", reach)
    service.work()
    assert service.run(run_id)["status"] == "completed"
    assert len(cut) >= 8
    assert [line.split()[1] for line in lines(effects)] == ["act/1", "act/2", "act/3"]


@pytest.mark.rule("R6", "R13", "F10", "F11")
def test_a_lease_that_nobody_has_in_hand_is_not_renewed(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    run_id = service.start()
    seen: list[list[str]] = []

    def taken_unheard(**keywords: Any) -> Any:
        assert take_lease(**keywords) is not None
        seen.append(worker.owners())
        raise OperationalError("server closed the connection unexpectedly")

    monkeypatch.setattr(worker, "take_lease", taken_unheard)
    service.work()
    assert Run.objects.get().lease_owner in seen[0]
    assert renew_leases(seen[0]) == 1, "in hand it is"
    assert renew_leases(worker.owners()) == 0
    monkeypatch.undo()
    Run.objects.update(lease_expires_at=database_time_after(-1))
    assert sweep(now=clock.now()).interrupted == 1
    service.work()
    assert service.run(run_id)["status"] == "completed"


@pytest.mark.rule("R6", "R13")
@pytest.mark.parametrize("place", ["execute", "land"])
def test_a_turn_that_fails_in_a_way_nobody_foresaw_leaves_no_run_held_for_ever(
    service: Service, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    service.start()

    def fails(*_: Any, **__: Any) -> Any:
        raise RuntimeError(place)

    monkeypatch.setattr(worker, place, fails)
    service.work()
    assert Run.objects.get().status == "running"
    assert renew_leases(worker.owners()) == 0


@pytest.mark.rule("R6")
def test_a_result_that_the_ledger_cannot_store_fails_its_step(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    from apps.runs.services import landing

    real = landing._wait

    def unstorable(*arguments: Any) -> dict[str, Any]:
        return {**real(*arguments), "of": object()}

    monkeypatch.setattr(landing, "_wait", unstorable)
    run = service.finish(do=[{"ending": "ask"}])
    assert run["lastError"]["code"] == "STEP_RESULT_INVALID"
    assert run["status"] == "failed"


@pytest.mark.rule("F10")
def test_a_pulse_whose_connection_was_cut_beats_on(service: Service, settings: Any) -> None:
    only_on_postgresql()
    from dataclasses import replace

    from apps.runs.services.pulse import Pulse

    settings.LOOMSVC = replace(settings.LOOMSVC, lease_seconds=0.3)
    beats: list[bool] = []
    enough = threading.Event()

    def owners() -> list[str]:
        if not beats:
            end_backend()
        beats.append(True)
        return []

    class Counting(Pulse):
        def _beat(self) -> bool:
            ended = super()._beat()
            enough.set()
            return ended

    pulse = Counting(instance_id=uuid.UUID(service.instance_id), owners=owners, on_ended=lambda: None)
    pulse.start()
    assert enough.wait(5), "no beat after the first came through"
    pulse.stop()
    pulse.join(5)


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


@pytest.mark.rule("S3", "F13")
def test_two_runs_that_append_the_same_record_at_once_both_succeed(service: Service) -> None:
    only_on_postgresql()
    runs = [begun(service, do=[{"record": "same"}]) for _ in range(2)]
    assert landed_together(*(step for _, step in runs)) == []
    assert [service.run(run_id)["status"] for run_id, _ in runs] == ["completed", "completed"]
    assert Record.objects.get().record_id == "same"


@pytest.mark.rule("S3", "S4", "F13")
def test_an_id_that_another_run_takes_at_the_same_moment_is_refused_by_its_name(
    service: Service, loom_paths: Path
) -> None:
    only_on_postgresql()
    looms = [
        make_loom(loom_paths, f"maker{n}", f'step.append_record({n}, record_id="r")\n    return "done"') for n in (1, 2)
    ]
    runs = [begun_loom(service, loom) for loom in looms]
    assert landed_together(*(step for _, step in runs)) == []
    assert service.run(runs[0][0])["status"] == "completed"
    error = service.run(runs[1][0])["lastError"]
    assert error["message"] == "RecordConflict: there is a Record r with other data"


@pytest.mark.rule("S3", "F13", "FR-G5")
def test_runs_that_append_the_same_records_in_opposite_orders_make_no_deadlock(
    service: Service, loom_paths: Path
) -> None:
    only_on_postgresql()
    ids = [f"r{n:03}" for n in range(300)]
    looms = [
        make_loom(
            loom_paths,
            f"order{n}",
            f'[step.append_record(0, record_id=one) for one in {order!r}]\n    return "done"',
        )
        for n, order in enumerate((ids, ids[::-1]))
    ]
    deadlocks_before = deadlocks()
    for _ in range(5):
        runs = [begun_loom(service, loom) for loom in looms]
        steps = [(step, execute(step)) for _, step in runs]
        assert at_once(*(lambda s=s, o=o: land([SegmentResult(s, o)], now=clock.now()) for s, o in steps)) == []
        assert {service.run(run_id)["status"] for run_id, _ in runs} == {"completed"}
        Record.objects.all().delete()
    assert deadlocks() == deadlocks_before


@pytest.mark.rule("S1", "S3", "F22")
def test_results_bear_the_time_at_which_they_landed_and_it_never_goes_back(service: Service) -> None:
    _, slow = begun(service, do=[{"artifact": {"n": 1}, "record": "slow"}])
    _, quick = begun(service, do=[{"artifact": {"n": 2}, "record": "quick"}])
    quick_output = execute(quick)
    hour = dt.timedelta(hours=1)
    land([SegmentResult(quick, quick_output)], now=clock.now() + hour)
    assert service.call("get_record", recordId="quick")["record"]["createdAt"] > clock.to_wire(clock.now() + hour / 2)
    before = service.call("get_artifact", loomName="trial", stageName="work")["artifact"]
    output = execute(slow)
    assert output.ending.outcome == "done"
    land([SegmentResult(slow, output)], now=clock.now())
    after = service.call("get_artifact", loomName="trial", stageName="work")["artifact"]
    assert (before["revision"], after["revision"]) == (1, 2)
    assert after["updatedAt"] >= before["updatedAt"]


@pytest.mark.rule("H7", "R6")
@pytest.mark.parametrize("wait", ["step.confirm('Go on?', then={0})", "step.sleep_until(step.now(), then={0})"])
def test_a_continuation_may_have_a_long_name(service: Service, loom_paths: Path, wait: str) -> None:
    name = "on" * 200
    later = f"\ndef {name}(step, answer=None):\n    return 'done'\n"
    run = finished(service, make_loom(loom_paths, "longish", f"return {wait.format(name)}", more=later))
    if run["status"] == "waiting":
        answer = {"isConfirmed": True}
        service.operate("answer_ask", runId=run["runId"], actionId=run["pendingAction"]["id"], answer=answer)
        service.work()
    assert service.run(run["runId"])["status"] == "completed"


#: Bodies of a Step that says or keeps something hostile, and the code its Run ends with (None: it completes).
HOSTILE = {
    "log NUL": ("step.log.info('a' + chr(0) + chr(0xd800))\n    return 'done'", None),
    "log many": ("[step.log.info('x' * 9000) for _ in range(3000)]\n    return 'done'", None),
    "log arguments": ("step.log.info('%s %d', chr(0))\n    return 'done'", None),
    "error NUL": ("raise ValueError(chr(0) + chr(0xdfff) + 'x' * 10**6)", "STEP_FAILED"),
    "error class": ("raise type('E' * 5000 + chr(0), (Exception,), {})('x')", "STEP_FAILED"),
    "error str": ("raise type('E', (Exception,), {'__str__': lambda s: 1/0})()", "STEP_FAILED"),
    "outcome 201": ("return 'd' * 201", "STEP_RESULT_INVALID"),
    "outcome 200": ("return 'd' * 200", "STEP_OUTCOME_NOT_HANDLED"),
    "outcome NUL": ("return 'done' + chr(0)", "STEP_RESULT_INVALID"),
    "outcome surrogate": ("return chr(0xd800)", "STEP_RESULT_INVALID"),
    "outcome subclass": ("return type('S', (str,), {})('done')", "STEP_RESULT_INVALID"),
    "record id 201": ("step.append_record(1, record_id='r' * 201)\n    return 'done'", "STEP_RESULT_INVALID"),
    "record id 200": ("step.append_record(1, record_id=chr(0x1f600) * 200)\n    return 'done'", None),
    "record id NUL": ("step.append_record(1, record_id='r' + chr(0))\n    return 'done'", "STEP_RESULT_INVALID"),
    "record id LF": ("step.append_record(1, record_id='r' + chr(10))\n    return 'done'", "STEP_RESULT_INVALID"),
    "artifact id 201": ("step.create_artifact(1, artifact_id='a' * 201)\n    return 'done'", "STEP_RESULT_INVALID"),
    "artifact id surrogate": (
        "step.create_artifact(1, artifact_id=chr(0xd800))\n    return 'done'",
        "STEP_RESULT_INVALID",
    ),
    "record NUL": ("step.append_record({chr(0): 1})\n    return 'done'", "STEP_RESULT_INVALID"),
    "record NaN": ("step.append_record(float('nan'))\n    return 'done'", "STEP_RESULT_INVALID"),
    "record deep": (
        "x = 1\n    for _ in range(65): x = [x]\n    step.append_record(x)\n    return 'done'",
        "STEP_RESULT_INVALID",
    ),
    "record very deep": (
        "x = 1\n    for _ in range(100000): x = [x]\n    step.append_record(x)\n    return 'done'",
        "STEP_RESULT_INVALID",
    ),
    "record deepest": ("x = 1\n    for _ in range(64): x = [x]\n    step.append_record(x)\n    return 'done'", None),
    "record huge": ("step.append_record('x' * 2**20)\n    return 'done'", "STEP_RESULT_INVALID"),
    "record big int": ("step.append_record(10**5000)\n    return 'done'", "STEP_RESULT_INVALID"),
    "record many": ("[step.append_record(n) for n in range(600)]\n    return 'done'", None),
    "revision huge": (
        "step.replace_artifact('x', expected_revision=10**30, data=1)\n    return 'done'",
        "STEP_FAILED",
    ),
    "question NUL": ("return step.ask([Question(id='q', question=chr(0))], then=act)", "STEP_RESULT_INVALID"),
    "question id": ("return step.ask([Question(id='q' * 201, question='?')], then=act)", "STEP_RESULT_INVALID"),
    "context surrogate": ("return step.confirm(chr(0xd800), then=act)", "STEP_RESULT_INVALID"),
    "then builtin": ("return step.confirm('?', then=len)", "STEP_RESULT_INVALID"),
    "sleep past": ("return step.sleep_until(dt.datetime(1, 1, 1, tzinfo=dt.UTC), then=other)", None),
    "sleep overflow": (
        "return step.sleep_until(dt.datetime(1, 1, 1, tzinfo=dt.timezone(dt.timedelta(hours=5))), then=other)",
        "STEP_RESULT_INVALID",
    ),
}


@pytest.mark.rule("R6", "K23", "FR-D1", "FR-D3", "FR-D5", "FR-D9", "FR-D13", "S1")
def test_whatever_code_says_or_keeps_its_run_ends_alike_on_every_database(service: Service, loom_paths: Path) -> None:
    later = "\ndef other(step):\n    return 'done'\n"
    ended = {}
    for number, (what, (body, _)) in enumerate(HOSTILE.items()):
        run = finished(service, make_loom(loom_paths, f"hostile{number}", body, more=later))
        assert run["status"] in ("completed", "failed"), (what, run)
        ended[what] = run.get("lastError", {}).get("code")
        events = service.call("list_run_events", runId=run["runId"], limit=200)["events"]
        assert [event["seq"] for event in events] == list(range(1, len(events) + 1))
        shown = json_text.dumps([run, events, service.call("list_run_attempts", runId=run["runId"])["attempts"]])
        assert "\\u0000" not in shown
        shown.encode()
    assert ended == {what: code for what, (_, code) in HOSTILE.items()}


@pytest.mark.rule("R16", "F22")
def test_a_sleep_is_told_as_an_instant_on_the_wire(service: Service, loom_paths: Path) -> None:
    later = "\nfrom zoneinfo import ZoneInfo\ndef other(step):\n    return 'done'\n"
    moments = {
        "dt.datetime.max.replace(tzinfo=dt.UTC)": "9999-12-31T23:59:59.999999Z",
        "dt.datetime(1, 1, 1, tzinfo=dt.UTC)": "0001-01-01T00:00:00.000000Z",
        "dt.datetime(2026, 11, 1, 1, 30, fold=1, tzinfo=ZoneInfo('America/New_York'))": "2026-11-01T06:30:00.000000Z",
    }
    for number, (when, shown) in enumerate(moments.items()):
        body = f"return step.sleep_until({when}, then=other)"
        run = finished(service, make_loom(loom_paths, f"sleeper{number}", body, more=later))
        events = service.call("list_run_events", runId=run["runId"])["events"]
        (waited,) = (event for event in events if event["type"] == "StepWaited")
        assert waited["data"]["until"] == shown


@pytest.mark.rule("R6", "F21")
def test_a_run_that_moved_on_while_its_lock_was_taken_is_leased_with_its_present_state(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    only_on_postgresql()
    from apps.core import database

    _, step = begun(service, do=[{"ending": "again"}])
    output = execute(step)
    # What another worker may do between the look at the queue and the lock is stretched: this one waits for the lock.
    patient = database.for_update
    monkeypatch.setattr(database, "for_update", lambda rows, skip_locked=False: patient(rows))
    Run.objects.update(status="queued", due_at=database_time_after(-1))
    moved_on = threading.Event()
    leased: list[Leased] = []

    def other_worker() -> None:
        with transaction.atomic():
            Run.objects.update(status="running")
            assert land([SegmentResult(step, output)], now=clock.now())[0].accepted
            moved_on.set()
            wait_until_blocked()

    def this_worker() -> None:
        assert moved_on.wait(10)
        leased.append(lease(service))

    assert at_once(other_worker, this_worker) == []
    assert leased[0].position.visit == 2
    assert leased[0].state["trail"] == ["act:again"]


@pytest.mark.rule("E3", "R3", "S2", "FR-E5")
def test_a_cursor_that_somebody_wrote_himself_is_refused_by_every_list(service: Service) -> None:
    run_id = service.finish(do=[{"artifact": 1}])["runId"]
    (artifact,) = service.call("list_artifacts")["artifacts"]["data"]
    lists: dict[str, tuple[str, dict[str, Any], dict[str, Any]]] = {
        "list_runs": ("list_runs", {"loomName": None, "status": None}, {}),
        "list_run_events": ("list_events", {"runId": run_id}, {"runId": run_id}),
        "list_run_attempts": ("list_attempts", {"runId": run_id}, {"runId": run_id}),
        "list_artifact_revisions": (
            "list_artifact_revisions",
            {"artifactId": artifact["artifactId"]},
            {"artifactId": artifact["artifactId"]},
        ),
    }
    keys = ("", "x", "-1", "1.5", "9" * 30, "9" * 1000, "\u0661", " 1", "1_0", "1/x", "None", "\t")
    for key, (name, (listing, filters, arguments)) in itertools.product(keys, lists.items()):
        answer = service.call(name, **arguments, cursor=cursors.encode(listing, filters, key))
        assert answer["error"]["code"] == "INVALID_REQUEST", (name, key)
        assert answer["error"]["validation"]["issues"][0]["path"] == "/cursor"


@pytest.mark.rule("S1", "S4", "FR-E1")
def test_revisions_of_an_id_that_moved_to_another_place_are_paged_without_loss(
    service: Service, loom_paths: Path
) -> None:
    body = (
        'there = step.artifacts.get_by_id("it")\n'
        '    if there is None: step.create_artifact(step.loom_name, artifact_id="it")\n'
        '    else: step.remove_artifact("it", expected_revision=there.revision)\n'
        '    return "done"'
    )
    looms = [make_loom(loom_paths, f"place{n}", body) for n in range(3)]
    for loom in (*looms, looms[0]):
        for _ in range(2):
            assert finished(service, loom)["status"] == "completed"
    everything = service.call("list_artifact_revisions", artifactId="it")["revisions"]
    assert sorted(one["revision"] for one in everything) == [1, 1, 1, 2, 2, 2, 3, 4]
    paged: list[Any] = []
    cursor: dict[str, str] = {}
    while True:
        page = service.call("list_artifact_revisions", artifactId="it", limit=1, **cursor)
        paged += page["revisions"]
        if "nextCursor" not in page:
            break
        cursor = {"cursor": page["nextCursor"]}
    assert paged == everything


def plans(call: Callable[[], Any]) -> str:
    """How PostgreSQL reads for ``call`` when tables are too big to be read through."""
    with CaptureQueriesContext(connection) as captured:
        call()
    selects = [query["sql"] for query in captured if query["sql"].startswith("SELECT")]
    with connection.cursor() as cursor:
        cursor.execute("SET enable_seqscan = off")
        cursor.execute("SET enable_sort = off")
        out = []
        for sql in selects:
            cursor.execute("EXPLAIN " + sql)
            out += [row[0] for row in cursor.fetchall()]
        cursor.execute("RESET enable_seqscan")
        cursor.execute("RESET enable_sort")
    return "\n".join(out)


@pytest.mark.rule("N8", "R8")
def test_what_is_open_is_found_without_reading_what_has_ended(service: Service) -> None:
    only_on_postgresql()
    service.finish()
    assert "Scan using run_open" in plans(lambda: service.call("status"))
    exclusive = plans(lambda: service.operate("run", loomName="single", input=1))
    assert "Seq Scan on runs_run" not in exclusive
    assert "Scan using run_list_by_loom on runs_run" not in exclusive


@pytest.mark.rule("R17")
def test_retention_does_not_read_through_what_the_present_instance_has_ended(service: Service, settings: Any) -> None:
    from dataclasses import replace

    settings.LOOMSVC = replace(settings.LOOMSVC, retention_days=30)
    service.finish()
    # A long time later the same instance is still the current one.
    later = clock.now() + dt.timedelta(days=400)
    with CaptureQueriesContext(connection) as captured:
        assert remove_old_runs(now=later) == 0
    (query,) = (q["sql"] for q in captured if "finished_at" in q["sql"])
    assert f"{clock.now() + dt.timedelta(days=1):%Y-%m-%d}" in query
    service.reopen()
    assert remove_old_runs(now=later) == 1


@pytest.mark.rule("R12")
def test_a_step_that_the_sweep_times_out_is_retried_as_one_that_its_worker_does(
    service: Service, loom_paths: Path
) -> None:
    names = ["TimeoutError", "OSError", "Exception", "BaseException", "builtins.TimeoutError"]
    for number, name in enumerate(names):
        extra = f"timeout: 1h\nretry: {{attempts: 2, backoff: 1h, errors: [{name}]}}"
        run_id, _ = begun_loom(service, make_loom(loom_paths, f"overdue{number}", 'return "done"', extra=extra))
        Run.objects.filter(status="running").update(deadline_at=database_time_after(-1))
        assert sweep(now=clock.now()).timed_out == 1
        assert service.run(run_id)["status"] == "queued", (name, service.run(run_id))


@pytest.mark.rule("R6")
def test_a_setting_with_which_nothing_would_run_is_refused_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    useless = (
        "FAIR_SHARE=0 THREADS=0 LEASE_SECONDS=0 SWEEP_SECONDS=0 PENDING_SECONDS=0 MAX_VALUE_BYTES=1 FAIR_SHARE=0.5 "
        "LEASE_SECONDS=nan SWEEP_SECONDS=inf RETENTION_DAYS=-1 RETENTION_DAYS=nan"
    )
    for setting in useless.split():
        name, _, value = setting.partition("=")
        with monkeypatch.context() as patched:
            patched.setenv(f"LOOMSVC_{name}", value)
            with pytest.raises(ValueError, match=f"LOOMSVC_{name}='{value}' must be at least"):
                conf.from_environment()


@pytest.mark.rule("R6", "F25")
def test_a_run_of_many_slow_steps_gives_way_to_others_when_its_time_is_over(
    service: Service, loom_paths: Path, tmp_path: Path
) -> None:
    effects = tmp_path / "effects"
    slow = make_loom(
        loom_paths, "slow", f'time.sleep(0.05)\n    open({str(effects)!r}, "a").write("slow\\n")\n    return "again"'
    )
    service.operate("run", loomName=slow, input={})
    quick = service.start(do=[{"ending": "done"}], effects=str(effects))
    worker.begin(uuid.UUID(service.instance_id))
    for _ in range(2):
        worker.work(turn_seconds=0.1)
    assert service.run(quick)["status"] == "completed"
    assert len(lines(effects)) <= 5


@pytest.mark.rule("R7", "R16", "F25")
def test_a_run_that_loops_to_its_limit_stops_there_with_its_history_whole(service: Service, loom_paths: Path) -> None:
    run = finished(service, make_loom(loom_paths, "endless", 'return "again"', extra="max_visits: 70"))
    assert run["lastError"]["code"] == "LOOP_LIMIT"
    assert (run["boundary"], run["cursor"]["visit"]) == (70, 70)
    seen: list[int] = []
    cursor: dict[str, str] = {}
    while True:
        with CaptureQueriesContext(connection) as captured:
            page = service.call("list_run_events", runId=run["runId"], limit=25, **cursor)
        assert len(captured) == 2
        seen += [event["seq"] for event in page["events"]]
        if "nextCursor" not in page:
            break
        cursor = {"cursor": page["nextCursor"]}
    assert seen == list(range(1, len(seen) + 1))
    assert len(seen) > 70


@pytest.mark.rule("F22")
def test_what_is_due_now_is_due_at_once_on_every_database(service: Service) -> None:
    service.start()
    for _ in range(30):
        with transaction.atomic():
            Run.objects.update(due_at=database_time_after(0))
            assert Run.objects.filter(due_at__lte=database_now()).exists()
            assert not Run.objects.filter(due_at__lte=database_time_after(-0.05)).exists()


@pytest.mark.rule("R6", "F10")
def test_code_that_reads_after_its_connection_was_cut_reads_on(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    only_on_postgresql()
    service.finish(do=[{"artifact": {"n": 1}}])
    run_id, step = begun(service, do=[{"ending": "done", "artifact": {"n": 2}}])
    end_backend()
    land([SegmentResult(step, execute(step))], now=clock.now())
    assert service.run(run_id)["status"] == "completed", service.run(run_id)


def revision_of(service: Service, run_id: str) -> int:
    return int(service.run(run_id)["revision"])


def paused(service: Service) -> str:
    run_id = service.start(do=[{"ending": "done"}])
    service.operate("pause_run", runId=run_id)
    return run_id


def race(service: Service, name: str) -> tuple[str, list[Callable[[], Any]]]:
    """A Run and what two contenders do to it at once."""
    if name in ("answer/cancel", "answer/answer", "answer/pause"):
        run_id = service.finish(do=[{"ending": "ask"}, {"ending": "again"}])["runId"]
        action = service.run(run_id)["pendingAction"]["id"]
        answer = [{"questionId": "q", "isSkipped": False, "answer": "yes"}]
        one = lambda: service.operate("answer_ask", runId=run_id, actionId=action, answer=answer)  # noqa: E731
    elif name in ("resume/resume", "resume/cancel"):
        run_id = paused(service)
        revision = revision_of(service, run_id)
        one = lambda: service.operate("resume_run", runId=run_id, expectedRevision=revision)  # noqa: E731
    elif name in ("lease/cancel", "lease/pause", "lease/lease"):
        run_id = service.start(do=[{"ending": "done"}])
        now = clock.now()
        one = lambda: take_lease(owner="w", instance_id=uuid.UUID(service.instance_id), now=now)  # noqa: E731
    else:
        run_id, step = begun(service, do=[{"ending": "again", "artifact": 1, "record": f"r{uuid.uuid4()}"}])
        if name.startswith("sweep"):
            Run.objects.filter(pk=run_id).update(lease_expires_at=database_time_after(-1))
        output = execute(step)
        one = lambda: land([SegmentResult(step, output)], now=clock.now())  # noqa: E731
    second: Callable[[], Any]
    match name.partition("/")[2]:
        case "cancel" | "pause" as verb:
            second = lambda: service.operate(f"{verb}_run", runId=run_id)  # noqa: E731
        case "landing":
            second = lambda: sweep(now=clock.now())  # noqa: E731
        case "opening":
            second = service.reopen
        case _:
            second = one
    return run_id, [one, second]


RACES = [
    "answer/cancel", "answer/answer", "answer/pause", "resume/resume", "resume/cancel", "lease/cancel", "lease/pause",
    "lease/lease", "landing/cancel", "landing/pause", "sweep/landing", "landing/opening",
]  # fmt: skip


@pytest.mark.rule("F13", "F21", "FR-G5", "FR-A19", "H3", "R1", "R4", "R8", "R9", "R10", "R11", "R16")
@pytest.mark.parametrize("name", RACES)
def test_of_two_that_meet_at_one_run_the_loser_is_told_and_the_run_is_in_one_legal_state(
    service: Service, name: str
) -> None:
    chance = random.Random(name)
    for number in range(int(os.environ.get("LOOMSVC_RACES", "3"))):
        run_id, bodies = race(service, name)
        answers: list[Any] = []
        start = threading.Barrier(2)
        # Whose turn comes first is drawn, and by how much.
        delays = [chance.uniform(0, 0.004), chance.uniform(0, 0.004)]

        def contend(body: Callable[[], Any], delay: float, start: threading.Barrier, answers: list[Any]) -> None:
            start.wait()
            threading.Event().wait(delay)
            answers.append(body())

        contenders = [partial(contend, b, d, start, answers) for b, d in zip(bodies, delays, strict=True)]
        assert at_once(*contenders) == [], (name, number)
        errors = [a["error"]["code"] for a in answers if isinstance(a, dict) and "error" in a]
        assert set(errors) <= {"CONFLICT", "INSTANCE_CHANGED"}, answers
        check_run(service, run_id)
        if name in ("answer/answer", "resume/resume"):
            assert errors == ["CONFLICT"], "the first valid one wins, the other is told"
        if name == "lease/lease":
            assert sorted(a is None for a in answers) == [False, True]
        Run.objects.filter(status="running").update(lease_expires_at=database_time_after(-1))
        sweep(now=clock.now())
        service.work()
        check_run(service, run_id)
        assert service.run(run_id)["status"] in ("completed", "failed", "cancelled", "paused")


def check_run(service: Service, run_id: str) -> None:
    """What holds of every Run at every moment: the ledger's own evidence agrees with the view."""
    run = Run.objects.get(pk=run_id)
    assert (run.status == "waiting") == (run.pending_action_id is not None)
    assert (run.status == "running") == bool(run.lease_owner)
    assert run.status != "queued" or run.due_at is not None
    assert (run.status in ("completed", "failed", "cancelled")) == (run.finished_at is not None)
    assert not (run.pause_requested and run.status in ("paused", "completed", "failed", "cancelled"))
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
