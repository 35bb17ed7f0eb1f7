"""What a query that comes from elsewhere may read beside pools: nothing, unless whoever runs the service lists it.

    schemes       of "file", "http", "https" and "s3"
    hosts         by name, as `data.example.com`, `*.example.com` or `*`, and with another port as `host:8080`
    buckets       of s3
    directories   files in them, or below; links that lead out of them lead nowhere
    networks      addresses that may be reached although they are not public

A host is reached at the very address that was checked, so that its name cannot stand for another one a moment later,
and not by a proxy, which would look it up itself. Each redirect is checked like the first URL.
"""

from __future__ import annotations

import os
import stat
import time
from dataclasses import dataclass
from importlib import import_module
from typing import Any
from urllib.parse import SplitResult, urlsplit

from shoal.errors import Forbidden, NotFound, StorageFailure, TooLarge
from shoal.sources.addresses import Network, is_public, resolve
from shoal.sources.inputs import STDIN, Input
from shoal.sources.remote import open_url
from shoal.storage.locations import public_name

_PORTS = {"http": 80, "https": 443}
_DEFAULT_LARGEST = 1 << 30
_DEFAULT_SECONDS = 300.0


@dataclass(frozen=True, slots=True)
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
        """A file or the object behind a URL, and its name."""
        if _scheme(path) in _PORTS:
            return self.request(path, "GET", (), b"")
        self.require(path)
        opened = open_url(path) if _scheme(path) == "s3" else self._open_file(path)
        return public_name(path), _Limited(public_name(path), opened, self)

    def request(self, url: str, method: str, headers: tuple[tuple[str, str], ...], body: bytes) -> tuple[str, Input]:
        """The answer to a request, and its name."""
        self.require(url)
        http: Any = import_module("shoal.sources.http")
        name = public_name(url)
        return name, _Limited(name, http.open_request(url, method, headers, body, self.address_of), self)

    def address_of(self, url: str) -> str:
        """The address at which a URL is reached."""
        self.require(url)
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port or _PORTS[parts.scheme]
        found = resolve(host, port)
        # One that is not public among others is reason enough: whoever answers for the name may choose.
        if not all(is_public(address, self.networks) for address in found):
            raise Forbidden(f"{public_name(url)}: the address of {host} is not public ({_REMEDY})")
        return str(found[0])

    # ---- what is allowed

    def require(self, path: str) -> None:
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
                is_allowed = self._place_of(path) is not None
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

    def _place_of(self, path: str) -> tuple[str, list[str]] | None:
        """The directory that a file is in, and the names from there to it, links followed; None if it is in none."""
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
        """A file by the names that lead to it, of which none may have become a link since it was looked at."""
        place = self._place_of(path)
        if place is None:
            raise Forbidden(f"{path}: this service does not read from there ({_REMEDY})")
        root, names = place
        at = os.open(root, os.O_RDONLY | os.O_DIRECTORY)
        try:
            for name in names:
                following = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=at)
                os.close(at)
                at = following
            if not stat.S_ISREG(os.fstat(at).st_mode):
                raise Forbidden(f"{path}: is no plain file")
            return os.fdopen(at, "rb")
        except BaseException as e:
            os.close(at)
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
        raise Forbidden(f"{public_name(url)}: is no URL that could be checked") from None
    return parts


class _Limited:
    """An open source of which only so much is read, and for so long."""

    def __init__(self, name: str, inner: Input, policy: SourcePolicy) -> None:
        self._name, self._inner = name, inner
        self._left, self._largest = policy.largest, policy.largest
        self._seconds, self._until = policy.seconds, time.monotonic() + policy.seconds
        self.seekable, self.seek, self.tell, self.close = inner.seekable, inner.seek, inner.tell, inner.close

    def read(self, size: int = -1, /) -> bytes:
        """As for files; without a size piece by piece, so that it does not grow beyond the limit."""
        if size < 0:
            return b"".join(iter(lambda: self.read(_PIECE), b""))
        if time.monotonic() > self._until:
            raise TooLarge(f"{self._name}: takes longer than {self._seconds:g}s, the most for a source of a query")
        data = self._inner.read(size)
        self._left -= len(data)
        if self._left < 0:
            raise TooLarge(f"{self._name}: larger than {self._largest} bytes, the most for a source of a query")
        return data


_PIECE = 1 << 20
