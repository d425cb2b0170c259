from __future__ import annotations

import sys
from typing import Any

from django.core.management.base import CommandParser
from rich.text import Text

from apps.mirrors.commands import MirrorCommand, held_mirror, one_of, path_argument
from apps.mirrors.selectors.mirrors import view_of
from apps.mirrors.services.inspecting import verify, verify_path


class Command(MirrorCommand):
    help = "Show a Mirror, and compute every digest in it anew. Exit code 1 when it is damaged, or is no Mirror."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("mirror_id", metavar="MIRROR-ID", nargs="?", help="one that a Project holds")
        parser.add_argument("--from", metavar="DIR|FILE.zip", dest="path", help="one that lies in a folder or file")

    def handle(self, *, mirror_id: str | None, path: str | None, as_json: bool, **_: Any) -> None:
        one_of(**{"MIRROR-ID": mirror_id, "from": path})
        body = self._held(mirror_id) if mirror_id else self._lying(str(path))
        if as_json:
            self.print_json(body)
        else:
            self._print(body)
        if body["verification"]["status"] == "damaged":
            sys.exit(1)

    def _held(self, mirror_id: str) -> dict[str, Any]:
        mirror = held_mirror(mirror_id)
        with self.progress("Computing digests") as progress:
            verification = verify(mirror.digest, progress=progress)
        return {
            "mirror": view_of(mirror, mirror.project.name).to_wire(),
            "manifest": mirror.manifest,
            "verification": verification.to_wire(),
        }

    def _lying(self, path: str) -> dict[str, Any]:
        with self.progress("Computing digests") as progress:
            verification, manifest = verify_path(path_argument(path), progress=progress)
        return {"manifest": manifest.to_wire() if manifest else None, "verification": verification.to_wire()}

    def _print(self, body: dict[str, Any]) -> None:
        manifest, verification = body["manifest"], body["verification"]
        if manifest:
            shown = ("loomName", "runId", "traceId", "boundary", "releaseDigest", "digest")
            lines = [*((name, manifest[name]) for name in shown), *sorted(manifest["counts"].items())]
            for name, value in lines:
                self.console.print(Text(f"{name:>15}  {value}"))
        if verification["status"] == "verified":
            self.console.print("[green]Verified:[/] every digest is the one of its bytes.")
        for problem in verification["problems"]:
            where = f"{problem['entry']}: " if problem["entry"] else ""
            self.console.print(Text(f"Damaged: {where}{problem['problem']}", style="red"))
