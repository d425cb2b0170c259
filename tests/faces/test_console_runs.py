"""The list of Runs: filters in the address, keyset pages, and many Runs at once."""

from __future__ import annotations

import datetime as dt
import html
import re
import uuid
from typing import Any
from urllib.parse import urlencode

import pytest
from console_people import form, operator, page, root, signed_in, text_of, with_role
from django.test import Client

from apps.access.services.projects import create_project
from apps.core import clock
from apps.core.ids import first_id_at, new_id
from apps.ledger.models import Operation
from apps.runs.models import Run
from apps.runs.selectors import browsing

LIST = "/admin/console/runs/"


def listed(client: Client, **filters: str) -> list[str]:
    """The ids that the list shows, in order."""
    found = client.get(LIST, filters)
    assert found.status_code == 200
    return re.findall(r'<tr id="run-([0-9a-f-]{36})"', text_of(found))  # type: ignore[arg-type]


@pytest.mark.rule("FR-I11")
def test_every_filter_finds_what_it_is_for(service: Any) -> None:
    other = create_project(name="elsewhere", now=clock.now())
    waits = service.finish(do=[{"ending": "ask"}])["runId"]
    failed = service.finish(do=[{"failures": 9, "error": "ValueError"}])["runId"]
    done = service.finish(do=[{"ending": "done", "record": "needle"}])["runId"]
    identity = str(uuid.uuid4())
    paused = service.start(do=[{"ending": "leave"}])
    service.call("pause_run", runId=paused, operationId=identity, serviceInstanceId=service.instance_id)
    origin = service.run(done)["origin"]["operationId"]
    away = Run.objects.get(pk=waits)
    away.pk, away.project, away.pending_action, away.source = new_id(), other, None, "agent_ide"
    away.save(force_insert=True)
    away_id = str(away.pk)
    client = signed_in(root())
    cases: list[tuple[dict[str, str], list[str]]] = [
        ({}, [away_id, paused, done, failed, waits]),
        ({"project": "elsewhere"}, [away_id]),
        ({"project": "nowhere"}, []),
        ({"loom": "trial"}, [away_id, paused, done, failed, waits]),
        ({"loom": "no"}, []),
        ({"status": "failed"}, [failed]),
        ({"status": "open"}, [away_id, paused, waits]),
        ({"source": "agent_ide"}, [away_id]),
        ({"source": "cli", "status": "waiting"}, [waits]),
        ({"error": "STEP_FAILED"}, [failed]),
        ({"error": "STEP_TIMEOUT"}, []),
        ({"text": "NEEDLE"}, [done]),
        ({"text": "valueerror"}, [failed]),
        ({"text": "100%"}, []),
        ({"text": "a\x00b"}, []),
        ({"text": failed}, [failed]),
        ({"text": Run.objects.get(pk=done).trace_id.hex}, []),
        ({"text": str(Run.objects.get(pk=done).trace_id)}, [done]),
        ({"operation": origin}, [done]),
        ({"operation": identity.upper()}, [paused]),
        ({"operation": "nonsense"}, []),
        ({"age": "1h"}, [away_id, paused, done, failed, waits]),
        ({"age": "over1h"}, []),
        ({"age": "whatever"}, [away_id, paused, done, failed, waits]),
    ]
    for filters, expected in cases:
        assert listed(client, **filters) == expected, filters
    mine = signed_in(with_role(operator("ada"), other.pk, "see_project"))
    assert listed(mine) == [away_id]
    assert listed(mine, project="trials") == []
    assert listed(mine, operation=origin) == []
    with clock.moved(dt.timedelta(hours=2)):
        assert listed(signed_in(root("later")), age="over1h", status="failed") == [failed]


@pytest.mark.rule("FR-I11", "R3")
def test_pages_follow_each_other_and_keep_their_filters(service: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("apps.console.pages.runs.ROWS", 3)
    made = [service.start(do=[{"ending": "done"}]) for _ in range(8)]
    client = signed_in(root())
    for filters in ({}, {"status": "queued"}, {"text": "trial", "status": "open", "age": "1d"}):
        seen: list[str] = []
        address = f"{LIST}?{urlencode(filters)}"
        while address:
            shown = html.unescape(text_of(client.get(address)))  # type: ignore[arg-type]
            seen += re.findall(r'<tr id="run-([0-9a-f-]{36})"', shown)
            older = re.search(r'href="(\?[^"]*cursor=[^"]+)"', shown)
            assert older is None or all(f"{name}={value}" in older[1] for name, value in filters.items())
            address = LIST + older[1] if older else ""
        assert seen == made[::-1], filters
    wrong = client.get(f"{LIST}?status=failed&cursor=nonsense")
    assert "does not belong to these filters" in text_of(wrong)  # type: ignore[arg-type]


def test_what_no_index_answers_is_looked_for_in_windows_that_are_told(
    service: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(browsing, "WINDOW", 4)
    first = service.start(do=[{"ending": "needle"}])
    for _ in range(8):
        service.start(do=[{"ending": "done"}])
    client = signed_in(root())
    address, rounds = f"{LIST}?text=needle", 0
    while address:
        shown = html.unescape(text_of(client.get(address)))  # type: ignore[arg-type]
        rounds += 1
        found = re.findall(r'<tr id="run-([0-9a-f-]{36})"', shown)
        older = re.search(r'href="(\?[^"]*cursor=[^"]+)"', shown)
        assert re.search(r"of the [14] Runs looked through", shown)
        assert found == ([] if older else [first])
        address = LIST + older[1] if older else ""
    assert rounds == 3


@pytest.mark.rule("O1", "O10")
def test_many_runs_are_cancelled_each_by_an_operation_and_ended_ones_are_skipped(service: Any) -> None:
    waits = [service.finish(do=[{"ending": "ask"}])["runId"] for _ in range(3)]
    done = service.finish(do=[{"ending": "done"}])["runId"]
    client = signed_in(root())
    ask = f"{LIST}bulk/?" + urlencode(
        {"do": "cancel", "run": [waits[0], waits[1], done, "x"], "back": "status=open"}, True
    )
    asked = text_of(client.get(ask))  # type: ignore[arg-type]
    assert "Cancel 2 Runs?" in asked
    assert "1 of those found has ended" in asked
    fields = form(client, ask, f"{LIST}bulk/do/")
    service.operate("cancel_run", runId=waits[1])
    told = text_of(client.post(f"{LIST}bulk/do/", fields))  # type: ignore[arg-type]
    assert "1 of 2 admitted" in told
    assert "skipped: it had ended" in told
    assert f"{LIST}?status=open" in told
    again = text_of(client.post(f"{LIST}bulk/do/", fields))  # type: ignore[arg-type]
    assert "1 of 2 admitted" in again
    assert [service.run(run_id)["status"] for run_id in waits] == ["cancelled", "cancelled", "waiting"]
    stored = Operation.objects.filter(kind="cancel_run", source="console")
    assert [(str(row.run_id), row.principal) for row in stored] == [(waits[0], "operator:root")]


@pytest.mark.rule("R9")
def test_a_whole_filter_is_paused_and_its_bound_is_told(service: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("apps.console.pages.bulk.MOST", 3)
    queued = [service.start(do=[{"ending": "done"}]) for _ in range(4)]
    service.operate("cancel_run", runId=queued[0])
    client = signed_in(root())
    ask = f"{LIST}bulk/?do=pause&scope=filter&status=queued&text=trial"
    asked = text_of(client.get(ask))  # type: ignore[arg-type]
    assert "Pause 3 Runs?" in asked
    fields = form(client, ask, f"{LIST}bulk/do/")
    late = service.start(do=[{"ending": "done"}])
    assert "these are the newest 3; there are more" in text_of(client.get(ask)).lower()  # type: ignore[arg-type]
    assert "3 of 3 admitted" in text_of(client.post(f"{LIST}bulk/do/", fields))  # type: ignore[arg-type]
    assert [service.run(run_id)["status"] for run_id in [*queued[1:], late]] == ["paused"] * 3 + ["queued"]


def test_a_bulk_form_from_before_a_restart_or_of_nonsense_changes_nothing(service: Any) -> None:
    run_id = service.start(do=[{"ending": "done"}])
    client = signed_in(root())
    ask = f"{LIST}bulk/?do=cancel&run={run_id}"
    fields = form(client, ask, f"{LIST}bulk/do/")
    service.reopen()
    told = text_of(client.post(f"{LIST}bulk/do/", fields))  # type: ignore[arg-type]
    assert "0 of 1 admitted" in told
    assert "started anew" in told
    told = text_of(client.post(f"{LIST}bulk/do/", {**fields, "operationId": "x"}))  # type: ignore[arg-type]
    assert "0 of 1 admitted" in told
    assert client.post(f"{LIST}bulk/do/", {**fields, "do": "delete"}).status_code == 404
    assert client.get(f"{LIST}bulk/?do=delete").status_code == 404
    assert service.run(run_id)["status"] == "queued"


@pytest.mark.rule("FR-E13")
def test_ages_part_runs_that_began_a_minute_apart(service: Any) -> None:
    run = Run.objects.get(pk=service.start(do=[]))
    made = []
    for minutes in (61, 60, 59):
        # Its id says when a Run began.
        run.pk = first_id_at(clock.now() - dt.timedelta(minutes=minutes, seconds=30))
        run.origin_operation_id = None
        run.save(force_insert=True)
        made.append(str(run.pk))
    client = signed_in(root())
    assert listed(client, age="1h")[1:] == made[:1:-1]
    assert listed(client, age="over1h") == made[1::-1]


@pytest.mark.rule("FR-E15")
def test_a_run_that_begins_between_two_pages_makes_the_next_one_repeat_nothing(
    service: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("apps.console.pages.runs.ROWS", 2)
    made = [service.start(do=[]) for _ in range(4)]
    client = signed_in(root())
    first = html.unescape(text_of(client.get(LIST)))  # type: ignore[arg-type]
    older = re.search(r'href="(\?[^"]*cursor=[^"]+)"', first)
    assert older is not None
    service.start(do=[])
    second = text_of(client.get(LIST + older[1]))  # type: ignore[arg-type]
    shown = [re.findall(r'<tr id="run-([0-9a-f-]{36})"', page) for page in (first, second)]
    assert shown == [made[:1:-1], made[1::-1]]


@pytest.mark.rule("FR-E13")
def test_times_become_ranges_of_ids() -> None:
    before = clock.now()
    made = new_id()
    assert first_id_at(before) <= made < first_id_at(clock.now() + dt.timedelta(milliseconds=2))


def test_a_run_links_back_to_its_loom(service: Any) -> None:
    run_id = service.start(do=[])
    assert f'href="{LIST}?loom=trial"' in text_of(signed_in(root()).get(page(run_id)))  # type: ignore[arg-type]
