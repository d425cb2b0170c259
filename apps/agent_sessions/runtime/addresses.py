"""Which addresses a provider may have (B6, K19): public ones, and hosts that the operator allows."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable
from dataclasses import dataclass
from urllib.parse import urlsplit

IPAddress = ipaddress.IPv4Address | ipaddress.IPv6Address

#: Global by their number for some versions of Python, or the control plane of one cloud; never a provider.
_NO_PROVIDERS = (ipaddress.IPv4Network("192.0.0.0/24"), ipaddress.IPv4Network("168.63.129.16/32"))
#: All that is given out as global so far.
_GLOBAL_UNICAST = ipaddress.IPv6Network("2000::/3")
#: Prefixes whose last 32 bits are an IPv4 address that a gateway goes on to.
_GATEWAYS = (ipaddress.IPv6Network("64:ff9b::/96"), ipaddress.IPv6Network("::ffff:0:0:0/96"))
#: Addresses that stand for others in ways that only a gateway knows.
_OPAQUE = (
    ipaddress.IPv6Network("64:ff9b:1::/48"),
    ipaddress.IPv6Network("2001::/32"),
    ipaddress.IPv6Network("::/96"),
)
_ISATAP = (b"\x00\x00\x5e\xfe", b"\x02\x00\x5e\xfe")
_PORTS = {"http": 80, "https": 443}


class AddressRefused(Exception):
    """Nothing was sent: the message says what was refused and what an operator can do, and names no address."""


@dataclass(frozen=True, slots=True)
class Host:
    """A host as a URL names it, lower-case, and the port."""

    name: str
    port: int

    def is_allowed(self, allowed: Iterable[str]) -> bool:
        """Whether an operator named it, with or without its port."""
        shown = f"[{self.name}]" if ":" in self.name else self.name
        return bool({self.name, shown, f"{shown}:{self.port}"} & {one.lower() for one in allowed})


def read_base_url(url: str) -> Host:
    """The host of a provider's base URL.  Raises :class:`AddressRefused` for anything but plain http(s)."""
    import httpx2  # takes its time, and reads URLs as the clients will

    try:
        parts = urlsplit(url)
        port = parts.port
        httpx2.URL(url)
    except (ValueError, httpx2.InvalidURL):
        raise AddressRefused("The base URL cannot be read. Write it as https://host/path.") from None
    if parts.scheme not in _PORTS:
        raise AddressRefused("A base URL begins with https:// or http://.")
    if parts.username is not None or parts.password is not None:
        raise AddressRefused("A base URL holds no user and no password; a key is set up for the Project.")
    if parts.query or parts.fragment:
        raise AddressRefused("A base URL has no query and no fragment.")
    if not parts.hostname:
        raise AddressRefused("The base URL names no host.")
    return Host(parts.hostname.rstrip(".").lower(), port or _PORTS[parts.scheme])


def is_public(address: IPAddress) -> bool:
    """Whether it can only be reached over the internet, in whatever form the IPv4 address stands in it."""
    if isinstance(address, ipaddress.IPv4Address):
        special = address.is_multicast or any(address in network for network in _NO_PROVIDERS)
        return address.is_global and not special
    if address.ipv4_mapped is not None:
        return is_public(address.ipv4_mapped)
    if address.sixtofour is not None:
        return is_public(address.sixtofour)
    if any(address in network for network in _GATEWAYS):
        return is_public(ipaddress.IPv4Address(address.packed[-4:]))
    if any(address in network for network in _OPAQUE) or address.packed[8:12] in _ISATAP:
        return False
    return address.is_global and address in _GLOBAL_UNICAST


def require_reachable(host: Host, addresses: Iterable[str], *, allowed: Iterable[str]) -> list[str]:
    """The addresses, if each may be reached.  One that may not spoils them all: a name that points both ways is
    a name that somebody turns.  Raises :class:`AddressRefused`."""
    found = list(addresses)
    if host.is_allowed(allowed):
        return found
    if not all(is_public(ipaddress.ip_address(one.partition("%")[0])) for one in found):
        raise AddressRefused(
            f"The provider's host {host.name} has an address that is not public. An operator who means it names "
            "the host under `allow_hosts` in the file of LOOMSVC_MODELS."
        )
    return found
