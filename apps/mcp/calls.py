"""Running one Tool: raw arguments in, the two halves of a Tool result out (E1, E3, E6, K26)."""

from __future__ import annotations

import json
import logging
from typing import Any

from mcp.server.fastmcp.tools import Tool

from apps.core.caller import Caller
from apps.core.database import DATABASE_TROUBLE
from apps.core.errors import ErrorCode, LoomError
from apps.core.ids import new_id
from apps.mcp.jsonrpc import text_of

logger = logging.getLogger("loomsvc.mcp")


def call_tool(tool: Tool, caller: Caller, arguments: Any) -> bytes:
    """The JSON members ``content``, ``structuredContent`` and ``isError``, without braces.

    ``structuredContent`` is the output contract, or ``{"error", …}`` with what the error brings
    along; the text is the same JSON.  Never raises: what nobody foresaw is ``INTERNAL`` with an
    incident id under which the log has the traceback.
    """
    try:
        return _members(text_of(tool.fn(caller, arguments).to_wire()), is_error=False)
    except LoomError as error:
        return _error(error)
    except DATABASE_TROUBLE:
        logger.warning("The ledger failed a call of %s", tool.name, exc_info=True)
        return _error(LoomError(ErrorCode.UNAVAILABLE, "The ledger cannot be reached just now; try again shortly."))
    except Exception:
        incident = str(new_id())
        logger.exception("Incident %s in a call of %s", incident, tool.name)
        message = f"The service failed at this call; its operator finds the reason under incident {incident}."
        return _error(LoomError(ErrorCode.INTERNAL, message, details={"incident": incident}))


def _error(error: LoomError) -> bytes:
    return _members(text_of({"error": error.to_wire(), **error.attachments}), is_error=True)


def _members(structured: bytes, *, is_error: bool) -> bytes:
    text = json.dumps(structured.decode(), ensure_ascii=False).encode()
    flag = b"true" if is_error else b"false"
    return b'"content":[{"type":"text","text":' + text + b'}],"structuredContent":' + structured + b',"isError":' + flag
