"""``loomsvc`` is ``manage.py`` under another name; both accept ``--data DIR`` with every command."""

from __future__ import annotations

import os
import sys
import tempfile

from apps.core import conf


def take_data_option(arguments: list[str]) -> str | None:
    """Remove ``--data DIR`` or ``--data=DIR`` from ``arguments``; its value.

    It decides what Django's settings read, so no command can be the one to look at it, and Django's own
    commands do not know it.
    """
    for index, argument in enumerate(arguments):
        if argument == "--data" and index + 1 < len(arguments):
            del arguments[index]
            return arguments.pop(index)
        if argument.startswith("--data="):
            return arguments.pop(index).partition("=")[2]
    return None


def main() -> None:
    """Run one management command."""
    data = take_data_option(sys.argv)
    command = sys.argv[1] if len(sys.argv) > 1 else ""
    if data:
        os.environ["LOOMSVC_DATA"] = os.path.abspath(data)
    elif command == "demo":
        # Never somebody's own ledger: the demo gets a folder of its own, which it names and leaves behind.
        os.environ["LOOMSVC_DATA"] = tempfile.mkdtemp(prefix="loomsvc-demo-")
    if command == "up":
        os.environ["LOOMSVC_EMBEDDED"] = "1"
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "loomsvc.settings.development")
    try:
        settings = conf.from_environment()
    except ValueError as error:
        sys.exit(f"loomsvc: {error}")
    if command in ("up", "demo", "migrate"):
        conf.private_folder(settings.data_dir)

    from django.core.management import execute_from_command_line, load_command_class

    if command == "mcp_proxy":
        # A client waits for it at each start, and it needs neither apps nor ledger.
        load_command_class("apps.mcp", command).run_from_argv(sys.argv)
        return
    import loomsvc.celery  # noqa: F401 (a command that makes something due rings with this application)

    if command not in ("createsuperuser", "changepassword"):
        execute_from_command_line(sys.argv)
        return
    from django.db import DatabaseError

    try:
        execute_from_command_line(sys.argv)
    except DatabaseError:
        sys.exit(
            "loomsvc: there is no ledger with accounts here. Name the service's folder with --data DIR (or its "
            "database with DATABASE_URL); `loomsvc migrate` makes a new one."
        )
