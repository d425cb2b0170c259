"""How the commands show things to people: signs and words, tables, one clear paragraph for a refusal.

Nothing that came from a Loom, a file or a client reaches the terminal as it is: control characters
are made visible first (K25), and rich's markup is never read from it.
"""

from __future__ import annotations

import datetime as dt
import json
import sys
import unicodedata
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import IO, Any

from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from apps.core.commands import data_option
from apps.core.errors import LoomError

#: Where output is no terminal there is no width to fit into; ids and addresses stay whole.
_FILE_WIDTH = 200
#: A value that is longer is cut.
_VALUE_CELLS = 60
#: status → sign and style; the word is always shown too.
_STATUS_SIGNS = {
    "queued": ("◷", "cyan"),
    "running": ("▶", "blue"),
    "waiting": ("?", "magenta"),
    "paused": ("‖", "yellow"),
    "completed": ("✓", "green"),
    "failed": ("✗", "red"),
    "cancelled": ("⊘", "dim"),
    "waited": ("?", "magenta"),
    "indeterminate": ("!", "yellow"),
    "ready": ("✓", "green"),
    "invalid": ("✗", "red"),
    "pending": ("◷", "cyan"),
    "accepted": ("✓", "green"),
    "rejected": ("✗", "red"),
    "found": ("✓", "green"),
    "not_found": ("✗", "red"),
    "instance_changed": ("!", "yellow"),
}


class _Uncropped(Console):
    """What is wider than the terminal is left to it to wrap, so that it is copied as one line."""

    def print(self, *objects: Any, **options: Any) -> None:
        super().print(*objects, **{"crop": False, **options})


def console(file: IO[str] | None = None) -> Console:
    """Standard output (or ``file``), wide enough for whole ids where it is no terminal."""
    file = file or sys.stdout
    return _Uncropped(file=file, highlight=False, markup=False, width=None if file.isatty() else _FILE_WIDTH)


def plain(value: Any) -> str:
    """``value`` as text without control characters: U+001B is shown as ␛, others by their code."""
    return "".join(_visible(character) for character in str(value))


def _visible(character: str) -> str:
    if character in "\n\t" or unicodedata.category(character) not in ("Cc", "Cf", "Cs"):
        return character
    return chr(0x2400 + ord(character)) if ord(character) < 0x20 else f"\\u{ord(character):04x}"


def status(name: str) -> Text:
    """A status as sign and word, in its colour."""
    sign, style = _STATUS_SIGNS.get(name, ("·", ""))
    return Text(f"{sign} {plain(name)}", style=style)


def when(moment: str | None) -> str:
    """A wire time to the second."""
    return f"{moment[:10]} {moment[11:19]}Z" if moment else "-"


def place_of(run: Mapping[str, Any]) -> str:
    """Stage and Step of a Run, and which visit."""
    cursor = run["cursor"]
    return f"{cursor['stage']}/{cursor['step']}" + (f" ×{cursor['visit']}" if cursor["visit"] > 1 else "")


def waits_for_agent(call: Mapping[str, Any]) -> str:
    """Which agent a Run waits for, whether one is at it, and since when it is asked for."""
    phase = "claimed; open" if call["phase"] == "claimed" else "not claimed yet; open"
    return f"waits for agent {call['agentId']} ({phase} since {when(call['createdAt'])})"


def duration(span: dt.timedelta) -> str:
    """Two or three significant digits, in ms or s; from a minute on in whole units, the two biggest."""
    seconds = max(0.0, span.total_seconds())
    if seconds < 0.9995:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 59.95:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    for unit, size, part, part_size in (("d", 86400, "h", 3600), ("h", 3600, "min", 60)):
        if whole >= size:
            return f"{whole // size} {unit} {whole % size // part_size} {part}"
    return f"{whole // 60} min {whole % 60} s"


def facts(rows: Iterable[tuple[str, Any]]) -> RenderableType:
    """Names and values below each other; ``None`` values are left out."""
    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="dim", no_wrap=True)
    grid.add_column(overflow="fold")
    for name, value in rows:
        if value is not None:
            grid.add_row(name, value if isinstance(value, Text) else plain(value))
    return grid


def table(headings: Sequence[str], rows: Iterable[Sequence[Any]], *, whole: Collection[str] = ()) -> RenderableType:
    """A table whose cells are texts or anything printable; where it is too wide, all but the columns ``whole`` wrap."""
    found = Table(box=None, header_style="bold", padding=(0, 2, 0, 0))
    for heading in headings:
        found.add_column(heading, overflow="fold", no_wrap=heading in whole)
    for row in rows:
        found.add_row(*(cell if isinstance(cell, Text) else plain("-" if cell is None else cell) for cell in row))
    return found


def data(value: Any) -> RenderableType:
    """JSON, indented."""
    return Text(plain(json.dumps(value, ensure_ascii=False, indent=2)))


def indented(what: RenderableType) -> RenderableType:
    return Padding(what, (0, 0, 0, 2))


def commands(*lines: str) -> RenderableType:
    """Commands to go on with, each on a line of its own that can be copied."""
    chosen = data_option()
    return Group(*(Text("  " + plain(line) + chosen, style="bold", overflow="ignore", no_wrap=True) for line in lines))


def refusal(error: LoomError, next_step: str | None = None) -> RenderableType:
    """Code, message, every issue with its place, and what to do now."""
    parts: list[RenderableType] = [Text.assemble((f"✗ {error.code.value}", "bold red"), f"  {plain(error.message)}")]
    # The message names the first place itself.
    others = error.issues[1:]
    parts += [Text(f"  {plain(issue.path) or 'the whole input'}: {plain(issue.suggestion)}") for issue in others]
    parts += [Text(f"  {line}") for one in (error.details or {}).get("differences", ()) for line in _changes(one)]
    receipt: Mapping[str, Any] | None = error.attachments.get("receipt")
    if receipt:
        parts.append(Text(f"  Operation {plain(receipt['operationId'])} was {plain(receipt['status'])}: not applied."))
    if next_step:
        parts.append(Text(f"  Next: {plain(next_step)}"))
    return Group(*parts)


def _changes(difference: Mapping[str, Any]) -> list[str]:
    """One line for each change that a difference tells of, and why it cannot be brought back."""
    name = plain(f"Artifact {difference['artifactId']}" if difference["kind"] == "artifact" else "State")
    told = [f"{name}: {_patched(step)}" for step in difference.get("patch", ())]
    if not told and "size" in difference:
        sizes = difference["size"]
        told = [f"{name}: {sizes.get('then', 0)} characters then, {sizes.get('now', 0)} now"]
    return told if difference["restorable"] else [*told, f"{name}: {plain(difference['because'])}"]


def _patched(step: Mapping[str, Any]) -> str:
    value = f" {_short(step['value'])}" if "value" in step else ""
    return plain(f"{step['op']} {step['path'] or 'all of it'}{value}")


def _short(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _VALUE_CELLS else text[: _VALUE_CELLS - 1] + "…"
