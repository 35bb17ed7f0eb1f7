"""Slots: how many requests of a kind go on concurrently, in total and per caller. A request that waits holds no thread.

All of this runs in the event loop, so nothing here is locked.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import anyio

from shoal.errors import TooMany

_RESERVED_SHARE = 4
"""A quarter of the slots is kept for callers that hold none: a few busy callers never lock out the others."""
_MOST_WAITING = 1000
"""Requests of one caller that may wait for a slot."""


@dataclass(eq=False, slots=True)
class _Turn:
    """A request that waits."""

    caller: str
    has_come: anyio.Event = field(default_factory=anyio.Event)


class Slots:
    """Caps requests of one kind. Others wait for `patience` seconds, then fail with TooMany."""

    def __init__(self, noun: str, total: int, per_caller: int, patience: float = 1.0) -> None:
        self._noun = noun
        """What takes the slots, for messages: `queries`."""
        self._total = total
        self._per_caller = min(per_caller, total)
        self._patience = patience
        self._unreserved = total - min(total // _RESERVED_SHARE, total - self._per_caller)
        """Slots for callers that hold one already."""
        self._held: Counter[str] = Counter()
        self._turns: dict[_Turn, None] = {}
        """In the order in which they came."""
        self._waiting: Counter[str] = Counter()

    @asynccontextmanager
    async def enter(self, caller: str) -> AsyncIterator[None]:
        """Hold a slot while this context is open. TooMany if there is none after the wait."""
        if self._why_full(caller) is None:
            self._held[caller] += 1
        else:
            await self._wait(caller)
        try:
            yield
        finally:
            self._leave(caller)

    def held(self) -> int:
        """How many slots are taken."""
        return self._held.total()

    async def _wait(self, caller: str) -> None:
        if self._waiting[caller] >= _MOST_WAITING:
            raise TooMany(self._refusal(caller))
        turn = _Turn(caller)
        self._turns[turn] = None
        self._waiting[caller] += 1
        try:
            with anyio.move_on_after(self._patience):
                await turn.has_come.wait()
        except BaseException:
            if turn.has_come.is_set():
                self._leave(caller)
            raise
        finally:
            self._forget(turn)
        if not turn.has_come.is_set():
            raise TooMany(self._refusal(caller))

    def _leave(self, caller: str) -> None:
        """Give a slot back, and pass it on to the first that waits and may have it."""
        self._held[caller] -= 1
        if not self._held[caller]:
            del self._held[caller]
        turn = next((each for each in self._turns if self._why_full(each.caller) is None), None)
        if turn is not None:
            self._held[turn.caller] += 1
            self._forget(turn)
            turn.has_come.set()

    def _forget(self, turn: _Turn) -> None:
        if turn not in self._turns:
            return
        del self._turns[turn]
        self._waiting[turn.caller] -= 1
        if not self._waiting[turn.caller]:
            del self._waiting[turn.caller]

    def _refusal(self, caller: str) -> str:
        return self._why_full(caller) or f"too many {self._noun} of {caller} are waiting (retry later)"

    def _why_full(self, caller: str) -> str | None:
        own, all_of_them = self._held[caller], self._held.total()
        if own >= self._per_caller:
            return f"{own} {self._noun} of {caller} are running (wait for one to finish, then retry)"
        if all_of_them >= (self._unreserved if own else self._total):
            return f"{all_of_them} {self._noun} are running (retry later)"
        return None
