"""The base of the commands that are clients of the running service (contract section 11)."""

from __future__ import annotations

import sys
import uuid
from collections.abc import Mapping
from typing import Any, ClassVar

from django.core.management.base import CommandError, CommandParser
from rich.console import Console, RenderableType
from rich.text import Text

from apps.core import conf, json_text
from apps.core.commands import LoomsvcCommand, data_option
from apps.core.endpoints import Endpoint, all_endpoints
from apps.core.errors import ErrorCode, LoomError
from apps.mcp import terminal
from apps.mcp.arguments import INSTANCE_ID, OPERATION_ID, add_arguments, wire_arguments
from apps.mcp.client import AnswerLost, NotRunning, Service, connect

#: Exit codes; argparse itself ends with 2 for a wrong usage, and a shell says 130 for Ctrl-C.
FAILED, NOT_RUNNING, STOPPED = 1, 3, 130

_NEXT_STEPS = {
    ErrorCode.INVALID_REQUEST: "correct every place named above, then send it again",
    ErrorCode.BUSY: "wait for the Run that holds it (loomsvc list_runs), then try again",
    ErrorCode.MIRROR_DIVERGED: "resume with --scope artifacts, state or all to bring it back, or with --abandon-mirror "
    "to go on with what is there",
    ErrorCode.INSTANCE_CHANGED: "loomsvc find_run OPERATION-ID --service-instance-id INSTANCE tells what became of it",
    ErrorCode.RELEASE_UNAVAILABLE: "loomsvc list_looms shows what is wrong with the Loom",
    ErrorCode.RATE_LIMITED: "wait a little, then try again",
    ErrorCode.UNAVAILABLE: "try again shortly; loomsvc status says what is missing",
    ErrorCode.NOT_FOUND: "loomsvc list_runs and loomsvc list_looms show what there is",
    ErrorCode.CONFLICT: "look before you act: loomsvc get_run shows a Run, loomsvc get_operation an operation",
    ErrorCode.UNAUTHENTICATED: "stop the service and start it again: loomsvc up",
}


def next_step(error: LoomError) -> str | None:
    """What helps after a refusal, if anything is known to."""
    untrusted = (error.details or {}).get("untrustedDigest")
    if untrusted is not None:
        return f"loomsvc release_trust {untrusted} --show prints its files; without --show it lets them run"
    return _NEXT_STEPS.get(error.code)


class ClientCommand(LoomsvcCommand):
    """Calls one Endpoint; ``show`` renders its structured result for people."""

    # They check the ledger, which belongs to the service and not to its clients.
    requires_system_checks: Any = []
    requires_migrations_checks = False
    endpoint: ClassVar[str]

    @staticmethod
    def show(result: Mapping[str, Any], /) -> RenderableType:
        """The structured result as people read it."""
        raise NotImplementedError

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.help = self.declared.description.replace("`", "")

    @property
    def declared(self) -> Endpoint[Any, Any]:
        return next(endpoint for endpoint in all_endpoints() if endpoint.name == self.endpoint)

    def add_arguments(self, parser: CommandParser) -> None:
        add_arguments(parser, self.declared)
        parser.add_argument("--json", action="store_true", help="print the structured result as one JSON document")

    def handle(self, *args: Any, **options: Any) -> None:
        self.as_json = bool(options["json"])
        self.out = terminal.console()
        try:
            with connect(conf.settings().data_dir) as service:
                code = self.act(service, options)
        except LoomError as error:
            code = self._refused(error)
        except NotRunning as error:
            code = self._failed(str(error), NOT_RUNNING)
        except AnswerLost as error:
            code = self._failed(f"{error} {self.after_lost_answer()}", FAILED)
        except KeyboardInterrupt:
            code = self._failed(f"Stopped. {self.after_lost_answer()}", STOPPED)
        if code:
            sys.exit(code)

    def act(self, service: Service, options: Mapping[str, Any]) -> int:
        """Make the call and show its result; the exit code."""
        self.present(self.call(service, wire_arguments(self.declared, options)))
        return 0

    def call(self, service: Service, arguments: dict[str, Any]) -> dict[str, Any]:
        """Call the Endpoint, an identity filled in where it takes one and none was given."""
        members = self.declared.input.model_fields
        if OPERATION_ID in arguments and INSTANCE_ID not in arguments:
            raise CommandError(
                "Give --service-instance-id with --operation-id: an operation belongs to the service instance that it "
                "was first sent to, and would be a new one at another. Both were printed with its receipt.",
                returncode=2,
            )
        if "service_instance_id" in members and INSTANCE_ID not in arguments:
            arguments[INSTANCE_ID] = service.call("status", {})["service"]["instanceId"]
        if "operation_id" in members and OPERATION_ID not in arguments:
            arguments[OPERATION_ID] = str(uuid.uuid4())
        if self.declared.read_only:
            return service.call(self.endpoint, arguments)
        return self.write(service, self.endpoint, arguments)

    def write(self, service: Service, tool: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Call a Tool that changes something; while no answer has come, its identity is kept to ask with."""
        self.unsettled = arguments
        result = service.call(tool, arguments)
        self.unsettled = {}
        return result

    def present(self, result: Mapping[str, Any]) -> None:
        if self.as_json:
            self.print_json(result)
        else:
            self.out.print(self.show(result))

    def print_json(self, result: Any) -> None:
        sys.stdout.write(json_text.dumps(result) + "\n")

    #: The arguments of the write that went out and has no answer yet.
    unsettled: Mapping[str, Any] = {}

    def after_lost_answer(self) -> str:
        """What to do when a call went out and nothing came back: never the same write under a new identity."""
        if not self.unsettled:
            return "Nothing was changed."
        if OPERATION_ID not in self.unsettled:
            return "Whether it was done is not known."
        identity = f"{self.unsettled[OPERATION_ID]} --service-instance-id {self.unsettled[INSTANCE_ID]}"
        return (
            "Whether it was applied is not known; ask before you send it again:\n"
            f"loomsvc get_operation {identity}{data_option()}"
        )

    def _refused(self, error: LoomError) -> int:
        if self.as_json:
            self.print_json({"error": error.to_wire(), **error.attachments})
        else:
            errors().print(terminal.refusal(error, next_step(error)))
        return FAILED

    def _failed(self, message: str, code: int) -> int:
        # Each line as it is: what is to be copied must not be broken where the terminal ends.
        for line in message.split("\n"):
            errors().print(Text(terminal.plain(line)), soft_wrap=True)
        return code


def errors() -> Console:
    return terminal.console(sys.stderr)
