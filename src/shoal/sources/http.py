"""Inputs over HTTP, on urllib3: read as a stream, or by ranges where the server serves them.

Redirects are followed here, one by one: urllib3 would not ask a source policy about each, and would go from https
to http. Under a policy the connection goes to the address that was checked and to no proxy, which would resolve the
host by itself.
"""

from __future__ import annotations

import gzip
import http.client
import re
import ssl
import time
import zlib
from base64 import b64encode
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from urllib.parse import SplitResult, unquote, urljoin, urlsplit
from urllib.request import getproxies, proxy_bypass

import urllib3
from urllib3.exceptions import HTTPError, IncompleteRead, NewConnectionError, ProtocolError, ProxyError
from urllib3.exceptions import TimeoutError as HTTPTimeout
from urllib3.response import BaseHTTPResponse

from shoal.errors import InvalidInput, NotFound, ShoalError, StorageFailure, Unsupported
from shoal.model.node import frozen
from shoal.sources.inputs import Forward, Input, Ranged, read_fully
from shoal.storage.locations import public_name
from shoal.version import VERSION

TIMEOUT = 30.0
"""Seconds that a server may be silent."""
_MAX_REDIRECTS = 5
_REDIRECTS = (301, 302, 303, 307, 308)
_SECRET_HEADERS = {"authorization", "cookie", "proxy-authorization"}
_BODY_HEADERS = {"content-type", "content-length", "content-encoding"}
_GONE = (404, 410)
_PORTS = {"http": 80, "https": 443}
_ENCODINGS = ("", "identity", "gzip", "x-gzip")
_CHUNK = 16 << 10

Headers = tuple[tuple[str, str], ...]
"""Names and values; a name may occur several times."""
Resolve = Callable[[str], str]
"""Returns the address to connect to for a URL; raises if the URL may not be read."""


@frozen
class Request:
    """An HTTP request."""

    url: str
    method: str = "GET"
    headers: Headers = ()
    body: bytes = b""

    def has(self, name: str) -> bool:
        """Whether a header is given."""
        return any(header.lower() == name for header, _ in self.headers)

    def without(self, names: set[str]) -> Headers:
        """The headers except these."""
        return tuple(header for header in self.headers if header[0].lower() not in names)


def open_url(url: str) -> Input:
    """Open the file behind an http or https URL."""
    return open_request(url, "GET", (), b"")


def open_request(url: str, method: str, headers: Headers, body: bytes, resolve: Resolve | None = None) -> Input:
    """Send a request and open the body of its response. With `resolve` it is asked for every host on the way."""
    with naming_errors(url):
        exchange = _follow(Request(url, method, headers, body), resolve)
    stream = _Body(exchange, url)
    try:
        return _as_input(exchange, stream)
    except BaseException:
        stream.close()
        raise


def fetch(url: str, seconds: float, largest: int) -> bytes:
    """Fetch a small resource by one GET, without redirects, proxies and retries."""
    deadline = time.monotonic() + seconds
    body = bytearray()
    with (
        naming_errors(url, seconds),
        urllib3.PoolManager(timeout=seconds, retries=False) as manager,
        closing(manager.urlopen("GET", url, redirect=False, preload_content=False)) as response,
    ):
        if response.status != 200:
            raise StorageFailure(f"{public_name(url)}: status {response.status}")
        for chunk in response.stream(_CHUNK):
            body += chunk
            if len(body) > largest or time.monotonic() > deadline:
                limits = f"{largest} bytes in {seconds:g} s"
                raise StorageFailure(f"{public_name(url)}: too large or too slow ({limits})")
    return bytes(body)


# ---- requests


@frozen
class _Exchange:
    """A request, its response, and the pool that further requests to this host go through."""

    request: Request
    response: BaseHTTPResponse
    pool: urllib3.HTTPConnectionPool

    def header(self, name: str) -> str:
        """A header of the response, empty if there is none."""
        return self.response.headers.get(name, "").strip()

    def close(self) -> None:
        """Close the connection."""
        self.response.close()
        self.pool.close()


def _follow(first: Request, resolve: Resolve | None) -> _Exchange:
    """Send a request and follow redirects; an error status raises."""
    request = first
    for _ in range(_MAX_REDIRECTS + 1):
        pool = _connect(request, resolve)
        exchange = _Exchange(request, _send(request, pool), pool)
        location = exchange.header("Location")
        if exchange.response.status not in _REDIRECTS or not location:
            return _require_success(exchange, first.url)
        exchange.close()
        request = _redirected(request, exchange.response.status, urljoin(request.url, location), first.url)
    raise StorageFailure(f"{public_name(first.url)}: more than {_MAX_REDIRECTS} redirects")


def _connect(request: Request, resolve: Resolve | None) -> urllib3.HTTPConnectionPool:
    """A pool of one connection: to the address that `resolve` gives, or else to the host or its proxy."""
    parts = urlsplit(request.url)
    if not parts.hostname:
        raise InvalidInput(f"{public_name(request.url)}: names no host")
    port = parts.port or _PORTS[parts.scheme]
    if resolve is not None:
        # The certificate still has to be for the host, and only the address is never resolved again.
        pinned = {"server_hostname": parts.hostname}
        manager = urllib3.PoolManager()
        return manager.connection_from_host(resolve(request.url), port, parts.scheme, pool_kwargs=pinned)
    proxy = environment_proxy(parts)
    if proxy is None:
        return urllib3.PoolManager().connection_from_host(parts.hostname, port, parts.scheme)
    credentials = _basic_auth("Proxy-Authorization", urlsplit(proxy))
    return urllib3.ProxyManager(proxy, proxy_headers=credentials).connection_from_host(
        parts.hostname, port, parts.scheme
    )


def environment_proxy(parts: SplitResult) -> str | None:
    """The URL of the proxy that the environment names for a URL."""
    proxy = getproxies().get(parts.scheme)
    if not proxy or proxy_bypass(_authority(parts)):
        return None
    return proxy if "://" in proxy else f"http://{proxy}"


def _send(request: Request, pool: urllib3.HTTPConnectionPool) -> BaseHTTPResponse:
    """Send a request once and read the head of the response."""
    parts = urlsplit(request.url)
    target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    is_forwarded = pool.proxy is not None and parts.scheme == "http"
    return pool.urlopen(
        request.method,
        f"http://{_authority(parts)}{target}" if is_forwarded else target,
        body=request.body or None,
        headers=_headers(request, parts),
        timeout=urllib3.Timeout(connect=TIMEOUT, read=TIMEOUT),
        retries=False,
        redirect=False,
        assert_same_host=False,
        preload_content=False,
        decode_content=False,
    )


def _headers(request: Request, parts: SplitResult) -> urllib3.HTTPHeaderDict:
    defaults = {
        "Host": _authority(parts),
        "User-Agent": f"shoal/{VERSION}",
        "Accept": "*/*",
        "Accept-Encoding": "gzip",
        **_basic_auth("Authorization", parts),
    }
    headers = urllib3.HTTPHeaderDict({name: value for name, value in defaults.items() if not request.has(name.lower())})
    for name, value in request.headers:
        headers.add(name, value)
    return headers


def _authority(parts: SplitResult) -> str:
    """Host and port as the URL has them."""
    return parts.netloc.rpartition("@")[2]


def _basic_auth(header: str, parts: SplitResult) -> dict[str, str]:
    """User and password of a URL as a header."""
    if parts.username is None:
        return {}
    pair = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
    return {header: f"Basic {b64encode(pair.encode()).decode()}"}


def _redirected(request: Request, status: int, url: str, first: str) -> Request:
    """The request that follows a redirect. Credentials are not sent to another host."""
    old, new = urlsplit(request.url), urlsplit(url)
    if new.scheme not in _PORTS:
        raise StorageFailure(
            f"{public_name(first)}: redirects to {public_name(url)}, which is not an http or https URL"
        )
    if (old.scheme, new.scheme) == ("https", "http"):
        raise StorageFailure(
            f"{public_name(first)}: redirects from https to {public_name(url)}, which is not encrypted"
        )
    following = replace(request, url=url)
    if (old.hostname, old.port) != (new.hostname, new.port):
        following = replace(following, headers=following.without(_SECRET_HEADERS))
    if (status == 303 and request.method != "HEAD") or (status in (301, 302) and request.method == "POST"):
        following = replace(following, method="GET", body=b"", headers=following.without(_BODY_HEADERS))
    return following


def _require_success(exchange: _Exchange, url: str) -> _Exchange:
    response = exchange.response
    if 200 <= response.status < 300:
        return exchange
    try:
        line = _first_line(response.read(1000))
    finally:
        exchange.close()
    reason = (response.reason or "error").lower()
    error = NotFound if response.status in _GONE else StorageFailure
    raise error(f"{public_name(url)}: {reason} ({response.status}){f': {line}' if line else ''}")


def _first_line(body: bytes) -> str:
    """The first line of a text; nothing of an HTML page."""
    text = body.decode(errors="replace").strip()
    return "" if text.startswith("<") else re.sub(r"[^ -~\u00a0-\uffff]", "?", text.partition("\n")[0].rstrip())[:200]


# ---- responses


def _as_input(exchange: _Exchange, body: _Body) -> Input:
    encoding = exchange.header("Content-Encoding").lower()
    if encoding not in _ENCODINGS:
        raise Unsupported(f"{public_name(body.url)}: content encoding {encoding!r} (only gzip is read)")
    if encoding in _ENCODINGS[2:]:
        return Forward(_Unzipped(body).read, body.close)
    if _serves_ranges(exchange) and body.size:
        ranges = _Ranges(exchange, body)
        return Ranged(ranges.fetch, body.size, ranges.close)
    return body


def _serves_ranges(exchange: _Exchange) -> bool:
    request = exchange.request
    return (
        exchange.response.status == 200
        and request.method == "GET"
        and not request.body
        and not request.has("range")
        and exchange.header("Accept-Ranges").lower() == "bytes"
    )


class _Body(Forward):
    """The body of a response as a stream."""

    def __init__(self, exchange: _Exchange, url: str) -> None:
        super().__init__(self._receive, exchange.close)
        self.url = url
        self.size: int | None = getattr(exchange.response, "length_remaining", None)
        """None if the server does not say."""
        self._response = exchange.response

    def _receive(self, size: int) -> bytes:
        with naming_errors(self.url):
            return self._response.read1(size)


class _Ranges:
    """Fetches ranges of a file: from the first response while they follow each other, else by new requests."""

    def __init__(self, exchange: _Exchange, body: _Body) -> None:
        self._first = exchange
        self._body: _Body | None = body
        self._url, self._size = body.url, body.size

    def fetch(self, start: int, size: int) -> bytes:
        """`size` bytes from `start` on."""
        if self._body is not None and self._body.tell() == start:
            return read_fully(self._body.read, size)
        if self._body is not None:
            self._first.response.close()
            self._body = None
        with naming_errors(self._url):
            return self._request(start, size)

    def _request(self, start: int, size: int) -> bytes:
        headers = self._first.request.without({"accept-encoding"})
        headers = (*headers, ("Range", f"bytes={start}-{start + size - 1}"), ("Accept-Encoding", "identity"))
        request = replace(self._first.request, headers=headers)
        try:
            response = _send(request, self._first.pool)
        except ProtocolError:  # servers close idle connections; that shows only in sending, and a GET is safe to repeat
            response = _send(request, self._first.pool)
        try:
            self._check(response, start, size)
            data = read_fully(response.read1, size)
        finally:
            response.close()  # a connection whose response was read to its end is back in the pool by now
        if len(data) != size:
            raise StorageFailure(f"{public_name(self._url)}: received {len(data)} bytes instead of {size}")
        return data

    def _check(self, response: BaseHTTPResponse, start: int, size: int) -> None:
        name = public_name(self._url)
        if response.status != 206:
            raise StorageFailure(f"{name}: the server does not serve ranges ({response.status})")
        content = re.fullmatch(r"bytes (\d+)-(\d+)/(\d+|\*)", response.headers.get("Content-Range", "").strip())
        if content is None or (int(content[1]), int(content[2])) != (start, start + size - 1):
            raise StorageFailure(f"{name}: the server sent another range than asked for")
        if content[3] not in ("*", str(self._size)) or response.headers.get("ETag", "") != self._first.header("ETag"):
            raise StorageFailure(f"{name}: changed while it was read")

    def close(self) -> None:
        """Close the connection."""
        self._first.close()


class _Unzipped:
    """A body with the content encoding gzip. urllib3 could decode it, but does not notice a missing end."""

    def __init__(self, body: _Body) -> None:
        self._name = public_name(body.url)
        self._file = gzip.GzipFile(fileobj=body)

    def read(self, size: int = -1, /) -> bytes:
        try:
            return self._file.read1(size) if size >= 0 else self._file.read()
        except (EOFError, zlib.error, gzip.BadGzipFile) as e:
            raise InvalidInput(f"{self._name}: bad gzip data ({e})") from None


# ---- errors


@contextmanager
def naming_errors(url: str, seconds: float | None = None) -> Iterator[None]:
    """Turn whatever goes wrong with a connection into one line that begins with the URL."""
    try:
        yield
    except ShoalError:
        raise
    except (HTTPError, http.client.HTTPException, OSError, ValueError) as e:
        raise _failure(public_name(url), _cause(e), TIMEOUT if seconds is None else seconds) from None


def _cause(error: Exception) -> Exception:
    """The error of the socket, of TLS or of the protocol that urllib3 wraps."""
    match error:
        case ProxyError():
            return _cause(error.original_error)
        case IncompleteRead():
            return error
        case HTTPTimeout() if not isinstance(error, NewConnectionError):
            return error
        case HTTPError():
            causes = (*error.args, error.__cause__)
            cause = next((cause for cause in causes if isinstance(cause, Exception)), None)
            return error if cause is None else _cause(cause)
        case _:
            return error


def _failure(name: str, cause: Exception, seconds: float) -> ShoalError:
    match cause:
        case IncompleteRead():
            return StorageFailure(f"{name}: ended after {cause.partial} of {cause.partial + cause.expected} bytes")
        case HTTPTimeout() | TimeoutError():
            return StorageFailure(f"{name}: timed out after {seconds:g} s")
        case ssl.SSLCertVerificationError():
            return StorageFailure(f"{name}: the certificate is not trusted: {cause.verify_message}")
        case OSError():
            return StorageFailure(f"{name}: {(cause.strerror or str(cause)).lower()}")
        case ValueError() | http.client.InvalidURL():
            return InvalidInput(f"{name}: {cause}")
        case _:
            return StorageFailure(f"{name}: not an HTTP answer ({type(cause).__name__})")
