"""Playing the transcripts of the pages: what is shown as asked is sent, what is shown as answered must come.

A fence ``transcript`` holds exchanges of one MCP session at ``/mcp``: ``→ tool {arguments}``, then
``← {result}``, each over as many lines as it takes.  Words in capitals, alone in a text, stand for
values that differ each time, and everywhere for the same one; ``…`` stands for any value or any part
of a text, as the last item of a list for more items, as a member for more members.
"""

from __future__ import annotations

import asyncio
import json
import re
import time
import uuid
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

ANY = "…"
#: The client makes these; everything else in capitals comes from the service.
_OF_THE_CLIENT = re.compile(r"OPERATION\d?")
_NAME = re.compile(r"[A-Z]+\d?")
_EXCHANGE = re.compile(r"→ (?P<tool>\w+) (?P<given>.*?)^← (?P<result>.*?)(?=^→ |\Z)", re.MULTILINE | re.DOTALL)
#: Seconds for a Run to come to where ``get_run`` is shown to find it.
_PATIENCE = 20

Names = dict[str, Any]
Call = Callable[..., Awaitable[Any]]


@dataclass(frozen=True)
class Exchange:
    """A call and its structured result as the page shows them."""

    tool: str
    given: Any
    result: Any


def exchanges(text: str) -> list[Exchange]:
    """What a transcript shows; nothing of it may be left over."""
    found = list(_EXCHANGE.finditer(text))
    assert "".join(match[0] for match in found) == text, f"this is no transcript:\n{text}"
    return [Exchange(match["tool"], json.loads(match["given"]), json.loads(match["result"])) for match in found]


async def play(text: str, call: Call, names: Names) -> None:
    """Make the calls, in order; ``names`` are the values found so far, and grow."""
    for exchange in exchanges(text):
        given = _filled(exchange.given, names)
        ends = time.monotonic() + _PATIENCE
        while problem := difference(exchange.result, result := await call(exchange.tool, **given), dict(names)):
            # A Run takes its time; everything else is answered once.
            if exchange.tool != "get_run" or time.monotonic() > ends:
                raise AssertionError(f"{exchange.tool}: {problem}\n{json.dumps(result, indent=1, ensure_ascii=False)}")
            await asyncio.sleep(0.05)
        difference(exchange.result, result, names)


def _filled(given: Any, names: Names) -> Any:
    """The arguments with the values that the names stand for."""
    if isinstance(given, dict):
        return {name: _filled(value, names) for name, value in given.items()}
    if isinstance(given, list):
        return [_filled(value, names) for value in given]
    if isinstance(given, str) and _NAME.fullmatch(given):
        if _OF_THE_CLIENT.fullmatch(given):
            names.setdefault(given, str(uuid.uuid4()))
        return names[given]
    return given


def difference(shown: Any, found: Any, names: Names, path: str = "") -> str | None:
    """The first place where ``found`` is not as shown; new names get their values."""
    if isinstance(shown, str):
        return _text_difference(shown, found, names, path)
    if isinstance(shown, dict) and isinstance(found, dict):
        listed = [name for name in shown if name != ANY]
        if missing := [name for name in listed if name not in found]:
            return f"{path} has no {missing}"
        if ANY not in shown and (more := sorted(found.keys() - shown.keys())):
            return f"{path} has {more} too"
        problems = (difference(shown[name], found[name], names, f"{path}/{name}") for name in listed)
        return next(filter(None, problems), None)
    if isinstance(shown, list) and isinstance(found, list):
        items = shown[:-1] if shown and shown[-1] == ANY else shown
        if len(found) < len(items) or (items is shown and len(found) > len(items)):
            return f"{path} has {len(found)} items"
        problems = (difference(*pair, names, f"{path}/{n}") for n, pair in enumerate(zip(items, found, strict=False)))
        return next(filter(None, problems), None)
    return None if shown == found and type(shown) is type(found) else f"{path} is {found!r}"


def _text_difference(shown: str, found: Any, names: Names, path: str) -> str | None:
    if shown == ANY:
        return None
    if _NAME.fullmatch(shown):
        if shown == "TIME":
            return None if re.fullmatch(r"\d{4}-\d\d-\d\dT[\d:.]+Z", str(found)) else f"{path} is no time: {found!r}"
        if not isinstance(found, str) or names.setdefault(shown, found) != found:
            return f"{path} is {found!r}, and {shown} is {names.get(shown)!r}"
        return None
    pattern = ".*?".join(re.escape(part) for part in shown.split(ANY))
    return None if isinstance(found, str) and re.fullmatch(pattern, found, re.DOTALL) else f"{path} is {found!r}"
