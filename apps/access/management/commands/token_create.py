from __future__ import annotations

import argparse
import datetime as dt
from typing import Any

from django.core.management.base import CommandParser

from apps.access.domain.credentials import LONGEST_LABEL, MOST_DAYS, days_in, is_label
from apps.access.domain.entries import CREDENTIAL_SOURCES, paths_opened
from apps.access.selectors.projects import project_named
from apps.access.services.credentials import create_credential
from apps.access.services.projects import DEFAULT_PROJECT
from apps.core import clock, json_text
from apps.core.caller import Source
from apps.core.commands import LoomsvcCommand


def _label(text: str) -> str:
    text = text.strip()
    if not is_label(text):
        raise argparse.ArgumentTypeError(f"a label is one line of 1 to {LONGEST_LABEL} printable characters")
    return text


def _days(text: str) -> int:
    days = days_in(text)
    if days is None:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from 1 to {MOST_DAYS}")
    return days


class Command(LoomsvcCommand):
    help = "Create a credential. Its text is printed once and kept nowhere."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "--project", metavar="NAME", default=DEFAULT_PROJECT, help="Its home (default: %(default)s)."
        )
        parser.add_argument(
            "--source", required=True, choices=[s.value for s in CREDENTIAL_SOURCES], help="Which Entries it opens."
        )
        parser.add_argument("--label", metavar="TEXT", required=True, type=_label, help="What it is for.")
        parser.add_argument("--expires-days", metavar="N", type=_days, help="It ends by itself after N days.")
        parser.add_argument(
            "--mirror-writes",
            metavar="NAME",
            nargs="+",
            default=[],
            help="Further Projects into which it may write Mirrors, and whose Mirrors it sees.",
        )
        parser.add_argument("--json", action="store_true", help="Print one JSON object.")

    def handle(self, *args: Any, **options: Any) -> None:
        now, source, days = clock.now(), Source(options["source"]), options["expires_days"]
        project = project_named(options["project"])
        further = [project_named(name) for name in options["mirror_writes"]]
        credential, text = create_credential(
            project=project,
            source=source,
            label=options["label"],
            now=now,
            expires_at=now + dt.timedelta(days=days) if days else None,
            mirror_projects=further,
        )
        expires = clock.to_wire(credential.expires_at) if credential.expires_at else None
        if options["json"]:
            body = {
                "publicId": credential.public_id,
                "project": project.name,
                "source": source.value,
                "label": credential.label,
                "expiresAt": expires,
                "mirrorProjects": sorted(one.name for one in further),
                "token": text,
            }
            self.stdout.write(json_text.dumps(body))
            return
        self.stdout.write(
            f"Credential {credential.public_id} of Project {project.name} opens {paths_opened(source)} "
            f"{f'until {expires}' if expires else 'until it is revoked'}.\n"
            f"Keep its text now; it is not shown again:\n\n  {text}\n\n"
            f"Send it as `Authorization: Bearer …`. To end it: loomsvc token_revoke {credential.public_id}"
        )
