"""No log line and no stored JSON holds a secret (E6, K18), and no log record breaks its line (K25).

Two nets, because each lets something through that the other holds: *by value* (every known shape of
a credential, and every registered secret in the forms it travels in) and *by key* (what stands
beside a name such as ``password``).  Where in doubt too much is taken out.
"""

from __future__ import annotations

import base64
import datetime as dt
import json
import logging
import re
import threading
import unicodedata
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import quote, quote_plus

from apps.core import clock

REDACTED = "[redacted]"
#: A shorter value is no secret worth the name, and would blot out ordinary words.
SHORTEST_SECRET = 6

_CREDENTIAL = re.compile(r"(loom_[a-z]+_[0-9A-Za-z]{6,})_[0-9A-Za-z_-]{8,}")
_TELLING_NAMES = (
    r"(?:secret|passw(?:or)?d|passphrase|api[_ -]?key|private[_ -]?key|authorization|cookie|credential"
    r"|token(?!s?_?count))"
)
_KEY = re.compile(_TELLING_NAMES, re.IGNORECASE)
_BY_SHAPE = (
    (_CREDENTIAL, rf"\1_{REDACTED}"),
    (re.compile(r"\b(bearer)\s+[^\s\"',;]+", re.IGNORECASE), rf"\1 {REDACTED}"),
    # Greedy up to the last @: a password may hold one that nobody encoded.
    (
        re.compile(r"(\b[a-z][a-z0-9+.-]{0,30}://[^\s/:@\"']{0,200}:)[^\s/\"'<>]{1,500}(?=@)", re.IGNORECASE),
        rf"\1{REDACTED}",
    ),
)
# Every repetition is bounded, so that a long hostile line costs time in proportion to its length.
_BESIDE_KEY = re.compile(
    rf"""(["']?\b[\w-]{{0,40}}{_TELLING_NAMES}[\w-]{{0,40}}["']?\s{{0,9}}[=:]\s{{0,9}})"""
    r"""((?:basic\s+)?(?:"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'|[^\s,;&\]})"']+))""",
    re.IGNORECASE,
)
_COUNT = re.compile(r"tokens[\"']?\s*[=:]\s*\Z", re.IGNORECASE)

_registered: frozenset[str] = frozenset()
_registered_pattern: re.Pattern[str] | None = None
_registering = threading.Lock()


def register_secret(value: str) -> None:
    """From now on take ``value`` out of every log line and every redacted JSON, in all its forms.

    Values under :data:`SHORTEST_SECRET` characters are ignored.
    """
    global _registered, _registered_pattern
    if len(value) < SHORTEST_SECRET:
        return
    with _registering:
        _registered = _registered | frozenset(_forms(value))
        longest_first = sorted(_registered, key=lambda form: (-len(form), form))
        _registered_pattern = re.compile("|".join(map(re.escape, longest_first)))


def _forms(value: str) -> Iterator[str]:
    """``value`` as it stands in text, JSON, ``repr``, URLs and base64."""
    yield value
    yield json.dumps(value)[1:-1]
    yield json.dumps(value, ensure_ascii=False)[1:-1]
    yield repr(value)[1:-1]
    for encoded in (
        quote(value, "", errors="replace"),
        quote(value, errors="replace"),
        quote_plus(value, errors="replace"),
    ):
        yield encoded
        yield re.sub("%[0-9A-F]{2}", lambda found: found[0].lower(), encoded)
    raw = value.encode("utf-8", "replace")
    for offset in range(3):
        # What of the base64 text depends on the secret alone, wherever in a longer text it starts.
        text = base64.b64encode(bytes(offset) + raw).decode()
        inside = text[(0, 2, 3)[offset] : (offset + len(raw)) * 8 // 6]
        yield inside
        yield inside.replace("+", "-").replace("/", "_")


def holds_credential(text: str) -> bool:
    """Whether ``text`` holds something of the shape of our credentials."""
    return _CREDENTIAL.search(text) is not None


def mask_credentials(text: str) -> str:
    """``text`` with the secret of every credential taken out, and nothing else."""
    return _CREDENTIAL.sub(rf"\1_{REDACTED}", text)


def is_secret_name(name: str) -> bool:
    """Whether what stands under ``name`` is secret: ``apiKey``, ``Authorization``, ``headers``, … (FR-H5)."""
    return _KEY.search(name) is not None or name.lower().endswith("headers")


def redact_text(text: str) -> str:
    """``text`` without secrets."""
    if _registered_pattern is not None:
        text = _registered_pattern.sub(REDACTED, text)
    for pattern, replacement in _BY_SHAPE:
        text = pattern.sub(replacement, text)
    return _BESIDE_KEY.sub(_beside_key, text)


def _beside_key(found: re.Match[str]) -> str:
    if _COUNT.search(found[1]) and found[2].isdigit():
        return found[0]
    return f"{found[1]}{REDACTED}"


def redact(value: Any) -> Any:
    """A copy of JSON ``value`` (or of a log call's arguments) without secrets, however deep they stand."""
    if isinstance(value, str):
        return redact_text(value)
    if isinstance(value, Mapping):
        return {key: _redact_member(key, item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        is_pair = len(value) == 2 and all(isinstance(item, (str, bytes)) for item in value)
        items = [value[0], _redact_member(*value)] if is_pair else [redact(item) for item in value]
        return items if isinstance(value, list) else tuple(items)
    return value


def _redact_member(key: Any, item: Any) -> Any:
    name = key.decode("latin-1") if isinstance(key, bytes) else str(key)
    # "input_tokens": 12 is a count, no secret.
    is_count = isinstance(item, (int, float)) and name.lower().endswith("tokens")
    return REDACTED if is_secret_name(name) and item is not None and not is_count else redact(item)


_PLAIN_ATTRIBUTES = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}
_traceback_writer = logging.Formatter()


class RedactingFilter(logging.Filter):
    """Takes secrets out of a record: its message, arguments, traceback and extra members."""

    def filter(self, record: logging.LogRecord) -> bool:
        record.args = redact(record.args)
        record.msg, record.args = redact_text(_message(record)), None
        if record.exc_info and not record.exc_text:
            record.exc_text = _traceback_writer.formatException(record.exc_info)
        if record.exc_text:
            record.exc_text = redact_text(record.exc_text)
        if record.stack_info:
            record.stack_info = redact_text(record.stack_info)
        for name in vars(record).keys() - _PLAIN_ATTRIBUTES:
            setattr(record, name, _redact_member(name, getattr(record, name)))
        return True


def _message(record: logging.LogRecord) -> str:
    try:
        return record.getMessage()
    except (TypeError, ValueError, KeyError):
        # A log call whose arguments do not fit its text still says what it can.
        return f"{record.msg} {record.args!r}"


def one_line(text: str) -> str:
    """``text`` with every control, direction-changing and line-breaking character written as an escape."""
    return "".join(_escaped(character) for character in text)


def _escaped(character: str) -> str:
    if character == " " or unicodedata.category(character) not in ("Cc", "Cf", "Cs", "Zl", "Zp"):
        return character
    return character.encode("unicode_escape", "surrogatepass").decode("ascii")


class OneLineFormatter(logging.Formatter):
    """One record, one line: time (UTC), level, logger, message, and the traceback folded in (FR-D3)."""

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)s %(name)s %(message)s")

    def formatTime(self, record: logging.LogRecord, datefmt: str | None = None) -> str:  # noqa: N802
        return clock.to_wire(dt.datetime.fromtimestamp(record.created, dt.UTC))

    def format(self, record: logging.LogRecord) -> str:
        return one_line(super().format(record))
