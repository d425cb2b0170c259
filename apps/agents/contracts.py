"""The external agent protocol on the wire (contract section 7)."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from apps.core.contracts import Contract, UuidText
from apps.runs.contracts import CursorView, PendingAgentCall

ClientId = Annotated[str, Field(min_length=1, max_length=512)]
CallId = Annotated[UuidText, Field(description="`pendingAgentCall.id` of the Run.")]
# Objects, not any JSON: what has no type in a schema, many clients send as a text.
JsonObject = dict[str, Any]


class TaskReference(Contract):
    """An agent call: the Run, and the `pendingAgentCall.id` that it shows."""

    run_id: UuidText
    call_id: CallId


class CallReference(Contract):
    """An agent call."""

    call_id: CallId


class ClaimAgentCall(TaskReference):
    """Claim an agent call; keep `claimId` to reconnect."""

    claim_id: Annotated[ClientId, Field(description="A unique text of your own, kept for as long as the task is open.")]


class OwnedReference(TaskReference):
    """An agent call that the caller has claimed."""

    owner_token: Annotated[ClientId, Field(description="What claim_agent_call gave you. Show it to nobody.")]


class CallAgentTool(OwnedReference):
    """Run one Tool of the task."""

    tool_call_id: Annotated[
        ClientId, Field(description="A new text of your own for each call; the same to repeat one.")
    ]
    tool_id: Annotated[str, Field(min_length=1, max_length=200, description="`id` of one of `task.tools`.")]
    input: Annotated[JsonObject, Field(description="What fits that Tool's inputSchema; {} where it takes nothing.")]


class ReadAgentAsset(OwnedReference):
    """Read one asset of the task's Skills."""

    asset_id: Annotated[str, Field(min_length=1, max_length=1024, description="`id` of an asset in `task.skills`.")]


class CompleteAgentCall(OwnedReference):
    """Submit the final output."""

    result: Annotated[JsonObject, Field(description="What fits `task.outputSchema`, its `outcome` included.")]


class FailAgentCall(OwnedReference):
    """Give up the task; the Run fails."""

    message: Annotated[str, Field(min_length=1, max_length=4096, description="Why, for the people who read the Run.")]


class AssetReference(Contract):
    """A file of a Skill; `size` is in bytes."""

    id: str
    name: str
    size: int


class SkillView(Contract):
    """Instructions to draw on."""

    name: str
    description: str
    content: str
    assets: list[AssetReference]


class ToolView(Contract):
    """A Tool of the task."""

    id: str
    description: str
    input_schema: dict[str, Any]
    output_schema: dict[str, Any]
    is_end_tool: bool


class TaskView(Contract):
    """What the agent of a Step has to do, and with what (A2)."""

    run_id: str
    call_id: str
    agent_id: str
    cursor: CursorView
    instructions: str
    skills: list[SkillView]
    tools: list[ToolView]
    output_schema: dict[str, Any]


ToolStatusName = Literal["running", "completed", "failed", "indeterminate"]


class ReceiptReference(Contract):
    """One Tool call of a task and where it stands."""

    tool_call_id: str
    tool_id: str
    status: ToolStatusName


class AgentCallView(Contract):
    """An agent call; `pending` and `task` are null once it is closed (A1)."""

    pending: PendingAgentCall | None
    task: TaskView | None
    receipts: list[ReceiptReference]
    closed_as: Literal["completed", "failed", "cancelled", "interrupted"] | None = None


class AgentCallFound(Contract):
    """The agent call as it stands."""

    agent_call: AgentCallView


class Claimed(Contract):
    """The task, and the private token that owns it."""

    task: TaskView
    owner_token: str


class ToolReceiptView(Contract):
    """What became of a Tool call (A3)."""

    run_id: str
    call_id: str
    tool_call_id: str
    tool_id: str
    status: ToolStatusName
    created_at: str
    settled_at: str | None = None


class ToolCalled(Contract):
    """The receipt, the Tool's output once it has completed, and why it is indeterminate."""

    receipt: ToolReceiptView
    output: Any = None
    error: dict[str, Any] | None = None


class Asset(Contract):
    """An asset's content."""

    id: str
    name: str
    encoding: Literal["utf8", "base64"]
    content: str
    sha256: str


class AssetFound(Contract):
    """The asset."""

    asset: Asset


class ClosingReceipt(Contract):
    """The completion or failure was accepted."""

    run_id: str
    call_id: str
    status: Literal["accepted"]


class Closed(Contract):
    """Accepted; `get_run` shows what followed."""

    receipt: ClosingReceipt
