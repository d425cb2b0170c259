from __future__ import annotations

import datetime as dt
from typing import Any

from django.core.management.base import CommandParser

from apps.access.domain.credentials import state_of
from apps.access.selectors.projects import credentials
from apps.core import clock, json_text
from apps.core.commands import LoomsvcCommand

_HEADINGS = ("PUBLIC ID", "PROJECT", "SOURCE", "STATUS", "LAST USED", "EXPIRES", "MIRRORS INTO", "LABEL")


def _wire(moment: dt.datetime | None) -> str | None:
    return clock.to_wire(moment) if moment else None


def _cell(value: str | list[str] | None) -> str:
    return (", ".join(value) if isinstance(value, list) else value) or "-"


class Command(LoomsvcCommand):
    help = "List every credential, revoked ones too, oldest first; never their texts."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--json", action="store_true", help="Print one JSON list.")

    def handle(self, *args: Any, **options: Any) -> None:
        now = clock.now()
        rows = [
            {
                "publicId": credential.public_id,
                "project": credential.project.name,
                "source": credential.source,
                "status": state_of(revoked_at=credential.revoked_at, expires_at=credential.expires_at, now=now),
                "lastUsedAt": _wire(credential.last_used_at),
                "expiresAt": _wire(credential.expires_at),
                "mirrorProjects": sorted(project.name for project in credential.mirror_projects.all()),
                "label": credential.label,
            }
            for credential in credentials()
        ]
        if options["json"]:
            self.stdout.write(json_text.dumps(rows))
        elif rows:
            table = [_HEADINGS, *(tuple(_cell(value) for value in row.values()) for row in rows)]
            widths = [max(map(len, column)) for column in zip(*table, strict=True)]
            for line in table:
                cells = (cell.ljust(width) for cell, width in zip(line, widths, strict=True))
                self.stdout.write("  ".join(cells).rstrip())
        else:
            self.stdout.write("No credentials. Make one: loomsvc token_create --source agent_ide --label TEXT")
