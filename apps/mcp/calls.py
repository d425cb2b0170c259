"""Running one Tool: raw arguments in, the two halves of a Tool result out (E1, E3, E6, K26)."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from functools import partial
from typing import Any

from apps.core.caller import Caller
from apps.core.database import DATABASE_TROUBLE
from apps.core.endpoints import Endpoint
from apps.core.errors import ErrorCode, LoomError
from apps.core.ids import new_id
from apps.core.outages import outage
from apps.mcp.elicitation import Ask, Given, Interaction
from apps.mcp.jsonrpc import text_of

logger = logging.getLogger("loomsvc.mcp")


def call_tool(endpoint: Endpoint[Any, Any], caller: Caller, arguments: Any) -> bytes:
    """The JSON members ``content``, ``structuredContent`` and ``isError``, without braces.

    ``structuredContent`` is the output contract, or ``{"error", …}`` in the Endpoint's form with what
    the error brings along; the text is the same JSON.  Never raises: what nobody foresaw is ``INTERNAL`` with an
    incident id under which the log has the traceback.
    """
    found = _call(endpoint, partial(endpoint.call, caller, arguments))
    assert not isinstance(found, Ask)
    return found


def call_asking(
    endpoint: Endpoint[Any, Any], interaction: Interaction, caller: Caller, arguments: Any, given: Given | None
) -> bytes | Ask:
    """The same for a Tool that may ask the client's human, or what it asks."""
    return _call(endpoint, partial(interaction, caller, arguments, given))


def _call(endpoint: Endpoint[Any, Any], call: Callable[[], Any]) -> bytes | Ask:
    try:
        found = call()
        return found if isinstance(found, Ask) else _members(text_of(found.to_wire()), is_error=False)
    except LoomError as error:
        return _error(endpoint, error)
    except DATABASE_TROUBLE as error:
        logger.warning("The ledger failed a call of %s", endpoint.name, exc_info=True)
        return _error(endpoint, outage(error))
    except Exception:
        incident = str(new_id())
        logger.exception("Incident %s in a call of %s", incident, endpoint.name)
        message = f"The service failed at this call; its operator finds the reason under incident {incident}."
        return _error(endpoint, LoomError(ErrorCode.INTERNAL, message, details={"incident": incident}))


def _error(endpoint: Endpoint[Any, Any], error: LoomError) -> bytes:
    return _members(text_of(endpoint.refusal(error)), is_error=True)


def _members(structured: bytes, *, is_error: bool) -> bytes:
    text = json.dumps(structured.decode(), ensure_ascii=False).encode()
    flag = b"true" if is_error else b"false"
    return b'"content":[{"type":"text","text":' + text + b'}],"structuredContent":' + structured + b',"isError":' + flag
