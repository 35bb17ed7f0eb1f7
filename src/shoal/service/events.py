"""Server-sent events about changes that were made through this service."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import AsyncGenerator, Callable
from dataclasses import dataclass, field

import anyio

from shoal.service.auth.identity import Identity

_MOST_WAITING = 1000
"""Events that a slow listener may have waiting; beyond that it is let go, and has to look for itself."""
_HEARTBEAT = 15.0
_STILL_HERE = b": still here\n\n"


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happened."""

    name: str
    pool: str
    """The id of its pool."""
    is_seen_by: Callable[[Identity], bool]
    """Whether a caller may read the pool. It answers from memory, as of the event."""
    fields: tuple[tuple[str, str], ...] = ()

    def encode(self) -> bytes:
        """The event as it is sent."""
        data = json.dumps({"pool_id": self.pool, **dict(self.fields)}, separators=(",", ":"))
        return f"event: {self.name}\ndata: {data}\n\n".encode()


@dataclass(eq=False, slots=True)
class _Listener:
    identity: Identity
    waiting: deque[Event] = field(default_factory=deque)
    wake: anyio.Event = field(default_factory=anyio.Event)
    is_lost: bool = False


class Events:
    """Who listens. Events come from the loop; listeners wait in it."""

    def __init__(self) -> None:
        self._listeners: set[_Listener] = set()

    def publish(self, event: Event) -> None:
        """Pass an event on to the listeners that may see it."""
        for listener in self._listeners:
            if not event.is_seen_by(listener.identity):
                continue
            if len(listener.waiting) >= _MOST_WAITING:
                listener.is_lost = True
            else:
                listener.waiting.append(event)
            listener.wake.set()

    async def listen(self, identity: Identity) -> AsyncGenerator[bytes, None]:
        """Events from now on, encoded; a comment when nothing has happened for a while."""
        listener = _Listener(identity)
        self._listeners.add(listener)
        try:
            while not listener.is_lost:
                while listener.waiting:
                    yield listener.waiting.popleft().encode()
                listener.wake = anyio.Event()
                if listener.waiting or listener.is_lost:
                    continue
                with anyio.move_on_after(_HEARTBEAT) as patience:
                    await listener.wake.wait()
                if patience.cancelled_caught:
                    yield _STILL_HERE
        finally:
            self._listeners.discard(listener)
