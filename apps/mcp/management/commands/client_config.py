from __future__ import annotations

import dataclasses
import sys
from pathlib import Path
from typing import Any

from django.core.management.base import CommandParser

from apps.core import conf
from apps.core.commands import ServiceCommand
from apps.mcp.client_configs import CLIENTS, client_config


def program() -> list[str]:
    """What starts loomsvc from any folder, as it was started now."""
    called = Path(sys.argv[0]).absolute()
    if called.name == "__main__.py":
        return [sys.executable, "-m", "loomsvc"]
    return [sys.executable, str(called)] if called.suffix == ".py" else [str(called)]


class Command(ServiceCommand):
    help = "Prints what to tell an MCP client, so that it reaches this service."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("client", choices=CLIENTS)

    def handle(self, *args: Any, **options: Any) -> None:
        folder = conf.settings().data_dir
        config = client_config(options["client"], program=program(), folder=str(folder))
        if options["as_json"]:
            self.print_json(dataclasses.asdict(config))
        else:
            self.stdout.write(config.text)
            self._explain(f"\nPut this into {config.where}, beside what is there already.")
            if config.command:
                self._explain(f"Or have it put where it belongs:\n\n  {config.command}")
        if not folder.is_dir():
            self._explain(f"\nNo service has run on {folder} yet. Is it the folder you mean? If not, give --data.")

    def _explain(self, text: str) -> None:
        """Beside the result, so that this alone can go to a file."""
        self.stdout.flush()
        self.stderr.write(text, style_func=str)
