"""What stands around a Tool while it runs: no connection, no lock, a renewed lease; and admin pages of all that."""

from __future__ import annotations

import threading
import time
import uuid
from typing import Any

import pytest
from django.contrib import admin
from django.contrib.auth import get_user_model
from django.db import OperationalError, connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import path

from apps.agents.models import AgentCall, ToolReceipt
from apps.agents.services import leases, tool_calls
from apps.core.database import database_time_after
from tests.conftest import Service
from tests.integration.agent_work import Agent, code, waiting_agent
from tests.integration.attacking import at_once

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.mark.rule("A4", "K26")
def test_while_a_tool_runs_its_thread_holds_no_connection_and_others_may_write(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    held: list[Any] = []
    original = tool_calls.run_tool

    def run_tool(request: Any) -> Any:
        if request.tool.id == "add":
            held.append((connection.connection, connection.in_atomic_block))
            # A writer elsewhere meets no lock: on SQLite there is one for the whole ledger.
            assert at_once(lambda: codes.append(code(waiting_agent(service).tool("refuse")))) == []
        return original(request)

    codes: list[str | None] = []
    monkeypatch.setattr(tool_calls, "run_tool", run_tool)
    assert waiting_agent(service).tool("add", line="x")["output"] == {"lines": 1}
    assert (held, codes) == ([(None, False)], ["TOOL_FAILED"])


@pytest.mark.rule("A11")
def test_many_tools_at_once_leave_no_connection_and_no_thread_behind(service: Service) -> None:
    agents = [waiting_agent(service) for _ in range(5)]
    before = set(threading.enumerate())
    assert at_once(*[lambda agent=agent: [agent.tool("recall") for _ in range(3)] for agent in agents]) == []
    beat = leases._thread
    if beat is not None:
        beat.join(10)
    assert [thread for thread in set(threading.enumerate()) - before if thread.is_alive()] == []
    assert leases._in_hand == set()
    # A server process ends a moment after its client has gone.
    deadline = time.monotonic() + 10
    while connection.vendor == "postgresql" and (others := other_connections()):
        assert time.monotonic() < deadline, others
        time.sleep(0.01)


def other_connections() -> int:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() "
            "AND backend_type = 'client backend' AND pid <> pg_backend_pid()"
        )
        return int(cursor.fetchone()[0])


@pytest.mark.rule("A11", "F24")
def test_leases_are_renewed_through_trouble_and_after_the_thread_that_did_it_has_died(
    service: Service, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from dataclasses import replace

    settings.LOOMSVC = replace(settings.LOOMSVC, lease_seconds=0.3)
    renewed = threading.Event()
    trouble = iter([OperationalError("gone"), ValueError("odd")])

    def renew(receipts: list[uuid.UUID]) -> int:
        for error in trouble:
            raise error
        renewed.set()
        return len(receipts)

    monkeypatch.setattr(leases, "renew", renew)
    dead = threading.Thread(target=lambda: None)
    dead.start()
    dead.join()
    monkeypatch.setattr(leases, "_thread", dead)
    with leases.in_hand(uuid.uuid4()):
        assert renewed.wait(10)
        beat = leases._thread
    assert beat is not None
    beat.join(10)
    assert (beat.is_alive(), leases._thread) == (False, None)


@pytest.mark.rule("A11")
def test_a_lease_that_has_run_out_is_not_brought_back(service: Service) -> None:
    agent = waiting_agent(service)
    for name, seconds in (("live", 5), ("over", -5)):
        agent.tool("add", name, line="x")
        ToolReceipt.objects.filter(tool_call_id=name).update(lease_expires_at=database_time_after(seconds))
    before = dict(ToolReceipt.objects.values_list("tool_call_id", "lease_expires_at"))
    assert leases.renew(list(ToolReceipt.objects.values_list("id", flat=True))) == 1
    after = dict(ToolReceipt.objects.values_list("tool_call_id", "lease_expires_at"))
    assert after["over"] == before["over"]
    assert after["live"] > before["live"]


@pytest.fixture
def root(settings: Any, service: Service) -> Client:
    import types

    urls = types.ModuleType("admin_urls")
    urls.urlpatterns = [path("admin/", admin.site.urls)]  # type: ignore[attr-defined]
    settings.ROOT_URLCONF = urls
    client = Client(raise_request_exception=False)
    client.force_login(get_user_model().objects.create_superuser("root", password="x"))
    return client


def worked(service: Service) -> Agent:
    agent = waiting_agent(service)
    agent.tool("add", "one", line="x")
    return agent


@pytest.mark.rule("E6", "K11", "K14")
def test_admin_pages_find_calls_and_receipts_by_id_show_no_secret_and_count_nothing(
    root: Client, service: Service
) -> None:
    agent, other = worked(service), worked(service)
    receipt = ToolReceipt.objects.get(call_id=agent.call_id)
    calls, receipts = "/admin/agents/agentcall/", "/admin/agents/toolreceipt/"
    digest = AgentCall.objects.get(pk=agent.call_id).claim_digest
    for url in (calls, f"{calls}{agent.call_id}/change/", receipts, f"{receipts}{receipt.pk}/change/"):
        page = root.get(url)
        text = page.content.decode()
        assert page.status_code == 200, url
        assert not any(secret in text for secret in (agent.secret, digest, agent.claim_id)), url
    finding = ((calls, agent.call_id, other.call_id), (receipts, str(receipt.pk), other.call_id))
    for base, mine, others in finding:
        for term in (agent.call_id, agent.run_id):
            page = root.get(base, {"q": term}).content.decode()
            assert mine in page
            assert others not in page
        for odd in ("x", "%", "\x00", "0" * 5000, agent.call_id[:8]):
            assert root.get(base, {"q": odd}).status_code in (200, 400), odd
        assert root.get(f"{base}add/").status_code == 403
        assert root.post(f"{base}{mine}/delete/", {"post": "yes"}).status_code == 403

    def statements(url: str) -> list[str]:
        with CaptureQueriesContext(connection) as captured:
            root.get(url)
        return [query["sql"] for query in captured]

    few = {url: len(statements(url)) for url in (calls, receipts)}
    for _ in range(3):
        worked(service)
    for url, number in few.items():
        assert len(statements(url)) == number
        assert not any("COUNT(" in sql and "agents_" in sql for sql in statements(url))
