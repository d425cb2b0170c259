"""Testing a Loom in pytest, without a service: :func:`run_loom` (``docs/reference/testing.md``)."""

from apps.looms.testing import AgentPlay, LoomInvalid, LoomRun, MemoryResults, ScriptMismatch, ToolUse, run_loom

__all__ = ["AgentPlay", "LoomInvalid", "LoomRun", "MemoryResults", "ScriptMismatch", "ToolUse", "run_loom"]
