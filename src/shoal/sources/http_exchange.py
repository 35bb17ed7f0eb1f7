"""One HTTP request and the answer to it: connections, proxies, redirects, and errors in our words.

`http.client` and not `urllib.request`: that one hands an Authorization header on to whatever host it
is redirected to, cannot send a header twice, and makes a new connection for each range of a file.
"""

from __future__ import annotations

import re
import socket
import ssl
from base64 import b64encode
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection, InvalidURL
from urllib.parse import SplitResult, quote, unquote, urljoin, urlsplit
from urllib.request import getproxies, proxy_bypass

from shoal.errors import InvalidInput, NotFound, ShoalError, StorageFailure
from shoal.storage.locations import public_name
from shoal.version import VERSION

TIMEOUT = 30.0
"""Seconds that a server may be silent."""
_MAX_REDIRECTS = 5
_MOVED, _SEE_OTHER, _SAME_AGAIN = (301, 302), (303,), (307, 308)
_SECRET = {"authorization", "cookie", "proxy-authorization"}
_OF_BODY = {"content-type", "content-length", "content-encoding"}
_GONE = (404, 410)


Reach = Callable[[str], str]
"""Gives the address at which the host of a URL is to be reached; raises if it is not to be reached at all."""


@dataclass(frozen=True, slots=True)
class Request:
    """What to ask for. A header may be given several times."""

    url: str
    method: str = "GET"
    headers: tuple[tuple[str, str], ...] = ()
    body: bytes = b""
    reach: Reach | None = None
    """Asked for each connection, that of a redirect as well; there is no proxy then. None looks the host up."""

    def has(self, name: str) -> bool:
        """Whether a header is given."""
        return any(n.lower() == name for n, _ in self.headers)

    def without(self, names: set[str]) -> tuple[tuple[str, str], ...]:
        """The headers but for these."""
        return tuple(h for h in self.headers if h[0].lower() not in names)

    def asking_for(self, name: str, value: str) -> Request:
        """The same with a header set."""
        return replace(self, headers=(*self.without({name.lower()}), (name, value)))


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer, the request that it answers in the end, and the connection it comes by."""

    request: Request
    connection: HTTPConnection
    response: HTTPResponse

    def header(self, name: str) -> str:
        """A header, empty if there is none."""
        return self.response.getheader(name, "").strip()

    def close(self) -> None:
        """Let go of both: an answer that ends with its connection is no longer known to that."""
        self.response.close()
        self.connection.close()


@contextmanager
def naming(url: str) -> Iterator[None]:
    """Whatever goes wrong with a connection becomes one line with the URL in front."""
    name = public_name(url)
    try:
        yield
    except ShoalError:
        raise
    except TimeoutError:
        raise StorageFailure(f"{name}: timed out after {TIMEOUT:g} s") from None
    except ssl.SSLCertVerificationError as e:
        raise StorageFailure(f"{name}: the certificate is not trusted: {e.verify_message}") from None
    except OSError as e:
        raise StorageFailure(f"{name}: {(e.strerror or str(e)).lower()}") from None
    except (ValueError, InvalidURL) as e:
        raise InvalidInput(f"{name}: {e}") from None
    except HTTPException as e:
        raise StorageFailure(f"{name}: not an HTTP answer ({type(e).__name__})") from None


def exchange(request: Request) -> Answer:
    """The answer, after redirects; an error status raises."""
    asked = request
    for _ in range(_MAX_REDIRECTS + 1):
        answer = send(asked, connect(asked))
        if not _is_redirect(answer):
            return _require_success(answer, request.url)
        answer.close()
        asked = _redirected(asked, answer.response.status, urljoin(asked.url, answer.header("Location")), request.url)
    raise StorageFailure(f"{public_name(request.url)}: more than {_MAX_REDIRECTS} redirects")


def connect(request: Request) -> HTTPConnection:
    """A connection to the host of a URL, or to the proxy that the environment names."""
    parts = urlsplit(request.url)
    if not parts.hostname:
        raise InvalidInput(f"{public_name(request.url)}: names no host")
    is_secret = parts.scheme == "https"
    port = parts.port or (443 if is_secret else 80)
    if request.reach is not None:
        return _connect_to(request.reach(request.url), parts.hostname, port, is_secret)
    proxy = _proxy(request)
    make = HTTPSConnection if is_secret else HTTPConnection
    if proxy is None:
        return make(parts.hostname, port, timeout=TIMEOUT)
    connection = make(proxy.hostname or "", proxy.port or 80, timeout=TIMEOUT)
    if is_secret:
        connection.set_tunnel(parts.hostname, port, _basic("Proxy-Authorization", proxy))
    return connection


def _connect_to(address: str, host: str, port: int, is_secret: bool) -> HTTPConnection:
    """A connection to an address, where the host is only the name that is asked for, and that a certificate is for."""
    made = socket.create_connection((address, port), TIMEOUT)
    try:
        connection = (HTTPSConnection if is_secret else HTTPConnection)(host, port, timeout=TIMEOUT)
        connection.sock = ssl.create_default_context().wrap_socket(made, server_hostname=host) if is_secret else made
        connection.auto_open = 0  # it would look the host up again
        return connection
    except BaseException:
        made.close()
        raise


def send(request: Request, connection: HTTPConnection) -> Answer:
    """Send a request by a connection and read the head of the answer. A failure closes the connection."""
    try:
        _put(request, connection)
        return Answer(request, connection, connection.getresponse())
    except BaseException:
        connection.close()
        raise


def _put(request: Request, connection: HTTPConnection) -> None:
    parts = urlsplit(request.url)
    headers = {
        "Host": parts.netloc.rpartition("@")[2],
        "User-Agent": f"shoal/{VERSION}",
        "Accept": "*/*",
        "Accept-Encoding": "gzip",
        **_basic("Authorization", parts),
    }
    if request.body or request.method in ("POST", "PUT", "PATCH"):
        headers["Content-Length"] = str(len(request.body))
    if parts.scheme == "http" and (proxy := _proxy(request)):
        headers |= _basic("Proxy-Authorization", proxy)
    connection.putrequest(request.method, _target(request, parts), skip_host=True, skip_accept_encoding=True)
    for name, value in (*((n, v) for n, v in headers.items() if not request.has(n.lower())), *request.headers):
        connection.putheader(name, value)
    connection.endheaders(request.body or None)


def _target(request: Request, parts: SplitResult) -> str:
    path = quote(parts.path or "/", safe="/%:=&~+!$,;'@()*") + (f"?{_quote_query(parts.query)}" if parts.query else "")
    is_by_proxy = parts.scheme == "http" and _proxy(request) is not None
    return f"http://{parts.netloc.rpartition('@')[2]}{path}" if is_by_proxy else path


def _quote_query(query: str) -> str:
    return quote(query, safe="/%:=&~+!$,;'@()*?[]")


def _proxy(request: Request) -> SplitResult | None:
    parts = urlsplit(request.url)
    address = None if request.reach is not None else getproxies().get(parts.scheme)
    if not address or proxy_bypass(parts.netloc.rpartition("@")[2]):
        return None
    return urlsplit(address if "://" in address else f"http://{address}")


def _basic(header: str, parts: SplitResult) -> dict[str, str]:
    """Name and password of a URL as a header."""
    if parts.username is None:
        return {}
    pair = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
    return {header: f"Basic {b64encode(pair.encode()).decode()}"}


# ---- redirects and error statuses


def _is_redirect(answer: Answer) -> bool:
    return answer.response.status in (*_MOVED, *_SEE_OTHER, *_SAME_AGAIN) and bool(answer.header("Location"))


def _redirected(asked: Request, status: int, url: str, first: str) -> Request:
    """The next request. Another host is not told what was meant for the first."""
    old, new = urlsplit(asked.url), urlsplit(url)
    if new.scheme not in ("http", "https"):
        raise StorageFailure(
            f"{public_name(first)}: redirects to {public_name(url)}, which is not an http or https URL"
        )
    if (old.scheme, new.scheme) == ("https", "http"):
        raise StorageFailure(
            f"{public_name(first)}: redirects from https to {public_name(url)}, which is not encrypted"
        )
    following = replace(asked, url=url)
    if (old.hostname, old.port) != (new.hostname, new.port):
        following = replace(following, headers=following.without(_SECRET))
    if (status in _SEE_OTHER and asked.method != "HEAD") or (status in _MOVED and asked.method == "POST"):
        following = replace(following, method="GET", body=b"", headers=following.without(_OF_BODY))
    return following


def _require_success(answer: Answer, url: str) -> Answer:
    response = answer.response
    if 200 <= response.status < 300:
        return answer
    try:
        line = _first_line(response)
    finally:
        answer.close()
    reason = (response.reason or "error").lower()
    error = NotFound if response.status in _GONE else StorageFailure
    raise error(f"{public_name(url)}: {reason} ({response.status}){f': {line}' if line else ''}")


def _first_line(response: HTTPResponse) -> str:
    """The first line of a text, of a page nothing."""
    text = response.read(1000).decode(errors="replace").strip()
    return "" if text.startswith("<") else re.sub(r"[^ -~\u00a0-\uffff]", "?", text.partition("\n")[0].rstrip())[:200]
