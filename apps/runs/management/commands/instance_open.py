from typing import Any

from django.core.management.base import CommandParser

from apps.core import clock
from apps.core.commands import LoomsvcCommand
from apps.core.version import VERSION
from apps.ledger.selectors.instances import find_current
from apps.ledger.services.instances import open_instance


class Command(LoomsvcCommand):
    help = (
        "Open a new service instance: once per deployment, before its processes start. Steps in flight in the one "
        "before are interrupted; Runs that rest go on."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        super().add_arguments(parser)
        parser.add_argument("--if-none", action="store_true", help="only when none is open yet")

    def handle(self, *args: Any, **options: Any) -> None:
        current = find_current()
        if options["if_none"] and current is not None:
            self.stdout.write(f"Service instance {current.id} is open already.")
            return
        instance = open_instance(version=VERSION, now=clock.now())
        self.stdout.write(f"Opened service instance {instance.id}.")
