"""Asking a SearXNG-compatible endpoint: what is taken from an answer, and how each failure ends."""

from __future__ import annotations

import re
import socket
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apps.agent_sessions.runtime import searxng as asking
from apps.agent_sessions.runtime.searxng import WebResult, WebSearchFailed, search_web, without_tags
from tests.loopback_searxng import SENTINEL, Searxng, loopback_searxng


@pytest.fixture
def searxng() -> Iterator[Searxng]:
    with loopback_searxng() as server:
        yield server


def ask(searxng: Searxng, query: str = "spring", page: int = 1) -> list[WebResult]:
    return search_web(searxng.url, query, page=page, allowed_hosts=[searxng.host])


@pytest.mark.rule("B7")
def test_results_are_taken_in_their_order_as_plain_text(searxng: Searxng) -> None:
    searxng.pages = [
        [
            {"url": "https://example.org/a", "title": "<b>One</b> &amp; two", "content": "A <i>b</i>", "score": 3.5},
            {"url": "http://example.org/ü x?q=(1)#<b>", "title": "", "content": None},
            {"url": "https://münchen.example/", "title": "x", "score": float(2**70)},
        ]
    ]
    assert ask(searxng, 'sp"ring & 100 %') == [
        WebResult("One two", "https://example.org/a", "A b", 3.5),
        WebResult(
            "example.org",
            "http://example.org/%C3%BC%20x?q=%281%29#%3Cb%3E",
            "",
            0.5,
        ),
        WebResult("x", "https://xn--mnchen-3ya.example/", "", 0.333),
    ]
    assert searxng.asked == [{"path": "/search", "q": 'sp"ring & 100 %', "format": "json", "pageno": "1"}]


@pytest.mark.rule("B7", "FR-H9")
def test_what_has_no_address_to_follow_is_left_out(searxng: Searxng) -> None:
    addresses = [
        "javascript:alert(1)", "data:text/html,x", "file:///etc/passwd", "//example.org", "https://", "", None, 7, [],
        "https://user:secret@example.org/", "https://example.org\\@evil.example/", "http://[::1]/", "http://a:99x/",
        "https://" + "x" * 3000, "http://a b/",
    ]  # fmt: skip
    searxng.pages = [[{"url": url, "title": "t"} for url in addresses] + ["x", None]]
    assert ask(searxng) == []


@pytest.mark.rule("B7", "K19")
@pytest.mark.parametrize(
    ("mode", "told"),
    [
        ("403", "it answers HTTP 403; the operator has to allow the format `json` there"),
        ("429", "it takes no more requests for now (HTTP 429)"),
        ("500", "it answers HTTP 500"),
        ("204", "it answers HTTP 204"),
        ("redirect", "it redirects; the operator has to give its final address"),
        ("html", "it answers with something that is no JSON"),
        ("deep", "it answers with something that is no JSON"),
        ("shape", "it answers with something that is no list of results"),
        ("huge", f"it sent more than {asking.MOST_BYTES} bytes"),
        ("cut", "it cannot be reached, or broke off"),
        ("close", "it cannot be reached, or broke off"),
        ("slow", "it did not answer within 0.3 seconds"),
        ("dripping", "it did not answer within 0.3 seconds"),
    ],
)
def test_each_failure_is_told_in_our_words(
    searxng: Searxng, mode: str, told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if mode in ("slow", "dripping"):
        monkeypatch.setattr(asking, "SECONDS", 0.3)
    searxng.mode = mode
    with pytest.raises(WebSearchFailed) as failed:
        ask(searxng)
    assert str(failed.value) == told
    assert SENTINEL not in str(failed.value)


@pytest.mark.rule("K19", "FR-H1")
@pytest.mark.parametrize(
    "host", ["127.0.0.1", "localhost", "0x7f000001", "2130706433", "[::ffff:127.0.0.1]", "[::1]", "169.254.169.254"]
)
def test_no_private_address_is_asked_unless_the_operator_allowed_its_host(searxng: Searxng, host: str) -> None:
    port = searxng.url.rpartition(":")[2]
    with pytest.raises(WebSearchFailed, match=r"not public|cannot be reached"):
        search_web(f"http://{host}:{port}", "x", page=1, allowed_hosts=["searx.example", f"{host}:1"])
    assert searxng.asked == []


def test_an_endpoint_that_is_not_there_cannot_be_reached() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with pytest.raises(WebSearchFailed, match="cannot be reached"):
        search_web(f"http://127.0.0.1:{port}", "x", page=1, allowed_hosts=["127.0.0.1"])


@pytest.mark.parametrize(
    ("html", "text"),
    [
        ("<p>a</p><script>alert(1)</script><style>x</style>b", "a b"),
        ("a < b and c > d", "a b and c d"),
        ("<!-- hidden -->sho<b>wn</b><br>too", "shown too"),
        ("&lt;script&gt;alert(1)&lt;/script&gt;", "script alert(1) /script"),
        ("&#x202e;evil", "evil"),
        ("a<![if !IE]> b <![endif]> c <![CDATA[d]]> e <![0]> f <![x[ g ]]> h <![", "a b c e f h !"),
        (None, ""),
        (["x"], ""),
    ],
)
def test_markup_is_left_out_of_texts(html: Any, text: str) -> None:
    assert without_tags(html, length=100).replace("  ", " ") == text


@given(st.text(max_size=200) | st.text(alphabet="<>&;/![]-ascript \"'=x#", max_size=200))
def test_no_text_keeps_markup(text: str) -> None:
    assert re.fullmatch(r"[^<>&\[\]{}|*_`~\\^#\x00-\x1f]*", without_tags(text, length=100))


@given(
    st.recursive(
        st.none() | st.booleans() | st.floats() | st.text(max_size=10) | st.integers(),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(st.sampled_from(["url", "title", "content", "score", "results"]), inner)
        ),
        max_leaves=10,
    )
)
def test_no_answer_raises_anything_but_a_failure(answer: Any) -> None:
    import json

    try:
        found = asking._read(json.dumps(answer).encode())
    except WebSearchFailed:
        return
    assert all(one.url.startswith(("http://", "https://")) for one in found)
