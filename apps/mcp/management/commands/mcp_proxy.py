from __future__ import annotations

import os
import sys
from typing import Any

from django.core.management.base import CommandParser

from apps.access.domain.entries import MCP_ENTRIES
from apps.core import conf
from apps.core.caller import Source
from apps.core.commands import LoomsvcCommand
from apps.mcp import proxy


class Command(LoomsvcCommand):
    help = "Bridges an MCP client on standard input and output to the running service."
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: CommandParser) -> None:
        names = [entry.name for entry in MCP_ENTRIES if entry.source is Source.AGENT_IDE]
        parser.add_argument("--entry", choices=names, default=names[0], help=f"where to come in (default: {names[0]})")

    def handle(self, *args: Any, **options: Any) -> None:
        proxy.run(conf.settings().data_dir, options["entry"], sys.stdin.buffer, sys.stdout.buffer)
        # At once: a thread that still reads standard input would keep the process.
        os._exit(0)
