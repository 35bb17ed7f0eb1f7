"""What a query to a service may read beside pools: nothing, unless the operator of the service allows it.

    schemes       of "file", "http", "https" and "s3"
    hosts         by name, as `data.example.com`, `*.example.com` or `*`, and with another port as `host:8080`
    buckets       of s3
    directories   files in them or below; links that lead out of them are refused
    networks      addresses that may be reached although they are not public

The connection goes to the address that was checked, so that a name cannot be rebound to another one in between, and
not through a proxy, which would resolve the name itself. Each redirect is checked like the first URL.
"""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Iterator, Sequence
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address
from typing import TYPE_CHECKING
from urllib.parse import SplitResult, urlsplit

from shoal.errors import Forbidden, NotFound, StorageFailure, TooLarge
from shoal.lazy import lazy
from shoal.model.node import frozen
from shoal.sources.inputs import STDIN, Input
from shoal.storage.locations import public_name, require_obstore

if TYPE_CHECKING:
    import socket

    from shoal.sources import http, s3
else:
    socket = lazy("socket")
    http = lazy("shoal.sources.http")
    s3 = lazy("shoal.sources.s3")

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network

_PORTS = {"http": 80, "https": 443}
_NAT64 = IPv6Network("64:ff9b::/96")
"""IPv4 addresses as hosts that only have IPv6 see them (RFC 6052)."""
_COMPATIBLE = IPv6Network("::/96")
_PIECE = 1 << 20
_DEFAULT_LARGEST = 1 << 30
_DEFAULT_SECONDS = 300.0


@frozen
class SourcePolicy:
    """What may be read. Sources are checked when a query is compiled, and again as they are opened."""

    schemes: frozenset[str] = frozenset()
    hosts: tuple[str, ...] = ()
    buckets: frozenset[str] = frozenset()
    directories: tuple[str, ...] = ()
    networks: tuple[Network, ...] = ()
    largest: int = _DEFAULT_LARGEST
    """Bytes that may be read from one source."""
    seconds: float = _DEFAULT_SECONDS
    """How long one source may be read."""

    def file(self, path: str) -> tuple[str, Input]:
        """Open a file or a URL; with its name."""
        if _scheme(path) in _PORTS:
            return self.request(path, "GET", (), b"")
        self.require(path)
        name = public_name(path)
        return name, _Limited(name, self._open_object(path) if _scheme(path) == "s3" else self._open_file(path), self)

    def request(self, url: str, method: str, headers: tuple[tuple[str, str], ...], body: bytes) -> tuple[str, Input]:
        """Send a request and open its response; with its name."""
        self.require(url)
        name = public_name(url)
        return name, _Limited(name, http.open_request(url, method, headers, body, self.address_of), self)

    def _open_object(self, url: str) -> Input:
        require_obstore(url)
        return s3.open_url(url)

    def address_of(self, url: str) -> str:
        """The address to connect to for a URL; Forbidden if one of the host's addresses is not public."""
        self.require(url)
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port or _PORTS[parts.scheme]
        addresses = resolve(host, port)
        # One address that is not public is reason enough: the owner of the name chooses which one answers.
        if not all(is_public(address, self.networks) for address in addresses):
            raise Forbidden(f"{public_name(url)}: the address of {host} is not public ({_REMEDY})")
        return str(addresses[0])

    # ---- what is allowed

    def require(self, path: str) -> None:
        """Raise Forbidden unless a path or URL may be read."""
        scheme = _scheme(path)
        if not self.schemes:
            raise Forbidden("a query to a service reads pools, no files and no URLs (load them into a pool)")
        if scheme not in self.schemes:
            raise Forbidden(f"{public_name(path)}: this service reads no {_NAMES.get(scheme, scheme)} ({_REMEDY})")
        match scheme:
            case "http" | "https":
                is_allowed = self._is_listed(_split(path))
            case "s3":
                is_allowed = path.removeprefix("s3://").partition("/")[0] in self.buckets
            case _:
                is_allowed = self._find(path) is not None
        if not is_allowed:
            raise Forbidden(f"{public_name(path)}: this service does not read from there ({_REMEDY})")

    def _is_listed(self, parts: SplitResult) -> bool:
        host = (parts.hostname or "").rstrip(".")
        usual = _PORTS[parts.scheme]
        for listed in self.hosts:
            name, colon, port = listed.lower().rpartition(":")
            if not colon:
                name, port = listed.lower(), str(usual)
            is_named = name in ("*", host) or (name.startswith("*.") and host.endswith(name[1:]))
            if is_named and port == str(parts.port or usual):
                return True
        return False

    def _find(self, path: str) -> tuple[str, list[str]] | None:
        """The allowed directory that a file is in, and the path from there, links followed; None if there is none."""
        if path == STDIN or "\0" in path:
            return None
        real = os.path.realpath(path)
        for directory in self.directories:
            root = os.path.realpath(directory)
            inside = os.path.relpath(real, root).split(os.sep)
            if inside[0] not in (os.curdir, os.pardir):
                return root, inside
        return None

    def _open_file(self, path: str) -> Input:
        """Open a file directory by directory: none of them may have become a link since it was checked."""
        location = self._find(path)
        if location is None:
            raise Forbidden(f"{path}: this service does not read from there ({_REMEDY})")
        root, names = location
        descriptor = os.open(root, os.O_RDONLY | os.O_DIRECTORY)
        try:
            for name in names:
                child = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=descriptor)
                os.close(descriptor)
                descriptor = child
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise Forbidden(f"{path}: not a regular file")
            return os.fdopen(descriptor, "rb")
        except BaseException as e:
            os.close(descriptor)
            if isinstance(e, FileNotFoundError):
                raise NotFound(f"{path}: file does not exist") from None
            if isinstance(e, OSError):
                raise StorageFailure(f"{path}: {(e.strerror or str(e)).lower()}") from None
            raise


NO_SOURCES = SourcePolicy()
"""Pools alone."""
_REMEDY = "load the data into a pool instead"
_NAMES = {"file": "files", "http": "URLs", "https": "URLs", "s3": "buckets"}


def _scheme(path: str) -> str:
    scheme, mark, _ = path.partition("://")
    return scheme.lower() if mark and scheme.isalnum() else "file"


def _split(url: str) -> SplitResult:
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError:
        raise Forbidden(f"{public_name(url)}: not a valid URL") from None
    return parts


class _Limited:
    """An open source with a limit on bytes and on time."""

    def __init__(self, name: str, inner: Input, policy: SourcePolicy) -> None:
        self._name, self._inner = name, inner
        self._left, self._largest = policy.largest, policy.largest
        self._seconds, self._until = policy.seconds, time.monotonic() + policy.seconds
        self.seekable, self.seek, self.tell, self.close = inner.seekable, inner.seek, inner.tell, inner.close

    def read(self, size: int = -1, /) -> bytes:
        """As for files; without a size it reads piece by piece, so that the limit holds."""
        if size < 0:
            return b"".join(iter(lambda: self.read(_PIECE), b""))
        if time.monotonic() > self._until:
            raise TooLarge(f"{self._name}: takes longer than {self._seconds:g}s, the most for a source of a query")
        data = self._inner.read(size)
        self._left -= len(data)
        if self._left < 0:
            raise TooLarge(f"{self._name}: larger than {self._largest} bytes, the most for a source of a query")
        return data


# ---- addresses


def resolve(host: str, port: int) -> list[Address]:
    """All addresses of a host, given as a name or as an address in any notation."""
    try:
        entries = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        raise StorageFailure(f"{host}: no such host") from None
    texts = dict.fromkeys(str(entry[4][0]).partition("%")[0] for entry in entries)
    return [ip_address(text) for text in texts]


def is_public(address: Address, allowed: Sequence[Network] = ()) -> bool:
    """Whether an address, and the one embedded in it, is public or in an allowed network."""
    return all(_is_global(each) or any(each in network for network in allowed) for each in _embedded(address))


def _embedded(address: Address) -> Iterator[Address]:
    """The IPv4 addresses that an IPv6 address carries, else the address itself."""
    if isinstance(address, IPv4Address):
        yield address
    elif address.ipv4_mapped is not None:
        yield address.ipv4_mapped
    elif address.teredo is not None:
        yield from address.teredo
    elif address.sixtofour is not None:
        yield address.sixtofour
    elif address in _NAT64 or (address in _COMPATIBLE and int(address) > 1):
        yield IPv4Address(int(address) & 0xFFFFFFFF)
    else:
        yield address


def _is_global(address: Address) -> bool:
    is_site_local = isinstance(address, IPv6Address) and address.is_site_local
    return address.is_global and not address.is_multicast and not is_site_local
