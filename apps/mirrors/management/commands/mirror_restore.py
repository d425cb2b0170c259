from __future__ import annotations

import sys
import uuid
from contextlib import AbstractContextManager, suppress
from typing import Any

from django.core.management.base import CommandParser
from rich.table import Table
from rich.text import Text

from apps.access.services.projects import DEFAULT_PROJECT
from apps.core import clock
from apps.core.caller import Caller
from apps.core.commands import data_option
from apps.core.errors import LoomError
from apps.mirrors.commands import (
    MirrorCommand,
    add_project,
    add_source,
    held_mirror,
    one_of,
    operator_in,
    path_argument,
)
from apps.mirrors.contracts import PlanEntry
from apps.mirrors.services.keeping import (
    Taken,
    keep_mirror,
    mirror_id_of,
    taken_from_path,
    taken_from_storage,
)
from apps.mirrors.services.planning import Target, has_conflict
from apps.mirrors.services.restoring import Restored, restore_mirror
from apps.runs.contracts import RunView
from apps.runs.selectors.runs import get_run

_STYLES = {"conflict": "bold red", "create": "green", "replace": "yellow"}
#: A plan may be as long as a trace.
_MOST_ROWS = 200


class Command(MirrorCommand):
    help = (
        "Restore a Mirror into a Project, whole or not at all: one that a Project holds, or with --from one that lies "
        "in a folder or .zip file, which the Project then holds too. The Run is paused; no Code is run. Exit code 1 "
        "when something is in the way."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("mirror_id", metavar="MIRROR-ID", nargs="?", help="one that a Project holds")
        parser.add_argument("--from", metavar="DIR|FILE.zip", dest="path", help="one that lies in a folder or file")
        add_project(parser, what="the Project to restore it into")
        parser.add_argument(
            "--scope",
            choices=["artifacts", "records", "run", "all"],
            default="all",
            help="what of it is restored (default: %(default)s)",
        )
        parser.add_argument("--dry-run", action="store_true", help="say what would be done, and do nothing")
        add_source(parser)

    def handle(self, *, mirror_id: str | None, path: str | None, as_json: bool, **options: Any) -> None:
        one_of(**{"MIRROR-ID": mirror_id, "from": path})
        caller = operator_in(options["project"], options["source"])
        with self.progress("Reading") as progress:
            if path is not None:
                opened: AbstractContextManager[Taken] = taken_from_path(path_argument(path), progress=progress)
                held_as = None
            else:
                mirror = held_mirror(str(mirror_id))
                opened, held_as = taken_from_storage(mirror.digest, progress=progress), mirror.mirror_id
            with opened as found:
                key = held_as or mirror_id_of(project_id=caller.project_id, digest=found.digest)
                target = Target(key, caller.project_id, options["scope"])
                now = clock.now()
                done = restore_mirror(caller=caller, target=target, found=found, dry_run=options["dry_run"], now=now)
                if done.applied and held_as is None:
                    keep_mirror(caller=caller, project_id=caller.project_id, found=found, kind="imported", now=now)
        if as_json:
            self.print_json(_body(caller, target, done))
        else:
            self._print(done, _view(caller, done), options["project"], dry_run=options["dry_run"])
        if has_conflict(done.plan):
            sys.exit(1)

    def _print(self, done: Restored, run: RunView | None, project: str, *, dry_run: bool) -> None:
        table = Table(box=None, pad_edge=False, header_style="bold")
        for heading in ("ACTION", "KIND", "ID", "WHY"):
            table.add_column(heading, no_wrap=heading != "WHY")
        for entry in done.plan[:_MOST_ROWS]:
            table.add_row(*_row(entry))
        self.console.print(table)
        if len(done.plan) > _MOST_ROWS:
            self.console.print(f"… and {len(done.plan) - _MOST_ROWS} more; --json has them all.")
        if dry_run:
            self.console.print("Nothing was done: this was a dry run.")
        elif not done.applied:
            self.console.print("[red]Nothing was done: something is in the way.[/]")
        elif done.run_id is not None:
            self.console.print(_next_step(done.run_id, run, project), markup=False)


def _row(entry: PlanEntry) -> tuple[Text, Text, Text, Text]:
    action = Text(entry.action, style=_STYLES.get(entry.action, ""))
    return action, Text(entry.kind), Text(entry.id), Text(entry.reason or "")


def _next_step(run_id: uuid.UUID, run: RunView | None, project: str) -> str:
    if run is not None and run.status != "paused":
        return f"Run {run_id} is {run.status}: it went on since it was restored."
    if project != DEFAULT_PROJECT:
        # The commands that act on Runs have a credential of the default Project, and find none of another.
        token = f"loomsvc token_create --project {project} --source studio --label TEXT{data_option()}"
        return (
            f"Run {run_id} is paused in Project {project}. Resume it in the console, or over REST with a credential "
            f"of that Project: `{token}` makes one."
        )
    if run is None:
        look = f"loomsvc get_run {run_id}{data_option()}"
        return f"Run {run_id} is there, paused. Start the service; then `{look}` says how to go on."
    resume = f"loomsvc resume_run {run_id} --expected-revision {run.revision}{data_option()}"
    return f"Run {run_id} is paused; go on with `{resume}`."


def _view(caller: Caller, done: Restored) -> RunView | None:
    """The restored Run; before the first start of a service, none has a view."""
    with suppress(LoomError):
        return get_run(project_id=caller.project_id, run_id=str(done.run_id)) if done.run_id is not None else None
    return None


def _body(caller: Caller, target: Target, done: Restored) -> dict[str, Any]:
    body: dict[str, Any] = {
        "mirrorId": str(target.mirror_id),
        "plan": [entry.to_wire() for entry in done.plan],
        "applied": done.applied,
    }
    if done.run_id is not None:
        body["runId"] = str(done.run_id)
        run = _view(caller, done)
        if run is not None:
            body["run"] = run.to_wire()
    return body
