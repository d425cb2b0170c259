from collections.abc import Mapping
from typing import Any

from django.core.management.base import CommandParser

from apps.mcp import views
from apps.mcp.arguments import wire_arguments
from apps.mcp.client import Service
from apps.mcp.timeline import timeline
from apps.mcp.watching import WatchingCommand


class Command(WatchingCommand):
    endpoint = "get_run"
    show = staticmethod(views.found_run)

    def add_arguments(self, parser: CommandParser) -> None:
        super().add_arguments(parser)
        parser.add_argument("--timeline", action="store_true", help="show its attempts over time as well")
        parser.add_argument(
            "--follow",
            action="store_true",
            help="stay until it ends, and ask what it asks; the exit code is 0 only if it completed",
        )

    def act(self, service: Service, options: Mapping[str, Any]) -> int:
        if options["follow"]:
            return self.watch(service, options["runId"])
        result = self.call(service, wire_arguments(self.declared, options))
        self.present(result)
        if options["timeline"] and not self.as_json:
            self.out.print("")
            self.out.print(timeline(service.attempts(result["run"]["runId"])))
        return 0
