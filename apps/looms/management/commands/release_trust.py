from __future__ import annotations

import argparse
import re
from typing import Any

from django.core.management.base import CommandParser

from apps.core import json_text
from apps.core.commands import LoomsvcCommand
from apps.looms.selectors.releases import StoredRelease
from apps.looms.services.releases import kept_release, trust_release

_DIGEST = re.compile(r"[0-9a-f]{64}")


def _digest(text: str) -> str:
    if _DIGEST.fullmatch(text) is None:
        raise argparse.ArgumentTypeError("a Release's digest is 64 digits and letters a to f, in full")
    return text


def _plain(content: bytes) -> str:
    """Text that a stranger wrote, for a terminal: nothing in it moves the cursor."""
    text = content.decode("utf-8", "backslashreplace")
    return "".join(c if c.isprintable() or c in "\n\t" else f"\\x{ord(c):02x}" for c in text)


class Command(LoomsvcCommand):
    help = "Allow the Code of a Release that came in a Mirror to run here. Read it first: it runs with all rights."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("digest", metavar="DIGEST", type=_digest, help="As the refused resume named it.")
        parser.add_argument("--show", action="store_true", help="Print the Release's files, and trust nothing.")
        parser.add_argument("--json", action="store_true", help="Print one JSON object.")

    def handle(self, *args: Any, **options: Any) -> None:
        find = kept_release if options["show"] else trust_release
        release: StoredRelease = find(digest=options["digest"])
        if options["json"]:
            body = {
                "digest": release.digest,
                "loomName": release.loom_name,
                "trusted": release.trusted,
                "requires": dict(release.requires),
                "files": sorted(release.files),
            }
            self.stdout.write(json_text.dumps(body))
        elif options["show"]:
            for path, content in release.files.items():
                self.stdout.write(f"==> {path} <==\n{_plain(content)}")
        else:
            self.stdout.write(
                f"Release {release.digest} of {release.loom_name} is trusted: its {len(release.files)} files run here "
                "as those of any Loom. Resume its Runs with `loomsvc resume_run`."
            )
