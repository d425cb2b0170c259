"""The frame of the benchmarks: what a row says of its rounds, and what the load reads off the wire.  No speed."""

from __future__ import annotations

import socket
import threading

import pytest

from tests.benchmarks.load import Connection, answers_per_second, request_of
from tests.benchmarks.rows import COLUMNS, Goal, Round, Row, table

JSON = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n"


def row(*rounds: tuple[float, float], goal: Goal | None = None) -> Row:
    taken = tuple(Round(ours, theirs, (("beside", ours),)) for ours, theirs in rounds)
    return Row(goal or Goal("P0", 0.5), "it", "SQLite", "/s", taken, 1000.0, 900.0, 0.3)


def test_a_row_shows_the_median_of_its_rounds_ratios_not_the_ratio_of_the_medians() -> None:
    found = row((1, 10), (60, 100), (9, 10))
    assert found.ratios == [0.1, 0.6, 0.9]
    assert found.ratio == 0.6
    shown = dict(zip(COLUMNS, found.cells(), strict=True))
    assert (shown["ratio"], shown["spread"], shown["wanted"], shown[""]) == ("0.60", "0.10–0.90", "≥ 0.5 ×", "reached")
    assert (shown["raw/s"], shown["beside"]) == ("1,000 → 900", "beside 9.00")


@pytest.mark.parametrize(("at_most", "ratio", "reached"), [(False, 0.4, False), (True, 0.4, True), (True, 0.6, False)])
def test_a_goal_is_a_bound_from_below_or_from_above(at_most: bool, ratio: float, reached: bool) -> None:
    cells = row((ratio, 1.0), goal=Goal("P0", 0.5, at_most=at_most)).cells()
    assert cells[8] == ("reached" if reached else "missed")


def test_columns_stand_under_their_names() -> None:
    header, first, second = table([row((1, 1)), row((1000, 3))]).splitlines()
    assert header.index("ratio") == first.index("1.00") == second.index("333.33")


def served(*answers: bytes) -> int:
    """The port of a server that gives one connection these answers, in pieces, one for each request."""
    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        with listener, listener.accept()[0] as connection:
            for answer in answers:
                connection.recv(1 << 16)
                for start in range(0, len(answer), 7):
                    connection.sendall(answer[start : start + 7])

    threading.Thread(target=serve, daemon=True).start()
    return int(listener.getsockname()[1])


def test_an_answer_is_read_whole_with_a_length_and_in_chunks() -> None:
    port = served(JSON, CHUNKED)
    connection = Connection(port)
    request = request_of(port, "/mcp", {}, {"X": "y"})
    assert [connection.post(request).body for _ in range(2)] == [b"{}", b"abcde"]
    connection.close()


def test_a_refusal_ends_the_measurement() -> None:
    port = served(JSON.replace(b"200 OK", b"503 Busy"))
    with pytest.raises(RuntimeError, match="503"):
        answers_per_second({Connection(port): request_of(port, "/mcp", {}, {})}, 5)
