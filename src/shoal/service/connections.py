"""Connections of clients: limits on the heads of requests, and the usual capitals in the heads of answers.

The HTTP parser itself takes any number of headers and waits for them without end.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any

from uvicorn._types import ASGISendCallable, ASGISendEvent
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

_LARGEST_HEAD = 64 << 10
"""Bytes that may come without being part of a body, or the end of a request."""
_MOST_HEADERS = 500
_HEAD_SECONDS = 30.0
"""How long a request may take to say what it wants."""
_REFUSAL = "The head of the request is too large."


class Connection(HttpToolsProtocol):
    """HTTP with limits on the heads of requests."""

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self._idle_bytes = 0
        self._patience: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override] # as in its parent
        super().connection_made(transport)
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
        self._idle_bytes = 0
        super().on_message_begin()

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
        super().on_body(body)

    def on_header(self, name: bytes, value: bytes) -> None:
        if len(self.headers) >= _MOST_HEADERS:  # those at the end of a body as well
            raise ValueError(_REFUSAL)
        super().on_header(name, value)

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
