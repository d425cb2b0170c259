import signal
import threading
from typing import Any

from django.core.management.base import CommandParser
from django.db import close_old_connections

from apps.core import clock, conf
from apps.core.commands import LoomsvcCommand
from apps.runs.services.sweeping import sweep


class Command(LoomsvcCommand):
    help = (
        "Look for what nobody rang for: expired leases, due retries, receipts left pending, old Runs. Runs until it "
        "is stopped; any number may run at once. `loomsvc up` sweeps by itself."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        super().add_arguments(parser)
        parser.add_argument("--once", action="store_true", help="sweep once and say what was found")

    def handle(self, *args: Any, **options: Any) -> None:
        if options["once"]:
            self.stdout.write(str(sweep(now=clock.now())))
            return
        stop = threading.Event()
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda *_: stop.set())
        while not stop.is_set():
            close_old_connections()
            sweep(now=clock.now())
            stop.wait(conf.settings().sweep_seconds)
