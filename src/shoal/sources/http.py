"""Files over HTTP: read as they come, and moved in where the server serves ranges.

A file that can be moved in goes on with the first answer as long as it is read from start to end.
"""

from __future__ import annotations

import gzip
import re
import zlib
from http.client import HTTPException
from typing import Any

from shoal.errors import InvalidInput, StorageFailure, Unsupported
from shoal.sources.http_exchange import Answer, Reach, Request, connect, exchange, naming, send
from shoal.sources.inputs import Input
from shoal.sources.ranged import Forward, Ranged, read_fully
from shoal.storage.locations import public_name

_ENCODINGS = ("", "identity", "gzip", "x-gzip")


def open_url(url: str) -> Input:
    """The file behind an http or https URL."""
    return _open(Request(url))


def open_request(
    url: str, method: str, headers: tuple[tuple[str, str], ...], body: bytes, reach: Reach | None = None
) -> Input:
    """The answer to a request."""
    return _open(Request(url, method, headers, body, reach))


def _open(request: Request) -> Input:
    with naming(request.url):
        answer = exchange(request)
    body = _Body(answer, request.url)
    try:
        return _as_input(answer, body)
    except BaseException:
        body.close()
        raise


def _as_input(answer: Answer, body: _Body) -> Input:
    encoding = answer.header("Content-Encoding").lower()
    if encoding not in _ENCODINGS:
        raise Unsupported(f"{public_name(body.url)}: content encoding {encoding!r} (only gzip is read)")
    if encoding in _ENCODINGS[2:]:
        return Forward(_Unpacked(body).read, body.close)
    if _serves_ranges(answer) and body.size:
        ranges = _Ranges(answer, body)
        return Ranged(ranges.fetch, body.size, ranges.close)
    return body


def _serves_ranges(answer: Answer) -> bool:
    asked = answer.request
    return (
        answer.response.status == 200
        and asked.method == "GET"
        and not asked.body
        and not asked.has("range")
        and answer.header("Accept-Ranges").lower() == "bytes"
    )


class _Body(Forward):
    """The bytes of an answer as they come. That all of them came is checked here: `http.client` does not."""

    def __init__(self, answer: Answer, url: str) -> None:
        super().__init__(self._receive, answer.close)
        self.url = url
        self.size = answer.response.length
        """None if the server does not say."""
        self._answer = answer

    def _receive(self, size: int) -> bytes:
        if self.size is not None:
            size = min(size, self.size - self.tell())
        with naming(self.url):
            data = self._answer.response.read1(size) if size else b""
        if not data and size and self.size is not None:
            raise StorageFailure(f"{public_name(self.url)}: ended after {self.tell()} of {self.size} bytes")
        return data


class _Ranges:
    """Brings pieces of a file, from the answer that is open or by new requests on one connection."""

    def __init__(self, answer: Answer, body: _Body) -> None:
        self._first = answer
        self._body: _Body | None = body
        self._url, self._size = body.url, body.size
        self._connection = answer.connection

    def fetch(self, start: int, size: int) -> bytes:
        """`size` bytes from `start` on."""
        if self._body is not None and self._body.tell() == start:
            return read_fully(self._body.read, size)
        if self._body is not None:
            self._body.close()
            self._body = None
        with naming(self._url):
            return self._request(start, size)

    def _request(self, start: int, size: int) -> bytes:
        answer = self._send(f"bytes={start}-{start + size - 1}")
        self._check(answer, start, size)
        data = answer.response.read(size)
        if len(data) != size:
            raise StorageFailure(f"{public_name(self._url)}: {len(data)} bytes came instead of {size}")
        return data

    def _send(self, wanted: str) -> Answer:
        """Servers close connections that were idle; that is seen only in sending."""
        request = self._first.request.asking_for("Range", wanted).asking_for("Accept-Encoding", "identity")
        try:
            return send(request, self._connection)
        except (ConnectionError, HTTPException):
            self._connection = connect(request)
            return send(request, self._connection)

    def _check(self, answer: Answer, start: int, size: int) -> None:
        name = public_name(self._url)
        if answer.response.status != 206:
            raise StorageFailure(f"{name}: the server does not serve ranges ({answer.response.status})")
        came = re.fullmatch(r"bytes (\d+)-(\d+)/(\d+|\*)", answer.header("Content-Range"))
        if came is None or (int(came[1]), int(came[2])) != (start, start + size - 1):
            raise StorageFailure(f"{name}: the server sent another range than asked for")
        if came[3] not in ("*", str(self._size)) or answer.header("ETag") != self._first.header("ETag"):
            raise StorageFailure(f"{name}: changed while it was read")

    def close(self) -> None:
        """Let go of the connection."""
        if self._body is not None:
            self._body.close()
        self._connection.close()


class _Unpacked:
    """A body that was compressed for the way."""

    def __init__(self, body: Any) -> None:
        self._name = public_name(body.url)
        self._file = gzip.GzipFile(fileobj=body)

    def read(self, size: int = -1, /) -> bytes:
        try:
            return self._file.read1(size) if size >= 0 else self._file.read()
        except (EOFError, zlib.error, gzip.BadGzipFile) as e:
            raise InvalidInput(f"{self._name}: bad gzip data ({e})") from None
