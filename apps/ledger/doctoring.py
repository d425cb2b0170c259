"""What ledger has to say to `loomsvc doctor`: whether a service instance is open."""

from __future__ import annotations

from collections.abc import Iterator

from apps.core import clock
from apps.core.findings import Finding, ok, register_check, warning
from apps.core.version import VERSION
from apps.ledger.selectors.instances import find_current


def check_instance() -> Iterator[Finding]:
    """Writes need an open instance."""
    instance = find_current()
    if instance is None:
        yield warning("No service instance was opened yet.", "loomsvc up does it; a deployment: loomsvc instance_open")
        return
    yield ok(f"Service instance {instance.id}, opened {clock.to_wire(instance.opened_at)}")
    if instance.version != VERSION:
        yield warning(
            f"It was opened by loomsvc {instance.version}; this is {VERSION}.",
            "Start the service anew, or open one with this version: loomsvc instance_open",
        )


register_check("database", check_instance, reads_ledger=True)
