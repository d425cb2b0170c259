"""The one way out to a provider: it connects to the very address that was checked (B6, K19).

The host is resolved here, once for each request, and the connection is opened to the checked address; TLS and the
``Host`` header keep the name.  Redirects are not followed, proxies of the environment are not used, and a response
is read to a bound, and not at all when it is compressed.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Iterable
from typing import Protocol

import httpx2

from apps.agent_sessions.runtime.addresses import AddressRefused, Host, require_reachable

#: The largest response that is read, in bytes.
MAX_RESPONSE_BYTES = 16 * 1024 * 1024
CONNECT_SECONDS = 10.0


class RedirectRefused(Exception):
    """The provider sent its caller elsewhere; a key does not travel along."""


class ResponseCompressed(Exception):
    """A few bytes may become any number; none were asked for in that form, and none are read."""


class ResponseTooLarge(Exception):
    """More came than :data:`MAX_RESPONSE_BYTES`."""


class Resolver(Protocol):
    """The addresses of a host, as texts."""

    async def __call__(self, name: str, port: int) -> list[str]: ...


async def resolve(name: str, port: int) -> list[str]:
    """What the system says.  It reads ``0x7f000001`` and the like as it would on connecting.  Raises ``OSError``."""
    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(name, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(entry[4][0]) for entry in found))


class GuardedTransport(httpx2.AsyncBaseTransport):
    """Sends requests to addresses that passed, and to none besides."""

    def __init__(self, *, allowed_hosts: Iterable[str] = (), resolver: Resolver = resolve) -> None:
        self._allowed = frozenset(allowed_hosts)
        self._resolve = resolver
        self._inner = httpx2.AsyncHTTPTransport(trust_env=False, retries=0)

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        if request.url.scheme not in ("http", "https"):
            raise AddressRefused("A provider is reached over https:// or http://.")
        port = request.url.port or _port_of(request.url.scheme)
        # As it goes over the wire: resolvers and TLS would make other ASCII of some names, and so reach other hosts.
        host = Host(request.url.raw_host.decode("ascii").rstrip(".").lower(), port)
        shown = Host(request.url.host.rstrip(".").lower(), port)
        allowed = self._allowed | {host.name} if shown.is_allowed(self._allowed) else self._allowed
        try:
            found = await self._resolve(host.name, host.port)
        except (OSError, UnicodeError):
            raise httpx2.ConnectError("the host has no address", request=request) from None
        addresses = require_reachable(host, found, allowed=allowed)
        response = await self._send(request, host, addresses)
        if response.is_redirect:
            await response.aclose()
            raise RedirectRefused
        if response.headers.get("Content-Encoding", "identity").strip().lower() not in ("", "identity"):
            await response.aclose()
            raise ResponseCompressed
        response.stream = _Bounded(response.stream)
        return response

    async def _send(self, request: httpx2.Request, host: Host, addresses: list[str]) -> httpx2.Response:
        """Over the first address that a connection comes about with; nothing has been sent before that."""
        for last, address in ((address is addresses[-1], address) for address in addresses):
            pinned = httpx2.Request(
                request.method,
                request.url.copy_with(host=address),
                headers=request.headers,
                stream=request.stream,
                extensions={**request.extensions, "sni_hostname": host.name},
            )
            try:
                return await self._inner.handle_async_request(pinned)
            except (httpx2.ConnectError, httpx2.ConnectTimeout):
                if last:
                    raise
        raise httpx2.ConnectError("the host has no address", request=request)

    async def aclose(self) -> None:
        await self._inner.aclose()


def _port_of(scheme: str) -> int:
    return 443 if scheme == "https" else 80


class _Bounded(httpx2.AsyncByteStream):
    def __init__(self, stream: httpx2.SyncByteStream | httpx2.AsyncByteStream) -> None:
        assert isinstance(stream, httpx2.AsyncByteStream)
        self._stream = stream

    async def __aiter__(self) -> AsyncIterator[bytes]:
        room = MAX_RESPONSE_BYTES
        async for chunk in self._stream:
            room -= len(chunk)
            if room < 0:
                raise ResponseTooLarge
            yield chunk

    async def aclose(self) -> None:
        await self._stream.aclose()


def guarded_client(*, allowed_hosts: Iterable[str], seconds: float) -> httpx2.AsyncClient:
    """A client of :class:`GuardedTransport`; whoever makes it closes it.  ``seconds`` bounds each wait."""
    return httpx2.AsyncClient(
        transport=GuardedTransport(allowed_hosts=allowed_hosts),
        timeout=httpx2.Timeout(seconds, connect=min(seconds, CONNECT_SECONDS)),
        # A compressed response may be much larger than what came over the wire.
        headers={"Accept-Encoding": "identity"},
        follow_redirects=False,
        trust_env=False,
    )
