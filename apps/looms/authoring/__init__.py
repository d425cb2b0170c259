"""What a Loom imports, as ``loomsvc.authoring``.  No Django here, so a Loom is tested without one."""

from apps.looms.authoring.human import Answer, Confirmation, Option, Question
from apps.looms.authoring.refusals import ArtifactConflict, ToolError
from apps.looms.authoring.steps import CodeStep, StageContext, ToolCall
from apps.looms.authoring.tools import tool
from apps.looms.authoring.waits import Wait

__all__ = [
    "Answer",
    "ArtifactConflict",
    "CodeStep",
    "Confirmation",
    "Option",
    "Question",
    "StageContext",
    "ToolCall",
    "ToolError",
    "Wait",
    "tool",
]
