"""SVG as text: escaped, without styles or scripts of its own, the same for the same input (K16)."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape

from apps.looms.messages import printable

#: Width of a character of the console's 12 px face, on the generous side: browsers differ.
CHARACTER = 7.0
LINE = 16.0
_ELLIPSIS = "…"


class Svg(str):
    """Finished markup; templates take it as it is."""

    __slots__ = ()

    def __html__(self) -> str:
        return self


@dataclass(frozen=True, slots=True)
class Table:
    """What a picture shows, as text; ``said`` is there when ``rows`` are not all of it."""

    headings: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    said: str | None = None


@dataclass(frozen=True, slots=True)
class Picture:
    """A picture and its table twin; ``said`` tells what was left out or put together, as ``n of m``."""

    svg: Svg
    title: str
    description: str
    table: Table
    said: str | None = None


def text(value: object) -> str:
    """Any text as the content of an element: on one line, nothing in it is markup."""
    shown = str(value)
    return escape(printable(shown, limit=max(len(shown), 1)))


def number(value: float) -> str:
    """A coordinate with at most one decimal, never ``-0``."""
    rounded = round(value * 10) / 10 + 0.0
    return f"{rounded:g}" if abs(rounded) < 100_000 else str(round(rounded))


def element(name: str, *children: str, **attributes: object) -> Svg:
    """``<name …>children</name>``; ``css`` is the class, ``_`` in other names stands for ``-``.

    Children are markup already: pass words through :func:`text`.
    """
    shown = "".join(
        f' {_attribute(key)}="{number(value) if isinstance(value, float) else text(value)}"'
        for key, value in attributes.items()
        if value is not None and value != ""
    )
    return Svg(f"<{name}{shown}>{''.join(children)}</{name}>" if children else f"<{name}{shown}/>")


def _attribute(key: str) -> str:
    if key == "css":
        return "class"
    return key if key == "viewBox" else key.replace("_", "-")


def label(x: float, y: float, words: str, css: str, anchor: str | None = None) -> Svg:
    """One line of text; ``y`` is its baseline."""
    return element("text", text(words), x=x, y=y, css=css, text_anchor=anchor)


def path(parts: Iterable[str], css: str) -> Svg:
    return element("path", d=" ".join(parts), css=css)


def document(
    *,
    key: str,
    css: str,
    width: float,
    height: float,
    title: str,
    description: str,
    content: Sequence[str],
    has_links: bool = False,
) -> Svg:
    """The whole picture; ``key`` keeps the ids of several pictures on a page apart.

    An image has no links inside it for those who cannot see it: ``has_links`` makes it a group.
    """
    name, more = f"{key}-title", f"{key}-description"
    return element(
        "svg",
        element("title", text(title), id=name),
        element("desc", text(description), id=more),
        *content,
        xmlns="http://www.w3.org/2000/svg",
        css=f"picture {css}",
        viewBox=f"0 0 {number(width)} {number(height)}",
        width=float(width),
        height=float(height),
        role="group" if has_links else "img",
        aria_labelledby=name,
        aria_describedby=more,
    )


def cells(words: str) -> int:
    """How many character cells a text takes; East Asian wide characters take two."""
    return sum(2 if unicodedata.east_asian_width(character) in "WF" else 1 for character in words)


def text_width(words: str) -> float:
    return cells(words) * CHARACTER


def shortened(words: str, most: int) -> str:
    """``words`` in at most ``most`` cells; what was cut off is shown by an ellipsis."""
    shown = printable(words, limit=max(len(words), 1))
    if cells(shown) <= most:
        return shown
    kept, room = [], most - 1
    for character in shown:
        room -= cells(character)
        if room < 0:
            break
        kept.append(character)
    return "".join(kept).rstrip() + _ELLIPSIS


def counted(count: int, one: str, several: str | None = None) -> str:
    """``1 visit``, ``5,000 visits``."""
    return f"{count:,} {one if count == 1 else several or one + 's'}"
