"""What `loomsvc doctor` looks at: each app's module ``doctoring`` registers checks of what the app owns.

Each finding comes with its cure.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from django.utils.module_loading import autodiscover_modules

from apps.core.redaction import redact_text


class Health(enum.StrEnum):
    """How serious a finding is."""

    #: As it should be.
    OK = "ok"
    #: It works, but not as well or as safely as it could, or not for long.
    WARNING = "warning"
    #: Something does not work until it is put right.
    PROBLEM = "problem"


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was found; ``cure`` says what an operator can do about it."""

    health: Health
    message: str
    cure: str | None = None


def ok(message: str) -> Finding:
    return Finding(Health.OK, message)


def warning(message: str, cure: str) -> Finding:
    return Finding(Health.WARNING, message, cure)


def problem(message: str, cure: str) -> Finding:
    return Finding(Health.PROBLEM, message, cure)


Check = Callable[[], Iterable[Finding]]
#: What is looked at, in this order: later ones need what earlier ones found well.
AREAS = ("folder", "disk", "database", "clock", "broker", "looms", "models", "clients", "entries")
_checks: dict[tuple[str, str], tuple[Check, bool]] = {}


def register_check(area: str, check: Check, *, reads_ledger: bool = False) -> None:
    """Have ``check`` made in its ``area``.  One that reads the ledger is left out where the ledger cannot be read."""
    if area not in AREAS:
        raise ValueError(f"{area} is no area; there are {', '.join(AREAS)}")
    _checks[area, f"{check.__module__}.{check.__qualname__}"] = (check, reads_ledger)


def examine() -> Iterator[tuple[str, Finding]]:
    """Every finding with its area; never raises, and nothing in it is a secret."""
    autodiscover_modules("doctoring")
    has_ledger = True
    for area in AREAS:
        for (own, _), (check, reads_ledger) in list(_checks.items()):
            if own != area or (reads_ledger and not has_ledger):
                continue
            for finding in _made(check):
                if area == "database" and finding.health is Health.PROBLEM:
                    has_ledger = False
                yield area, finding


def _made(check: Check) -> list[Finding]:
    try:
        found = list(check())
    except Exception as error:
        found = [problem(f"This could not be looked at ({type(error).__name__}).", "Put right what is named above.")]
    return [
        Finding(one.health, redact_text(one.message), None if one.cure is None else redact_text(one.cure))
        for one in found
    ]
