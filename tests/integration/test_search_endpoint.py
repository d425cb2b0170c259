"""The Endpoint `search`: where it looks, what it refuses and how, and that isolation is exact."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from django.db import connection
from hypothesis import HealthCheck, given
from hypothesis import settings as tried
from hypothesis import strategies as st

from apps.core import clock, conf
from tests.conftest import Service, caller_in
from tests.loopback_searxng import SENTINEL, Searxng, configured_searxng

#: As the source document shows it, but for the id.
DOCUMENT = {
    "error": {
        "code": "invalid_request",
        "reason": "malformed_request",
        "message": "invalid request: request body violates the public contract",
        "recovery": None,
        "agent_session_id": None,
        "validation": {
            "contract": "SearchPostRequest",
            "issues": [{"code": "required", "path": "/query", "suggestion": "Add the required `query` field."}],
            "truncated": False,
        },
    },
}


def search(service: Service, caller: Any = None, **arguments: Any) -> dict[str, Any]:
    """The result, or the envelope of the refusal."""
    return service.call("search", caller, **arguments)


@pytest.fixture
def searxng(settings: Any) -> Iterator[Searxng]:
    with configured_searxng(settings) as server:
        yield server


@pytest.mark.rule("B7")
def test_what_a_run_filed_is_found_with_the_address_it_is_read_at(service: Service) -> None:
    run = service.finish(do=[{"artifact": {"text": "Release notes of spring"}, "record": "notes of spring"}])
    (artifact_id,) = run["results"]["artifactIds"]
    assert search(service, query="spring notes", source="ledger") == {
        "results": [
            {
                "title": "Record of trial · work",
                "url": "loom://records/notes%20of%20spring",
                "snippet": "0",
                "score": 0.5,
                "source": "ledger",
            },
            {
                "title": "Artifact of trial · work",
                "url": f"loom://artifacts/{artifact_id}",
                "snippet": "Release notes of spring",
                "score": 0.5,
                "source": "ledger",
            },
        ]
    }


@pytest.mark.rule("B4", "E3")
def test_a_missing_query_is_refused_as_the_document_shows_it(service: Service) -> None:
    refused = search(service)
    assert refused.pop("request_id")
    assert refused == DOCUMENT


@pytest.mark.rule("B4", "E3")
@pytest.mark.parametrize(
    ("arguments", "issues"),
    [
        ({"query": ""}, [("/query", "length")]),
        ({"query": " \n\t"}, [("/query", "value")]),
        ({"query": "x" * 1001}, [("/query", "length")]),
        ({"query": 7, "limit": 0, "source": "books"}, [("/query", "type"), ("/limit", "range"), ("/source", "choice")]),
        ({"query": "a\x00b"}, [("/query", "nul")]),
        ({"query": "\ud800"}, [("/query", "surrogate")]),
        ({"query": "x", "limit": 51}, [("/limit", "range")]),
        ({"query": "x", "limit": True}, [("/limit", "type")]),
        ({"query": "x", "cursor": "no"}, [("/cursor", "cursor")]),
        ({"query": "x", "page": 2, "sources": []}, [("/page", "unknown_member"), ("/sources", "unknown_member")]),
    ],
)
def test_every_issue_is_told_with_its_pointer_and_again_alike(
    service: Service, arguments: dict[str, Any], issues: list[tuple[str, str]]
) -> None:
    first, second = search(service, **arguments), search(service, **arguments)
    assert [(one["path"], one["code"]) for one in first["error"]["validation"]["issues"]] == issues
    assert all(one["suggestion"] for one in first["error"]["validation"]["issues"])
    assert first.pop("request_id") != second.pop("request_id")
    assert first == second


@pytest.mark.rule("B7", "E3")
@given(
    query=st.text(alphabet=st.characters(), max_size=80)
    | st.text("'\"*:&|!()<>-^\\%_ AND OR NOT NEAR\x00\ud800東é😀\u202e"),
    more=st.fixed_dictionaries({}, optional={"limit": st.integers(-1, 60), "cursor": st.text(max_size=40)}),
)
@tried(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_query_has_results_or_issues(service: Service, query: str, more: dict[str, Any]) -> None:
    answer = search(service, query=query, source="ledger", **more)
    if "error" in answer:
        assert answer["error"]["code"] == "invalid_request"
        assert answer["error"]["validation"]["issues"]
    else:
        assert answer == {"results": []}


@pytest.mark.rule("B7")
def test_the_web_is_the_usual_source_where_it_is_configured(service: Service, searxng: Searxng) -> None:
    searxng.pages = [[{"url": f"https://example.org/{n}", "title": f"T{n}", "content": "<b>c</b>"} for n in range(3)]]
    assert search(service, query="spring", limit=2)["results"] == [
        {"title": "T0", "url": "https://example.org/0", "snippet": "c", "score": 1.0, "source": "web"},
        {"title": "T1", "url": "https://example.org/1", "snippet": "c", "score": 0.5, "source": "web"},
    ]
    assert search(service, query="spring", source="ledger") == {"results": []}
    assert len(searxng.asked) == 1


@pytest.mark.rule("B7")
def test_no_connection_to_the_ledger_is_held_while_the_web_answers(service: Service, searxng: Searxng) -> None:
    search(service, query="spring", source="ledger")
    assert connection.connection is not None
    search(service, query="spring", source="web")
    assert connection.connection is None


@pytest.mark.rule("B7")
def test_pages_of_the_web_are_gone_through_to_their_end(service: Service, searxng: Searxng) -> None:
    searxng.pages = [[{"url": f"https://example.org/{page}{n}", "title": "t"} for n in range(3)] for page in (1, 2)]
    seen, cursor = [], {}
    for _ in range(10):
        page = search(service, query="spring", limit=2, **cursor)
        seen += [one["url"][-2:] for one in page["results"]]
        if "next_cursor" not in page:
            break
        cursor = {"cursor": page["next_cursor"]}
    assert seen == ["10", "11", "12", "20", "21", "22"]
    refused = search(service, query="summer", **cursor)
    assert refused["error"]["validation"]["issues"][0]["path"] == "/cursor"


@pytest.mark.rule("B7", "B4")
def test_the_web_without_an_endpoint_says_what_an_operator_can_do(service: Service) -> None:
    error = search(service, query="spring", source="web")["error"]
    assert (error["code"], error["reason"]) == ("unavailable", "search_not_configured")
    assert "LOOMSVC_SEARXNG_URL" in error["message"]


@pytest.mark.rule("B7", "K19")
@pytest.mark.parametrize("mode", ["403", "500", "html", "redirect", "cut", "private"])
def test_a_failing_endpoint_is_told_without_its_words_or_its_address(
    service: Service, searxng: Searxng, mode: str, settings: Any
) -> None:
    if mode == "private":
        settings.LOOMSVC = replace(settings.LOOMSVC, searxng_allow_hosts=())
    searxng.mode = mode
    error = search(service, query="spring")["error"]
    assert (error["code"], error["reason"]) == ("unavailable", "temporarily_unavailable")
    assert SENTINEL not in error["message"]
    assert searxng.host not in error["message"]
    assert "127.0.0.1" not in error["message"]


@pytest.mark.rule("K10", "E5")
def test_another_project_finds_nothing_of_ours(service: Service) -> None:
    from apps.access.services.projects import create_project

    service.finish(do=[{"artifact": {"text": "spring"}, "record": "r-1"}])
    stranger = caller_in(create_project(name="elsewhere", now=clock.now()))
    assert search(service, query="spring")["results"]
    assert search(service, stranger, query="spring") == search(service, stranger, query="nothing") == {"results": []}


@pytest.mark.rule("K19")
@pytest.mark.parametrize(
    ("text", "is_taken"),
    [
        ("https://searx.example/base/", True), ("http://localhost:8080", True), ("", True), ("searx.example", False),
        ("ftp://searx.example", False),
        ("https://user:pass@searx.example", False), ("https://searx.example?x=1", False),
        ("https://", False), ("file:///etc/passwd", False), ("http://[::1", False),
    ],
)  # fmt: skip
def test_the_address_of_the_endpoint_is_read_at_the_start(
    monkeypatch: pytest.MonkeyPatch, text: str, is_taken: bool
) -> None:
    monkeypatch.setenv("LOOMSVC_SEARXNG_URL", text)
    if is_taken:
        assert conf.from_environment().searxng_url == text.rstrip("/")
    else:
        with pytest.raises(ValueError, match="LOOMSVC_SEARXNG_URL") as told:
            conf.from_environment()
        assert "pass" not in str(told.value).replace("password", "")
