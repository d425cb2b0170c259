"""Scripts of the built-in `offline` model (B6).

A script plays an agent: Tool calls in order, then the output, one play for each time that the agent is asked
(``/cursor/visit`` of the input).  ``{{tool/pointer}}`` in a text stands for what a Tool returned, ``{{input/pointer}}``
for the input.  Without a script the output is derived from the schema and the input.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from apps.agent_sessions.runtime.files import FileShape, ModelsInvalid, read_shape
from apps.core import json_text
from apps.looms.loaded import LoadedLoom

#: The id of the model, in the catalogue and everywhere else.
OFFLINE = "offline"
#: The script that a Loom brings along, in its folder.
SCRIPT_FILE = "offline.yaml"
_PLACE = re.compile(r"\{\{\s*([A-Za-z_][\w-]*)((?:/[^{}]*)?)\s*\}\}")


class ScriptedCall(FileShape):
    """One Tool call."""

    tool: str
    input: dict[str, Any] = {}


class Play(FileShape):
    """What the model does once: Tool calls, then its output.  Left out, the output is derived."""

    calls: list[ScriptedCall] = []
    output: Any = None


class _ScriptFile(FileShape):
    description: str | None = None
    agents: dict[str, Annotated[list[Play], Field(min_length=1)]]


@dataclass(frozen=True, slots=True)
class Script:
    """The plays of one agent; the last one goes on for ever."""

    plays: tuple[Play, ...]

    def play(self, visit: int) -> Play:
        """The play of this visit, counted from 1."""
        return self.plays[min(max(visit, 1), len(self.plays)) - 1]


def read_scripts(text: str, file: str) -> Mapping[str, Script]:
    """The scripts in a YAML text, by what they are kept under.  Raises :class:`ModelsInvalid`."""
    shape = read_shape(_ScriptFile, text, file)
    return {name: Script(tuple(plays)) for name, plays in shape.agents.items()}


def read_script_file(path: Path) -> Mapping[str, Script]:
    """An operator's scripts, kept under ``loomName/agentId`` or a program digest.  Raises :class:`ModelsInvalid`."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        raise ModelsInvalid(f"The offline scripts in {path.name} cannot be read; give a UTF-8 file.") from None
    return read_scripts(text, path.name)


def script_of(loom: LoadedLoom, agent_id: str, *, given: Mapping[str, Script]) -> Script | None:
    """What plays a Loom's agent: an operator's script of those ``given``, else the Loom's own in ``offline.yaml``.

    Raises :class:`ModelsInvalid`.
    """
    if script := given.get(f"{loom.name}/{agent_id}"):
        return script
    # Not importlib.resources: a Loom's folder is a package without a loader, which it cannot read.
    file = Path(next(iter(importlib.import_module(loom.package).__path__))) / SCRIPT_FILE
    if not file.is_file():
        return None
    return read_script_file(file).get(agent_id)


def filled(value: Any, outputs: Mapping[str, Any]) -> Any:
    """``value`` with what stands for outputs put in; a text that is one place only becomes what is there."""
    if isinstance(value, str):
        whole = _PLACE.fullmatch(value)
        if whole:
            return _at(outputs, whole[1], whole[2])
        return _PLACE.sub(lambda found: _as_text(_at(outputs, found[1], found[2])), value)
    if isinstance(value, dict):
        return {key: filled(child, outputs) for key, child in value.items()}
    return [filled(child, outputs) for child in value] if isinstance(value, list) else value


def _at(outputs: Mapping[str, Any], name: str, pointer: str) -> Any:
    place: Any = outputs.get(name)
    for part in pointer.strip().split("/")[1:]:
        part = part.replace("~1", "/").replace("~0", "~")
        if isinstance(place, dict):
            place = place.get(part)
        elif isinstance(place, list) and part.isdigit() and int(part) < len(place):
            place = place[int(part)]
        else:
            return None
    return place


def _as_text(value: Any) -> str:
    return value if isinstance(value, str) else json_text.dumps(value)
