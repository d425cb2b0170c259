from collections.abc import Mapping
from typing import Any

from django.core.management.base import CommandParser
from rich.text import Text

from apps.core.errors import ErrorCode, LoomError
from apps.mcp import views
from apps.mcp.arguments import wire_arguments
from apps.mcp.client import Service
from apps.mcp.watching import WatchingCommand

_NEWEST = ""
_OPEN = ("queued", "running", "waiting", "paused")


class Command(WatchingCommand):
    endpoint = "list_runs"
    show = staticmethod(views.runs)

    def add_arguments(self, parser: CommandParser) -> None:
        super().add_arguments(parser)
        parser.add_argument(
            "--follow",
            nargs="?",
            const=_NEWEST,
            metavar="RUN-ID",
            help="stay with this Run until it ends, and ask what it asks; without an id with the newest of the list "
            "that has not ended. The exit code is 0 only if it completed",
        )

    def act(self, service: Service, options: Mapping[str, Any]) -> int:
        if options["follow"] is None:
            return super().act(service, options)
        run_id = options["follow"] or self._newest(service, wire_arguments(self.declared, options))
        if not self.as_json:
            self.out.print(Text(f"Run {run_id}", style="bold"))
        return self.watch(service, run_id)

    def _newest(self, service: Service, filters: dict[str, Any]) -> str:
        """The newest Run of the list that has not ended; ids sort by time, whatever lies between them."""
        asked = [filters["status"]] if "status" in filters else _OPEN
        newest = [
            str(run["runId"])
            for status in asked
            if status in _OPEN
            for run in self.call(service, {**filters, "status": status, "limit": 1})["runs"]
        ]
        if not newest:
            raise LoomError(ErrorCode.NOT_FOUND, "There is no such Run that has not ended, so none to follow.")
        return max(newest)
