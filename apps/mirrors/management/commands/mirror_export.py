from __future__ import annotations

from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from django.core.management.base import CommandError, CommandParser

from apps.access.selectors.projects import project_named
from apps.core import clock
from apps.mirrors.bundles.taking import Progress
from apps.mirrors.bundles.writing import write_to_path
from apps.mirrors.commands import (
    MirrorCommand,
    add_project,
    held_mirror,
    one_of,
    operator_in,
    path_argument,
    uuid_argument,
)
from apps.mirrors.selectors.mirrors import view_of
from apps.mirrors.services.exporting import find_boundary, written
from apps.mirrors.services.keeping import Taken, keep_mirror, taken_from_storage


class Command(MirrorCommand):
    help = (
        "Mirror the newest Run of a trace at its latest boundary: into a Project, or with --to into a new folder or "
        ".zip file, to be taken to another installation."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("trace_id", metavar="TRACE-ID", nargs="?", help="the traceId of its Runs")
        parser.add_argument("--mirror", metavar="MIRROR-ID", help="in place of a trace: a Mirror that a Project holds")
        add_project(parser, what="where its Runs are")
        parser.add_argument("--target-project", metavar="NAME", help="the Project that is to hold the Mirror")
        parser.add_argument("--run-id", metavar="RUN-ID", help="this Run of the trace")
        parser.add_argument("--boundary", metavar="N", type=int, help="this boundary of the Run")
        parser.add_argument("--to", metavar="DIR|FILE.zip", help="write it here; nothing may be there yet")

    def handle(self, *, trace_id: str | None, mirror: str | None, as_json: bool, **options: Any) -> None:
        one_of(**{"TRACE-ID": trace_id, "mirror": mirror})
        with self.progress("Mirroring") as progress, self._found(trace_id, mirror, progress, options) as found:
            manifest = found.bundle.manifest
            # The newest Run of a trace may be another than one had in mind, such as a fork.
            body: dict[str, Any] = {"digest": found.digest, "runId": manifest.run_id, "boundary": manifest.boundary}
            target = options["target_project"] or (None if options["to"] else options["project"])
            if options["to"]:
                body["to"] = self._write(found, path_argument(options["to"]))
            if target:
                body["mirror"] = self._keep(found, target)
        if as_json:
            self.print_json(body)
            return
        self.console.print(f"Run {body['runId']} at boundary {body['boundary']}.", markup=False)
        if options["to"]:
            self.console.print(f"Written to {body['to']}, digest {found.digest}.", markup=False)
        if target:
            self.console.print(f"Mirror {body['mirror']['mirrorId']} is in Project {target}.", markup=False)

    def _found(
        self, trace_id: str | None, mirror: str | None, progress: Progress, options: dict[str, Any]
    ) -> AbstractContextManager[Taken]:
        if mirror is not None:
            return taken_from_storage(held_mirror(mirror).digest, progress=progress)
        run_id = uuid_argument(options["run_id"]) if options["run_id"] else None
        held = find_boundary(
            project_id=project_named(options["project"]).pk,
            trace_id=uuid_argument(str(trace_id)),
            run_id=run_id,
            boundary=options["boundary"],
        )
        return written(held, progress=progress)

    def _write(self, found: Taken, target: Path) -> str:
        try:
            write_to_path(found.bundle, found.file, target)
        except OSError as error:
            raise CommandError(f"{target} cannot be written: {error.strerror}.") from None
        return str(target)

    def _keep(self, found: Taken, project: str) -> dict[str, Any]:
        caller = operator_in(project)
        kept = keep_mirror(caller=caller, project_id=caller.project_id, found=found, kind="exported", now=clock.now())
        return view_of(kept, project).to_wire()
