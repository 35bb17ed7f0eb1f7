"""Requests to one service: connections that are kept, encryption, tokens, and errors in our words. No retries here.

A service may work for long before it answers, so silence is not an error while it is alive. TCP probes detect a
service that is gone.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

import urllib3
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.connectionpool import HTTPConnectionPool, HTTPSConnectionPool
from urllib3.exceptions import (
    ConnectTimeoutError,
    HTTPError,
    NameResolutionError,
    NewConnectionError,
    ProxyError,
    SSLError,
)
from urllib3.response import BaseHTTPResponse

from shoal.client.failures import HEADER, error_of
from shoal.errors import InvalidInput, ShoalError, StorageFailure
from shoal.formats.streams import read_exactly
from shoal.model.node import frozen
from shoal.version import VERSION

CA_VARIABLE = "SHOAL_CA_FILE"
_CONNECT_SECONDS = 10.0
_AT_ONCE = 32
"""Connections that are kept for the next request."""
_LARGEST_ERROR = 1 << 20
_LATER = (429, 503)
"""The statuses with which a service may say when to ask again."""
_LOOPBACK = ("localhost", "127.0.0.1", "::1")
_PROBES = (("SO_KEEPALIVE", 1), ("TCP_KEEPIDLE", 30), ("TCP_KEEPINTVL", 15), ("TCP_KEEPCNT", 4))


@frozen
class Access:
    """A service and what it takes to be let in; a handle that is pickled takes it along."""

    url: str
    token: str | None = field(default=None, repr=False)


@frozen
class Request:
    """What to ask for."""

    method: str
    target: str
    """The path and what follows it."""
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes | Iterable[bytes] | None = None
    """A body that is not bytes is sent as it comes."""
    timeout: float | None = None
    """Seconds that the service may be silent."""


class Unreached(StorageFailure):
    """The service was not reached: the request did not get there."""


class Lost(StorageFailure):
    """The connection was lost: the request may have got there."""


class Transport:
    """Sends requests to a service. It can be used by several threads."""

    def __init__(self, access: Access) -> None:
        self.access = access
        self.has_answered = False
        """Whether the service has ever been reached."""
        self._manager = _make_manager(access.url)
        self._process = os.getpid()

    def send(self, request: Request) -> Answer:
        """The answer to a request, of which the body is yet to be read."""
        if self._process != os.getpid():  # connections of the process that this one was forked from are not ours
            self._process, self._manager = os.getpid(), _make_manager(self.access.url)
        try:
            response = self._manager.urlopen(
                request.method,
                self.access.url + request.target,
                body=request.body,
                headers=self._headers(request),
                timeout=urllib3.Timeout(connect=_CONNECT_SECONDS, read=request.timeout),
                retries=False,
                redirect=False,
                preload_content=False,
                decode_content=False,
            )
        except (HTTPError, OSError) as e:
            raise _failure(self.access.url, e) from None
        self.has_answered = True
        return Answer(self.access.url, response)

    def _headers(self, request: Request) -> dict[str, str]:
        token = self.access.token
        return {
            "User-Agent": f"shoal/{VERSION}",
            "Accept-Encoding": "identity",
            **({} if token is None else {"Authorization": f"Bearer {token}"}),
            **request.headers,
        }


class Answer:
    """An answer, as a source of the bytes of its body. Closing it early makes the service stop."""

    def __init__(self, url: str, response: BaseHTTPResponse) -> None:
        self.url = url
        self._response = response
        self._count = 0

    @property
    def is_error(self) -> bool:
        """Whether it is an error."""
        return not 200 <= self._response.status < 300

    @property
    def retry_after(self) -> float | None:
        """Seconds after which the service wants to be asked again; None if it does not say so."""
        seconds = self.header("Retry-After")
        return float(seconds) if self._response.status in _LATER and seconds.isascii() and seconds.isdigit() else None

    def header(self, name: str) -> str:
        """A header, empty if there is none."""
        return self._response.headers.get(name, "")

    def error(self) -> ShoalError:
        """The error in it."""
        with self:
            body = read_exactly(self, _LARGEST_ERROR)
        return error_of(self.url, self._response.status, self.header(HEADER), body)

    def read(self, size: int = -1, /) -> bytes:
        """Up to `size` bytes as soon as there are any; all the rest without a size."""
        try:
            data = self._response.read() if size < 0 else self._response.read1(size)
        except (HTTPError, OSError) as e:
            self.close()
            raise Lost(f"{self.url}: the connection was lost before the end of the answer: {_cause(e)}") from None
        self._count += len(data)
        return data

    def seekable(self) -> bool:
        """Never."""
        return False

    def seek(self, offset: int, whence: int = 0, /) -> int:
        """Not possible."""
        raise InvalidInput("an answer is read once, from start to end")

    def tell(self) -> int:
        """How much was read."""
        return self._count

    def interrupt(self) -> None:
        """Let a thread that waits for more of it find its end."""
        with suppress(ValueError, RuntimeError, OSError):  # it was read to its end, or closed
            self._response.shutdown()

    def close(self) -> None:
        """Let go of it; the connection is used again only if all of it was read."""
        self._response.close()
        # A response that was read to its end is closed already, and close() then leaves its connection to nobody.
        self._response.release_conn()

    def __del__(self) -> None:
        self.close()

    def __enter__(self) -> Answer:
        return self

    def __exit__(self, *failure: object) -> None:
        self.close()


# ---- connections


class _Plain(HTTPConnection):
    """A connection that may wait as long as the service takes to read what is sent."""

    def request(self, *args: Any, **kwargs: Any) -> None:
        _wait_for_ever(self)
        super().request(*args, **kwargs)


class _Encrypted(HTTPSConnection):
    """An encrypted connection that may wait as long."""

    def request(self, *args: Any, **kwargs: Any) -> None:
        _wait_for_ever(self)
        super().request(*args, **kwargs)


def _wait_for_ever(connection: HTTPConnection) -> None:
    """The time limit of connecting is not one of sending."""
    if connection.sock is None:
        connection.connect()
    connection.sock.settimeout(None)


class _PlainPool(HTTPConnectionPool):
    ConnectionCls = _Plain


class _EncryptedPool(HTTPSConnectionPool):
    ConnectionCls = _Encrypted


def _make_manager(url: str) -> urllib3.PoolManager:
    choices: dict[str, Any] = {"maxsize": _AT_ONCE, "socket_options": _socket_options(), **_trust()}
    proxy = _proxy(url)
    manager = urllib3.PoolManager(**choices) if proxy is None else urllib3.ProxyManager(proxy, **choices)
    manager.pool_classes_by_scheme = {"http": _PlainPool, "https": _EncryptedPool}
    return manager


def _socket_options() -> list[tuple[int, int, int]]:
    """Those of urllib3, and the probes as far as this system has them."""
    supported = [(name, value) for name, value in _PROBES if hasattr(socket, name)]
    levels = {"SO_": socket.SOL_SOCKET, "TCP": socket.IPPROTO_TCP}
    probes = [(levels[name[:3]], int(getattr(socket, name)), value) for name, value in supported]
    return [*HTTPConnection.default_socket_options, *probes]


def _trust() -> dict[str, str]:
    """Whose certificates are trusted: those of the system, or those in a file."""
    path = os.environ.get(CA_VARIABLE)
    if path and not Path(path).is_file():
        raise InvalidInput(f"{path}: no file with certificates (see {CA_VARIABLE})")
    return {"ca_certs": path} if path else {}


def _proxy(url: str) -> str | None:
    """The proxy that the environment names for a host that is not this one."""
    parts = urlsplit(url)
    host = parts.hostname or ""
    if host in _LOOPBACK or proxy_bypass(host):
        return None
    proxy = getproxies().get(parts.scheme)
    return proxy if not proxy or "://" in proxy else f"http://{proxy}"


# ---- what went wrong


def _failure(url: str, error: Exception) -> StorageFailure:
    match error:
        case ProxyError():
            return Unreached(f"{url}: the proxy is not to be reached: {_cause(error.original_error)}")
        case SSLError():
            return Unreached(f"{url}: no encrypted connection: {_cause(error)} (to trust a certificate: {CA_VARIABLE})")
        case NameResolutionError():
            return Unreached(f"{url}: no such host")
        case NewConnectionError():
            return Unreached(f"{url}: {_cause(error)} (is there a service? start one with: shoal serve)")
        case ConnectTimeoutError():
            return Unreached(f"{url}: no connection within {_CONNECT_SECONDS:g} s")
        case _:
            return Lost(f"{url}: the connection was lost before the answer came: {_cause(error)}")


def _cause(error: BaseException) -> str:
    """The innermost reason, in few words."""
    while True:
        inner = error.__cause__ or error.__context__ or next((a for a in error.args if isinstance(a, Exception)), None)
        if inner is None:
            break
        error = inner
    text = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return " ".join(text.split()).lower()
