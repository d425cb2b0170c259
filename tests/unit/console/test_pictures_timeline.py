"""A Run's time as SVG: each way to pass it has a mark of its own, and the table says the same."""

from __future__ import annotations

import datetime as dt
import time
from xml.etree import ElementTree

import pytest

from apps.console.pictures import axis
from apps.console.pictures.timeline import draw_timeline
from apps.runs.domain.facts import Position
from apps.runs.domain.statuses import AttemptStatus, RunStatus
from apps.runs.domain.timing import Span, SpanKind, Timeline

SVG = "{http://www.w3.org/2000/svg}"
BEGIN = dt.datetime(2026, 1, 1, 12, tzinfo=dt.UTC)


def at(seconds: float) -> dt.datetime:
    return BEGIN + dt.timedelta(seconds=seconds)


def span(kind: SpanKind, begin: float, end: float, step: str = "draft", visit: int = 1, **more: object) -> Span:
    position = None if kind is SpanKind.PAUSED else Position("write", step, visit)
    return Span(kind, position, at(begin), at(end), **more)  # type: ignore[arg-type]


def timeline(*spans: Span, attempts: int | None = None, in_all: int | None = None) -> Timeline:
    ended = sum(each.status is not None for each in spans)
    return Timeline(spans, attempts or ended, in_all or ended, RunStatus.RUNNING)


def lanes(svg: str) -> dict[str, list[ElementTree.Element]]:
    """Lane title → its marks."""
    root = ElementTree.fromstring(svg)
    found = {}
    for group in root.iter(f"{SVG}g"):
        if group.get("class") == "lane":
            marks = [mark for mark in group.iter(f"{SVG}g") if (mark.get("class") or "").startswith("span ")]
            found[group.findtext(f"{SVG}title") or ""] = marks
    return found


def shape(mark: ElementTree.Element) -> list[tuple[str, str | None, str | None]]:
    """What is drawn, without where and how wide: elements, their classes, heights."""
    return [(e.tag.removeprefix(SVG), e.get("class"), e.get("height")) for e in mark.iter() if e is not mark][1:]


def test_each_kind_has_a_shape_and_words_of_its_own() -> None:
    spans = [span(kind, index * 10, index * 10 + 10) for index, kind in enumerate(SpanKind)]
    marks = [mark for found in lanes(draw_timeline(timeline(*spans)).svg).values() for mark in found]
    shapes = [tuple(shape(mark)) for mark in marks]
    assert len(set(shapes)) == len(SpanKind)
    said = " ".join(mark.findtext(f"{SVG}title") or "" for mark in marks)
    for words in ("queued", "running", "sleeping", "waiting for a person", "waiting for an agent", "paused"):
        assert words in said


@pytest.mark.parametrize(
    ("status", "sign", "words"),
    [
        (AttemptStatus.COMPLETED, None, "completed: done"),
        (AttemptStatus.WAITED, None, "asked or slept: done"),
        (AttemptStatus.FAILED, "✗", "failed: done"),
        (AttemptStatus.INDETERMINATE, "?", "cut off, effects unknown: done"),
        (AttemptStatus.CANCELLED, "⊘", "cancelled: done"),
    ],
)
def test_what_became_of_an_attempt_is_told_by_a_sign_and_words(
    status: AttemptStatus, sign: str | None, words: str
) -> None:
    picture = draw_timeline(timeline(span(SpanKind.RUNNING, 0, 5, status=status, result="done")))
    (row,) = picture.table.rows
    assert row == ("write/draft", "running", "2026-01-01 12:00:00", "5 s", words)
    lane = picture.svg.split('class="legend"')[0]
    assert (f">{sign}<" in lane) == (sign is not None)


def test_a_lane_is_a_visit_and_what_goes_on_ends_in_an_arrow() -> None:
    picture = draw_timeline(
        timeline(
            span(SpanKind.RUNNING, 0, 5, status=AttemptStatus.FAILED, attempt=1),
            span(SpanKind.RUNNING, 6, 7, status=AttemptStatus.COMPLETED, attempt=2),
            span(SpanKind.RUNNING, 8, 9, visit=2, status=AttemptStatus.COMPLETED),
            span(SpanKind.WAITING_PERSON, 9, 20, visit=2, is_open=True),
        )
    )
    found = lanes(picture.svg)
    assert {name: len(marks) for name, marks in found.items()} == {"write/draft": 2, "write/draft · visit 2": 2}
    assert [row[1] for row in picture.table.rows] == [
        "running", "running (attempt 2)", "running", "waiting for a person, going on",
    ]  # fmt: skip
    assert [any(e.get("class") == "open" for e in mark.iter()) for mark in found["write/draft · visit 2"]] == [
        False,
        True,
    ]


@pytest.mark.parametrize("spans", [(), (span(SpanKind.RUNNING, 3, 3, status=AttemptStatus.COMPLETED),)])
def test_nothing_at_all_and_nothing_of_any_length_are_drawn(spans: tuple[Span, ...]) -> None:
    picture = draw_timeline(timeline(*spans))
    ElementTree.fromstring(picture.svg)
    assert len(picture.table.rows) == len(spans)
    assert ("Nothing has been timed yet." in picture.svg) == (not spans)


def test_every_bar_is_inside_the_picture_and_wide_enough_to_be_seen() -> None:
    spans = [
        span(SpanKind.RUNNING, index, index, step=f"s{index}", status=AttemptStatus.COMPLETED) for index in range(9)
    ]
    picture = draw_timeline(timeline(*spans, span(SpanKind.RUNNING, 0, 86_400, step="long", is_open=True)))
    for marks in lanes(picture.svg).values():
        for mark in marks:
            (rect,) = mark.iter(f"{SVG}rect")
            assert float(rect.get("width", 0)) >= 2.5
            assert 0 <= float(rect.get("x", -1)) <= 920 - 2.5


def test_text_is_inert() -> None:
    bad = "</title><script>alert(1)</script>"
    picture = draw_timeline(
        timeline(span(SpanKind.RUNNING, 0, 1, step=bad, status=AttemptStatus.FAILED, result=bad)), key="a"
    )
    ElementTree.fromstring(picture.svg)
    assert "<script" not in picture.svg
    assert "style=" not in picture.svg


def long_run(attempts: int, steps: int = 3) -> Timeline:
    spans = []
    for index in range(attempts):
        bad = index % 1000 == 999
        status = AttemptStatus.FAILED if bad else AttemptStatus.COMPLETED
        where = {"step": f"s{index % steps}", "visit": index // steps + 1}
        spans.append(span(SpanKind.QUEUED, index * 2, index * 2 + 0.5, **where))
        spans.append(span(SpanKind.RUNNING, index * 2 + 0.5, index * 2 + 2, **where, status=status))
    return timeline(*spans, in_all=attempts + 7)


@pytest.mark.rule("FR-I1", "FR-I3")
def test_a_run_of_5000_attempts_is_drawn_by_step_and_says_so() -> None:
    whole = long_run(5000)
    begin = time.process_time()
    picture = draw_timeline(whole)
    # A tenth of a second on one core of processor time; the bound leaves room for a slow machine.
    assert time.process_time() - begin < 1
    assert picture.said == (
        "The latest 5,000 of 5,007 attempts are in the picture. "
        "5,000 attempts in 3 lanes, one for each Step; each 1/120 of the time shows what took most of it."
    )
    assert list(lanes(picture.svg)) == ["write/s0 1,667×, 2 ✗", "write/s1 1,667×, 2 ✗", "write/s2 1,666×, 1 ✗"]
    assert picture.table.headings == ("Step", "Visits", "Attempts", "Failed", "Queued", "Running")
    assert picture.table.rows[0] == ("write/s0", "1,667", "1,667", "2", "13 min 54 s", "41 min 40 s")
    assert len(picture.svg) < 60_000


def test_more_steps_than_lanes_share_the_last_lane() -> None:
    picture = draw_timeline(long_run(1000, steps=500))
    found = list(lanes(picture.svg))
    assert len(found) == 60
    assert found[-1].startswith("441 more Steps 882×")
    assert sum(int(row[2].replace(",", "")) for row in picture.table.rows) == 1000


def test_a_picture_is_always_the_same() -> None:
    assert draw_timeline(long_run(700)) == draw_timeline(long_run(700))


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [
        (0, ["0"]),
        (0.004, ["0", "1 ms", "2 ms", "3 ms", "4 ms"]),
        (1, ["0", "200 ms", "400 ms", "600 ms", "800 ms", "1 s"]),
        (65, ["0", "10 s", "20 s", "30 s", "40 s", "50 s", "1 min"]),
        (260, ["0", "1 min", "2 min", "3 min", "4 min"]),
        (9_960, ["0", "30 min", "1 h", "1 h 30 min", "2 h", "2 h 30 min"]),
        (86_400 * 3, ["0", "12 h", "1 d", "1 d 12 h", "2 d", "2 d 12 h", "3 d"]),
        (86_400 * 4_000, ["0", "728 d", "1,456 d", "2,184 d", "2,912 d", "3,640 d"]),
    ],
)
def test_ticks_stand_at_round_durations(seconds: float, expected: list[str]) -> None:
    assert [axis.words(tick) for tick in axis.ticks(dt.timedelta(seconds=seconds), most=8)] == expected


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [
        (0, "0"),
        (0.0123, "12.3 ms"),
        (0.9996, "1 s"),
        (59.96, "1 min"),
        (3_599.6, "1 h"),
        (93_784, "1 d 2 h"),
        (7.25, "7.25 s"),
    ],
)
def test_durations_are_read_in_two_units_at_most(seconds: float, expected: str) -> None:
    assert axis.words(dt.timedelta(seconds=seconds)) == expected
