"""An S3 server for tests that fails on command, in every way in which a request can go wrong.

Faults are scripted per kind of call and used up one by one. It speaks enough of Google's XML interface, too:
that is S3 with another header for creates. It looks at no signature.
"""

from __future__ import annotations

import hashlib
import re
import socket
import struct
import threading
from collections import defaultdict, deque
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from enum import Enum
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from time import time
from types import TracebackType
from typing import Literal, NamedTuple, Self
from urllib.parse import parse_qs, unquote, urlsplit
from wsgiref.handlers import format_date_time
from xml.sax.saxutils import escape

Call = Literal["CREATE", "PUT", "GET", "HEAD", "LIST", "DELETE"]
"""A CREATE is a PUT that asks for the name to be free; a GET of the bucket is a LIST."""
CALLS: tuple[Call, ...] = ("CREATE", "PUT", "GET", "HEAD", "LIST", "DELETE")


class ServerFault(Enum):
    """What goes wrong with one request. What lands is done before the answer goes wrong."""

    CONFLICT = "409"
    """Turned down although nobody holds the name."""
    PHANTOM = "412-phantom"
    """Turned down as if the name was taken."""
    UNAVAILABLE = "503"
    THROTTLED = "429"
    FORBIDDEN = "403"
    NO_BUCKET = "404-bucket"
    CLOSE = "close"
    """The connection ends before anything is done."""
    LAND_503 = "land+503"
    LAND_500 = "land+500"
    LAND_RESET = "land+reset"
    LAND_CLOSE = "land+close"
    LAND_HANG = "land+hang"
    """Done, and then silence until the server stops."""
    SLOW = "slow"
    """Done and answered, after `ScriptedS3.delay` seconds."""
    TRUNCATED = "truncated"
    """Half of the body comes, and then the connection ends."""
    STALLED = "stalled"
    """Half of the body comes, and then silence until the server stops."""
    LATE = "late"
    """The connection ends; it is done when the test says so (`land_late`)."""


class Asked(NamedTuple):
    """A request that came."""

    call: Call
    key: str
    fault: ServerFault | None


class _Answer(NamedTuple):
    status: int
    body: bytes = b""
    headers: tuple[tuple[str, str], ...] = ()


_REFUSALS = {
    ServerFault.CONFLICT: (409, "ConditionalRequestConflict"),
    ServerFault.PHANTOM: (412, "PreconditionFailed"),
    ServerFault.UNAVAILABLE: (503, "SlowDown"),
    ServerFault.THROTTLED: (429, "TooManyRequests"),
    ServerFault.FORBIDDEN: (403, "AccessDenied"),
    ServerFault.NO_BUCKET: (404, "NoSuchBucket"),
    ServerFault.LAND_503: (503, "ServiceUnavailable"),
    ServerFault.LAND_500: (500, "InternalError"),
}
_NOT_DONE = {
    ServerFault.CONFLICT,
    ServerFault.PHANTOM,
    ServerFault.UNAVAILABLE,
    ServerFault.THROTTLED,
    ServerFault.FORBIDDEN,
    ServerFault.NO_BUCKET,
    ServerFault.CLOSE,
    ServerFault.LATE,
}


class ScriptedS3:
    """A server with one bucket, on a port of its own as long as the context lasts."""

    def __init__(self, bucket: str = "bucket", page: int = 1000) -> None:
        self.bucket = bucket
        self.page = page
        """How many objects a listing gives at a time."""
        self.delay = 0.3
        self.ignores_conditions = False
        """Whether a PUT that asks for the name to be free is taken for any other, as some stores do."""
        self.objects: dict[str, bytes] = {}
        self.log: list[Asked] = []
        self.endpoint = ""
        self.released = threading.Event()
        """Set when the server stops: what hangs goes on."""
        self._modified: dict[str, float] = {}
        self._faults: defaultdict[Call, deque[ServerFault]] = defaultdict(deque)
        self._late: list[Callable[[], object]] = []
        self._lock = threading.Lock()

    def __enter__(self) -> Self:
        self._server = _Server(("127.0.0.1", 0), type("Bound", (_Handler,), {"s3": self}))
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01})
        self.endpoint = f"http://127.0.0.1:{self._server.server_address[1]}"
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.released.set()
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def script(self, call: Call, faults: Iterable[ServerFault]) -> None:
        """The next calls of a kind go wrong like this, one after the other, instead of what was scripted."""
        with self._lock:
            self._faults[call] = deque(faults)

    def land_late(self) -> None:
        """Let what is late happen, in the order in which it came."""
        late, self._late = self._late, []
        for act in late:
            act()

    def serve(self, call: Call, key: str, act: Callable[[], _Answer]) -> tuple[ServerFault | None, _Answer]:
        """Do what was asked, or not, by the script."""
        with self._lock:
            faults = self._faults[call]
            fault = faults.popleft() if faults else None
            self.log.append(Asked(call, key, fault))
            if fault is ServerFault.LATE:
                self._late.append(act)
        answer = _Answer(500) if fault in _NOT_DONE else act()
        if fault in _REFUSALS:
            status, code = _REFUSALS[fault]
            answer = _error(status, code)
        return fault, answer

    # ---- what can be asked

    def put(self, key: str, data: bytes, is_create: bool) -> _Answer:
        """Write an object; a create fails if the name is taken."""
        with self._lock:
            if is_create and key in self.objects and not self.ignores_conditions:
                return _error(412, "PreconditionFailed")
            self.objects[key] = data
            self._modified[key] = time()
        return _Answer(200, b"", (("ETag", _tag(data)), ("x-goog-generation", "1")))

    def get(self, key: str, byte_range: str = "", tag: str = "") -> _Answer:
        """An object, or the range of it that a header names; another than the one of the tag is refused."""
        with self._lock:
            data, at = self.objects.get(key), self._modified.get(key, time())
        if data is None:
            return _error(404, "NoSuchKey")
        if tag not in ("", _tag(data)):
            return _error(412, "PreconditionFailed")
        headers = (("ETag", _tag(data)), ("Last-Modified", format_date_time(at)), ("Accept-Ranges", "bytes"))
        match = re.fullmatch(r"bytes=(\d+)-(\d*)", byte_range)
        if match is None:
            return _Answer(200, data, headers)
        first, last = int(match[1]), min(int(match[2] or len(data)), len(data) - 1)
        if first >= len(data):
            return _error(416, "InvalidRange")
        content_range = ("Content-Range", f"bytes {first}-{last}/{len(data)}")
        return _Answer(206, data[first : last + 1], (*headers, content_range))

    def list(self, prefix: str, after: str) -> _Answer:
        """A page of the names that begin with a prefix; the token for the next page is the last name of this one."""
        with self._lock:
            rest = sorted((k, len(v)) for k, v in self.objects.items() if k.startswith(prefix) and k > after)
            at = {key: self._modified.get(key, time()) for key, _ in rest}
        page, is_cut = rest[: self.page], len(rest) > self.page
        items = "".join(
            f"<Contents><Key>{escape(key)}</Key><Size>{size}</Size><ETag>&quot;x&quot;</ETag>"
            f"<LastModified>{_iso(at[key])}</LastModified></Contents>"
            for key, size in page
        )
        more = f"<NextContinuationToken>{escape(page[-1][0])}</NextContinuationToken>" if is_cut else ""
        body = (
            f"<?xml version='1.0' encoding='UTF-8'?><ListBucketResult><Name>{self.bucket}</Name>"
            f"<KeyCount>{len(page)}</KeyCount><IsTruncated>{str(is_cut).lower()}</IsTruncated>{more}{items}"
            "</ListBucketResult>"
        )
        return _Answer(200, body.encode(), (("Content-Type", "application/xml"),))

    def delete(self, key: str) -> _Answer:
        """Remove an object, if there is one."""
        with self._lock:
            self.objects.pop(key, None)
        return _Answer(204)


def _error(status: int, code: str) -> _Answer:
    return _Answer(status, f"<Error><Code>{code}</Code><Message>secret</Message></Error>".encode())


def _tag(data: bytes) -> str:
    return f'"{hashlib.sha256(data).hexdigest()[:32]}"'


def _iso(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 64

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that leaves early is what some tests are about."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = -1  # one packet for head and body: two of them wait for each other
    s3: ScriptedS3

    def do_PUT(self) -> None:
        """A put or a create."""
        data = self.rfile.read(int(self.headers.get("Content-Length", "0")))
        is_create = self.headers.get("If-None-Match") == "*" or self.headers.get("x-goog-if-generation-match") == "0"
        key = self._key()
        self._serve("CREATE" if is_create else "PUT", key, lambda: self.s3.put(key, data, is_create))

    def do_GET(self) -> None:
        """A get, or a listing if it is of the bucket."""
        key, byte_range, tag = self._key(), self.headers.get("Range", ""), self.headers.get("If-Match", "")
        query = parse_qs(urlsplit(self.path).query)
        if key:
            return self._serve("GET", key, lambda: self.s3.get(key, byte_range, tag))
        prefix, start, token = (query.get(name, [""])[0] for name in ("prefix", "start-after", "continuation-token"))
        return self._serve("LIST", prefix, lambda: self.s3.list(prefix, max(start, token)))

    def do_HEAD(self) -> None:
        """A get without its body."""
        key = self._key()
        self._serve("HEAD", key, lambda: self.s3.get(key))

    def do_DELETE(self) -> None:
        """A delete."""
        key = self._key()
        self._serve("DELETE", key, lambda: self.s3.delete(key))

    def _key(self) -> str:
        bucket, _, key = unquote(urlsplit(self.path).path).removeprefix("/").partition("/")
        return key if bucket == self.s3.bucket else f"another bucket: {bucket}"

    def _serve(self, call: Call, key: str, act: Callable[[], _Answer]) -> None:
        fault, answer = self.s3.serve(call, key, act)
        match fault:
            case ServerFault.CLOSE | ServerFault.LATE | ServerFault.LAND_CLOSE:
                self._end()
            case ServerFault.LAND_RESET:
                # closing with no time to linger sends a reset instead of an end
                self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                self.connection.close()
                self.close_connection = True
            case ServerFault.LAND_HANG:
                self.s3.released.wait(60)
                self.close_connection = True
            case ServerFault.TRUNCATED:
                self._send(answer, answer.body[: len(answer.body) // 2])
                self._end()
            case ServerFault.STALLED:
                self._send(answer, answer.body[: len(answer.body) // 2])
                self.s3.released.wait(60)
                self.close_connection = True
            case ServerFault.SLOW:
                self.s3.released.wait(self.s3.delay)
                self._send(answer, answer.body)
            case _:
                self._send(answer, answer.body)

    def _send(self, answer: _Answer, body: bytes) -> None:
        self.send_response(answer.status)
        for name, value in (*answer.headers, ("Content-Length", str(len(answer.body)))):
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)
        self.wfile.flush()

    def _end(self) -> None:
        self.connection.shutdown(socket.SHUT_RDWR)
        self.close_connection = True

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Tests look at the log of requests instead."""
