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
            "The task of a Run's `pendingAgentCall` (its id is `callId`) and the receipts of Tool calls made so far. "
            "It claims nothing. `pending` and `task` are null once the call is closed; `closedAs` then says how."
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
            "Take a Run's `pendingAgentCall` as yours. Make one unique `claimId` and keep it: sent again, from "
            "another process too, it returns the same task and the same private `ownerToken`. Somebody else's claim "
            "is CONFLICT."
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
            "Run one Tool that your claimed task declares, with `input` as its inputSchema asks. One at a time. Make "
            "a new `toolCallId` for each call and keep it: the same id with the same input returns the receipt (and "
            "output) without running again. `failed`: read the error and go on. `indeterminate`: it was cut off and "
            "is not run again; look before you go on under a new id."
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
            "A file that a Skill of your claimed task lists among its assets, as text or base64, up to 1 MiB."
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
            "Submit the final output of your claimed task once all Tools have finished: `result` is JSON that fits "
            "the task's `outputSchema`, with an `outcome` that the Step routes. An invalid one lists every issue and "
            "leaves the call yours. Repeating it unchanged answers the same. Then follow the Run with get_run."
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
            "End your claimed task without a result, saying why. The Run fails, so use it only when the task cannot "
            "be done."
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
