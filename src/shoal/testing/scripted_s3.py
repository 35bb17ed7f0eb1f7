"""An S3 server for tests that fails on command, in every way that a request can fail.

Faults are scripted per kind of call and consumed one by one. The server also supports enough of Google's XML
interface, which is S3 with another header for creates. It does not check signatures.
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
"""A CREATE is a PUT that requires the name to be free; a GET of the bucket is a LIST."""
CALLS: tuple[Call, ...] = ("CREATE", "PUT", "GET", "HEAD", "LIST", "DELETE")


class ServerFault(Enum):
    """The fault of one request. A write that lands is done before its response fails."""

    CONFLICT = "409"
    """Rejected although the name is free."""
    PHANTOM = "412-phantom"
    """Rejected as if the name were taken."""
    UNAVAILABLE = "503"
    THROTTLED = "429"
    FORBIDDEN = "403"
    NO_BUCKET = "404-bucket"
    CLOSE = "close"
    """The connection closes before anything is done."""
    LAND_503 = "land+503"
    LAND_500 = "land+500"
    LAND_RESET = "land+reset"
    LAND_CLOSE = "land+close"
    LAND_HANG = "land+hang"
    """Done, but no response until the server stops."""
    SLOW = "slow"
    """Done, with a response after `ScriptedS3.delay` seconds."""
    TRUNCATED = "truncated"
    """Half of the body is sent, then the connection closes."""
    STALLED = "stalled"
    """Half of the body is sent, then nothing until the server stops."""
    LATE = "late"
    """The connection closes; the write is done when the test calls `land_late`."""


class Received(NamedTuple):
    """A request that the server received."""

    call: Call
    key: str
    fault: ServerFault | None


class _Response(NamedTuple):
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
    """A server with one bucket on a free port, while the context is open."""

    def __init__(self, bucket: str = "bucket", page: int = 1000) -> None:
        self.bucket = bucket
        self.page = page
        """Number of objects per page of a listing."""
        self.delay = 0.3
        self.ignores_conditions = False
        """Whether a CREATE is treated as a plain PUT, as some stores do."""
        self.objects: dict[str, bytes] = {}
        self.log: list[Received] = []
        self.endpoint = ""
        self.released = threading.Event()
        """Set when the server stops, so that hanging requests end."""
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
        """Replace the scripted faults of a kind of call; the next calls get them in order."""
        with self._lock:
            self._faults[call] = deque(faults)

    def land_late(self) -> None:
        """Carry out the late writes, in the order of their requests."""
        late, self._late = self._late, []
        for act in late:
            act()

    def serve(self, call: Call, key: str, act: Callable[[], _Response]) -> tuple[ServerFault | None, _Response]:
        """Carry out a request, or not, as the script says."""
        with self._lock:
            faults = self._faults[call]
            fault = faults.popleft() if faults else None
            self.log.append(Received(call, key, fault))
            if fault is ServerFault.LATE:
                self._late.append(act)
        answer = _Response(500) if fault in _NOT_DONE else act()
        if fault in _REFUSALS:
            status, code = _REFUSALS[fault]
            answer = _error(status, code)
        return fault, answer

    # ---- requests

    def put(self, key: str, data: bytes, is_create: bool) -> _Response:
        """Write an object; a create fails if the name is taken."""
        with self._lock:
            if is_create and key in self.objects and not self.ignores_conditions:
                return _error(412, "PreconditionFailed")
            self.objects[key] = data
            self._modified[key] = time()
        return _Response(200, b"", (("ETag", _tag(data)), ("x-goog-generation", "1")))

    def get(self, key: str, byte_range: str = "", tag: str = "") -> _Response:
        """An object, or the range in a header; rejected if the object does not have the tag."""
        with self._lock:
            data, at = self.objects.get(key), self._modified.get(key, time())
        if data is None:
            return _error(404, "NoSuchKey")
        if tag not in ("", _tag(data)):
            return _error(412, "PreconditionFailed")
        headers = (("ETag", _tag(data)), ("Last-Modified", format_date_time(at)), ("Accept-Ranges", "bytes"))
        bounds = re.fullmatch(r"bytes=(\d+)-(\d*)", byte_range)
        if bounds is None:
            return _Response(200, data, headers)
        first, last = int(bounds[1]), min(int(bounds[2] or len(data)), len(data) - 1)
        if first >= len(data):
            return _error(416, "InvalidRange")
        content_range = ("Content-Range", f"bytes {first}-{last}/{len(data)}")
        return _Response(206, data[first : last + 1], (*headers, content_range))

    def list(self, prefix: str, after: str) -> _Response:
        """A page of the names with a prefix; the token of the next page is the last name of this one."""
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
        return _Response(200, body.encode(), (("Content-Type", "application/xml"),))

    def delete(self, key: str) -> _Response:
        """Remove an object, if there is one."""
        with self._lock:
            self.objects.pop(key, None)
        return _Response(204)


def _error(status: int, code: str) -> _Response:
    return _Response(status, f"<Error><Code>{code}</Code><Message>secret</Message></Error>".encode())


def _tag(data: bytes) -> str:
    return f'"{hashlib.sha256(data).hexdigest()[:32]}"'


def _iso(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 64

    def handle_error(self, request: object, client_address: object) -> None:
        """Ignore errors: some tests are about clients that disconnect early."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = -1  # head and body in one packet, because two would wait for each other
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

    def _serve(self, call: Call, key: str, act: Callable[[], _Response]) -> None:
        fault, answer = self.s3.serve(call, key, act)
        match fault:
            case ServerFault.CLOSE | ServerFault.LATE | ServerFault.LAND_CLOSE:
                self._end()
            case ServerFault.LAND_RESET:
                # with a linger time of zero, close sends a reset
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

    def _send(self, answer: _Response, body: bytes) -> None:
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
        """Print nothing: tests read `ScriptedS3.log` instead."""
