from collections.abc import Mapping
from typing import Any

from django.core.management.base import CommandParser
from rich.console import Group
from rich.text import Text

from apps.core.errors import ErrorCode, LoomError
from apps.mcp import views
from apps.mcp.asking import ask
from apps.mcp.client import Service
from apps.mcp.commands import FAILED
from apps.mcp.following import describe
from apps.mcp.terminal import commands
from apps.mcp.watching import WatchingCommand


class Command(WatchingCommand):
    endpoint = "interact"
    show = staticmethod(views.handed_over)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.help = (
            "Ask you in this terminal what a Run asks, and send your answer. Without a terminal, or with --json, show "
            "it and how to answer. The exit code is 0 only if your answer was taken."
        )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("runId", metavar="RUN-ID")
        parser.add_argument("actionId", nargs="?", metavar="ACTION-ID", help="only if the Run still waits for this one")
        parser.add_argument("--json", action="store_true", help="print the structured result as one JSON document")

    def act(self, service: Service, options: Mapping[str, Any]) -> int:
        run_id = options["runId"]
        action_id = options["actionId"] or _pending(service, run_id)
        found = self.call(service, {"runId": run_id, "actionId": action_id})
        if not self.someone_is_here:
            self.present(found)
            return FAILED
        self.out.print(describe(found["run"]))
        answer = ask(found["action"], console=self.out)
        if answer is None:
            self.out.print(Text("Left unanswered; the Run waits."))
            self.out.print(Group(*views.pending_action(found["run"])))
            return FAILED
        answered = self.submit(service, found["run"], answer)
        if answered is None:
            return FAILED
        self.out.print(views.receipt(answered["receipt"]))
        self.out.print(Text("See what comes of it with:"))
        self.out.print(commands(f"loomsvc get_run {run_id} --follow"))
        return 0


def _pending(service: Service, run_id: str) -> str:
    """The Action that the Run waits for; ``CONFLICT`` when it waits for none."""
    view = service.call("get_run", {"runId": run_id})["run"]
    if not view.get("pendingAction"):
        raise LoomError(ErrorCode.CONFLICT, f"This Run asks nothing; it is {view['status']}.")
    return str(view["pendingAction"]["id"])
