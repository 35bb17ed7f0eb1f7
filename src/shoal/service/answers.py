"""What handlers return, and the chunks of bytes that an answer is sent in."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from itertools import chain, islice
from typing import TypeAlias

from shoal.engines.stopping import Stop
from shoal.errors import ShoalError
from shoal.model.values import Value

CHUNK = 1 << 16
_SECONDS = 0.2
"""How long bytes are held back for more of them."""


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
    """An answer that a thread writes. `begin` and `end` run in the loop, `stop` in another thread than `write`."""

    def __init__(self, media_type: str) -> None:
        self.media_type = media_type
        self.stopping = Stop()
        """Ends the work of `write` at the time limit, or when the client leaves."""

    def begin(self) -> None:
        """The answer has its slot: it is about to be written."""

    def write(self, chunks: Chunks) -> None:
        """Write all of it."""
        raise NotImplementedError

    def stop(self, why: ShoalError) -> None:
        """Stop writing."""
        self.stopping.stop(why)

    def end(self) -> None:
        """Release what the answer holds. Called once after `begin`, even if nothing was written."""


_FEW = 100


@dataclass(frozen=True, slots=True)
class Text:
    """Text or bytes with a media type of its own."""

    content: str | bytes
    media_type: str = "text/plain; charset=utf-8"


class EventStream:
    """Events, for as long as the client listens."""


@dataclass(frozen=True, slots=True)
class Pending:
    """A value that is not there yet. The event loop waits for it, so that no thread has to."""

    wait: Callable[[], Awaitable[Value]]


Answer: TypeAlias = "Value | list[Value] | Iterator[Value] | Text | Streaming | EventStream | Pending | None"


def gathered(values: Iterator[Value]) -> list[Value] | Iterator[Value]:
    """The values as a list if they are few: a list is sent at once, a stream needs a thread and a queue."""
    first = list(islice(values, _FEW + 1))
    return first if len(first) <= _FEW else chain(first, values)
