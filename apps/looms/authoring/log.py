"""What a Step notes while it runs; stored with the Step, never printed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from apps.looms.messages import MAX_MESSAGE, printable
from apps.looms.secret_values import SecretValues

MAX_LINES = 1000


@dataclass(frozen=True, slots=True)
class LogLine:
    """``level`` is ``debug``, ``info``, ``warning`` or ``error``."""

    level: str
    message: str


class Log:
    """Takes lines as Python's own loggers do (``log.info("%d found", n)``)."""

    def __init__(self, secrets: SecretValues) -> None:
        self._secrets = secrets
        self._lines: list[LogLine] = []

    def _add(self, level: str, message: Any, arguments: tuple[Any, ...]) -> None:
        if len(self._lines) > MAX_LINES:
            return
        if len(self._lines) == MAX_LINES:
            self._lines.append(LogLine("warning", f"Only the first {MAX_LINES} lines are kept."))
            return
        text = str(message)
        if arguments:
            try:
                text = text % arguments
            except (TypeError, ValueError, KeyError):
                text = f"{text} {arguments!r}"
        self._lines.append(LogLine(level, printable(self._secrets.redact(text), MAX_MESSAGE)))

    def debug(self, message: Any, *arguments: Any) -> None:
        self._add("debug", message, arguments)

    def info(self, message: Any, *arguments: Any) -> None:
        self._add("info", message, arguments)

    def warning(self, message: Any, *arguments: Any) -> None:
        self._add("warning", message, arguments)

    def error(self, message: Any, *arguments: Any) -> None:
        self._add("error", message, arguments)

    def lines(self) -> tuple[LogLine, ...]:
        """What was noted so far; a copy, so a thread that goes on changes nothing."""
        return tuple(self._lines)
