"""What access has to say to `loomsvc doctor`: the connection file, and credentials."""

from __future__ import annotations

import datetime as dt
import stat
from collections import Counter
from collections.abc import Iterator

from django.conf import settings as django_settings

from apps.access.connection import CONNECTION_FILE, find_running, read_connection
from apps.access.domain import tokens
from apps.access.models import Credential
from apps.access.services.credentials import is_live
from apps.core import clock, conf
from apps.core.findings import Finding, ok, problem, register_check, warning

_SOON = dt.timedelta(days=7)


def check_connection() -> Iterator[Finding]:
    """Local clients find the service, and only their own account reads their credentials."""
    folder = conf.settings().data_dir
    path = folder / CONNECTION_FILE
    if not path.is_file():
        if django_settings.EMBEDDED:
            yield warning("Local clients find no service: there is no connection.json.", "Start it: loomsvc up")
        return
    if stat.S_IMODE(path.stat().st_mode) & (stat.S_IRWXG | stat.S_IRWXO):
        yield problem("connection.json, which holds credentials, can be read by others.", f"chmod 600 {path}")
    connection = read_connection(folder)
    if connection is None:
        yield problem("connection.json cannot be read.", "Stop the service and start it again: loomsvc up")
    elif find_running(folder) is None:
        yield warning("The service of this data folder does not run.", "Start it: loomsvc up")
    else:
        yield ok(f"A service runs at {connection.get('url')}")


def check_credentials() -> Iterator[Finding]:
    """Those of the connection file open their Entries; the others are counted."""
    now = clock.now()
    found = {one.public_id: one for one in Credential.objects.select_related("project").order_by("id")}
    entries = (read_connection(conf.settings().data_dir) or {"entries": {}})["entries"]
    dead = [name for name, entry in entries.items() if not _opens(entry, found, now)]
    if dead:
        yield problem(
            f"The credentials in connection.json for {', '.join(sorted(dead))} are not valid in this ledger.",
            "Stop the service and start it again, which makes new ones: loomsvc up",
        )
    live = [one for one in found.values() if is_live(one, now)]
    counts = Counter(one.source for one in live)
    if not live:
        yield warning(
            "Nobody can call: there is no live credential.", "loomsvc token_create --source agent_ide --label TEXT"
        )
        return
    counted = ", ".join(f"{number} {source}" for source, number in sorted(counts.items()))
    # No colon right after "credentials": what follows one is taken for a secret.
    yield ok(f"Live credentials by source: {counted}")
    for one in live:
        if one.expires_at is not None and one.expires_at - now < _SOON:
            yield warning(
                f"Credential {one.public_id} ({one.source}, Project {one.project.name}) expires on "
                f"{one.expires_at:%Y-%m-%d}.",
                f"loomsvc token_create --source {one.source} --project {one.project.name} --label TEXT",
            )


def _opens(entry: object, found: dict[str, Credential], now: dt.datetime) -> bool:
    text = entry.get("token") if isinstance(entry, dict) else None
    token = tokens.read(text) if isinstance(text, str) else None
    credential = found.get(token.public_id) if token is not None else None
    return (
        token is not None
        and credential is not None
        and is_live(credential, now)
        and tokens.matches(token, credential.secret_digest)
    )


register_check("clients", check_connection)
register_check("clients", check_credentials, reads_ledger=True)
