"""What both eras do alike with a method's parameters.  They differ in the HTTP status of a refusal."""

from __future__ import annotations

from typing import Any

from mcp.server.fastmcp.tools import Tool
from mcp_types.jsonrpc import INVALID_PARAMS
from mcp_types.methods import validate_client_request
from pydantic import ValidationError

from apps.core.caller import Caller
from apps.core.json_text import pointer
from apps.mcp.jsonrpc import Message, RpcError
from apps.mcp.lookups import LOOK_UPS, look_up
from apps.mcp.tools import EntryServer

_MAX_POINTER = 200
#: The one list that has more than one page.
_IN_PAGES = "resources/list"


def check_params(message: Message, version: str, *, status: int) -> None:
    """The revision's own shape of the parameters, except a Tool's arguments.

    Those are the Tool's to judge: their faults are a Tool result with pointers (E3).
    """
    params = message.params
    if message.method == "tools/call":
        params = {key: value for key, value in params.items() if key != "arguments"}
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


def is_served(server: EntryServer, method: str, version: str) -> bool:
    """Whether the revision has the method here; ``tools/call`` is not asked about."""
    return (method, version) in server.listings or method in LOOK_UPS


def result(server: EntryServer, caller: Caller, message: Message, version: str, *, status: int) -> bytes:
    """The JSON of the result of any method that :func:`is_served`: ready-made, or looked up for the caller."""
    one_page = message.method.endswith("/list") and message.method != _IN_PAGES
    if one_page and message.params.get("cursor") is not None:
        raise RpcError(INVALID_PARAMS, "This list has one page; leave `cursor` out.", status=status)
    ready = server.listings.get((message.method, version))
    return ready if ready is not None else look_up(caller, message, version, server.tools, status=status)
