"""Hostile values, long names and odd times end alike on both databases."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import pytest

from apps.core import clock, conf, json_text
from apps.runs.services.executing import execute
from apps.runs.services.landing import SegmentResult, land
from tests.conftest import Service
from tests.integration.attacking import (
    begun,
    finished,
    make_loom,
)

pytestmark = pytest.mark.django_db(transaction=True)


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
