"""Background agents on the wire: snake_case, every field always there (B1–B3)."""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field
from pydantic_core import PydanticCustomError

from apps.agent_sessions.contracts import SnakeContract

#: The longest id or secret that is looked at; ours are shorter.
_LONGEST_PROOF = 512
_LONGEST_INSTRUCTIONS = 200_000

AgentRuntimeState = Literal["queued", "running", "succeeded", "failed", "cancelled"]


#: Said in full: what has no type in a schema, many clients send as a text.
_ANYTHING = {"type": ["string", "object", "array", "number", "boolean"], "pattern": r"\S"}


def _something(value: Any) -> Any:
    if value is None or (isinstance(value, str) and not re.search(r"\S", value)):
        raise PydanticCustomError("input", "Send any JSON but null or a blank text.")
    return value


class ListModelsRequest(SnakeContract):
    """No fields."""


class ModelView(SnakeContract):
    """A model; without `available`, an operator enters the provider's key at `setup_url` first."""

    id: str
    provider: str
    display_name: str
    available: bool
    setup_url: str | None = None


class ModelList(SnakeContract):
    """Every model that this service knows."""

    models: list[ModelView]


class RunAgentRequest(SnakeContract):
    """Start a background agent, with instructions of your own or as an agent of a Loom."""

    model: Annotated[str, Field(min_length=1, max_length=200, description="`id` of a model of list_models.")]
    input: Annotated[
        Any,
        AfterValidator(_something),
        Field(description="What the agent works on: a text, or any other JSON.", json_schema_extra=_ANYTHING),
    ]
    instructions: Annotated[
        str | None, Field(min_length=1, max_length=_LONGEST_INSTRUCTIONS, description="What it is to do.")
    ] = None
    output_schema: Annotated[
        dict[str, Any] | None,
        Field(description="JSON Schema that its output has to fit; left out, the output is a text."),
    ] = None
    agent: Annotated[
        str | None,
        Field(
            pattern=r"^[^/\s]{1,64}/[^/\s]{1,64}$",
            description="`loomName/agentId`: an agent of a Loom, with its instructions, Skills, Tools and schema.",
        ),
    ] = None


class AgentStarted(SnakeContract):
    """Keep `id` and `session_secret`: the secret is shown here and nowhere else."""

    id: str
    session_secret: str
    agent_session_id: str
    state: AgentRuntimeState
    program_digest: str


class AgentStatusRequest(SnakeContract):
    """What run_agent gave: the id, and the secret that proves that the run is yours."""

    id: Annotated[str, Field(max_length=_LONGEST_PROOF, description="`id` of run_agent.")]
    session_secret: Annotated[
        str, Field(max_length=_LONGEST_PROOF, description="`session_secret` of run_agent. Show it to nobody.")
    ]


class CancelAgentRequest(AgentStatusRequest):
    """What run_agent gave."""


class AgentRunError(SnakeContract):
    """Why the run failed."""

    code: str
    reason: str
    message: str
    recovery: dict[str, Any] | None = None


class UsageReport(SnakeContract):
    """What the run used of its provider so far."""

    requests: int
    input_tokens: int
    output_tokens: int
    total_tokens: int
    tool_calls: int


class AgentStatus(SnakeContract):
    """The run as it stands.  `output` is there only once it succeeded, `error` only when it failed."""

    agent_session_id: Annotated[str, Field(description="Names the run in logs; proves nothing.")]
    state: AgentRuntimeState
    program_digest: Annotated[str, Field(description="Pins instructions, Skills, Tools, schema and model.")]
    output: Any
    error: AgentRunError | None
    usage: UsageReport
