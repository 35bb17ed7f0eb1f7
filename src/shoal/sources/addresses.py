"""Addresses that are of the public internet, and not of this machine or of the networks that it is in."""

from __future__ import annotations

import socket
from collections.abc import Iterator, Sequence
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address

from shoal.errors import StorageFailure

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network
_TRANSLATED = IPv6Network("64:ff9b::/96")
"""Addresses of IPv4 for hosts that have IPv6 alone (RFC 6052)."""
_COMPATIBLE = IPv6Network("::/96")


def resolve(host: str, port: int) -> list[Address]:
    """All addresses of a host, however it is written: a name, or an address in any notation."""
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        raise StorageFailure(f"{host}: no such host") from None
    texts = dict.fromkeys(str(place[4][0]).partition("%")[0] for place in found)
    return [ip_address(text) for text in texts]


def is_public(address: Address, but_also: Sequence[Network] = ()) -> bool:
    """Whether an address, and whatever it stands for, is public or in one of some networks."""
    return all(_is_global(each) or any(each in network for network in but_also) for each in _meant(address))


def _meant(address: Address) -> Iterator[Address]:
    """The address, or the ones inside of it: several kinds of IPv6 addresses carry one of IPv4."""
    if isinstance(address, IPv4Address):
        yield address
    elif address.ipv4_mapped is not None:
        yield address.ipv4_mapped
    elif address.teredo is not None:
        yield from address.teredo
    elif address.sixtofour is not None:
        yield address.sixtofour
    elif address in _TRANSLATED or (address in _COMPATIBLE and int(address) > 1):
        yield IPv4Address(int(address) & 0xFFFFFFFF)
    else:
        yield address


def _is_global(address: Address) -> bool:
    is_site_local = isinstance(address, IPv6Address) and address.is_site_local
    return address.is_global and not address.is_multicast and not is_site_local
