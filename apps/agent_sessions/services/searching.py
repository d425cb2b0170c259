"""Searching the ledger or the web, for callers and for background agents (B7)."""

from __future__ import annotations

import uuid

from django.db import connection

from apps.agent_sessions.contracts.search import SearchPage, SearchPostRequest, SearchResult, Source
from apps.agent_sessions.domain.refusals import Reason, Refusal
from apps.core import conf, cursors
from apps.core.errors import ErrorCode
from apps.results.selectors.searching import search_results

#: Pages of the web search that are gone through.
_LAST_PAGE = 20


def usual_source() -> Source:
    """Where is searched when nothing is said."""
    return "web" if conf.settings().searxng_url else "ledger"


def search(*, project_id: uuid.UUID, request: SearchPostRequest) -> SearchPage:
    """A page of results; ``UNAVAILABLE`` when the web is asked for and not there."""
    if (request.source or usual_source()) == "web":
        return _of_web(request)
    page = search_results(project_id=project_id, query=request.query, limit=request.limit, cursor=request.cursor)
    return SearchPage(
        results=[
            SearchResult(title=one.title, url=one.url, snippet=one.snippet, score=one.score, source="ledger")
            for one in page.results
        ],
        next_cursor=page.next_cursor,
    )


def _of_web(request: SearchPostRequest) -> SearchPage:
    """From where the cursor stands: a page of the endpoint's, and how much of it was given out."""
    from apps.agent_sessions.runtime.searxng import WebSearchFailed, search_web  # an HTTP client, for whoever asks

    settings = conf.settings()
    filters = {"query": request.query, "source": "web"}
    page, given = cursors.decode("search", filters, request.cursor, _page_and_given) or (1, 0)
    if not settings.searxng_url:
        raise Refusal(
            ErrorCode.UNAVAILABLE,
            Reason.SEARCH_NOT_CONFIGURED,
            "This service has no web search. Search with source `ledger`; an operator can set LOOMSVC_SEARXNG_URL.",
        )
    # Nothing of the ledger is held while others answer, a connection neither.
    connection.close()
    try:
        found = search_web(settings.searxng_url, request.query, page=page, allowed_hosts=settings.searxng_allow_hosts)
    except WebSearchFailed as failed:
        raise Refusal(
            ErrorCode.UNAVAILABLE,
            Reason.TEMPORARILY_UNAVAILABLE,
            f"The web search of this service gives no results: {failed}. Source `ledger` does not need it.",
        ) from None
    shown = found[given : given + request.limit]
    return SearchPage(
        results=[
            SearchResult(title=one.title, url=one.url, snippet=one.snippet, score=one.score, source="web")
            for one in shown
        ],
        next_cursor=_next(filters, page, given + len(shown), len(found)),
    )


def _next(filters: dict[str, str], page: int, given: int, found: int) -> str | None:
    if given < found:
        return cursors.encode("search", filters, f"{page}/{given}")
    if found and page < _LAST_PAGE:
        return cursors.encode("search", filters, f"{page + 1}/0")
    return None


def _page_and_given(key: str) -> tuple[int, int]:
    page, _, given = key.partition("/")
    if not 1 <= cursors.number(page) <= _LAST_PAGE:
        raise ValueError("no such page")
    return cursors.number(page), cursors.number(given)
