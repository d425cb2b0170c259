"""The web application: MCP Entries by exact path, everything else Django's.

Each Entry is an ASGI application of its own: no Django middleware stands in its way.
"""

from __future__ import annotations

import os
from typing import Any

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "loomsvc.settings.development")

import django

django.setup(set_prefix=False)

import loomsvc.celery  # noqa: E402, F401 (whoever admits a Run rings with this application)
from apps.mcp.asgi import entry_applications  # noqa: E402
from apps.rest.asgi import DjangoApplication  # noqa: E402

_entries = entry_applications()
_django = DjangoApplication()


async def application(scope: Any, receive: Any, send: Any) -> None:
    """Route one connection."""
    if scope["type"] == "lifespan":
        await _lifespan(receive, send)
        return
    entry = _entries.get(scope.get("path", "").rstrip("/")) if scope["type"] == "http" else None
    await (entry or _django)(scope, receive, send)


async def _lifespan(receive: Any, send: Any) -> None:
    while True:
        message = await receive()
        await send({"type": f"{message['type']}.complete"})
        if message["type"] == "lifespan.shutdown":
            return
