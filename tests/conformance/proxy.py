"""A loopback proxy that adds a credential: the suite has no option for one.

Nothing else changes, ``Host`` and ``Origin`` least of all: heads of requests gain one line, and all
other bytes, and the end of a connection on either side, pass as they are.
"""

from __future__ import annotations

import asyncio
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from queue import Queue

_LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)


@contextmanager
def proxying(port: int, token: str) -> Iterator[int]:
    """Run the proxy before the service at ``port``; its own port."""
    started: Queue[tuple[int, asyncio.AbstractEventLoop, asyncio.Event]] = Queue()

    async def serve() -> None:
        server = await asyncio.start_server(lambda r, w: _connection(r, w, port, token), "127.0.0.1", 0)
        stop = asyncio.Event()
        started.put((server.sockets[0].getsockname()[1], asyncio.get_running_loop(), stop))
        await stop.wait()

    thread = threading.Thread(target=lambda: asyncio.run(serve()), daemon=True)
    thread.start()
    own, loop, stop = started.get(timeout=10)
    try:
        yield own
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join(10)


async def _connection(client: asyncio.StreamReader, answers: asyncio.StreamWriter, port: int, token: str) -> None:
    service, requests = await asyncio.open_connection("127.0.0.1", port)
    ways = {
        asyncio.ensure_future(_requests(client, requests, token)),
        asyncio.ensure_future(_answers(service, answers)),
    }
    try:
        # Either side that goes takes the other with it: a client's departure is part of what is tested.
        await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for way in ways:
            way.cancel()
        requests.close()
        answers.close()


async def _requests(source: asyncio.StreamReader, target: asyncio.StreamWriter, token: str) -> None:
    credential = f"\r\nAuthorization: Bearer {token}".encode()
    with suppress(asyncio.IncompleteReadError, ConnectionError):
        while True:
            head = await source.readuntil(b"\r\n\r\n")
            length = _LENGTH.search(head)
            body = await source.readexactly(int(length[1])) if length else b""
            target.write(head[:-4] + credential + head[-4:] + body)
            await target.drain()


async def _answers(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
    with suppress(ConnectionError):
        while part := await source.read(65536):
            target.write(part)
            await target.drain()
