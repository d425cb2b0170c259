"""JSON as the ledger keeps it: I-JSON, the same on every database (contract section 1, K23).

Text from outside is read by :func:`parse`, which never raises for a value that merely is out of
bounds: :func:`find_issues` then says where each such value stands.  Stored text comes from
:func:`dumps`; digests are taken over RFC 8785 canonical JSON.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterable, Iterator
from typing import Any

import rfc8785

from apps.core.errors import Issue

MAX_SAFE_INTEGER = 2**53 - 1
MAX_DEPTH = 64
MAX_VALUE_BYTES = 1024 * 1024
#: Longer digit strings are never turned into an int; any int of this size is out of bounds anyway.
_MAX_DIGITS = 400
_OUT_OF_BOUNDS = 10**_MAX_DIGITS


class NotJson(ValueError):
    """The text is not JSON at all, or nested so deeply that it cannot be read."""

    def __init__(self, code: str, suggestion: str) -> None:
        super().__init__(suggestion)
        self.issue = Issue(code, "", suggestion)


class DuplicateKeys(dict[str, Any]):
    """An object that named a key twice; kept so that the place can be reported."""

    duplicates: tuple[str, ...] = ()


def pointer(parts: Iterable[str | int]) -> str:
    """The RFC 6901 pointer made of ``parts``; a lone surrogate in a key is shown as ``\\uXXXX``."""
    out = "".join("/" + str(part).replace("~", "~0").replace("/", "~1") for part in parts)
    return out.encode("utf-8", "backslashreplace").decode("utf-8")


def _pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    plain = dict(pairs)
    if len(plain) == len(pairs):
        return plain
    seen: set[str] = set()
    doubled = [key for key, _ in pairs if key in seen or seen.add(key)]  # type: ignore[func-returns-value]
    marked = DuplicateKeys(plain)
    marked.duplicates = tuple(dict.fromkeys(doubled))
    return marked


def _integer(digits: str) -> int:
    return int(digits) if len(digits) <= _MAX_DIGITS else _OUT_OF_BOUNDS


_decoder = json.JSONDecoder(object_pairs_hook=_pairs, parse_int=_integer)


def parse(text: str | bytes) -> Any:
    """Read JSON text.  Raises :class:`NotJson`; out-of-bounds values are left to :func:`find_issues`."""
    if isinstance(text, bytes):
        try:
            text = text.decode("utf-8")
        except UnicodeDecodeError as error:
            raise NotJson("encoding", f"Send UTF-8; byte {error.start} is not.") from None
    try:
        value = _decoder.decode(text)
    except RecursionError:
        raise NotJson("depth", f"Nest at most {MAX_DEPTH} levels.") from None
    except json.JSONDecodeError as error:
        raise NotJson("syntax", f"Send valid JSON: {error.msg} at character {error.pos}.") from None
    return value


def _text_issue(text: str) -> tuple[str, str] | None:
    if "\x00" in text:
        return "nul", "Remove the NUL character (U+0000)."
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return "surrogate", "Replace the lone surrogate by a whole character."
    return None


def _scalar_issue(value: Any) -> tuple[str, str] | None:
    if isinstance(value, str):
        return _text_issue(value)
    if isinstance(value, bool) or value is None:
        return None
    if isinstance(value, int):
        if abs(value) > MAX_SAFE_INTEGER:
            return "integer_range", "Send integers beyond 2^53-1 as strings."
        return None
    if isinstance(value, float):
        return None if math.isfinite(value) else ("number", "Send a finite number that fits a double.")
    return "type", f"Send JSON; {type(value).__name__} is not."


def _walk(value: Any, max_depth: int) -> Iterator[tuple[tuple[str | int, ...], str, str]]:
    stack: list[tuple[tuple[str | int, ...], Any]] = [((), value)]
    while stack:
        path, item = stack.pop()
        if isinstance(item, (dict, list, tuple)):
            if len(path) >= max_depth:
                yield path, "depth", f"Nest at most {MAX_DEPTH} levels."
                continue
            if isinstance(item, DuplicateKeys):
                for key in item.duplicates:
                    yield (*path, key), "duplicate_key", "Name each member once."
            if isinstance(item, dict):
                children: list[tuple[tuple[str | int, ...], Any]] = []
                for key, child in item.items():
                    found = _text_issue(key) if isinstance(key, str) else ("key", "Use a string as member name.")
                    if found:
                        yield (*path, str(key)), *found
                    children.append(((*path, key if isinstance(key, str) else str(key)), child))
            else:
                children = [((*path, index), child) for index, child in enumerate(item)]
            stack.extend(reversed(children))
        elif found := _scalar_issue(item):
            yield path, *found


def find_issues(value: Any, *, max_bytes: int = MAX_VALUE_BYTES, max_depth: int = MAX_DEPTH) -> list[Issue]:
    """Everything that keeps ``value`` from being stored, in document order; empty when it may be."""
    return _content_issues(value, max_depth) or _size_issues(value, "", max_bytes)


def find_argument_issues(arguments: Any, *, max_bytes: int) -> list[Issue]:
    """The same for a call's arguments: each member is a value of its own, and so is its size and depth."""
    if not isinstance(arguments, dict):
        return find_issues(arguments, max_bytes=max_bytes)
    issues = _content_issues(arguments, MAX_DEPTH + 1)
    return issues or [
        issue for name, value in arguments.items() for issue in _size_issues(value, pointer([name]), max_bytes)
    ]


def _content_issues(value: Any, max_depth: int) -> list[Issue]:
    return [Issue(code, pointer(path), hint) for path, code, hint in _walk(value, max_depth)]


def _size_issues(value: Any, place: str, max_bytes: int) -> list[Issue]:
    size = len(dumps(value).encode())
    hint = f"Send at most {max_bytes} bytes of JSON; this has {size}."
    return [Issue("size", place, hint)] if size > max_bytes else []


def dumps(value: Any) -> str:
    """Compact JSON text for storage and for the wire; refuses NaN and infinities."""
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))


def loads(text: str) -> Any:
    """Read back what :func:`dumps` wrote."""
    return json.loads(text)


def canonical(value: Any) -> bytes:
    """RFC 8785 bytes.  ``value`` must have passed :func:`find_issues` (the canonicaliser recurses)."""
    return rfc8785.dumps(value)


def digest(value: Any) -> str:
    """SHA-256 over the canonical form, 64 hex digits."""
    return hashlib.sha256(canonical(value)).hexdigest()
