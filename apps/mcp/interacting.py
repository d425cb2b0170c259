"""Tools that ask the client's human (H4, H5)."""

from __future__ import annotations

from collections.abc import Mapping

from apps.mcp.elicitation import Interaction

#: Name of a Tool → how it is run for a client that shows forms.
INTERACTIONS: Mapping[str, Interaction] = {}
