"""Looking changes nothing, costs the same whatever there is, and no text becomes markup (K15, K16, P9)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import pytest
from console_people import digest, form, operator, page, press, root, signed_in, text_of
from django.contrib import admin
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import get_resolver

from apps.console.pages.run import TABS
from apps.core import clock

PAYLOAD = "<script>alert(1)</script><img src=x onerror=alert(2)>\"'javascript:alert(3)"


@pytest.fixture
def runs(service: Any) -> list[str]:
    """One that ended, one that failed, one that waits; every text in them is a payload."""
    ended = service.finish(do=[{"ending": "again", "artifact": {PAYLOAD: PAYLOAD}, "record": "r"}, {"ending": "done"}])
    failed = service.finish(do=[{"failures": 9, "error": "ValueError", "ending": PAYLOAD}], effects=None)
    waits = service.finish(do=[{"ending": "ask"}])
    return [view["runId"] for view in (ended, failed, waits)]


def addresses(runs: list[str]) -> Iterator[str]:
    """Every address of the site, with ids that there are."""
    for pattern in get_resolver("apps.console.urls").url_patterns:
        for run_id in runs:
            named = str(pattern.pattern).replace("<str:loom_name>", "trial")
            yield "/admin/console/" + re.sub(r"<[^>]+>", run_id, named)
    for run_id in runs:
        yield from (page(run_id, tab) for tab in TABS)
    yield "/admin/"
    yield "/admin/console/runs/?status=open&text=a&age=1d&error=STEP_FAILED&source=cli&operation=x"
    yield f"/admin/console/runs/bulk/?do=cancel&scope=filter&run={runs[0]}"
    yield from (f"/admin/{name}/" for name in ("logout", "password_change", "jsi18n", "autocomplete", "login"))
    for model in admin.site._registry:
        base = f"/admin/{model._meta.app_label}/{model._meta.model_name}/"
        yield from (f"/admin/{model._meta.app_label}/", base, f"{base}?q=x", f"{base}add/")
        row = model._default_manager.order_by("pk").first()
        if row is not None:
            key = quote(str(row.pk), safe="")
            yield from (f"{base}{key}/{what}/" for what in ("change", "delete", "history"))


@pytest.mark.rule("K15", "K16")
def test_get_changes_nothing_and_every_answer_has_the_policy(service: Any, runs: list[str]) -> None:
    client = signed_in(root(), raise_request_exception=False)
    before = digest()
    for address in addresses(runs):
        found = client.get(address)
        assert found.status_code in (200, 302, 400, 403, 404, 405), address
        policy = found.headers["Content-Security-Policy"]
        for part in ("default-src 'none'", "frame-ancestors 'none'", "object-src 'none'", "base-uri 'none'"):
            assert part in policy, address
        assert re.search(r"script-src 'self'( 'nonce-[\w+/=-]+')?(;|$)", policy), (address, policy)
        assert "unsafe" not in policy
        assert found.headers["X-Content-Type-Options"] == "nosniff"
        assert found.headers["X-Frame-Options"] == "DENY"
        if found.headers["Content-Type"].startswith("text/html"):
            shown = text_of(found)  # type: ignore[arg-type]
            assert "<script>alert" not in shown, address
            assert "<img src=x" not in shown, address
            assert not re.search(r"<script(?![^>]*(src=|type=\"application/json\"))[^>]*>", shown), address
            assert not re.search(r"<[^>]+\s(on\w+|style)=", shown), address
    assert digest() == before


@pytest.mark.rule("K15")
def test_a_post_without_the_token_is_refused_everywhere(service: Any, runs: list[str]) -> None:
    client = signed_in(root(), enforce_csrf_checks=True)
    before = digest()
    for address in addresses(runs):
        assert client.post(address.partition("?")[0], {"do": "cancel", "runs": " ".join(runs)}).status_code == 403, (
            address
        )
    assert digest() == before


@pytest.mark.rule("K15")
def test_actions_are_done_by_post_alone_and_their_addresses_lead_to_the_page(service: Any, runs: list[str]) -> None:
    client = signed_in(root())
    for verb in ("pause", "resume", "resume-step", "cancel", "answer"):
        assert client.get(f"{page(runs[2])}{verb}/").status_code == 302
    assert client.get("/admin/console/runs/bulk/do/").status_code == 302


def test_an_address_that_no_database_can_be_asked_for_is_not_found(service: Any) -> None:
    client = signed_in(root())
    for address in ("looms/%00/", "looms/a%00b/releases/?from=x&to=y"):
        assert client.get(f"/admin/console/{address}").status_code == 404, address
    assert client.post("/admin/console/access/a%00b/revoke/").status_code == 404


@pytest.mark.rule("K16")
def test_a_nonce_serves_one_answer(service: Any) -> None:
    client = signed_in(root())
    found = [client.get("/admin/").headers["Content-Security-Policy"] for _ in range(2)]
    assert found[0] != found[1]


def statements(client: Client, address: str, **headers: str) -> int:
    client.get(address, headers=headers)
    with CaptureQueriesContext(connection) as queries:
        assert client.get(address, headers=headers).status_code == 200
    for query in queries:
        assert "COUNT(" not in query["sql"], query["sql"]
        assert "OFFSET" not in query["sql"], query["sql"]
    return len(queries)


@pytest.mark.rule("R3")
def test_pages_cost_as_many_statements_whatever_there_is(service: Any) -> None:
    client = signed_in(root())
    run_id = service.finish(do=[{"ending": "again"}, {"ending": "ask"}])["runId"]
    service.finish(do=[{"failures": 9, "error": "ValueError"}])
    lists = ["/admin/", "/admin/console/runs/", "/admin/console/runs/?text=trial&status=waiting"]
    tabs = [page(run_id, tab) for tab in TABS]
    before = [statements(client, address) for address in lists + tabs]
    for _ in range(4):
        service.finish(do=[{"ending": "ask"}])
        service.finish(do=[{"failures": 9, "error": "ValueError"}])
    service.operate("answer_ask", runId=run_id, actionId=service.run(run_id)["pendingAction"]["id"],
                    answer=[{"questionId": "q", "isSkipped": False, "answer": "0"}])  # fmt: skip
    assert [statements(client, address) for address in lists] == before[: len(lists)]
    service.work()
    after = [statements(client, address) for address in tabs]
    # The answer that the Run has now is shown; nothing else was added.
    assert all(now <= then + 1 for now, then in zip(after, before[len(lists) :], strict=True)), (before, after)


@pytest.mark.rule("R3")
@pytest.mark.skipif(connection.vendor != "postgresql", reason="SQLite plans each statement by itself")
def test_lists_are_planned_for_their_project_and_not_for_any(service: Any) -> None:
    """A plan for any Project reads a whole table for a small one, once the statement has been prepared."""
    client = signed_in(root())
    service.start(do=[])
    for _ in range(8):
        service.call("list_runs", status="queued")
        client.get("/admin/console/runs/?status=queued")
    with connection.cursor() as cursor:
        cursor.execute("SELECT statement FROM pg_prepared_statements")
        prepared = [statement for (statement,) in cursor.fetchall()]
    assert prepared, "other statements are"
    lists = [one for one in prepared if "ORDER BY" in one and '"runs_run"."status" =' in one]
    assert lists == []


@pytest.mark.rule("FR-I13")
def test_a_live_part_is_sent_again_only_when_it_is_another_one(service: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    client = signed_in(root())
    run_id = service.finish(do=[{"ending": "ask"}])["runId"]
    service.operate("pause_run", runId=run_id)
    at = clock.now()
    monkeypatch.setattr(clock, "now", lambda: at)
    whole = text_of(client.get(page(run_id)))  # type: ignore[arg-type]
    part = client.get(page(run_id), headers={"X-Live": "live"})
    assert text_of(part).startswith('<div id="live" data-live="on"')  # type: ignore[arg-type]
    assert "<html" in whole
    again = client.get(page(run_id), headers={"X-Live": "live", "If-None-Match": part.headers["ETag"]})
    assert (again.status_code, again.content) == (304, b"")
    press(client, run_id, "cancel")
    over = client.get(page(run_id), headers={"X-Live": "live", "If-None-Match": part.headers["ETag"]})
    assert over.status_code == 200
    assert text_of(over).startswith('<div id="live" data-live="off"')  # type: ignore[arg-type]


@pytest.mark.rule("FR-I13")
def test_news_are_made_without_what_only_the_frame_of_a_page_shows(service: Any) -> None:
    client = signed_in(root())
    run_id = service.finish(do=[{"ending": "ask"}])["runId"]
    for address in ("/admin/", "/admin/console/runs/", "/admin/console/health/", page(run_id)):
        assert "navigation" in client.get(address).context
        news = client.get(address, headers={"X-Live": "live"})
        assert "navigation" not in news.context
        assert statements(client, address, **{"X-Live": "live"}) <= statements(client, address), address


@pytest.mark.rule("R3")
def test_forms_of_a_page_take_no_statement_each(service: Any) -> None:
    client = signed_in(root())
    short, long = (service.finish(do=[{"ending": "again"}] * often)["runId"] for often in (1, 4))
    tabs = [f"{page(run_id)}?tab=boundaries" for run_id in (short, long)]
    forms = [text_of(client.get(tab)).count('name="operationId"') for tab in tabs]  # type: ignore[arg-type]
    assert forms[1] > forms[0]
    assert statements(client, tabs[1]) == statements(client, tabs[0])


@pytest.mark.rule("K14")
def test_what_an_operator_may_is_read_once_for_a_page_and_its_frame(service: Any) -> None:
    client = signed_in(operator("ada", "see_project"))
    client.get("/admin/console/rows/")
    with CaptureQueriesContext(connection) as queries:
        client.get("/admin/console/rows/")
    asked = [re.findall(r'FROM "(\w+)"', query["sql"])[0] for query in queries]
    assert (asked.count("access_project"), asked.count("console_projectrole")) == (1, 1), asked


@pytest.mark.rule("FR-I7")
def test_the_raw_lists_keep_their_buttons_under_our_frame(service: Any) -> None:
    """Django's own pages are extended, not copied: what an upgrade brings is there."""
    client = signed_in(root())
    shown = text_of(client.get("/admin/auth/user/add/"))  # type: ignore[arg-type]
    assert 'name="_save"' in shown
    assert 'class="bar"' in shown
    assert form(client, "/admin/", "/admin/logout/")["csrfmiddlewaretoken"]


def test_rows_are_listed_for_those_who_may_look_at_them(service: Any) -> None:
    assert "/admin/runs/run/" in text_of(signed_in(root()).get("/admin/console/rows/"))  # type: ignore[arg-type]
    shown = text_of(signed_in(operator("viewer", "see_project")).get("/admin/console/rows/"))  # type: ignore[arg-type]
    assert "your account has none of them" in shown
