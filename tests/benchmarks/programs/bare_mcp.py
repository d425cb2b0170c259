"""The bare ``mcp`` 2.x server with one trivial Tool: what a call costs before it does anything (P7)."""

from __future__ import annotations

from mcp.server import MCPServer
from pydantic import BaseModel

server = MCPServer("bare")


class Found(BaseModel):
    """What the Tool returns."""

    run_id: str
    status: str


@server.tool()
def get_run(runId: str) -> Found:  # noqa: N803
    """Does nothing."""
    return Found(run_id=runId, status="completed")


# JSON, as loomsvc answers; its default, a stream of events, takes it half as long again.
application = server.streamable_http_app(streamable_http_path="/mcp", json_response=True)
