"""Lists read what they show, and one statement reads all of it: a value of a row may be a megabyte."""

from __future__ import annotations

import re
import uuid
from collections import Counter
from collections.abc import Callable
from typing import Any

from console_people import page, root, signed_in, text_of
from django.contrib import admin
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from apps.agents.contracts import TaskReference
from apps.agents.models import AgentCall, ToolReceipt
from apps.agents.selectors.calls import find_call
from apps.agents.selectors.watching import calls_of_run
from apps.core import clock
from apps.core.admin import ReadOnlyAdmin
from apps.core.fields import JsonTextField

#: Columns with values of Code's or of a caller's.
LARGE = {
    "runs_run": {"input", "previous", "saved_result", "answer", "policy", "visits", "dependencies"},
    "agents_agentcall": {"reads"},
}


def columns_in(sql: str) -> set[str]:
    """The large columns that a statement reads, as ``table.column``."""
    selected = sql.partition(" FROM ")[0]
    named = re.findall(r'"(\w+)"\."(\w+)"(?! IS)', selected)
    return {f"{table}.{column}" for table, column in named if column in LARGE.get(table, ())}


def read_of(look: Callable[[], object]) -> tuple[set[str], int]:
    """The large columns that are read, as ``table.column``, and how many statements there are."""
    with CaptureQueriesContext(connection) as captured:
        look()
    return {column for each in captured for column in columns_in(each["sql"])}, len(captured)


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


def test_the_page_of_a_run_reads_no_large_value_twice_and_none_that_it_does_not_show(service: Any) -> None:
    client = signed_in(root())
    address = page(service.finish(do=[{"ending": "ask"}])["runId"])
    client.get(address)
    with CaptureQueriesContext(connection) as captured:
        client.get(address)
    read = Counter(column for each in captured for column in columns_in(each["sql"]))
    assert read == {"runs_run.input": 1, "runs_run.visits": 1}
    rows = [each["sql"] for each in captured if 'FROM "runs_run"' in each["sql"]]
    assert len(rows) == 3, "the Run as it stands, its graph and its time"
    instances = [each["sql"] for each in captured if each["sql"].startswith('SELECT "ledger_serviceinstance"')]
    assert len(instances) == 1, "for the page's forms"


def test_djangos_lists_of_rows_read_no_json(service: Any) -> None:
    service.finish(do=[{"ending": "ask", "record": "needle"}])
    client = signed_in(root())
    for model, models in admin.site._registry.items():
        if isinstance(models, ReadOnlyAdmin):
            name = f"{model._meta.app_label}_{model._meta.model_name}"
            with CaptureQueriesContext(connection) as captured:
                assert client.get(reverse(f"admin:{name}_changelist")).status_code == 200
            of_rows = [each["sql"] for each in captured if f'FROM "{name}"' in each["sql"]]
            assert of_rows
            for field in model._meta.concrete_fields:
                if isinstance(field, JsonTextField):
                    assert not any(f'"{name}"."{field.column}"' in sql for sql in of_rows), field


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

    def one() -> None:
        call = AgentCall.objects.filter(closed_as="").values_list("pk", "run_id")[0]
        reference = TaskReference(call_id=str(call[0]), run_id=str(call[1]))
        assert find_call(caller=service.caller, reference=reference).run.release_digest

    def of_run() -> None:
        assert len(calls_of_run(run_id=uuid.UUID(waits), limit=10, receipts=10)) in (1, 3)

    calls(1)
    look()
    few = [read_of(look), read_of(of_run)]
    assert read_of(one) == ({"agents_agentcall.reads"}, 2)
    calls(2)
    service.finish(do=[{"ending": "ask"}])
    assert [read_of(look), read_of(of_run)] == few
    assert [columns for columns, _ in few] == [set(), set()]


def test_an_artifact_that_is_named_is_looked_up_and_no_list_read_beside_it(service: Any) -> None:
    artifact_id = service.finish(do=[{"artifact": {"text": "x"}}])["results"]["artifactIds"][0]
    client = signed_in(root())
    for asked, number in ((artifact_id, 1), ("nothing", 0)):
        with CaptureQueriesContext(connection) as captured:
            shown = text_of(client.get("/admin/console/artifacts/", {"id": asked}))  # type: ignore[arg-type]
        assert f"{number} Artifact" in shown
        assert (f">{artifact_id}</a>" in shown) is (number == 1)
        assert sum('FROM "results_artifactrevision"' in each["sql"] for each in captured) == 1
