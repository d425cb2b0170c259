"""Lists, cursors and plans under attack."""

from __future__ import annotations

import datetime as dt
import itertools
from collections.abc import Callable
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from apps.core import clock, cursors, ids
from apps.runs.models import Run
from apps.runs.services.sweeping import remove_old_runs
from tests.conftest import Service
from tests.integration.attacking import (
    finished,
    make_loom,
    only_on_postgresql,
)

pytestmark = pytest.mark.django_db(transaction=True)


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


def _many_ended_like(run_id: str) -> None:
    """A table whose plans do not hang on chance: a few hundred ended Runs, and PostgreSQL knows of them."""
    run = Run.objects.get(pk=run_id)
    copies = []
    for _ in range(300):
        copy = deepcopy(run)
        copy.pk, copy.trace_id, copy.origin_operation_id = ids.new_id(), ids.new_id(), ids.new_id()
        copies.append(copy)
    Run.objects.bulk_create(copies)
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE runs_run")


@pytest.mark.rule("N8", "R8")
def test_what_is_open_is_found_without_reading_what_has_ended(service: Service) -> None:
    only_on_postgresql()
    _many_ended_like(service.finish()["runId"])
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
