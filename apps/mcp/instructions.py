"""What the server tells an agent of itself: the whole protocol, under 2,000 characters (N7)."""

from __future__ import annotations

from apps.access.domain.entries import Entry
from apps.core.caller import EXECUTOR_OF_SOURCE, AgentExecutor

_COMMON = """\
loomsvc runs Looms: workflows of Code and Agent Steps on a durable ledger.

Start: call status and keep service.instanceId; list_looms shows what can run and each inputSchema.
Writes (run, answer_ask, interact, pause_run, resume_run, cancel_run, fork_run) take serviceInstanceId and an \
operationId: a new UUID for each intent. Keep it. After a lost answer repeat the call with the same operationId, \
parameters and entry, or ask get_operation and find_run; it is never applied twice. Receipts: accepted means \
admitted, not finished; rejected means not applied; indeterminate means effects are uncertain: do not submit anew. \
instance_changed or INSTANCE_CHANGED: read status again, never replay.
Follow a Run with get_run. Its status waiting carries pendingAction or pendingAgentCall.
pendingAction is a question to your human: use interact, or show it and pass on their words with answer_ask. Never \
answer for them; dismissal leaves the Run waiting.
resume_run needs expectedRevision from the paused Run you saw.
Background agents: list_models before run_agent; follow setup_url when a key is missing; keep id and session_secret, \
they are shown once, and poll agent_status.
Errors have isError and error.code. With error.validation, correct every listed issue before the next try; never \
repeat an unchanged rejected input. Only retryable errors are worth repeating as they are."""

_EXTERNAL_AGENT = """
pendingAgentCall is a task for you: claim_agent_call with a stable unique claimId gives instructions and ownerToken \
(private). Run its Tools one by one with call_agent_tool, each under its own toolCallId; then complete_agent_call \
with JSON that fits outputSchema, or fail_agent_call."""


def instructions_for(entry: Entry) -> str:
    """The instructions of one Entry; only where a client reasons itself do they speak of claims."""
    external = EXECUTOR_OF_SOURCE[entry.source] is AgentExecutor.MCP_CLIENT
    return _COMMON + _EXTERNAL_AGENT if external else _COMMON
