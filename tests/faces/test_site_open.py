"""What the whole site shows to nobody in particular, to its log, and to staff while Runs go on."""

# ruff: noqa: F811 - the fixtures come from site_live
from __future__ import annotations

import io
import json
import logging
import re
import threading
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import pytest
from django.contrib import admin
from django.contrib.auth import get_user_model
from django.test import Client
from django.urls import URLPattern, URLResolver, get_resolver
from site_live import ENTRY_OF, Site, _site_port, identity, site  # noqa: F401

from apps.core.redaction import OneLineFormatter, RedactingFilter

#: What may be read without a credential: health, the sign-in page, and where signing out leads.
OPEN = {"/health", "/health/", "/admin/login/"}


def addresses(patterns: Any, before: str = "") -> Iterator[str]:
    """An address of every pattern of the URLconf, each variable part filled in."""
    for pattern in patterns:
        text = str(pattern.pattern)
        if isinstance(pattern, URLResolver):
            yield from addresses(pattern.url_patterns, before + text)
        elif isinstance(pattern, URLPattern):
            text = re.sub(r"<[^>]+>", "1", text.replace(r"(?:/[\s\S]*)?", "/nothing"))
            text = re.sub(r"\(\?P1?(<\w+>)?[^()]*\)|\(\?:[^()]*(\([^()]*\))?[^()]*\)\?", "1", text)
            yield "/" + before + text.replace("^", "").replace("\\Z", "").replace("$", "").replace("\\", "").rstrip("?")


ADDRESSES = sorted(set(addresses(get_resolver("loomsvc.urls").url_patterns)))


@pytest.mark.rule("K9")
@pytest.mark.parametrize("path", ADDRESSES)
def test_every_address_asks_who_is_there(site: Site, path: str) -> None:
    for method in ("GET", "POST", "PUT", "DELETE", "HEAD"):
        found = site.send(method, path, b"{}" if method in ("POST", "PUT") else None, token=None)
        if path in OPEN and method in ("GET", "HEAD"):
            assert found.status == 200
        elif path in OPEN:
            assert found.status in (403, 405)
        elif path == "/":
            # Leads a browser to the sign-in page; nothing else is there.
            assert found.status == 404
        elif path.startswith("/admin"):
            assert found.status in (302, 403, 405)
            assert found.status != 302 or found.headers["location"].startswith("/admin/")
        else:
            assert (found.status, found.headers.get("www-authenticate")) == (401, 'Bearer realm="loomsvc"')


@pytest.mark.rule("K9")
def test_the_crawl_sees_the_whole_site() -> None:
    assert len(ADDRESSES) > 60
    assert {"/health/", "/admin/login/", "/api/v1/status", "/api/v1/openapi.json/", "/api/v1/nothing"} <= set(ADDRESSES)


@pytest.mark.rule("K9")
@pytest.mark.parametrize("entry", ENTRY_OF)
@pytest.mark.parametrize("method", ["initialize", "tools/list", "tools/call", "ping", "server/discover", "x"])
def test_every_entry_and_method_asks_who_is_there(site: Site, entry: str, method: str) -> None:
    message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {"name": "status"}}
    for path in (entry, entry + "/"):
        assert site.send("POST", path, message, token=None, headers={"Accept": "*/*"}).status == 401


@pytest.fixture
def log() -> Iterator[io.StringIO]:
    """All that goes to the log, as the service writes it."""
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    handler.addFilter(RedactingFilter())
    handler.setFormatter(OneLineFormatter())
    root, level = logging.getLogger(), logging.getLogger().level
    root.addHandler(handler)
    root.setLevel(logging.DEBUG)
    yield stream
    root.removeHandler(handler)
    root.setLevel(level)


@pytest.mark.rule("K25")
@pytest.mark.parametrize(
    "payload",
    [
        "\r\n2026-11-30T00:00:00Z ERROR forged line", "\x1b[2J\x1b]0;title\x07", "\u2028forged", "\u202egnp",
        "\x85forged", "%0d%0aforged",
    ],
    ids=["crlf", "ansi", "line separator", "direction", "next line", "encoded"],
)  # fmt: skip
def test_no_text_of_a_client_breaks_a_line_of_the_log(
    site: Site, service: Any, log: io.StringIO, payload: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    address = quote(payload, safe="")
    for path in (f"/api/v1/artifacts/{address}", f"/api/v1/{address}", f"/{address}", f"/admin/{address}"):
        site.send("GET", path)
        site.send("GET", f"{path}?x={address}", headers={"User-Agent": address, "Referer": address})
    body = {"loomName": payload, "input": {payload: payload}, "operationId": payload, payload: payload}
    site.send("POST", "/api/v1/runs", body)
    site.tool("run", body)
    site.mcp({"jsonrpc": "2.0", "id": payload, "method": payload, "params": {"name": payload, "_meta": {}}})
    site.mcp({"jsonrpc": "2.0", "id": payload, "method": "tools/call", "params": {"name": payload}})
    service.finish(do=[{"ending": payload}])
    service.finish(do=[{"failures": 9, "error": "ValueError", "ending": payload}])
    logging.getLogger("loomsvc.test").error("a record with %s", payload)
    written = log.getvalue()
    for line in written.split("\n")[:-1]:
        assert re.match(r"\d{4}-\d\d-\d\dT[\d:.]+Z (DEBUG|INFO|WARNING|ERROR|CRITICAL) \S+ ", line), line
        assert not re.search(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e]", line), line
    assert "a record with" in written


@pytest.mark.rule("K25")
def test_nobody_changes_or_deletes_a_row_of_ours_in_the_admin(service: Any) -> None:
    service.finish(do=[{"ending": "done", "artifact": {"a": 1}, "record": "r"}])
    get_user_model().objects.create_superuser(username="root", password="only for this test")
    client = Client()
    assert client.login(username="root", password="only for this test")
    ours = [model for model in admin.site._registry if model.__module__.startswith("apps.")]
    assert {"Operation", "Event", "Run", "Credential"} <= {model.__name__ for model in ours}
    for model in ours:
        rows = model._default_manager
        before = list(rows.order_by("pk").values())
        base = f"/admin/{model._meta.app_label}/{model._meta.model_name}/"
        key = quote(str(rows.order_by("pk").values_list("pk", flat=True).first() or 1), safe="")
        assert client.get(base).status_code == 200
        for path in (f"{base}add/", f"{base}{key}/change/", f"{base}{key}/delete/"):
            assert client.post(path, {"post": "yes"}).status_code in (302, 403, 404), path
        client.post(base, {"action": "delete_selected", "_selected_action": [key], "post": "yes"})
        assert list(rows.order_by("pk").values()) == before, model


@pytest.mark.rule("FR-G7")
def test_pages_are_read_while_twenty_runs_run_and_nobody_meets_a_lock(
    site: Site, service: Any, log: io.StringIO
) -> None:
    user = get_user_model().objects.create_superuser(username="root", password="only for this test")
    session = Client()
    session.force_login(user)
    cookie: dict[str, str | None] = {"Cookie": f"sessionid={session.cookies['sessionid'].value}"}
    plan = [{"ending": "again", "artifact": {"n": n}, "record": None} for n in range(3)] + [{"ending": "done"}]
    started = [service.start(do=plan) for _ in range(20)]
    done, statuses = threading.Event(), []

    def read(tab: str) -> None:
        while not done.is_set():
            statuses.append(site.send("GET", tab, token=None, headers=cookie).status)

    tabs = ["runs/run/", "runs/stepattempt/", "ledger/operation/", "ledger/event/", f"runs/run/{started[0]}/change/"]
    readers = [threading.Thread(target=read, args=(f"/admin/{tab}",)) for tab in tabs]
    for reader in readers:
        reader.start()
    service.work()
    done.set()
    for reader in readers:
        reader.join()
    assert {service.run(run_id)["status"] for run_id in started} == {"completed"}
    assert set(statuses) == {200}
    assert "locked" not in log.getvalue()


@pytest.mark.rule("FR-D11")
def test_a_long_decimal_is_shown_to_the_last_digit(site: Site, service: Any) -> None:
    run = service.finish(do=[{"ending": "done", "artifact": {"result": 0.2345678901234568}}])
    artifact_id = run["results"]["artifactIds"][0]
    assert b"0.2345678901234568" in site.send("GET", f"/api/v1/artifacts/{quote(artifact_id, safe='')}").body
    found = site.tool("get_artifact", {"artifactId": artifact_id})
    assert json.loads(found["content"][0]["text"])["artifact"]["data"] == {"result": 0.2345678901234568}
