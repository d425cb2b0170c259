"""Reading canonical JSON text (RFC 8785) and nothing else, within the bounds of all JSON here."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator
from typing import Any, NoReturn

from apps.core import json_text

#: Values of a line stand some levels below its top.
_MAX_DEPTH = json_text.MAX_DEPTH + 8
_MAX_DIGITS = 400
#: What a line costs that has next to nothing in it, in values.
_LINE_MARKS = 16
_LONG_NUMBER = re.compile(rb"[0-9]{16}")
_FOUR_BYTES = re.compile(rb"[\xf0-\xf4]")


class NotCanonical(ValueError):
    """Why a text is not taken."""


def read(text: bytes) -> Any:
    """The value of which ``text`` is the canonical form.  Raises :class:`NotCanonical`."""
    try:
        value = read_again(text)
    except NotCanonical:
        raise
    except (ValueError, RecursionError) as error:
        raise NotCanonical("it is not JSON") from error
    has_float = _check(value)
    try:
        # The same as the canonical form where no number is broken and no key leaves the basic plane, and quicker.
        plain = not has_float and (text.isascii() or not _FOUR_BYTES.search(text))
        same = (_plain if plain else json_text.canonical)(value) == text
    except (ValueError, TypeError) as error:
        raise NotCanonical("it holds what JSON here may not") from error
    if not same:
        raise NotCanonical("it is not in canonical form (RFC 8785)")
    return value


def read_again(text: bytes) -> Any:
    """The value of a text that :func:`read` has taken before."""
    decoder = _careful if _LONG_NUMBER.search(text) else _quick
    return decoder.decode(text.decode())


def member_digest(text: bytes, members: dict[str, Any], name: str) -> str:
    """The digest of one member's value: of its bytes, as they stand in the canonical ``text`` of ``members``.

    Making the value's canonical form anew costs many times more.  The members' names are plain ASCII.
    """
    before = _plain_part({one: value for one, value in members.items() if one < name})
    after = _plain_part({one: value for one, value in members.items() if one > name})
    start = len(before) + 1 + (1 if len(before) else 0) + len(name) + 3
    end = len(text) - 1 - (len(after) + 1 if len(after) else 0)
    return hashlib.sha256(text[start:end]).hexdigest()


def _plain_part(members: dict[str, Any]) -> bytes:
    """The members without the braces around them."""
    return json_text.canonical(members)[1:-1]


def marks(text: bytes) -> int:
    """About how many values a line has, or more: what reading it costs besides its length."""
    return _LINE_MARKS + sum(map(text.count, (b",", b":", b"[", b"{")))


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        raise NotCanonical("an object names a member twice")
    return members


def _number(digits: str) -> int | float:
    """Canonical text writes 1e16 as an integer is written; beyond 2^53-1 there are no integers."""
    if len(digits) > _MAX_DIGITS:
        raise NotCanonical("it holds a number that is too long")
    value = int(digits)
    return value if abs(value) <= json_text.MAX_SAFE_INTEGER else float(digits)


def _constant(name: str) -> NoReturn:
    raise NotCanonical(f"it holds {name}")


#: Only numbers of sixteen digits and more need a look of ours.
_quick = json.JSONDecoder(object_pairs_hook=_object, parse_constant=_constant)
_careful = json.JSONDecoder(object_pairs_hook=_object, parse_int=_number, parse_constant=_constant)


def _plain(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False, allow_nan=False, sort_keys=True, separators=(",", ":")).encode()


def _check(value: Any) -> bool:
    """Whether there is a broken number in ``value``; raises for what is out of bounds.  Holds little beside it."""
    has_float = False
    stack: list[Iterator[Any]] = [iter((value,))]
    while stack:
        for item in stack[-1]:
            if isinstance(item, dict):
                if any("\x00" in key for key in item):
                    raise NotCanonical("it holds a NUL character")
                stack.append(iter(item.values()))
                break
            if isinstance(item, list):
                stack.append(iter(item))
                break
            if isinstance(item, str):
                if "\x00" in item:
                    raise NotCanonical("it holds a NUL character")
            elif isinstance(item, float):
                has_float = True
        else:
            stack.pop()
        if len(stack) > _MAX_DEPTH:
            raise NotCanonical(f"it is nested deeper than {json_text.MAX_DEPTH} levels")
    return has_float
