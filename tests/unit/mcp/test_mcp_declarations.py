"""What is listed of Tools and told in instructions, without a server."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from apps.access.domain.entries import MCP_ENTRIES
from apps.core.contracts import Contract, Json, UuidText
from apps.core.endpoints import Endpoint, Kind, tools_for
from apps.mcp.asgi import entry_applications
from apps.mcp.instructions import instructions_for
from apps.mcp.jsonrpc import success, text_of
from apps.mcp.modern import decode_header
from apps.mcp.tools import EntryServer


class Leaf(Contract):
    name: str
    data: Json = None


class Tree(Contract):
    receipt: Leaf
    run: Leaf | None = None
    branches: list[Tree] = []


class Take(Contract):
    operation_id: UuidText
    wanted: Leaf | None = None


def grow(caller: Any, given: Take) -> Tree:
    raise NotImplementedError


GROW = Endpoint("grow_tree", "Grow a tree", "Grows it.", Take, Tree, grow, Kind.OPERATION, destructive=True)
LOOK = Endpoint("look", "Look", "Looks.", Take, Leaf, grow, Kind.READ)


def listed(server: EntryServer, version: str = "2025-11-25") -> list[dict[str, Any]]:
    tools: list[dict[str, Any]] = json.loads(server.listings["tools/list", version])["tools"]
    return tools


def refs(schema: Any) -> list[str]:
    if isinstance(schema, dict):
        own = [schema["$ref"]] if isinstance(schema.get("$ref"), str) else []
        return own + [ref for part in schema.values() for ref in refs(part)]
    return [ref for part in schema for ref in refs(part)] if isinstance(schema, list) else []


OPEN_WORLD = ("call_agent_tool", "run_agent", "search", "build_query")


def check_tool(tool: dict[str, Any]) -> None:
    for name in ("inputSchema", "outputSchema"):
        schema = tool[name]
        Draft202012Validator.check_schema(schema)
        assert schema["type"] == "object"
        for ref in refs(schema):
            assert ref.removeprefix("#/$defs/") in schema["$defs"], f"{tool['name']}: {ref}"
    assert tool["inputSchema"]["additionalProperties"] is False
    assert len(tool["outputSchema"]["anyOf"]) == 2
    assert tool["title"]
    assert tool["description"]
    assert tool["annotations"]["idempotentHint"] is (tool["name"] not in ("run_agent", "build_query"))
    assert tool["annotations"]["openWorldHint"] is (tool["name"] in OPEN_WORLD)


@pytest.mark.rule("N6", "FR-F11")
def test_a_tool_is_listed_exactly_as_its_endpoint_declares_it() -> None:
    grown, looked = listed(EntryServer(MCP_ENTRIES[0], [GROW, LOOK]))
    assert (grown["name"], grown["title"], grown["description"]) == ("grow_tree", "Grow a tree", "Grows it.")
    assert grown["annotations"] | {"title": ""} == {
        "title": "",
        "readOnlyHint": False,
        "destructiveHint": True,
        "idempotentHint": True,
        "openWorldHint": False,
    }
    assert (looked["annotations"]["readOnlyHint"], looked["annotations"]["destructiveHint"]) == (True, False)
    assert grown["inputSchema"]["required"] == ["operationId"]
    for tool in (grown, looked):
        check_tool(tool)


@pytest.mark.rule("N6")
def test_the_output_schema_takes_successes_and_errors_with_what_they_bring_along() -> None:
    schema = listed(EntryServer(MCP_ENTRIES[0], [GROW]))[0]["outputSchema"]
    validator = Draft202012Validator(schema)
    error = {"code": "BUSY", "message": "Busy.", "retryable": True}
    leaf = {"name": "x", "data": {"any": [1]}}
    tree = {"receipt": leaf, "branches": [{"receipt": leaf, "branches": []}]}
    for good in (tree, {"error": error}, {"error": error, "receipt": leaf, "run": leaf}):
        validator.validate(good)
    for bad in ({}, {"error": {}}, {"error": error, "receipt": 7}, {"receipt": leaf, "branches": [{}]}, []):
        assert not validator.is_valid(bad), bad


@pytest.mark.rule("N6", "N1")
@pytest.mark.parametrize("entry", MCP_ENTRIES, ids=lambda entry: entry.name)
def test_every_registered_tool_is_well_declared_at_its_entries(entry: Any) -> None:
    application = entry_applications()[entry.path]
    expected = [endpoint.name for endpoint in tools_for(entry.source)]
    for version in ("2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28"):
        tools = listed(application.server, version)
        assert [tool["name"] for tool in tools] == expected
        for tool in tools:
            check_tool(tool)


@pytest.mark.rule("N5")
def test_each_entry_is_one_application_under_its_path_with_and_without_a_slash() -> None:
    applications = entry_applications(lambda source: [LOOK])
    assert sorted(applications) == sorted([e.path for e in MCP_ENTRIES] + [e.path + "/" for e in MCP_ENTRIES])
    assert len({id(application) for application in applications.values()}) == len(MCP_ENTRIES)
    for entry in MCP_ENTRIES:
        assert applications[entry.path] is applications[entry.path + "/"]
        assert applications[entry.path].server.entry == entry


AGENT_TOOLS = [
    "fork_run", "interact", "claim_agent_call", "call_agent_tool", "complete_agent_call",
    "fail_agent_call", "get_agent_call", "read_agent_asset", "list_models",
    "run_agent", "agent_status", "cancel_agent",
]  # fmt: skip
#: Words of the protocol that look like names of Tools.
MEMBERS = {"instance_changed", "setup_url", "session_secret"}


@pytest.mark.rule("N7")
@pytest.mark.parametrize("entry", MCP_ENTRIES, ids=lambda entry: entry.name)
def test_instructions_tell_the_protocol_and_name_no_tool_that_is_not_listed(entry: Any) -> None:
    listed = tools_for(entry.source)
    text = instructions_for(listed)
    assert len(text) < 2000
    for needed in ("call status", "operationId", "Never answer", "every listed issue", "never repeat"):
        assert needed in text
    named = set(re.findall(r"\b[a-z]+_[a-z_]+\b", text)) - MEMBERS
    assert named <= {endpoint.name for endpoint in listed}
    for endpoint in listed:
        takes_identity = "operationId" in endpoint.input.wire_schema().get("required", ())
        if not endpoint.read_only and takes_identity:
            assert re.search(rf"\b{endpoint.name}\b", text)


@pytest.mark.rule("N7")
def test_instructions_grow_with_the_tools_and_stay_under_two_thousand_characters() -> None:
    present = tools_for(MCP_ENTRIES[0].source)
    more = [replace(LOOK, name=name) for name in AGENT_TOOLS if name not in {tool.name for tool in present}]
    text = instructions_for([*present, *more])
    assert len(text) < 2000
    for needed in ("claim_agent_call", "complete_agent_call", "list_models before run_agent", "use interact"):
        assert needed in text


@pytest.mark.rule("N5")
@pytest.mark.parametrize(
    ("sent", "decoded"),
    [
        (None, None),
        ("echo", "echo"),
        ("", ""),
        ("=?base64??=", ""),
        ("=?base64?w7w=?=", "ü"),
        ("=?base64?w7w?=", None),
        ("=?base64?w7x=?=", None),
        ("=?base64?/w==?=", None),
        ("=?base64?*?=", None),
        ("=?BASE64?w7w=?=", "=?BASE64?w7w=?="),
    ],
)
def test_header_values_are_decoded_in_their_canonical_form_only(sent: str | None, decoded: str | None) -> None:
    assert decode_header(sent) == decoded


@pytest.mark.rule("FR-D19", "FR-D5")
def test_text_that_utf_8_cannot_hold_still_goes_out_as_json() -> None:
    for value in ("\ud83d", {"\udc00": ["ü\ud800"]}, "\u2028"):
        assert json.loads(text_of(value)) == value
    assert json.loads(success("\ud800", b"{}"))["id"] == "\ud800"


@pytest.mark.rule("FR-D9")
def test_a_number_that_json_cannot_hold_is_an_error_and_not_null() -> None:
    with pytest.raises(ValueError):
        text_of({"mean": float("nan")})
