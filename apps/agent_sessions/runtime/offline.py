"""The built-in `offline` model: no network, and the same answer every time (B6)."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from pydantic_ai.messages import (
    ModelMessage,
    ModelRequest,
    ModelResponse,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
)
from pydantic_ai.models.function import AgentInfo, FunctionModel

from apps.agent_sessions.runtime.derived import derive
from apps.agent_sessions.runtime.scripts import OFFLINE, Play, Script, filled
from apps.agent_sessions.runtime.submitting import Submission
from apps.core import json_text


def offline_model(
    script: Script | None, given: Any, schema: dict[str, Any] | None, submission: Submission | None
) -> FunctionModel:
    """The model for one piece of reasoning.  ``submission``: the Tool that takes the output, if there is one."""
    submit = None if submission is None else submission.name
    cursor = given.get("cursor") if isinstance(given, dict) else None
    visit = cursor.get("visit", 1) if isinstance(cursor, dict) else 1
    play = script.play(visit) if script is not None else Play()

    def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        returned = [part for part in _parts(messages) if isinstance(part, ToolReturnPart) and part.tool_name != submit]
        number = len(returned)
        outputs = {"input": given, **{part.tool_name: part.content for part in returned}}
        if number < len(play.calls):
            call = play.calls[number]
            arguments = filled(call.input, outputs)
            return ModelResponse(parts=[ToolCallPart(call.tool, json.dumps(arguments), f"offline-{number + 1}")])
        output = derive(schema, given) if play.output is None else filled(play.output, outputs)
        if submission is None:
            text = output if isinstance(output, str) else json_text.dumps(output)
            return ModelResponse(parts=[TextPart(text)])
        return ModelResponse(
            parts=[
                ToolCallPart(
                    submission.name, json.dumps(submission.arguments(output)), f"offline-output-{len(messages)}"
                )
            ]
        )

    return FunctionModel(answer, model_name=OFFLINE)


def _parts(messages: Sequence[ModelMessage]) -> list[Any]:
    return [part for message in messages if isinstance(message, ModelRequest) for part in message.parts]
