import argparse
import sys
import uuid
from collections.abc import Callable, Mapping
from typing import Any

from django.core.management.base import CommandParser
from rich.text import Text

from apps.core.errors import ErrorCode, LoomError
from apps.mcp import views
from apps.mcp.arguments import read_json, wire_arguments
from apps.mcp.asking import ask, in_order
from apps.mcp.client import Service
from apps.mcp.commands import FAILED, STOPPED, ClientCommand
from apps.mcp.following import View, follow
from apps.mcp.terminal import commands
from apps.mcp.timeline import timeline


class Command(ClientCommand):
    endpoint = "run"
    show = staticmethod(views.operation)

    def add_arguments(self, parser: CommandParser) -> None:
        super().add_arguments(parser)
        parser.add_argument(
            "--follow",
            action=argparse.BooleanOptionalAction,
            default=True,
            help="stay until it ends, and ask what it asks; the exit code is 0 only if it completed",
        )
        parser.add_argument(
            "--answers", metavar="FILE", type=_answers, help="JSON list of answers, taken in order instead of asking"
        )

    def act(self, service: Service, options: Mapping[str, Any]) -> int:
        started = self.call(service, wire_arguments(self.declared, options))
        view: View = started["run"]
        if not options["follow"]:
            self.present(started)
            return 0
        if not self.as_json:
            self.out.print(views.receipt(started["receipt"]))
            self.out.print(Text(f"Run {view['runId']}", style="bold"))
        try:
            view = self._follow(service, view, self._answering(options["answers"]))
        except KeyboardInterrupt:
            return self._stopped(view)
        if self.as_json:
            self.print_json({"receipt": started["receipt"], "run": view})
        else:
            self._show_end(service, view)
        return 0 if view["status"] == "completed" else FAILED

    def _answering(self, answers: list[Any] | None) -> Callable[[View], Any]:
        if answers is not None:
            take = in_order(answers)
            return lambda view: take(view["pendingAction"])
        if self.as_json or not (sys.stdin.isatty() and sys.stdout.isatty()):
            return lambda view: None
        return lambda view: ask(view["pendingAction"], console=self.out)

    def _follow(self, service: Service, view: View, answering: Callable[[View], Any]) -> View:
        def submit(asked: View, answer: Any) -> View:
            request = {
                "operationId": str(uuid.uuid4()),
                "serviceInstanceId": self.sent["serviceInstanceId"],
                "runId": asked["runId"],
                "actionId": asked["pendingAction"]["id"],
                "answer": answer,
            }
            try:
                answered: View = service.call("answer_ask", request)["run"]
            except LoomError as error:
                # Somebody else answered first (H3): the Run has moved on, and so do we.
                if error.code is not ErrorCode.CONFLICT:
                    raise
                return asked
            return answered

        quiet = self.as_json
        self.out.quiet = quiet
        try:
            return follow(service, view["runId"], console=self.out, answering=answering, submit=submit)
        finally:
            self.out.quiet = False

    def _show_end(self, service: Service, view: View) -> None:
        attempts = service.attempts(view["runId"])
        if attempts:
            self.out.print("")
            self.out.print(timeline(attempts))
        self.out.print("")
        self.out.print(views.run(view))

    def _stopped(self, view: View) -> int:
        self.out.print(Text("\nStopped following. The Run goes on; look at it, pause it or end it with:"))
        self.out.print(
            commands(*(f"loomsvc {verb} {view['runId']}" for verb in ("get_run", "pause_run", "cancel_run")))
        )
        return STOPPED


def _answers(path: str) -> list[Any]:
    answers = read_json(f"@{path}")
    if not isinstance(answers, list):
        raise argparse.ArgumentTypeError("this is not a JSON list of answers")
    return answers
