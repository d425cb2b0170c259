"""``loomsvc`` is ``manage.py`` under another name; both accept ``--data DIR`` with every command."""

from __future__ import annotations

import os
import sys
import tempfile

from apps.core import conf


def _take_option(arguments: list[str], name: str) -> str | None:
    """The value of ``--name VALUE`` or ``--name=VALUE``, looked at before Django reads its settings."""
    for index, argument in enumerate(arguments):
        if argument == name and index + 1 < len(arguments):
            return arguments[index + 1]
        if argument.startswith(f"{name}="):
            return argument.partition("=")[2]
    return None


def main() -> None:
    """Run one management command."""
    data = _take_option(sys.argv[1:], "--data")
    if data:
        os.environ["LOOMSVC_DATA"] = os.path.abspath(data)
    elif sys.argv[1:2] == ["demo"]:
        # Never somebody's own ledger: the demo gets a folder of its own, which it names and leaves behind.
        os.environ["LOOMSVC_DATA"] = tempfile.mkdtemp(prefix="loomsvc-demo-")
    if sys.argv[1:2] == ["up"]:
        os.environ["LOOMSVC_EMBEDDED"] = "1"
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "loomsvc.settings.development")
    try:
        settings = conf.from_environment()
    except ValueError as error:
        sys.exit(f"loomsvc: {error}")
    if sys.argv[1:2] in (["up"], ["migrate"]):
        settings.data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)

    from django.core.management import execute_from_command_line

    import loomsvc.celery  # noqa: F401 (a command that makes something due rings with this application)

    execute_from_command_line(sys.argv)
