"""What both eras do alike with a method's parameters.  They differ in the HTTP status of a refusal."""

from __future__ import annotations

from typing import Any

from mcp.server.fastmcp.tools import Tool
from mcp_types.jsonrpc import INVALID_PARAMS
from mcp_types.methods import validate_client_request
from pydantic import ValidationError

from apps.core.json_text import pointer
from apps.mcp.jsonrpc import Message, RpcError
from apps.mcp.tools import EntryServer

_MAX_POINTER = 200


def check_params(message: Message, version: str, *, status: int) -> None:
    """The revision's own shape of the parameters, except a Tool's arguments.

    Those are the Tool's to judge: their faults are a Tool result with pointers (E3).
    """
    params = {key: value for key, value in message.params.items() if key != "arguments"}
    try:
        validate_client_request(message.method, version, params)
    except ValidationError as error:
        place = pointer(error.errors(include_url=False, include_context=False, include_input=False)[0]["loc"])
        text = f"These parameters do not fit {message.method}: look at {place[:_MAX_POINTER]}."
        raise RpcError(INVALID_PARAMS, text, status=status) from None


def find_tool(server: EntryServer, message: Message, *, status: int) -> Tool:
    """The Tool that ``tools/call`` names."""
    tool = server.tools.get(message.params["name"])
    if tool is None:
        raise RpcError(INVALID_PARAMS, "There is no Tool of that name here; see tools/list.", status=status)
    return tool


def arguments_of(message: Message) -> Any:
    """The raw arguments; left out means none."""
    arguments = message.params.get("arguments")
    return {} if arguments is None else arguments


def listing(server: EntryServer, message: Message, version: str, *, status: int) -> bytes:
    """A result that is ready-made; each list has one page."""
    if message.params.get("cursor") is not None:
        raise RpcError(INVALID_PARAMS, "This list has one page; leave `cursor` out.", status=status)
    return server.listings[message.method, version]
