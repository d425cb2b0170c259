"""One question in whichever revision, at whichever Entry: what the tests of looked-up results have in common."""

from __future__ import annotations

from typing import Any

import pytest
from mcp_live import LEGACY, MODERN, Answer, Live
from site_live import ENTRY_OF, Site

REVISIONS = (*LEGACY, MODERN)
in_every_revision = pytest.mark.parametrize("version", REVISIONS)


class Asker:
    """A client of the site that asks in one revision."""

    def __init__(self, site: Site, version: str = LEGACY[0], entry: str = "/mcp") -> None:
        self.live = Live(site.port, site.tokens)
        self.version = version
        self.entry = entry

    def ask(self, method: str, /, **params: Any) -> Answer:
        where = {"path": self.entry, "source": ENTRY_OF[self.entry]}
        if self.version == MODERN:
            return self.live.modern(method, params, **where)
        return self.live.legacy(method, params, version=self.version, **where)

    def result(self, method: str, /, **params: Any) -> Any:
        answer = self.ask(method, **params)
        assert answer.status == 200, answer.body
        result = answer.json["result"]
        assert (result.get("resultType") == "complete") == (self.version == MODERN)
        return result

    def error(self, method: str, /, **params: Any) -> Any:
        """The error, under the status that the revision has for a request at fault."""
        answer = self.ask(method, **params)
        assert answer.status == (400 if self.version == MODERN else 200), answer.body
        return answer.json["error"]
