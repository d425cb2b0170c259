"""Asking the operator's SearXNG-compatible endpoint (B7), over the guarded way out (K19).

What comes back is anybody's: it is read to a bound, only what is needed is taken from it, and texts lose their markup.
"""

from __future__ import annotations

import asyncio
import math
import re
from collections.abc import Iterable
from dataclasses import dataclass
from html.parser import HTMLParser
from typing import Any
from urllib.parse import quote, urlsplit, urlunsplit

import httpx2

from apps.agent_sessions.runtime.addresses import AddressRefused
from apps.agent_sessions.runtime.transport import RedirectRefused, ResponseCompressed, ResponseTooLarge, guarded_client
from apps.core import json_text
from apps.results.domain import snippets

#: Seconds for the whole of it.
SECONDS = 10.0
#: The largest answer that is read, in bytes.
MOST_BYTES = 2 * 1024 * 1024
_LONGEST_TITLE = 200
_LONGEST_ADDRESS = 2048
_LONGEST_TEXT = 10_000
#: Tags that may stand within a word.
_INLINE = frozenset({"a", "b", "em", "i", "mark", "span", "strong", "u"})
#: A name and perhaps a port; no user, no IPv6 address.
_HOST = re.compile(r"[A-Za-z0-9._-]+(:[0-9]{1,5})?")


class WebSearchFailed(Exception):
    """The message says why, and nothing that the endpoint sent."""


@dataclass(frozen=True, slots=True)
class WebResult:
    """One result; ``title`` and ``snippet`` are plain text, ``url`` is http(s) and percent-encoded."""

    title: str
    url: str
    snippet: str
    score: float


def search_web(base_url: str, query: str, *, page: int, allowed_hosts: Iterable[str]) -> list[WebResult]:
    """One page of the endpoint's, counted from 1.  Raises :class:`WebSearchFailed`."""
    with asyncio.Runner() as runner:
        body = runner.run(_ask(base_url, query, page, frozenset(allowed_hosts)))
    return _read(body)


async def _ask(base_url: str, query: str, page: int, allowed_hosts: frozenset[str]) -> bytes:
    try:
        async with asyncio.timeout(SECONDS), guarded_client(allowed_hosts=allowed_hosts, seconds=SECONDS) as client:
            asked = {"q": query, "format": "json", "pageno": str(page)}
            headers = {"Accept": "application/json"}
            async with client.stream("GET", f"{base_url.rstrip('/')}/search", params=asked, headers=headers) as reply:
                if reply.status_code != 200:
                    raise WebSearchFailed(_of_status(reply.status_code))
                return await _bounded(reply)
    except AddressRefused:
        raise WebSearchFailed(
            "its host has an address that is not public, and the operator has not allowed that host"
        ) from None
    except RedirectRefused:
        raise WebSearchFailed("it redirects; the operator has to give its final address") from None
    except ResponseCompressed:
        raise WebSearchFailed("it compresses its answers though it was asked not to") from None
    except ResponseTooLarge:
        raise WebSearchFailed(f"it sent more than {MOST_BYTES} bytes") from None
    except (TimeoutError, httpx2.TimeoutException):
        raise WebSearchFailed(f"it did not answer within {SECONDS:g} seconds") from None
    except httpx2.HTTPError:
        raise WebSearchFailed("it cannot be reached, or broke off") from None


async def _bounded(reply: httpx2.Response) -> bytes:
    body = bytearray()
    async for chunk in reply.aiter_bytes():
        body += chunk
        if len(body) > MOST_BYTES:
            raise ResponseTooLarge
    return bytes(body)


def _of_status(status: int) -> str:
    if status == 403:
        return "it answers HTTP 403; the operator has to allow the format `json` there"
    return "it takes no more requests for now (HTTP 429)" if status == 429 else f"it answers HTTP {status}"


def _read(body: bytes) -> list[WebResult]:
    try:
        answer = json_text.parse(body)
    except json_text.NotJson:
        raise WebSearchFailed("it answers with something that is no JSON") from None
    results = answer.get("results") if isinstance(answer, dict) else None
    if not isinstance(results, list):
        raise WebSearchFailed("it answers with something that is no list of results")
    return [found for place, one in enumerate(results) if (found := _result(one, place)) is not None]


def _result(one: Any, place: int) -> WebResult | None:
    """A result that can be shown; ``None`` for what has no address that may be followed."""
    url = _address(one.get("url")) if isinstance(one, dict) else None
    if url is None:
        return None
    title = without_tags(one.get("title"), length=_LONGEST_TITLE)
    return WebResult(
        title=title or str(urlsplit(url).hostname),
        url=url,
        snippet=without_tags(one.get("content"), length=snippets.LENGTH),
        score=_score(one.get("score"), place),
    )


def _address(url: Any) -> str | None:
    """``url`` with everything escaped that could end it in a text, if it is http(s) and names no user."""
    if not isinstance(url, str) or len(url) > _LONGEST_ADDRESS:
        return None
    try:
        parts = urlsplit(url.strip())
        host = parts.netloc.encode("idna").decode()
    except ValueError:
        return None
    if parts.scheme not in ("http", "https") or not _HOST.fullmatch(host):
        return None
    rest = urlunsplit(("", "", parts.path, parts.query, parts.fragment)).encode("utf-8", "replace")
    return f"{parts.scheme}://{host}{quote(rest, safe='%/:?#=&;,+!$@~-._')}"


def _score(score: Any, place: int) -> float:
    """The endpoint's own; where it gives none, by the order of its results."""
    if isinstance(score, int | float) and not isinstance(score, bool) and math.isfinite(score) and 0 <= score < 1e6:
        return round(float(score), 3)
    return round(1 / (place + 1), 3)


def without_tags(text: Any, *, length: int) -> str:
    """Plain text of what may be HTML: tags, comments, scripts and styles are left out."""
    if not isinstance(text, str):
        return ""
    reader = _Reader()
    reader.feed(text[:_LONGEST_TEXT])
    reader.close()
    return snippets.plain("".join(reader.texts), length=length)


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.texts: list[str] = []
        self._unseen: str | None = None

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in ("script", "style"):
            self._unseen = tag
        if tag not in _INLINE:
            self.texts.append(" ")

    def handle_endtag(self, tag: str) -> None:
        if tag == self._unseen:
            self._unseen = None
        if tag not in _INLINE:
            self.texts.append(" ")

    def parse_marked_section(self, i: int, report: int = 1) -> int:
        """``<![`` and what is no section: a comment, as browsers have it.  The parser's own raises for it."""
        return self.parse_bogus_comment(i)

    def handle_data(self, data: str) -> None:
        if self._unseen is None:
            self.texts.append(data)
