"""Home: what needs somebody, with the one next step."""

from __future__ import annotations

import datetime as dt
import re
import uuid
from pathlib import Path
from typing import Any

import pytest
from console_people import page, root, signed_in, text_of

from apps.agents.models import AgentCall, ToolReceipt
from apps.core import clock
from apps.ledger.models import Operation
from apps.runs.models import Run


def home() -> str:
    return text_of(signed_in(root(f"root{uuid.uuid4().hex[:6]}")).get("/admin/"))  # type: ignore[arg-type]


def sections(shown: str) -> dict[str, tuple[str, str]]:
    """Key → (the number shown, the section's markup)."""
    found = re.findall(r'<section class="panel" id="(\w+)">(.*?)</section>', shown, re.DOTALL)
    return {key: (re.findall(r'class="count[^"]*">([^<]+)<', body)[0], body) for key, body in found}


def test_nothing_needs_attention_in_a_quiet_service(service: Any) -> None:
    service.finish(do=[{"ending": "done"}])
    shown = home()
    assert sections(shown) == {}
    assert "Nothing waits for a person" in shown


def test_each_kind_of_trouble_has_its_section_and_leads_to_its_run(service: Any, loom_paths: Path) -> None:
    waits = service.finish(do=[{"ending": "ask"}])["runId"]
    failed = service.finish(do=[{"failures": 9, "error": "ValueError"}])["runId"]
    overdue, stopped, left = (service.start(do=[]) for _ in range(3))
    past = clock.now() - dt.timedelta(minutes=5)
    error = {"code": "RELEASE_UNAVAILABLE", "message": "gone", "stage": "work", "step": "act", "attempt": 1}
    Run.objects.filter(pk=overdue).update(due_at=past)
    Run.objects.filter(pk=stopped).update(status="paused", last_error=error)
    Run.objects.filter(pk=left).update(status="running", lease_owner="worker-7/1", lease_expires_at=past)
    unclaimed, unknown = (service.start(do=[]) for _ in range(2))
    calls = {}
    for run_id, closed in ((unclaimed, ""), (unknown, "failed")):
        Run.objects.filter(pk=run_id).update(status="waiting")
        calls[run_id] = AgentCall.objects.create(
            run_id=run_id, stage="work", step="act", visit=1, agent_id="author", created_at=past, closed_as=closed
        )
    ToolReceipt.objects.create(
        call=calls[unknown], tool_call_id="t1", tool_id="send_mail", input_digest="", status="indeterminate",
        created_at=past,
    )  # fmt: skip
    Operation.objects.filter(run_id=waits, kind="run").update(status="indeterminate")
    folder = loom_paths / "crooked"
    folder.mkdir()
    (folder / "loom.yaml").write_text("loom: crooked\n")

    found = sections(home())
    assert {key: number for key, (number, _) in found.items()} == dict.fromkeys(
        ["people", "workers", "overdue", "stopped", "agents", "operations", "tools", "looms", "failed"], "1"
    )
    leads = {"people": waits, "failed": failed, "overdue": overdue, "stopped": stopped, "workers": left,
             "agents": unclaimed, "tools": unknown, "operations": waits}  # fmt: skip
    for key, run_id in leads.items():
        assert f'href="{page(run_id)}' in found[key][1], key
    assert "Go on?" in found["people"][1]
    assert "worker-7/1" in found["workers"][1]
    assert "RELEASE_UNAVAILABLE" in found["stopped"][1]
    assert "send_mail" in found["tools"][1]
    assert "crooked" in found["looms"][1]
    assert "loom.yaml" in found["looms"][1]


def test_a_silent_worker_is_told_of_once_however_many_runs_it_holds_and_the_longest_silent_first(service: Any) -> None:
    held = {worker: [service.start(do=[]) for _ in range(2)] for worker in ("worker-7/1", "worker-8/1")}
    for ago, (worker, runs) in enumerate(held.items(), start=1):
        for run_id in runs:
            silent = clock.now() - dt.timedelta(minutes=ago)
            Run.objects.filter(pk=run_id).update(status="running", lease_owner=worker, lease_expires_at=silent)
    number, body = sections(home())["workers"]
    assert number == "2"
    assert body.index("worker-8/1") < body.index("worker-7/1")


def test_a_long_list_says_fifty_and_more(service: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("apps.console.pages.attention.MOST", 2)
    for _ in range(3):
        service.finish(do=[{"ending": "ask"}])
    number, body = sections(home())["people"]
    assert number == "2+"
    assert body.count("<tr id=") == 2


def test_the_longest_waiting_comes_first_and_only_a_person_is_marked(service: Any) -> None:
    first = service.finish(do=[{"ending": "ask", "only_person": True}])["runId"]
    second = service.finish(do=[{"ending": "confirm"}])["runId"]
    body = sections(home())["people"][1]
    assert body.index(first) < body.index(second)
    assert "Go **on**?" not in body
    assert body.count("only a person may answer") == 1
    assert "Go on?" in body


@pytest.mark.rule("K15")
def test_looking_at_looms_stores_no_release(service: Any, loom_paths: Path) -> None:
    from apps.looms.models import Release

    assert Release.objects.count() == 0
    home()
    assert Release.objects.count() == 0
