"""Durations as a Loom writes them: ``500ms``, ``30s``, ``1h30m``."""

from __future__ import annotations

import re
from decimal import Decimal

_UNITS = {"d": 86_400_000, "h": 3_600_000, "m": 60_000, "s": 1000, "ms": 1}
_NUMBER = r"\d{1,9}(?:\.\d{1,3})?"
_PATTERN = re.compile("".join(rf"(?:(?P<{unit}>{_NUMBER}){unit})?" for unit in _UNITS), re.ASCII)
MAX_SECONDS = 366 * 86_400.0
HINT = "Write a duration such as 500ms, 30s, 5m or 1h30m."


def parse_duration(text: str) -> float:
    """Seconds; raises ``ValueError`` for anything that is no duration, or longer than 366 days."""
    match = _PATTERN.fullmatch(text)
    if not text or match is None:
        raise ValueError(HINT)
    milliseconds = sum((Decimal(number) * _UNITS[unit] for unit, number in match.groupdict("0").items()), Decimal())
    seconds = float(milliseconds) / 1000
    if seconds > MAX_SECONDS:
        raise ValueError("Write a duration of at most 366 days.")
    return seconds


def format_duration(seconds: float) -> str:
    """The shortest text that :func:`parse_duration` reads back, to the millisecond."""
    rest = round(seconds * 1000)
    parts: list[str] = []
    for unit, size in _UNITS.items():
        count, rest = divmod(rest, size)
        if count:
            parts.append(f"{count}{unit}")
    return "".join(parts) or "0s"
