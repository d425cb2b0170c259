"""PostgreSQL whose connections are found whole without a round trip before each request.

``CONN_HEALTH_CHECKS`` sends ``SELECT 1`` before the first statement of every request, which is a third of what a
read costs.  A server that ends a connection says so on it, or closes it, and either can be seen from here.
"""

from __future__ import annotations

import select
import time

from django.db.backends.postgresql import base

#: A connection whose server has answered within this many seconds, and said nothing since, is not asked again.
FRESH_SECONDS = 1.0


class DatabaseWrapper(base.DatabaseWrapper):
    """Asks the server whether a connection still stands after an error, after a while, and when it has news."""

    _answered_at = float("-inf")

    def is_usable(self) -> bool:
        """Whether the server still answers on this connection."""
        if not self.errors_occurred and self._is_fresh() and not self._has_news():
            return True
        usable: bool = super().is_usable()
        self._answered_at = time.monotonic() if usable else float("-inf")
        return usable

    def _is_fresh(self) -> bool:
        return time.monotonic() - self._answered_at < FRESH_SECONDS

    def _has_news(self) -> bool:
        """Whether something waits to be read although nothing was asked: a farewell, or the end of the connection."""
        connection = self.connection
        if connection is None or connection.closed:
            return True
        news = select.poll()
        news.register(connection.fileno(), select.POLLIN)
        return bool(news.poll(0))
