"""Tools are declared and registered with django-mcp-server; what they are comes from the Endpoints.

Its toolset finds Tools among a class's methods and guesses their schemas; ours takes Endpoints, so
that name, title, description, both schemas and the annotations are exactly the declared ones.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any

from mcp.server.fastmcp.tools import Tool, ToolManager
from mcp.types import ToolAnnotations
from mcp_server.djangomcp import DjangoMCP, MCPToolset

from apps.access.domain.entries import Entry
from apps.core.endpoints import Endpoint
from apps.mcp import listing, resources, schemas
from apps.mcp.elicitation import Interaction
from apps.mcp.instructions import instructions_for

_NONE: Mapping[str, Interaction] = MappingProxyType({})


class EndpointToolset(MCPToolset):  # type: ignore[misc]
    """A toolset whose Tools are Endpoints.  ``Tool.fn`` takes the caller and raw JSON arguments."""

    def __init__(self, endpoints: Iterable[Endpoint[Any, Any]] = (), **options: Any) -> None:
        super().__init__(**options)
        self._endpoints = tuple(endpoints)

    def _add_tools_to(self, tool_manager: ToolManager) -> list[Tool]:
        return [_add_tool(tool_manager, endpoint) for endpoint in self._endpoints]


def _add_tool(tool_manager: ToolManager, endpoint: Endpoint[Any, Any]) -> Tool:
    annotations = ToolAnnotations(
        title=endpoint.title,
        readOnlyHint=endpoint.read_only,
        destructiveHint=endpoint.destructive,
        # Reads change nothing, and what a write is identified by is applied once (O3, A2, A3, A8).
        idempotentHint=endpoint.idempotent,
        openWorldHint=endpoint.open_world,
    )
    tool = tool_manager.add_tool(
        endpoint.call,
        name=endpoint.name,
        title=endpoint.title,
        description=endpoint.description,
        annotations=annotations,
        structured_output=False,
    )
    tool.parameters = schemas.input_schema(endpoint)
    tool.fn_metadata = tool.fn_metadata.model_copy(update={"output_schema": schemas.output_schema(endpoint)})
    return tool


class EntryServer(DjangoMCP):  # type: ignore[misc]
    """One server object per Entry: its Tools, its instructions, and the answers that never change."""

    def __init__(
        self, entry: Entry, endpoints: Iterable[Endpoint[Any, Any]], interactions: Mapping[str, Interaction] = _NONE
    ) -> None:
        endpoints = tuple(endpoints)
        super().__init__(name="loomsvc", instructions=instructions_for(endpoints), stateless=True)
        self.entry = entry
        registered: list[Tool] = self.register_mcptoolset(EndpointToolset(endpoints, context=None))
        self.tools = {tool.name: tool for tool in registered}
        self.endpoints = {endpoint.name: endpoint for endpoint in endpoints}
        #: Names of the Tools that may take as long as an author's code does.
        self.long_running = tuple(endpoint.name for endpoint in endpoints if endpoint.long_running)
        #: Tools that may ask the client's human something; called plainly where the client cannot show it.
        self.interactions = interactions
        #: Ready-made bytes of the results that depend on nothing but the Entry and the revision.
        self.listings = listing.listings_of(registered, resources.templates(), self.instructions or "")
