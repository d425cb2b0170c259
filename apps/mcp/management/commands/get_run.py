from collections.abc import Mapping
from typing import Any

from django.core.management.base import CommandParser

from apps.mcp import views
from apps.mcp.arguments import wire_arguments
from apps.mcp.client import Service
from apps.mcp.commands import ClientCommand
from apps.mcp.timeline import timeline


class Command(ClientCommand):
    endpoint = "get_run"
    show = staticmethod(views.found_run)

    def add_arguments(self, parser: CommandParser) -> None:
        super().add_arguments(parser)
        parser.add_argument("--timeline", action="store_true", help="show its attempts over time as well")

    def act(self, service: Service, options: Mapping[str, Any]) -> int:
        result = self.call(service, wire_arguments(self.declared, options))
        self.present(result)
        if options["timeline"] and not self.as_json:
            self.out.print("")
            self.out.print(timeline(service.attempts(result["run"]["runId"])))
        return 0
