from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import Any

from django.core.management.base import CommandParser
from rich.text import Text

from apps.mirrors.commands import MirrorCommand, held_mirror, one_of
from apps.mirrors.contracts import Verification
from apps.mirrors.selectors.mirrors import every_digest
from apps.mirrors.services.inspecting import verify


class Command(MirrorCommand):
    help = "Compute every digest of Mirrors that Projects hold anew. Exit code 1 when one is damaged."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("mirror_ids", metavar="MIRROR-ID", nargs="*")
        parser.add_argument("--all", action="store_true", dest="every", help="those of all Projects")

    def handle(self, *, mirror_ids: list[str], every: bool, as_json: bool, **_: Any) -> None:
        one_of(**{"MIRROR-ID": mirror_ids or None, "all": every or None})
        results: list[dict[str, Any]] = []
        for digest, ids in self._asked(mirror_ids, every=every):
            with self.progress(f"Mirror {ids[0]}") as progress:
                found = verify(digest, progress=progress)
            results += [{"mirrorId": one, **found.to_wire()} for one in ids]
            if not as_json:
                for one in ids:
                    self._print(one, found)
        damaged = sum(result["status"] == "damaged" for result in results)
        if as_json:
            self.print_json({"mirrors": results, "damaged": damaged})
        else:
            self.console.print(f"{len(results)} Mirrors, {damaged} damaged.")
        if damaged:
            sys.exit(1)

    def _asked(self, mirror_ids: list[str], *, every: bool) -> Iterable[tuple[str, list[str]]]:
        """Each file once, however many Projects hold it."""
        if every:
            return every_digest()
        return [(mirror.digest, [str(mirror.mirror_id)]) for mirror in map(held_mirror, mirror_ids)]

    def _print(self, mirror_id: str, found: Verification) -> None:
        for problem in found.problems:
            where = f"{problem.entry}: " if problem.entry else ""
            self.console.print(Text(f"{mirror_id}  damaged: {where}{problem.problem}", style="red"))
        if not found.problems:
            self.console.print(Text(f"{mirror_id}  verified"))
