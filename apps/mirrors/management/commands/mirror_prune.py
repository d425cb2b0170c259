from __future__ import annotations

import argparse
from typing import Any

from django.core.management.base import CommandParser

from apps.access.selectors.projects import project_named
from apps.core import clock
from apps.mirrors.commands import MirrorCommand
from apps.mirrors.services.pruning import prune_mirrors


def _days(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= 5):
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number of days")
    return int(text)


class Command(MirrorCommand):
    help = (
        "Remove files in the storage that no Project's Mirror has, and with --older-than-days also Mirrors made that "
        "long ago. What was restored from a Mirror stays."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--older-than-days", metavar="N", type=_days, help="also Mirrors of this age")
        parser.add_argument("--project", metavar="NAME", help="those of this Project only")
        parser.add_argument("--dry-run", action="store_true", help="say what would be removed, and remove nothing")

    def handle(self, *, as_json: bool, dry_run: bool, **options: Any) -> None:
        project = project_named(options["project"]) if options["project"] else None
        done = prune_mirrors(
            older_than_days=options["older_than_days"],
            project_id=project.pk if project else None,
            dry_run=dry_run,
            now=clock.now(),
        )
        if as_json:
            self.print_json({"mirrorIds": done.mirror_ids, "files": done.digests, "dryRun": dry_run})
            return
        would = "would be removed" if dry_run else "removed"
        self.console.print(f"{len(done.mirror_ids)} Mirrors and {len(done.digests)} files {would}.")
