"""Connections of clients: limits on the heads of requests, an end for clients that do not read, and capitals in heads.

The HTTP parser itself takes any number of headers and waits for them without end. The transport keeps what a client
does not read without end, even after it was closed; so a watch looks at all connections every second or so.
"""

from __future__ import annotations

import asyncio
import fcntl
import struct
import termios
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, cast

from starlette.types import Scope
from uvicorn._types import ASGISendCallable, ASGISendEvent
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

_LARGEST_HEAD = 64 << 10
"""Bytes of the request line and the headers; bytes that may come without being part of a body, or end a request."""
_MOST_HEADERS = 500
_HEAD_SECONDS = 30.0
"""How long a request may take to say what it wants."""
_MOST_DISCARDED = 64 << 20
"""Bytes of a body that are thrown away after the answer, so that a client that still sends can read it."""
_REFUSAL = "The head of the request is too large."
_ABORT = "abort"


class Connection(HttpToolsProtocol):
    """HTTP with limits on the heads of requests, and on how long a client may leave an answer unread."""

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self._idle_bytes = 0
        self._head_bytes = 0
        self._discarded = 0
        self._refusal = ""
        self._patience: asyncio.TimerHandle | None = None
        self._outgoing: _Outgoing
        self._delivered = -1
        """Bytes that the client had taken when it was last seen to take some."""
        self._delivered_at = 0.0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override] # as in its parent
        self._outgoing = _Outgoing(transport)
        super().connection_made(cast("asyncio.Transport", self._outgoing))
        self._wait()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_waiting()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        self._idle_bytes += len(data)
        super().data_received(data)
        if self._idle_bytes > _LARGEST_HEAD and not self.transport.is_closing():
            self._end(_REFUSAL)
        elif not self._is_answering() and self._patience is None and not self.transport.is_closing():
            self._wait()

    def on_message_begin(self) -> None:
        self._idle_bytes = self._head_bytes = self._discarded = 0
        super().on_message_begin()
        self.scope["state"][_ABORT] = self._outgoing.abort

    def on_url(self, url: bytes) -> None:
        self._count_head(len(url))
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        self._count_head(len(name) + len(value))
        if len(self.headers) >= _MOST_HEADERS:  # those at the end of a body as well
            self._refuse_head()
        super().on_header(name, value)

    def on_headers_complete(self) -> None:
        self._idle_bytes = 0
        self._stop_waiting()
        previous = self.cycle
        super().on_headers_complete()
        if self.cycle is not previous:
            send = partial(_send, self.cycle, self.cycle.send)
            self.cycle.send = send  # type: ignore[method-assign]

    def on_body(self, body: bytes) -> None:
        self._idle_bytes = 0
        if self.cycle.response_complete:
            self._discarded += len(body)
            if self._discarded > _MOST_DISCARDED:
                self.transport.abort()
        super().on_body(body)

    def send_400_response(self, msg: str) -> None:
        super().send_400_response(self._refusal or msg)

    def check_progress(self, now: float, stall: float) -> bool:
        """Cut the connection, and return True, if bytes wait and the client has taken none for `stall` seconds."""
        waiting = self._outgoing.waiting()
        if not waiting:
            self._delivered = -1
            return False
        delivered = self._outgoing.written - waiting - self._outgoing.unacknowledged()
        if delivered != self._delivered:
            self._delivered, self._delivered_at = delivered, now
            return False
        if now - self._delivered_at < stall:
            return False
        self._outgoing.abort()
        return True

    def _count_head(self, size: int) -> None:
        self._head_bytes += size
        if self._head_bytes > _LARGEST_HEAD:
            self._refuse_head()

    def _refuse_head(self) -> None:
        self._refusal = _REFUSAL
        raise ValueError(_REFUSAL)

    def _is_answering(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete

    def _wait(self) -> None:
        self._patience = self.loop.call_later(_HEAD_SECONDS, self._give_up)

    def _stop_waiting(self) -> None:
        if self._patience is not None:
            self._patience.cancel()
            self._patience = None

    def _give_up(self) -> None:
        self._patience = None
        if not self._is_answering():
            self.transport.close()

    def _end(self, why: str) -> None:
        """Refuse the request, or cut the connection if an answer is being sent."""
        if self._is_answering():
            self.transport.abort()
        else:
            self.send_400_response(why)


def abort(scope: Scope) -> None:
    """Cut the connection of a request at once, whatever is still to be sent on it."""
    cut: Callable[[], None] | None = scope["state"].get(_ABORT)
    if cut is not None:
        cut()


def cut_stalled(connections: Iterable[Any], now: float, stall: float) -> int:
    """Cut the connections of clients that have read nothing for `stall` seconds; returns how many there were."""
    return sum(each.check_progress(now, stall) for each in list(connections) if isinstance(each, Connection))


class _Outgoing:
    """A transport that counts the bytes written to it."""

    def __init__(self, transport: asyncio.Transport) -> None:
        self._transport = transport
        self.written = 0
        self.is_closing = transport.is_closing
        self.abort = transport.abort

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.written += len(data)
        self._transport.write(data)

    def waiting(self) -> int:
        """Bytes that the system has not taken yet."""
        return self._transport.get_write_buffer_size()

    def unacknowledged(self) -> int:
        """Bytes that the system holds and the client has not taken; 0 where the system does not say.

        The system takes bytes in large steps: a slow client that reads on would look as if it did not.
        """
        socket = self._transport.get_extra_info("socket")
        try:
            answer = fcntl.ioctl(socket.fileno(), termios.TIOCOUTQ, bytes(4))
        except OSError:
            return 0
        return int(struct.unpack("i", answer)[0])


async def _send(cycle: RequestResponseCycle, send: ASGISendCallable, message: ASGISendEvent) -> None:
    """Send a message. The head of an answer passes a writer that spells its names as scripts expect them."""
    if message["type"] != "http.response.start":
        await send(message)
        return
    transport = cycle.transport
    cycle.transport = _HeadWriter(transport)
    try:
        await send(message)
    finally:
        cycle.transport = transport


class _HeadWriter(asyncio.Transport):
    """Writes the head of an answer with capitals: `X-Request-Id`. The HTTP library writes `x-request-id`."""

    def __init__(self, transport: asyncio.Transport) -> None:
        super().__init__()
        self._transport = transport

    def write(self, data: bytes | bytearray | memoryview) -> None:
        status, *lines = bytes(data).split(b"\r\n")
        self._transport.write(b"\r\n".join([status, *map(_capitalized, lines)]))


def _capitalized(line: bytes) -> bytes:
    name, colon, value = line.partition(b":")
    return name.title() + colon + value
