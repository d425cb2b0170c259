"""The axis of a timeline: ticks at round durations, and durations in words."""

from __future__ import annotations

import datetime as dt

_DAY = 86_400
_ROUND = (
    *(digit * 10.0**exponent for exponent in range(-3, 0) for digit in (1, 2, 5)),
    *(1.0, 2.0, 5.0, 10.0, 15.0, 30.0),
    *(60.0 * minutes for minutes in (1, 2, 5, 10, 15, 30)),
    *(3600.0 * hours for hours in (1, 2, 3, 6, 12)),
    *(float(_DAY * days) for days in (1, 2, 7, 14, 28, 91, 182, 364)),
)
_UNITS = ((_DAY, "d"), (3600, "h"), (60, "min"))


def ticks(span: dt.timedelta, *, most: int) -> list[dt.timedelta]:
    """0 and every round step up to ``span``; at most ``most``, which is 2 or more."""
    whole = max(span.total_seconds(), 0.0)
    step = next((step for step in _ROUND if whole / step <= most - 1), None)
    if step is None:
        step = _ROUND[-1] * (int(whole / _ROUND[-1] / (most - 1)) + 1)
    return [dt.timedelta(seconds=step * index) for index in range(int(whole / step + 1e-9) + 1)]


def words(duration: dt.timedelta) -> str:
    """``0``, ``20 ms``, ``1.5 s``, ``2 min 5 s``, ``3 d 4 h``: two units at most."""
    whole = duration.total_seconds()
    if whole < 0.0005:
        return "0"
    if whole < 0.9995:
        return f"{whole * 1000:.3g} ms"
    if whole < 59.95:
        return f"{whole:.3g} s"
    rest = round(whole)
    parts = []
    for size, unit in (*_UNITS, (1, "s")):
        count, rest = divmod(rest, size)
        if count:
            parts.append(f"{count:,} {unit}")
        elif parts:
            break
    return " ".join(parts[:2])


def seconds(number: float) -> str:
    """The same of a number of seconds."""
    return words(dt.timedelta(seconds=number))


def clock_time(moment: dt.datetime) -> str:
    """``2026-01-31 12:00:05`` UTC, with milliseconds where there are any."""
    utc = moment.astimezone(dt.UTC)
    shown = utc.strftime("%Y-%m-%d %H:%M:%S")
    return f"{shown}.{utc.microsecond // 1000:03d}" if utc.microsecond >= 1000 else shown
