"""A Run of 5,000 attempts, a Loom of 500 Steps, thousands of Runs: pages stay usable and say what they leave out."""

from __future__ import annotations

import datetime as dt
import html
import re
import time
import uuid
from pathlib import Path
from typing import Any

import pytest
from console_people import root, signed_in, text_of
from django.db import connection
from django.test.utils import CaptureQueriesContext

from apps.core import clock
from apps.ledger.models import Event, Operation
from apps.runs.models import Run, StepAttempt
from apps.runs.selectors.timing import timeline_of

BASE = "/admin/console"
#: Seconds in which a page is usable; here it is a fifth of that on a quiet machine.
USABLE = 3.0


def copies(row: Any, number: int, **changing: Any) -> None:
    """``number`` more rows like ``row``; ``changing`` members are functions of the row's number."""
    fixed = {field.attname: getattr(row, field.attname) for field in row._meta.concrete_fields}
    model = type(row)
    if "id" in fixed and not isinstance(fixed["id"], uuid.UUID):
        del fixed["id"]
    rows = [model(**{**fixed, **{name: make(index) for name, make in changing.items()}}) for index in range(number)]
    model.objects.bulk_create(rows, batch_size=2000)


def new_id(_: int = 0) -> uuid.UUID:
    from apps.core.ids import new_id

    return new_id()


@pytest.mark.rule("FR-I1", "FR-I3", "FR-I5")
def test_a_run_of_5000_attempts_is_shown_whole_and_at_once(service: Any) -> None:
    run_id = service.finish(do=[{"ending": "again"}, {"ending": "done"}])["runId"]
    one = StepAttempt.objects.filter(run_id=run_id).latest("step_seq")
    event = Event.objects.filter(run_id=run_id).latest("seq")

    def at(index: int) -> dt.datetime:
        return one.ended_at + dt.timedelta(seconds=2 * index)

    copies(
        one, 5000, id=new_id, step_seq=lambda i: one.step_seq + 1 + i, visit=lambda i: 10 + i, queued_at=at,
        started_at=lambda i: at(i) + dt.timedelta(seconds=1), ended_at=lambda i: at(i + 1), log=lambda i: ["x" * 500],
    )  # fmt: skip
    copies(event, 10_000, seq=lambda i: event.seq + 1 + i, type=lambda i: "RunDispatched")
    Run.objects.filter(pk=run_id).update(step_seq=one.step_seq + 5001, event_seq=event.seq + 10_000)
    with CaptureQueriesContext(connection) as seen:
        timeline = timeline_of(run_id=uuid.UUID(run_id), project_ids=[service.caller.project_id], now=clock.now())
    assert len(seen) == 3
    assert timeline.attempts == timeline.attempts_in_all == one.step_seq + 5001
    client = signed_in(root())
    client.get(f"{BASE}/runs/{run_id}/")
    began = time.perf_counter()
    shown = text_of(client.get(f"{BASE}/runs/{run_id}/"))  # type: ignore[arg-type]
    assert time.perf_counter() - began < USABLE
    assert f"{one.step_seq + 5001:,} attempts in 1 lane, one for each Step" in shown
    assert len(shown) < 500_000


@pytest.mark.rule("FR-I1", "FR-I3")
def test_a_loom_of_500_steps_is_shown_in_part_and_says_so(service: Any, loom_paths: Path) -> None:
    folder = loom_paths / "wide"
    folder.mkdir()
    stages = ["loom: wide", "title: Wide", "description: Many Steps.", "entry: t0", "stages:"]
    for stage in range(10):
        stages += [f"  t{stage}:", "    entry: s0", "    steps:"]
        for step in range(50):
            after = f"s{step + 1}" if step < 49 else "end"
            back = f"s{step * 7 % 50}"
            stages.append(f'      s{step}: {{code: "steps:go", on: {{next: {after}, back: {back}}}}}')
        stages.append(f"    on: {{next: {f't{stage + 1}' if stage < 9 else 'end'}}}")
    (folder / "loom.yaml").write_text("\n".join(stages))
    (folder / "steps.py").write_text("def go(step):\n    return 'next'\n")
    run_id = service.start("wide")
    client = signed_in(root())
    client.get(f"{BASE}/looms/wide/")
    began = time.perf_counter()
    shown = text_of(client.get(f"{BASE}/looms/wide/?stage=t4"))  # type: ignore[arg-type]
    assert time.perf_counter() - began < USABLE
    assert "50 of 500 Steps are drawn, those nearest to t4/s0; the table has all of them." in shown
    assert shown.count("<td>code steps:go</td>") == 500
    # The Stage that somebody unfolded in a Run's graph stays so when its page follows along.
    run = text_of(client.get(f"{BASE}/runs/{run_id}/?tab=events&focus=t4"))  # type: ignore[arg-type]
    source = re.search(r'id="live" data-live="on" data-src="([^"]+)"', run)
    assert source
    news = text_of(client.get(html.unescape(source[1]), headers={"X-Live": "live"}))  # type: ignore[arg-type]
    assert "those nearest to t4/s0" in news
    assert 'id="tab-events"' in news


@pytest.mark.rule("FR-I3")
def test_pages_over_2500_runs_take_the_statements_of_pages_over_three(service: Any) -> None:
    for _ in range(3):
        run_id = service.finish(do=[{"ending": "done"}])["runId"]
    client = signed_in(root())
    addresses = [f"{BASE}/{name}" for name in ("looms/", "looms/trial/", "audit/", "health/", "artifacts/")]

    def statements() -> list[int]:
        found = []
        for address in addresses:
            with CaptureQueriesContext(connection) as seen:
                assert client.get(address).status_code == 200
            found.append(len(seen))
        return found

    statements()
    few = statements()
    copies(Run.objects.get(pk=run_id), 2500, id=new_id, trace_id=new_id)
    copies(Operation.objects.latest("id"), 2500, id=new_id, operation_id=new_id, run_id=new_id)
    began = time.perf_counter()
    assert statements() == few
    assert time.perf_counter() - began < USABLE
    shown = text_of(client.get(f"{BASE}/looms/trial/"))  # type: ignore[arg-type]
    assert "The latest 1000 Runs; there are more." in shown
