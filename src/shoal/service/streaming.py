"""Answers that are made while they are sent: a thread makes the bytes, and the loop sends them as fast as they go.

Between the two is a queue of a few chunks, so that an answer of any size takes little memory. If the client goes away,
whoever makes the answer is told. What goes wrong before the first byte is an answer of its own; later the connection
is cut, so that no client takes a part for the whole.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from functools import partial
from typing import Any

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


Make = Callable[[Chunks], None]
"""Makes an answer: writes all of it, in a thread."""


@dataclass(frozen=True, slots=True)
class Plan:
    """How to make an answer."""

    make: Make
    media_type: str
    threads: CapacityLimiter
    on_gone: Callable[[], None] = lambda: None
    """Called when the client has gone away, from another thread than that which makes the answer."""
    on_end: Callable[[], None] = lambda: None
    """Called at last, in any case: also if nothing was made."""
    on_failure: Callable[[Exception], Response] = lambda e: Response(status_code=500)
    """The answer instead, if something goes wrong before the first byte."""


class Streamed(Response):
    """An answer that is made while it is sent."""

    def __init__(self, plan: Plan, headers: dict[str, str]) -> None:
        super().__init__(media_type=plan.media_type, headers=headers)
        del self.headers["content-length"]
        self._plan = plan
        self._is_over = False
        self.on_begin: Callable[[int], None] = lambda status: None
        """Called with the status, when that is known."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await self._answer(scope, receive, send)
        finally:
            self._plan.on_end()

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
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
            return self._plan.on_failure(failure[0])
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
            await to_thread.run_sync(self._plan.on_gone)

    async def _work(self, put: MemoryObjectSendStream[bytes], failure: list[Exception]) -> None:
        async with put:
            try:
                await to_thread.run_sync(partial(self._make, put.send), limiter=self._plan.threads)
            except Exception as e:
                failure.append(e)

    def _make(self, send: Callable[[bytes], Coroutine[Any, Any, None]]) -> None:
        def pass_on(data: bytes) -> None:
            try:
                from_thread.run(send, data)
            except ClosedResourceError:  # nobody takes them any more
                raise Cut from None

        chunks = Chunks(pass_on)
        self._plan.make(chunks)
        chunks.flush()
