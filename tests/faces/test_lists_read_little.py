"""Lists read what they show, and one statement reads all of it: a value of a row may be a megabyte."""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable
from typing import Any

from console_people import root, signed_in
from django.db import connection
from django.test.utils import CaptureQueriesContext

from apps.agents.models import AgentCall, ToolReceipt
from apps.agents.selectors.watching import calls_of_run
from apps.core import clock

#: Columns with values of Code's or of a caller's.
LARGE = {
    "runs_run": {"input", "previous", "saved_result", "answer", "policy", "visits", "dependencies"},
    "agents_agentcall": {"reads"},
}


def read_of(look: Callable[[], object]) -> tuple[set[str], int]:
    """The large columns that are read, as ``table.column``, and how many statements there are."""
    with CaptureQueriesContext(connection) as captured:
        look()
    found = {
        f"{table}.{column}"
        for each in captured
        for table, column in re.findall(r'"(\w+)"\."(\w+)"', each["sql"])
        if column in LARGE.get(table, ())
    }
    return found, len(captured)


def test_lists_of_runs_leave_out_what_they_do_not_show(service: Any) -> None:
    client = signed_in(root())
    looks: list[Callable[[], object]] = [
        lambda: service.call("list_runs"),
        lambda: client.get("/admin/console/runs/"),
        lambda: client.get("/admin/console/runs/bulk/", {"do": "pause", "run": chosen}),
    ]
    chosen = [service.finish(do=[{"ending": "ask"}])["runId"]]
    for look in looks:
        look()
    few = [read_of(look) for look in looks]
    chosen += [service.finish(do=[{"ending": "ask"}])["runId"] for _ in range(2)]
    assert [read_of(look) for look in looks] == few
    assert [columns for columns, _ in few] == [set()] * len(looks)


def test_a_run_is_found_by_its_origin_in_two_statements(service: Any) -> None:
    origin = service.finish(do=[{"ending": "ask"}])["origin"]
    with CaptureQueriesContext(connection) as captured:
        found = service.call("find_run", **origin)
    assert found["run"]["pendingAction"]["request"]
    assert len(captured) == 2


def test_attention_and_a_runs_agent_calls_read_no_run_whole(service: Any) -> None:
    client = signed_in(root())
    waits = service.finish(do=[{"ending": "ask"}])["runId"]

    def calls(number: int) -> None:
        for _ in range(number):
            run_id = service.start(do=[])
            for closed_as in ("", "failed"):
                call = AgentCall.objects.create(
                    run_id=run_id, stage="work", step="act", visit=1, agent_id="author", created_at=clock.now(),
                    closed_as=closed_as,
                )  # fmt: skip
                ToolReceipt.objects.create(
                    call=call, tool_call_id="t1", tool_id="send_mail", input_digest="", status="indeterminate",
                    created_at=clock.now(),
                )  # fmt: skip
            AgentCall.objects.create(
                run_id=waits, stage="work", step="act", visit=1, agent_id="author", created_at=clock.now(),
                closed_as="failed",
            )  # fmt: skip

    def look() -> None:
        client.get("/admin/")

    def of_run() -> None:
        assert len(calls_of_run(run_id=uuid.UUID(waits), limit=10, receipts=10)) in (1, 3)

    calls(1)
    look()
    few = [read_of(look), read_of(of_run)]
    calls(2)
    service.finish(do=[{"ending": "ask"}])
    assert [read_of(look), read_of(of_run)] == few
    assert [columns for columns, _ in few] == [set(), set()]
