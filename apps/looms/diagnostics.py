"""One thing that is wrong with a Loom folder: where it stands, and what to do about it."""

from __future__ import annotations

import difflib
import enum
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

#: Names that a suggestion lists.
MAX_LISTED = 12


class Severity(enum.StrEnum):
    """What a diagnostic means for the Loom."""

    #: The Loom cannot run.
    ERROR = "error"
    #: It runs, but probably not as meant.
    WARNING = "warning"


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """``file`` is relative to the Loom folder (empty: the folder itself), ``line`` counts from 1."""

    severity: Severity
    file: str
    line: int | None
    message: str
    suggestion: str | None = None

    @classmethod
    def error(cls, file: str, line: int | None, message: str, suggestion: str | None = None) -> Diagnostic:
        return cls(Severity.ERROR, file, line, message, suggestion)

    @classmethod
    def warning(cls, file: str, line: int | None, message: str, suggestion: str | None = None) -> Diagnostic:
        return cls(Severity.WARNING, file, line, message, suggestion)

    @property
    def place(self) -> str:
        """``loom.yaml:12``, or the file alone."""
        return self.file if self.line is None else f"{self.file}:{self.line}"

    def to_wire(self) -> dict[str, Any]:
        return {
            "severity": self.severity.value,
            "file": self.file,
            "line": self.line,
            "message": self.message,
            "suggestion": self.suggestion,
        }


def errors_in(diagnostics: Iterable[Diagnostic]) -> list[Diagnostic]:
    """Those that keep the Loom from running."""
    return [diagnostic for diagnostic in diagnostics if diagnostic.severity is Severity.ERROR]


def closest(name: str, known: Iterable[str]) -> str | None:
    """``Did you mean `entry`?``, if there is anything like it."""
    found = difflib.get_close_matches(name, known, n=1, cutoff=0.6)
    return f"Did you mean `{found[0]}`?" if found else None


def did_you_mean(name: str, known: Iterable[str], *, otherwise: str = "There is none.") -> str:
    """``Did you mean `entry`?``, or what there is; ``otherwise`` when there is nothing."""
    names = list(known)
    more = ", …" if len(names) > MAX_LISTED else ""
    listed = f"There is: {', '.join(names[:MAX_LISTED])}{more}." if names else otherwise
    return closest(name, names) or listed
