"""What the server tells an agent of itself: the whole protocol, under 2,000 characters (N7).

Said is only what the Entry's own Tools can do, so nothing is promised that is not listed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from apps.core.endpoints import Endpoint


def instructions_for(endpoints: Iterable[Endpoint[Any, Any]]) -> str:
    """The instructions of an Entry whose Tools are ``endpoints``."""
    listed = {endpoint.name: endpoint for endpoint in endpoints}
    return "\n".join(_sentences(listed))


def _sentences(listed: dict[str, Endpoint[Any, Any]]) -> Iterator[str]:
    yield "loomsvc runs Looms: workflows of Code and Agent Steps.\n"
    yield (
        "Start: call status and keep service.instanceId; list_looms shows what can run and each inputSchema. No Agent "
        "Step runs while status says ready: false."
    )
    writes = ", ".join(name for name, endpoint in listed.items() if _is_admitted(endpoint))
    yield (
        f"Writes ({writes}) take serviceInstanceId and an operationId: a new UUID for each intent. Keep it. After a "
        "lost answer repeat the call with the same operationId, parameters and entry, or ask get_operation and "
        "find_run; it is never applied twice. Receipts: accepted means admitted, not finished; rejected, not applied; "
        "indeterminate, effects are uncertain: do not submit anew. instance_changed or INSTANCE_CHANGED: read status "
        "again, never replay."
    )
    found = ", search finds them" if "search" in listed else ""
    yield (
        "Then poll get_run until the Run is completed, failed or cancelled. get_artifact and get_record read its "
        f"results{found}. While it is waiting:"
    )
    ways = "use interact, or show it" if "interact" in listed else "show it"
    yield (
        f"- pendingAction (id: actionId) is a question to your human: {ways} and pass on their words with answer_ask. "
        "Never answer for them; dismissal leaves the Run waiting."
    )
    if "claim_agent_call" in listed:
        yield (
            "- pendingAgentCall (id: callId) is a task for you. claim_agent_call under your own claimId gives it and a "
            "private ownerToken. Run its Tools one by one with call_agent_tool, each call under its own toolCallId; "
            "read_agent_asset reads its files. complete_agent_call ends it, an end Tool does not; fail_agent_call "
            "fails the Run. After a lost answer repeat the call with the same ids. Claimed by others, or over after "
            "a restart: leave it."
        )
    else:
        yield "- pendingAgentCall is a task that an agent has at another entry: leave it."
    yield "A paused Run moves by resume_run only; expectedRevision is the revision you saw."
    if "run_agent" in listed:
        yield (
            "Background agents: list_models before run_agent; follow setup_url when a key is missing; keep id and "
            "session_secret, shown once, and poll agent_status."
        )
    yield (
        "Errors have isError and error.code. With error.validation, correct every listed issue before the next try; "
        "never repeat an unchanged rejected input. Only retryable errors are worth repeating; where a receipt came "
        "with one, under a new operationId."
    )


def _is_admitted(endpoint: Endpoint[Any, Any]) -> bool:
    return not endpoint.read_only and "operationId" in endpoint.input.wire_schema().get("required", ())
