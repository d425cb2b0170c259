"""One line about something that went wrong: no control characters, no secret, no server path (E6, K25)."""

from __future__ import annotations

import os
import re

from apps.looms.secret_values import SecretValues

MAX_MESSAGE = 2000
_PRIVATE_PACKAGE = re.compile(r"\bloom_release_[0-9a-f]{64}\.?")
_QUOTED_PATH = re.compile(r"""(?P<quote>['"])(?P<path>/[^'"\n]*?)(?P=quote)""")
_BARE_PATH = re.compile(r"(?<![\w:/.…])/[^\s'\"<>|,;:()\[\]{}]+")
_WINDOWS_PATH = re.compile(r"(?<!\w)[A-Za-z]:\\[^\s'\"<>|,;:()\[\]{}]+")


def printable(text: str, limit: int = MAX_MESSAGE) -> str:
    """``text`` on one line of at most ``limit`` characters; what cannot be printed is escaped."""
    cut = text[: limit + 1]
    shown = "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in cut)
    return shown if len(shown) <= limit else shown[: limit - 1] + "…"


def _is_server_path(path: str) -> bool:
    """Whether an absolute path leads into this machine's file system (a URL's or pointer's does not)."""
    parts = [part for part in path.split("/") if part]
    return len(parts) > 1 and os.path.lexists("/" + parts[0])


def _shorten(path: str) -> str:
    if path.startswith("/") and not _is_server_path(path):
        return path
    return "…/" + re.split(r"[/\\]", path.rstrip("/\\"))[-1]


def hide_paths(text: str) -> str:
    """Paths of this machine cut down to their last part, modules of a Release to their names in its folder."""
    text = _PRIVATE_PACKAGE.sub("", text)
    text = _QUOTED_PATH.sub(lambda m: m["quote"] + _shorten(m["path"]) + m["quote"], text)
    text = _BARE_PATH.sub(lambda m: _shorten(m[0]), text)
    return _WINDOWS_PATH.sub(lambda m: _shorten(m[0]), text)


def describe_exception(error: BaseException, secrets: SecretValues) -> str:
    """``ValueError: what it says``, fit to be stored and shown."""
    text = _said(error)
    name = type(error).__name__
    line = " ".join(text.split("\n"))[: 4 * MAX_MESSAGE]
    return printable(hide_paths(secrets.redact(f"{name}: {line}" if line.strip() else name)))


def describe_refusal(error: BaseException, secrets: SecretValues) -> str:
    """The words that an author chose for a reader, fit to be stored and shown; the class stands for none."""
    text = _said(error)
    return printable(hide_paths(secrets.redact(text))) if text.strip() else type(error).__name__


def _said(error: BaseException) -> str:
    try:
        return str(error)
    except BaseException:  # an exception's own __str__ may raise anything
        return "(its text cannot be read)"


def error_names(error: type[BaseException], package: str) -> tuple[str, ...]:
    """The names that ``errors:`` may use for a class and its bases: ``module.Class``, with modules of
    the Loom itself named from its folder, and the bare name of what is built in."""
    names: list[str] = []
    for kind in error.__mro__[:-1]:
        module = str(kind.__module__).removeprefix(package + ".")
        names.append(f"{module}.{kind.__qualname__}")
        if module in ("builtins", "loomsvc.authoring"):
            names.append(kind.__qualname__)
    return tuple(names)
