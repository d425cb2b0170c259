"""What results has to say to `loomsvc doctor`: whether what lands is found."""

from __future__ import annotations

from collections.abc import Iterator

from apps.core.database import is_embedded_ledger, missing_triggers
from apps.core.findings import Finding, ok, register_check, warning

#: Of migration ``results.0002``.
TRIGGERS_POSTGRESQL = ("results_enter_record", "results_enter_revision")
TRIGGERS_SQLITE = (
    "results_entry_made", "results_entry_gone", "results_record_made", "results_record_changes",
    "results_record_changed", "results_record_goes", "results_revision_made", "results_revision_changes",
    "results_revision_changed", "results_revision_goes",
)  # fmt: skip


def check_index() -> Iterator[Finding]:
    """The triggers that keep the index of words are there."""
    missing = missing_triggers(TRIGGERS_SQLITE if is_embedded_ledger() else TRIGGERS_POSTGRESQL)
    if missing:
        yield warning(
            f"Search does not find new results: the trigger {missing[0]} is missing.",
            "Make the triggers of migration results.0002 again, then save `words` of what landed meanwhile.",
        )
    else:
        yield ok("The index of words is kept")


register_check("database", check_index, reads_ledger=True)
