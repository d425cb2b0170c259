import argparse
import ipaddress
import json
import os
from pathlib import Path
from typing import Any

from django.conf import settings as django_settings
from django.core.management import call_command
from django.core.management.base import CommandError, CommandParser

from apps.access.services.local import LocalAccess, prepare_local_access
from apps.core import clock, conf
from apps.core.commands import LoomsvcCommand
from apps.core.folder_lock import FolderInUse, lock_folder
from apps.core.version import VERSION
from apps.ledger.services.instances import open_instance


def _port(text: str) -> int:
    if not text.isascii() or not text.isdigit() or int(text[:9]) > 65535:
        raise argparse.ArgumentTypeError(f"{text!r} is no port: give a number from 0 to 65535")
    return int(text)


class Command(LoomsvcCommand):
    help = "Start the whole service in one process, on a data folder; stop it with Ctrl-C."

    def add_arguments(self, parser: CommandParser) -> None:
        super().add_arguments(parser)
        parser.add_argument("--host", default="127.0.0.1", help="address to listen on (default: %(default)s)")
        parser.add_argument("--port", type=_port, default=8765, help="0 takes any free one (default: %(default)s)")
        parser.add_argument("--allow-remote", action="store_true", help="permit a --host beyond this machine")
        parser.add_argument("--json", action="store_true", help="print one JSON line per event for programs")

    def handle(self, *args: Any, **options: Any) -> None:
        from apps.runs.embedded.service import listen, serve

        self._json = bool(options["json"])
        self._require_loopback(options["host"], allowed=options["allow_remote"])
        folder = conf.settings().data_dir
        conf.private_folder(folder)
        try:
            lock = lock_folder(folder)
        except FolderInUse as error:
            raise CommandError(str(error)) from None
        try:
            listening = listen(options["host"], options["port"])
        except OSError as error:
            raise CommandError(
                f"Cannot listen on {options['host']}:{options['port']} ({error.strerror}). Choose another --port, or 0."
            ) from None
        call_command("migrate", verbosity=0, interactive=False)
        now = clock.now()
        access = prepare_local_access(folder, now=now)
        self._say_operator(access)
        instance = open_instance(version=VERSION, now=now)

        def on_ready() -> None:
            access.write_connection(url=listening.url, instance_id=str(instance.id), pid=os.getpid())
            self._say_ready(folder, listening.url, str(instance.id))

        with lock:
            serve(listening=listening, instance=instance, on_ready=on_ready)

    def _require_loopback(self, host: str, *, allowed: bool) -> None:
        try:
            loopback = host == "localhost" or ipaddress.ip_address(host).is_loopback
        except ValueError:
            loopback = False
        if not loopback and not allowed:
            raise CommandError(
                f"--host {host} would open this service to the network without TLS. Use 127.0.0.1, or say "
                "--allow-remote if that is what you want."
            )
        if not loopback:
            django_settings.ALLOWED_HOSTS.append(host)

    def _say_operator(self, access: LocalAccess) -> None:
        """At once: the password is kept nowhere, and a start may still fail after this."""
        if access.new_password is None:
            return
        if self._json:
            self._line({"event": "operator", "username": access.username, "password": access.new_password})
            return
        self.stdout.write(f"Operator for the admin, shown this once: {access.username} / {access.new_password}")
        self.stdout.flush()

    def _say_ready(self, folder: Path, url: str, instance_id: str) -> None:
        if self._json:
            self._line({"event": "ready", "url": url, "serviceInstanceId": instance_id})
            return
        self.stdout.write(f"loomsvc {VERSION} is ready at {url}")
        self.stdout.write(f"  agents   {url}/mcp    credentials in {folder / 'connection.json'}")
        self.stdout.write(f"  console  {url}/admin/")
        self.stdout.write(f"  REST     {url}/api/v1/    OpenAPI {url}/api/v1/openapi.json")
        self.stdout.write("  next     loomsvc list_looms, then loomsvc run_loom NAME; Ctrl-C stops the service")
        self.stdout.flush()

    def _line(self, body: dict[str, Any]) -> None:
        self.stdout.write(json.dumps(body))
        self.stdout.flush()
