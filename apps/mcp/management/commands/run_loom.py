import argparse
from collections.abc import Mapping
from typing import Any

from django.core.management.base import CommandParser
from rich.text import Text

from apps.mcp import views
from apps.mcp.arguments import read_answers, wire_arguments
from apps.mcp.client import Service
from apps.mcp.watching import WatchingCommand


class Command(WatchingCommand):
    endpoint = "run"
    show = staticmethod(views.operation)

    def add_arguments(self, parser: CommandParser) -> None:
        super().add_arguments(parser)
        parser.add_argument(
            "--follow",
            action=argparse.BooleanOptionalAction,
            default=True,
            help="stay until it ends, and ask what it asks; the exit code is 0 only if it completed",
        )
        parser.add_argument(
            "--answers",
            metavar="FILE",
            type=read_answers,
            help="JSON list of answers, taken in order instead of asking",
        )

    def act(self, service: Service, options: Mapping[str, Any]) -> int:
        started = self.call(service, wire_arguments(self.declared, options))
        if not options["follow"]:
            self.present(started)
            return 0
        run_id = started["run"]["runId"]
        if not self.as_json:
            self.out.print(views.receipt(started["receipt"]))
            self.out.print(Text(f"Run {run_id}", style="bold"))
        return self.watch(service, run_id, answers=options["answers"], also={"receipt": started["receipt"]})
