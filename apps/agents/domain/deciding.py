"""What an external agent may do with a call in its present state (A2, A3, A8–A10): decisions as values."""

from __future__ import annotations

import enum
from dataclasses import dataclass

from apps.agents.domain.statuses import MAX_RECEIPTS, ClosedAs
from apps.core.errors import ErrorCode, LoomError


@dataclass(frozen=True, slots=True)
class CallFacts:
    """A call as decisions see it.

    ``receipts_over``: it closed so long ago that its receipts have left the protocol (A5).
    ``closing_digest``: of what it was closed with, empty unless an agent closed it.
    """

    claimed: bool = False
    tools_closed: bool = False
    receipts_made: int = 0
    running_tool: str | None = None
    closed_as: ClosedAs | None = None
    closing_digest: str = ""
    receipts_over: bool = False


@dataclass(frozen=True, slots=True)
class KnownToolCall:
    """What is stored under a ``toolCallId``."""

    tool_id: str
    input_digest: str


class Decision(enum.Enum):
    """What a request comes to."""

    #: It is new, and goes ahead.
    APPLY = "apply"
    #: It is known: its stored answer is given again.
    REPLAY = "replay"


def require_open(facts: CallFacts) -> None:
    """A closed call refuses anything new (A10)."""
    if facts.closed_as is None:
        return
    because = {
        ClosedAs.COMPLETED: "its result was accepted",
        ClosedAs.FAILED: "it failed",
        ClosedAs.CANCELLED: "its Run was cancelled",
        ClosedAs.INTERRUPTED: "the service was restarted while it was claimed",
    }[facts.closed_as]
    raise LoomError(
        ErrorCode.CONFLICT,
        f"This agent call is closed: {because}. Nothing was changed. Read the Run with `get_run`.",
        details={"closedAs": facts.closed_as.value},
    )


def decide_claim(facts: CallFacts, *, same_claim: bool) -> Decision:
    """The first claim wins; the same ``claimId`` under the same credential reconnects (A2)."""
    require_open(facts)
    if not facts.claimed:
        return Decision.APPLY
    if same_claim:
        return Decision.REPLAY
    raise LoomError(
        ErrorCode.CONFLICT,
        "This agent call is claimed already. Only the same claimId under the same credential gets it again; leave it "
        "to its owner, or ask your human to cancel the Run.",
    )


def require_owner(facts: CallFacts, *, token_fits: bool) -> None:
    """The ``ownerToken`` of this call, sent under the credential that claimed it (A3, K11)."""
    if not token_fits:
        cure = (
            "Send the ownerToken that claim_agent_call gave you, with the credential that claimed the call."
            if facts.claimed
            else "Nobody has claimed this call yet: claim it with claim_agent_call."
        )
        raise LoomError(ErrorCode.FORBIDDEN, f"This ownerToken does not own the agent call. {cure}")


def decide_known_tool_call(known: KnownToolCall, asked: KnownToolCall) -> Decision:
    """A known ``toolCallId`` answers the same call again and no other (A3)."""
    if known == asked:
        return Decision.REPLAY
    differs = "another Tool" if known.tool_id != asked.tool_id else "other input"
    raise LoomError(
        ErrorCode.CONFLICT,
        f"This toolCallId was used with {differs}; nothing ran. Make a new toolCallId for a new call.",
    )


def require_room(facts: CallFacts) -> None:
    """Whether a new Tool call may run now; the Tool and its input have been checked (A3, A5, A6)."""
    if facts.tools_closed:
        raise LoomError(
            ErrorCode.TOOLS_CLOSED,
            "The end Tool of this call has completed, so its Tools are closed. Submit the final output with "
            "complete_agent_call.",
        )
    if facts.running_tool is not None:
        raise LoomError(
            ErrorCode.BUSY,
            f"Tool call {facts.running_tool} is still running, and Tools run one at a time. Ask for its receipt by "
            "calling it again unchanged, then try this one again.",
        )
    if facts.receipts_made >= MAX_RECEIPTS:
        raise LoomError(
            ErrorCode.CAPACITY,
            f"This task has its {MAX_RECEIPTS} Tool receipts; no new Tool call is taken. Known ones still answer. "
            "Submit what you have with complete_agent_call, or give up with fail_agent_call.",
        )


def decide_closing(facts: CallFacts, *, as_: ClosedAs, digest: str) -> Decision:
    """Whether a completion or failure is new, or the one that closed the call (A8–A10)."""
    if facts.closed_as is as_ and facts.closing_digest == digest and not facts.receipts_over:
        return Decision.REPLAY
    require_open(facts)
    return Decision.APPLY


def require_no_running_tool(facts: CallFacts) -> None:
    """A result is final only after all Tools have finished (A8)."""
    if facts.running_tool is not None:
        raise LoomError(
            ErrorCode.BUSY,
            f"Tool call {facts.running_tool} is still running. Complete the call once it has finished; its receipt "
            "comes when you repeat it unchanged.",
        )
