"""What handlers return, and the response of an answer that a thread writes while the event loop sends it.

A queue of a few chunks lies between thread and loop, so that an answer of any size takes little memory. If the client
goes away, the writer is stopped. A failure before the first byte becomes an answer of its own; after that the
connection is cut, so that no client takes a part for the whole.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Coroutine, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import chain, islice
from typing import Any, TypeAlias

from anyio import (
    CapacityLimiter,
    ClosedResourceError,
    create_memory_object_stream,
    create_task_group,
    from_thread,
    to_thread,
)
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from shoal.model.values import Value

CHUNK = 1 << 16
_AHEAD = 4
"""How many chunks may wait to be sent."""
_SECONDS = 0.2
"""How long bytes are held back for more of them."""


class Cut(Exception):
    """The answer ends here, unfinished."""


class Chunks:
    """Takes bytes, and passes them on in chunks: when there are enough, or when it is time."""

    def __init__(self, send: Callable[[bytes], None]) -> None:
        self._send = send
        self._parts: list[bytes] = []
        self._size = 0
        self._due = time.monotonic() + _SECONDS
        self.sent = 0

    def write(self, data: bytes, /) -> None:
        """Take bytes."""
        self._parts.append(data)
        self._size += len(data)
        if self._size >= CHUNK:
            self.flush()

    def is_due(self) -> bool:
        """Whether the bytes so far, if there are any, should go now."""
        return time.monotonic() >= self._due

    def flush(self) -> None:
        """Pass on what there is."""
        if self._parts:
            data = b"".join(self._parts)
            self._parts, self._size = [], 0
            self.sent += len(data)
            self._send(data)
        self._due = time.monotonic() + _SECONDS


class Streaming:
    """An answer that a thread writes. `stop` and `end` run in other threads than `write`."""

    def __init__(self, media_type: str) -> None:
        self.media_type = media_type

    def write(self, chunks: Chunks) -> None:
        """Write all of it."""
        raise NotImplementedError

    def stop(self) -> None:
        """Stop writing: the client has gone away. A writer that does nothing else ends when its bytes are refused."""

    def end(self) -> None:
        """Release what the answer holds. Called once, even if nothing was written."""


class Streamed(Response):
    """The response of a `Streaming` answer."""

    def __init__(
        self, answer: Streaming, threads: CapacityLimiter, on_failure: Callable[[Exception], Response]
    ) -> None:
        super().__init__(media_type=answer.media_type)
        del self.headers["content-length"]
        self._answer = answer
        self._threads = threads
        self._on_failure = on_failure
        """Makes the response if something fails before the first byte."""
        self._is_over = False
        self.on_begin: Callable[[int], None] = lambda status: None
        """Called with the status, when that is known."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await self._stream(scope, receive, send)
        finally:
            self._answer.end()

    async def _stream(self, scope: Scope, receive: Receive, send: Send) -> None:
        put, take = create_memory_object_stream[bytes](_AHEAD)
        failure: list[Exception] = []
        async with create_task_group() as tasks:
            tasks.start_soon(self._listen, receive)
            tasks.start_soon(self._work, put, failure)
            answer = await self._send(take, scope, receive, send, failure)
            self._is_over = True
            tasks.cancel_scope.cancel()
        if answer is not None:
            answer.headers["X-Request-ID"] = self.headers["X-Request-ID"]
            self.on_begin(answer.status_code)
            await answer(scope, receive, send)

    async def _send(
        self,
        take: MemoryObjectReceiveStream[bytes],
        scope: Scope,
        receive: Receive,
        send: Send,
        failure: list[Exception],
    ) -> Response | None:
        has_begun = False
        async with take:
            async for chunk in take:
                if not has_begun:
                    await self._begin(send)
                    has_begun = True
                await send({"type": "http.response.body", "body": chunk, "more_body": True})
        if failure and not has_begun:
            return self._on_failure(failure[0])
        if failure:
            raise Cut from failure[0]
        if not has_begun:
            await self._begin(send)
        await send({"type": "http.response.body", "body": b"", "more_body": False})
        return None

    async def _begin(self, send: Send) -> None:
        self.on_begin(self.status_code)
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})

    async def _listen(self, receive: Receive) -> None:
        while (await receive())["type"] != "http.disconnect":
            pass
        if not self._is_over:
            await to_thread.run_sync(self._answer.stop)

    async def _work(self, put: MemoryObjectSendStream[bytes], failure: list[Exception]) -> None:
        async with put:
            try:
                await to_thread.run_sync(partial(self._write, put.send), limiter=self._threads)
            except Exception as e:
                failure.append(e)

    def _write(self, send: Callable[[bytes], Coroutine[Any, Any, None]]) -> None:
        def pass_on(data: bytes) -> None:
            try:
                from_thread.run(send, data)
            except ClosedResourceError:  # nobody takes them any more
                raise Cut from None

        chunks = Chunks(pass_on)
        self._answer.write(chunks)
        chunks.flush()


_FEW = 100


@dataclass(frozen=True, slots=True)
class Text:
    """Text or bytes with a media type of its own."""

    content: str | bytes
    media_type: str = "text/plain; charset=utf-8"


class EventStream:
    """Events, for as long as the client listens."""


Answer: TypeAlias = "Value | list[Value] | Iterator[Value] | Text | Streaming | EventStream | None"


def gathered(values: Iterator[Value]) -> list[Value] | Iterator[Value]:
    """The values as a list if they are few: a list is sent at once, a stream needs a thread and a queue."""
    first = list(islice(values, _FEW + 1))
    return first if len(first) <= _FEW else chain(first, values)
