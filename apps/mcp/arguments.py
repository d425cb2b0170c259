"""From an Endpoint's input contract to command-line options, and back to its wire arguments.

Text stays text (FR-D15): only what the schema calls an integer, a boolean or JSON is read as such.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from apps.core import json_text
from apps.core.endpoints import Endpoint

OPERATION_ID = "operationId"
INSTANCE_ID = "serviceInstanceId"


def add_arguments(parser: argparse.ArgumentParser, endpoint: Endpoint[Any, Any]) -> None:
    """One argument per member: required texts by position, the rest as options.

    A write's identity is not required here: the command makes one.  To look one up takes both of its halves.
    """
    schema: dict[str, Any] = endpoint.input.wire_schema()
    required = set(schema.get("required", ()))
    if not endpoint.read_only:
        required -= {OPERATION_ID, INSTANCE_ID}
    for member, declared in schema["properties"].items():
        shape = _without_null(declared)
        # No default: an option left out is told apart from one that was given as JSON null.
        told = _help(member, shape) or declared.get("description", "").translate({ord("`"): None, ord("%"): "%%"})
        options: dict[str, Any] = {"help": told, "default": argparse.SUPPRESS}
        if shape.get("type") == "boolean":
            parser.add_argument(option(member), dest=member, action=argparse.BooleanOptionalAction, **options)
            continue
        options["type"] = _reader(shape)
        options["choices"] = shape.get("enum")
        if member in required and member != INSTANCE_ID and shape.get("type") == "string":
            del options["default"]
            parser.add_argument(member, metavar=option(member)[2:].upper(), **options)
        else:
            options["metavar"] = None if options["choices"] else _metavar(member, shape)
            parser.add_argument(option(member), dest=member, required=member in required, **options)


def wire_arguments(endpoint: Endpoint[Any, Any], options: Mapping[str, Any]) -> dict[str, Any]:
    """The members that were given."""
    members = endpoint.input.wire_schema()["properties"]
    return {member: options[member] for member in members if member in options}


def option(member: str) -> str:
    """``loomName`` → ``--loom-name``."""
    return "--" + re.sub(r"(?<=[a-z0-9])([A-Z])", r"-\1", member).lower().replace("_", "-")


def read_json(text: str) -> Any:
    """JSON, or the JSON in the file that ``@`` names."""
    try:
        content: str | bytes = Path(text[1:]).read_bytes() if text.startswith("@") else text
        value = json_text.parse(content)
    except OSError as error:
        raise argparse.ArgumentTypeError(f"{text[1:]} cannot be read ({error.strerror})") from None
    except json_text.NotJson as error:
        raise argparse.ArgumentTypeError(
            f"this is not JSON: {error.issue.suggestion} Quote a text for the shell and for JSON: '\"text\"'"
        ) from None
    issues = json_text.find_issues(value)
    if issues:
        raise argparse.ArgumentTypeError(f"{issues[0].path or 'the whole value'}: {issues[0].suggestion}")
    return value


def read_answers(path: str) -> list[Any]:
    """The answers in a file, one for each thing that is asked."""
    answers = read_json(f"@{path}")
    if not isinstance(answers, list):
        raise argparse.ArgumentTypeError("this is not a JSON list of answers")
    return answers


def _whole_number(text: str) -> int:
    if not re.fullmatch(r"-?[0-9]{1,16}", text):
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number")
    return int(text)


def _reader(shape: Mapping[str, Any]) -> Callable[[str], Any]:
    kind = shape.get("type")
    if kind == "integer":
        return _whole_number
    return str if kind == "string" else read_json


def _without_null(declared: Mapping[str, Any]) -> Mapping[str, Any]:
    branches = [branch for branch in declared.get("anyOf", ()) if branch.get("type") != "null"]
    return branches[0] if len(branches) == 1 else declared


def _metavar(member: str, shape: Mapping[str, Any]) -> str:
    if shape.get("type") == "integer":
        return "N"
    return option(member)[2:].rpartition("-")[2].upper() if shape.get("type") == "string" else "JSON"


def _help(member: str, shape: Mapping[str, Any]) -> str:
    if member == OPERATION_ID:
        return "UUID that names the write; made for you when left out"
    if member == INSTANCE_ID:
        return "service instance that the operation was sent to; it goes with the operation id"
    if _reader(shape) is read_json:
        return "JSON text, or @FILE"
    if "const" in shape:
        return f"only {shape['const']}"
    if "maximum" in shape:
        return f"{shape.get('minimum', 0)} to {shape['maximum']}"
    return ""
