"""The base of the commands that stay with a Run: they follow it, and ask in place what it asks."""

from __future__ import annotations

import sys
import uuid
from collections.abc import Callable, Mapping
from typing import Any

from rich.text import Text

from apps.core.errors import ErrorCode, LoomError
from apps.mcp import terminal, views
from apps.mcp.arguments import INSTANCE_ID, OPERATION_ID
from apps.mcp.asking import ask, in_order
from apps.mcp.client import AnswerLost, Service
from apps.mcp.commands import FAILED, STOPPED, ClientCommand, errors
from apps.mcp.following import View, follow
from apps.mcp.timeline import timeline


class WatchingCommand(ClientCommand):
    """What following a Run and answering it have in common, whichever command it was asked of."""

    def watch(
        self, service: Service, run_id: str, *, answers: list[Any] | None = None, also: Mapping[str, Any] | None = None
    ) -> int:
        """Follow the Run until it ends, rests or waits for somebody who is not here; show that; the exit code.

        ``answers`` were written beforehand; ``also`` goes into the JSON document beside the Run.
        """
        self.out.quiet = self.as_json
        refused: LoomError | None = None
        try:
            view = follow(
                service,
                run_id,
                console=self.out,
                answering=self._answering(answers),
                submit=lambda asked, answer: self.submit(service, asked, answer),
            )
        except (AnswerLost, KeyboardInterrupt) as cut:
            if self.unsettled:
                raise  # an answer went out, and what became of it is not known
            return self._left(run_id, cut)
        except LoomError as error:
            if not self.unsettled:
                raise
            # It was the answer that was refused, so the Run still waits for one.
            refused, view = error, service.call("get_run", {"runId": run_id})["run"]
        finally:
            self.out.quiet = False
        if refused is not None and not self.as_json:
            errors().print(terminal.refusal(refused))
        if self.as_json:
            why = {"error": refused.to_wire()} if refused is not None else {}
            self.print_json({**(also or {}), **why, "run": view})
            if view.get("pendingAction"):
                # Beside the document, not in it.
                errors().print(Text("It waits for a person. Answer it in a terminal with:"))
                errors().print(terminal.commands(f"loomsvc interact {run_id}"))
        else:
            self._show_end(service, view)
        return 0 if view["status"] == "completed" else FAILED

    def submit(self, service: Service, asked: View, answer: Any) -> dict[str, Any] | None:
        """Send an answer; ``None`` when somebody else was first (H3), which is said."""
        request = {
            OPERATION_ID: str(uuid.uuid4()),
            INSTANCE_ID: service.call("status", {})["service"]["instanceId"],
            "runId": asked["runId"],
            "actionId": asked["pendingAction"]["id"],
            "answer": answer,
        }
        try:
            return self.write(service, "answer_ask", request)
        except LoomError as error:
            if error.code is not ErrorCode.CONFLICT:
                raise
            self.out.print(views.too_late(service.answer_to(asked["runId"], request["actionId"]), error))
            return None

    @property
    def someone_is_here(self) -> bool:
        """Whether a person can be asked in place."""
        return not self.as_json and sys.stdin.isatty() and sys.stdout.isatty()

    def _answering(self, answers: list[Any] | None) -> Callable[[View], Any]:
        if answers is not None:
            take = in_order(answers)
            return lambda view: take(view["pendingAction"])
        if not self.someone_is_here:
            return lambda view: None
        return lambda view: ask(view["pendingAction"], console=self.out)

    def _show_end(self, service: Service, view: View) -> None:
        attempts = service.attempts(view["runId"])
        if attempts:
            self.out.print("")
            self.out.print(timeline(attempts))
        self.out.print("")
        self.out.print(views.run(view))

    def _left(self, run_id: str, cut: AnswerLost | KeyboardInterrupt) -> int:
        stopped = isinstance(cut, KeyboardInterrupt)
        to = self.out if stopped and not self.as_json else errors()
        to.print(
            Text(f"\n{'' if stopped else f'{cut} '}Stopped following. The Run goes on; look at it or end it with:")
        )
        to.print(
            terminal.commands(
                f"loomsvc get_run {run_id} --follow", f"loomsvc pause_run {run_id}", f"loomsvc cancel_run {run_id}"
            )
        )
        return STOPPED if stopped else FAILED
