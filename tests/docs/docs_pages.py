"""Reading the documentation as data: its pages, tables, links, files and commands.

Conventions of the pages: a file that the reader is to write stands in a fence after a line with
nothing but its name as bold code; a fence ``console`` holds commands after ``$ ``, each followed by
what it prints, where ``…`` stands for any text and a line of its own for any lines.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
#: Every page, the front page and the map included.
PAGES = sorted(
    [ROOT / "README.md", ROOT / "CHANGELOG.md", ROOT / "apps" / "README.md", *(ROOT / "docs").rglob("*.md")],
)

_FENCE = re.compile(
    r"^(?P<marks>`{3,})(?P<language>\w*)[ ]*(?P<more>[^\n]*)\n(?P<body>.*?)^(?P=marks)[ ]*$", re.MULTILINE | re.DOTALL
)
_FILE = re.compile(r"\*\*`([^`\n]+)`\*\*\s*\Z")
_LINK = re.compile(r"(?<!!)\[(?:[^\[\]]|\[[^\]]*\])*\]\(([^)\s]+)\)")


@dataclass(frozen=True)
class Block:
    """One fence.

    ``file`` is the name it is to be written under, if it is a whole file; ``fails`` says that the
    last of its commands is shown to be refused.
    """

    page: Path
    line: int
    language: str
    text: str
    file: str | None
    fails: bool


@dataclass(frozen=True)
class Command:
    """One command and the lines it is to print."""

    line: int
    text: str
    expected: tuple[str, ...]


def name_of(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


def blocks(page: Path) -> list[Block]:
    """The fences of ``page`` in order."""
    text = page.read_text(encoding="utf-8")
    found: list[Block] = []
    for match in _FENCE.finditer(text):
        before = _FILE.search(text[: match.start()])
        line = text.count("\n", 0, match.start()) + 2
        found.append(
            Block(page, line, match["language"], match["body"], before[1] if before else None, match["more"] == "fails")
        )
    return found


def commands(block: Block) -> list[Command]:
    """The commands of a ``console`` fence; one goes on in the next line after a backslash or in an open quote."""
    found: list[Command] = []
    lines = block.text.splitlines()
    index = 0
    while index < len(lines):
        assert lines[index].startswith("$ "), f"{name_of(block.page)}:{block.line + index}: what command prints this?"
        start, command = index, lines[index][2:]
        while command.endswith("\\") or _is_open(command):
            index += 1
            command = f"{command}\n{lines[index]}"
        index += 1
        expected = []
        while index < len(lines) and not lines[index].startswith("$ "):
            expected.append(lines[index])
            index += 1
        found.append(Command(block.line + start, command, tuple(expected)))
    return found


def _is_open(command: str) -> bool:
    try:
        shlex.split(command)
    except ValueError:
        return True
    return False


def prose(page: Path) -> str:
    """The page without its fences, its lines kept."""
    text = page.read_text(encoding="utf-8")
    return _FENCE.sub(lambda match: "\n" * match[0].count("\n"), text)


def links(page: Path) -> Iterator[tuple[int, str]]:
    """Line and target of every link in the prose."""
    text = prose(page)
    for match in _LINK.finditer(text):
        yield text.count("\n", 0, match.start()) + 1, match[1]


def anchors(page: Path) -> set[str]:
    """The anchors that headings make."""
    headings = re.findall(r"^#+ (.+)$", prose(page), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-") for heading in headings}


def table(page: Path, *first_headings: str) -> list[dict[str, str]]:
    """The rows of every table whose first headings are these, code marks taken off."""
    rows: list[dict[str, str]] = []
    headings: list[str] = []
    for line in prose(page).splitlines():
        cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] if line.startswith("|") else []
        if not cells:
            headings = []
        elif not headings:
            headings = cells
        elif not set("".join(cells)) <= set("-: ") and tuple(headings[: len(first_headings)]) == first_headings:
            rows.append({name: cell.strip("`") for name, cell in zip(headings, cells, strict=True)})
    assert rows, f"{name_of(page)} has no table {' | '.join(first_headings)}"
    return rows


def differences(expected: tuple[str, ...], printed: str) -> str | None:
    """What keeps ``printed`` from being as the page shows it; ``None`` when it is."""
    while expected and not expected[-1].strip():
        expected = expected[:-1]
    if not expected:
        return None
    pattern = ""
    for line in expected:
        if line.strip() == "…":
            pattern += r"(?:[^\n]*\n)*?"
        else:
            pattern += r"[^\n]*?".join(re.escape(part.rstrip()) for part in line.rstrip().split("…")) + r"[ ]*\n"
    printed = "\n".join(line.rstrip() for line in printed.rstrip().splitlines()) + "\n"
    if re.fullmatch(pattern, printed):
        return None
    shown = "\n".join(expected)
    return f"the page shows:\n{shown}\nit printed:\n{printed}"
