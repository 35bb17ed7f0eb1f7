"""Responses that take a while: streams that a thread writes, streams of events, and answers that are waited for.

Each holds a slot of its caller from its first to its last byte. Between the thread that writes a stream and the loop
that sends it lies a queue of a few chunks, so that an answer of any size takes little memory. If the client goes away,
or does not read on until the time limit, the writer is stopped and its slot is free. A failure before the first byte
becomes an answer of its own; after that the connection is closed, so that no client takes a part for the whole.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine
from concurrent.futures import CancelledError
from contextlib import AbstractAsyncContextManager, aclosing
from functools import partial
from typing import Any

from anyio import (
    BrokenResourceError,
    CapacityLimiter,
    ClosedResourceError,
    create_memory_object_stream,
    create_task_group,
    current_time,
    fail_after,
    from_thread,
    to_thread,
)
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from shoal.access.limits import Limits, timed
from shoal.errors import Stopped, TooMany
from shoal.service.answers import Chunks, Streaming
from shoal.service.connections import abort

_AHEAD = 4
"""How many chunks may wait to be sent."""
_LAST_SECONDS = 1.0
"""How long the last bytes may take after the time limit: they say why the answer ends."""

Admission = Callable[[], AbstractAsyncContextManager[None]]
"""Takes a slot of the caller, and gives it back."""
OnFailure = Callable[[Exception], Response]
"""Makes the response if something fails before the first byte."""


class Cut(Exception):
    """The answer ends here, unfinished."""


class Admitted(Response):
    """A response that holds a slot while it is sent."""

    def __init__(self, media_type: str, admit: Admission, on_failure: OnFailure) -> None:
        super().__init__(media_type=media_type)
        del self.headers["content-length"]
        self._admit = admit
        self._on_failure = on_failure
        self.on_begin: Callable[[int], None] = lambda status: None
        """Called with the status, when that is known."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            async with self._admit():
                response = await self._send_all(scope, receive, send)
        except TooMany as e:
            response = self._on_failure(e)
        if response is not None:
            response.headers["X-Request-ID"] = self.headers["X-Request-ID"]
            self.on_begin(response.status_code)
            await response(scope, receive, send)

    async def _send_all(self, scope: Scope, receive: Receive, send: Send) -> Response | None:
        """Send everything, or return what is to be sent in its place."""
        raise NotImplementedError

    async def _begin(self, send: Send) -> None:
        self.on_begin(self.status_code)
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})


class Streamed(Admitted):
    """The response of a `Streaming` answer."""

    def __init__(
        self, answer: Streaming, admit: Admission, threads: CapacityLimiter, limits: Limits, on_failure: OnFailure
    ) -> None:
        super().__init__(answer.media_type, admit, on_failure)
        self._answer = answer
        self._threads = threads
        self._limits = limits
        self._cut_at = float("inf")
        self._is_late = False
        self._has_begun = False
        self._is_over = False

    async def _send_all(self, scope: Scope, receive: Receive, send: Send) -> Response | None:
        if self._limits.seconds is not None:
            self._cut_at = current_time() + self._limits.seconds + _LAST_SECONDS
        self._answer.begin()
        try:
            return await self._stream(scope, receive, send)
        finally:
            self._answer.end()

    async def _stream(self, scope: Scope, receive: Receive, send: Send) -> Response | None:
        put, take = create_memory_object_stream[bytes](_AHEAD)
        failure: list[Exception] = []
        try:
            async with create_task_group() as tasks:
                tasks.start_soon(self._listen, receive)
                tasks.start_soon(self._work, put, failure)
                try:
                    await self._send_chunks(take, send)
                finally:
                    self._is_over = True
                    tasks.cancel_scope.cancel()
            if failure and not self._has_begun:
                return self._on_failure(failure[0])
            if failure:
                raise Cut from failure[0]
            await self._send_body(send, b"", more_body=False)
        except* TimeoutError:
            abort(scope)
        return None

    async def _send_chunks(self, take: MemoryObjectReceiveStream[bytes], send: Send) -> None:
        async with take:  # once it is closed, the writer can put nothing more
            async for chunk in take:
                await self._send_body(send, chunk, more_body=True)

    async def _send_body(self, send: Send, data: bytes, *, more_body: bool) -> None:
        """Send bytes; TimeoutError if the client does not take them until the time limit."""
        with fail_after(self._patience()):
            if not self._has_begun:
                self._has_begun = True
                await self._begin(send)
            await send({"type": "http.response.body", "body": data, "more_body": more_body})

    def _patience(self) -> float:
        now = current_time()
        if now > self._cut_at and not self._is_late:  # the work took a while to stop
            self._is_late = True
            self._cut_at = now + _LAST_SECONDS
        return max(self._cut_at - now, 0)

    async def _listen(self, receive: Receive) -> None:
        while (await receive())["type"] != "http.disconnect":
            pass
        if not self._is_over:
            await to_thread.run_sync(self._answer.stop, Stopped("the client has gone away"))

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
            except (BrokenResourceError, ClosedResourceError, CancelledError):  # nobody takes them any more
                raise Cut from None

        chunks = Chunks(pass_on)
        self._answer.stopping.memory = self._limits.memory
        with timed(self._limits.seconds, self._answer.stopping):
            self._answer.write(chunks)
        chunks.flush()


class Listened(Admitted):
    """The response of events, which are sent as they come, until the client leaves."""

    def __init__(self, events: AsyncGenerator[bytes, None], admit: Admission, on_failure: OnFailure) -> None:
        super().__init__("text/event-stream", admit, on_failure)
        self._events = events

    async def _send_all(self, scope: Scope, receive: Receive, send: Send) -> Response | None:
        async def send_events() -> None:
            await self._begin(send)
            async with aclosing(self._events):
                async for event in self._events:
                    await send({"type": "http.response.body", "body": event, "more_body": True})
            await send({"type": "http.response.body", "body": b"", "more_body": False})

        await while_connected(receive, send_events)
        return None


class Waited(Admitted):
    """The response of an answer that is waited for."""

    def __init__(
        self, wait: Callable[[], Awaitable[Response]], media_type: str, admit: Admission, on_failure: OnFailure
    ) -> None:
        super().__init__(media_type, admit, on_failure)
        self._wait = wait

    async def _send_all(self, scope: Scope, receive: Receive, send: Send) -> Response | None:
        responses: list[Response] = []

        async def wait() -> None:
            try:
                responses.append(await self._wait())
            except Exception as e:
                responses.append(self._on_failure(e))

        await while_connected(receive, wait)
        return responses[0] if responses else Response(status_code=400)  # nobody is there to read it


async def while_connected(receive: Receive, work: Callable[[], Awaitable[None]]) -> None:
    """Work that is cancelled when the client leaves."""
    async with create_task_group() as tasks:

        async def listen() -> None:
            while (await receive())["type"] != "http.disconnect":
                pass
            tasks.cancel_scope.cancel()

        tasks.start_soon(listen)
        await work()
        tasks.cancel_scope.cancel()
