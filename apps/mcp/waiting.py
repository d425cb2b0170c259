"""Waiting in the event loop for what clients say, at whichever process: no thread waits for a person."""

from __future__ import annotations

import asyncio
import logging
import uuid
from contextlib import suppress
from functools import partial

from apps.core import threads
from apps.mcp import waits
from apps.mcp.elicitation import Given
from apps.mcp.waits import Word

logger = logging.getLogger("loomsvc.mcp")

#: What came in at another process is seen this much later at most; what came in here is seen at once.
INTERVAL_SECONDS = 0.5


class Watch:
    """One look at the ledger for all waits of a process, for as long as there are any."""

    def __init__(self) -> None:
        self._waiting: dict[uuid.UUID, asyncio.Future[Given | Word]] = {}
        self._looking: asyncio.Task[None] | None = None
        self._bell: asyncio.Event | None = None

    def ring(self) -> None:
        """Look now: something was said here."""
        if self._bell is not None:
            self._bell.set()

    async def word(self, key: uuid.UUID, *, within: float) -> Given | Word | None:
        """What is said to the wait ``key``; ``None`` when nothing is for ``within`` seconds."""
        told: asyncio.Future[Given | Word] = asyncio.get_running_loop().create_future()
        self._waiting[key] = told
        if self._looking is None:
            self._bell = asyncio.Event()
            self._looking = asyncio.create_task(self._look(self._bell))
        try:
            async with asyncio.timeout(within):
                return await told
        except TimeoutError:
            return None
        finally:
            del self._waiting[key]

    async def _look(self, bell: asyncio.Event) -> None:
        try:
            while self._waiting:
                bell.clear()
                for key, word in (await self._words()).items():
                    told = self._waiting.get(key)
                    if told is not None and not told.done():
                        told.set_result(word)
                with suppress(TimeoutError):
                    async with asyncio.timeout(INTERVAL_SECONDS):
                        await bell.wait()
        finally:
            self._looking = self._bell = None

    async def _words(self) -> dict[uuid.UUID, Given | Word]:
        try:
            return await threads.run(partial(waits.words, list(self._waiting)))
        except Exception as error:
            logger.warning("waits could not be looked at (%s)", type(error).__name__)
            return {}
