"""The ``requestState`` of the stateless era: which question a call was asked, signed (H4, N5).

Bound to who asked what where: another credential, Entry, Tool or other arguments cannot use it, and
after its time nobody can.  Any web process reads what another one issued.
"""

from __future__ import annotations

import datetime as dt
from typing import Any

from django.core.signing import BadSignature, Signer

from apps.core import conf, json_text
from apps.core.caller import Caller

_SALT = "apps.mcp.request_state"


def issue(*, caller: Caller, tool: str, arguments: Any, key: str, now: dt.datetime) -> str:
    """The state that goes out with the question ``key``; ``arguments`` have passed the Tool's contract."""
    until = now + dt.timedelta(seconds=conf.settings().form_seconds)
    body = {"key": key, "until": until.timestamp(), "of": _binding(caller, tool, arguments)}
    return Signer(salt=_SALT).sign_object(body)


def read(state: str, *, caller: Caller, tool: str, arguments: Any, now: dt.datetime) -> str | None:
    """The key of the question; ``None`` for a state that is forged, too old, or of another call."""
    if json_text.find_argument_issues(arguments, max_bytes=conf.settings().max_value_bytes):
        return None
    try:
        body = Signer(salt=_SALT).unsign_object(state)
    except BadSignature:
        return None
    if body["until"] <= now.timestamp() or body["of"] != _binding(caller, tool, arguments):
        return None
    return str(body["key"])


def _binding(caller: Caller, tool: str, arguments: Any) -> str:
    return json_text.digest([caller.principal, str(caller.project_id), caller.entry, tool, arguments])
