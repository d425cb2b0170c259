"""The external agent protocol: six Tools for agents, and a view for everybody else (contract section 7)."""

from __future__ import annotations

from apps.agents import contracts
from apps.agents.selectors import calls
from apps.agents.services import assets, claiming, completing, tool_calls
from apps.core import clock
from apps.core.caller import Caller, Source
from apps.core.endpoints import Endpoint, Kind, Route, register

_FOR_AGENTS = frozenset({Source.AGENT_IDE})


def _get(caller: Caller, request: contracts.TaskReference) -> contracts.AgentCallFound:
    return contracts.AgentCallFound(agent_call=calls.get_agent_call(caller=caller, reference=request))


def _show(caller: Caller, request: contracts.CallReference) -> contracts.AgentCallFound:
    return contracts.AgentCallFound(agent_call=calls.show_agent_call(caller=caller, call_id=request.call_id))


def _claim(caller: Caller, request: contracts.ClaimAgentCall) -> contracts.Claimed:
    return claiming.claim_agent_call(caller=caller, request=request, now=clock.now())


def _call_tool(caller: Caller, request: contracts.CallAgentTool) -> contracts.ToolCalled:
    return tool_calls.call_agent_tool(caller=caller, request=request, now=clock.now())


def _read_asset(caller: Caller, request: contracts.ReadAgentAsset) -> contracts.AssetFound:
    return contracts.AssetFound(asset=assets.read_agent_asset(caller=caller, request=request))


def _complete(caller: Caller, request: contracts.CompleteAgentCall) -> contracts.Closed:
    return completing.complete_agent_call(caller=caller, request=request, now=clock.now())


def _fail(caller: Caller, request: contracts.FailAgentCall) -> contracts.Closed:
    return completing.fail_agent_call(caller=caller, request=request, now=clock.now())


GET_AGENT_CALL = register(
    Endpoint(
        name="get_agent_call",
        title="Look at an agent call",
        description=(
            "Look at a Run's `pendingAgentCall` without claiming it: its task, whether somebody has claimed it "
            "(`pending.phase`), and the toolCallIds used so far with what became of them. Once it is closed, "
            "`pending` and `task` are null and `closedAs` says how; only `completed` means that a result was "
            "accepted."
        ),
        input=contracts.TaskReference,
        output=contracts.AgentCallFound,
        handler=_get,
        kind=Kind.READ,
        sources=_FOR_AGENTS,
    )
)
CLAIM_AGENT_CALL = register(
    Endpoint(
        name="claim_agent_call",
        title="Claim an agent call",
        description=(
            "Take a Run's `pendingAgentCall` as yours, under a `claimId` that you make and keep. Returns the `task`, "
            "and a private `ownerToken` for the other Tools. Then do what `task.instructions` say, with `task.skills` "
            "to draw on: run `task.tools` with call_agent_tool, read assets with read_agent_asset, and submit what "
            "fits `task.outputSchema` with complete_agent_call. Sent again with the same `claimId`, from another "
            "process too, it returns the same. CONFLICT: somebody else has it, or it is closed; leave it, and read "
            "the Run with get_run."
        ),
        input=contracts.ClaimAgentCall,
        output=contracts.Claimed,
        handler=_claim,
        kind=Kind.AGENT,
        sources=_FOR_AGENTS,
    )
)
CALL_AGENT_TOOL = register(
    Endpoint(
        name="call_agent_tool",
        title="Run a Tool of the task",
        description=(
            "Run one of `task.tools` of your claimed task; they are not Tools of this server and run in no other way. "
            "One at a time; wait for the answer. `receipt.status` completed: `output` has the result. running: repeat "
            "the call unchanged. indeterminate: it was cut off and is not run again; look what it did, then go on "
            "under a new `toolCallId`. After a lost answer repeat the call unchanged: the same `toolCallId` with the "
            "same input gives its receipt and output and runs nothing. Errors: INVALID_REQUEST, nothing ran: correct "
            "every issue. TOOL_FAILED: the Tool refused, and its receipt is failed; read the message and try another "
            "way under a new `toolCallId`. BUSY: another one still runs. TOOLS_CLOSED or CAPACITY: submit your "
            "result. CONFLICT: this `toolCallId` is used, or the task is over."
        ),
        input=contracts.CallAgentTool,
        output=contracts.ToolCalled,
        handler=_call_tool,
        kind=Kind.AGENT,
        sources=_FOR_AGENTS,
        destructive=True,
        open_world=True,
        long_running=True,
    )
)
READ_AGENT_ASSET = register(
    Endpoint(
        name="read_agent_asset",
        title="Read an asset of the task",
        description=(
            "Read a file that a Skill of your claimed task lists in `assets`: `content` as text, or as base64 where "
            "`encoding` says so. Up to 1 MiB."
        ),
        input=contracts.ReadAgentAsset,
        output=contracts.AssetFound,
        handler=_read_asset,
        kind=Kind.READ,
        sources=_FOR_AGENTS,
    )
)
COMPLETE_AGENT_CALL = register(
    Endpoint(
        name="complete_agent_call",
        title="Submit the task's result",
        description=(
            "Submit the result of your claimed task, once its Tools have finished; also after an end Tool, which "
            "submits nothing by itself. INVALID_REQUEST lists every issue with its pointer and leaves the task yours: "
            "correct all of them and submit again. Repeated unchanged it answers the same. Then follow the Run with "
            "get_run: what it waits for next may be another task, with an id and a claim of its own, or a question to "
            "your human."
        ),
        input=contracts.CompleteAgentCall,
        output=contracts.Closed,
        handler=_complete,
        kind=Kind.AGENT,
        sources=_FOR_AGENTS,
    )
)
FAIL_AGENT_CALL = register(
    Endpoint(
        name="fail_agent_call",
        title="Give up the task",
        description=(
            "Give up your claimed task. The Run fails for good, so use it only when the task cannot be done, and not "
            "after an error that you can correct."
        ),
        input=contracts.FailAgentCall,
        output=contracts.Closed,
        handler=_fail,
        kind=Kind.AGENT,
        sources=_FOR_AGENTS,
        destructive=True,
    )
)
SHOW_AGENT_CALL = register(
    Endpoint(
        name="show_agent_call",
        title="Show an agent call",
        description="An agent call as it stands: its task, who may claim it, and the receipts of its Tool calls.",
        input=contracts.CallReference,
        output=contracts.AgentCallFound,
        handler=_show,
        kind=Kind.READ,
        route=Route("GET", "/agent-calls/{callId}"),
        tool=False,
    )
)
