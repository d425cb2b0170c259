"""A connection that sends a request's head and body together."""

from __future__ import annotations

import http.client
from typing import Any


class OneSegment(http.client.HTTPConnection):
    """Keeps what is to be sent until ``flush``.

    ``http.client`` sends head and body apart.  A server that refuses the head closes at once, the body
    then meets a closed socket, and the reset that follows can overtake the refusal on its way here.
    """

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._kept = b""

    def send(self, data: Any) -> None:
        self._kept += bytes(data)

    def flush(self) -> None:
        """Send all of it now."""
        kept, self._kept = self._kept, b""
        super().send(kept)
