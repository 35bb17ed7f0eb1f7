"""Transactions that clients have begun, by their ids, until they end or expire."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from threading import Lock

from shoal.engines.stopping import current
from shoal.errors import NotFound, TooMany
from shoal.ids import to_text
from shoal.lake.branches import as_id
from shoal.local.transactions import LocalTransaction

_MOST = 10_000
_TURN_SECONDS = 30.0
_LOOK_SECONDS = 0.1
"""How often a request that waits for its turn looks whether it was stopped."""


@dataclass(slots=True)
class _Open:
    transaction: LocalTransaction
    subject: str
    """Who began it: it is nobody else's."""
    pool: str
    """The id of the pool that it was begun on: who may write there no more is not let in elsewhere."""
    turn: Lock = field(default_factory=Lock)
    """A transaction does one thing at a time."""

    def is_of(self, subject: str, pool: str, branch: str) -> bool:
        """Whether it was begun by this caller, there."""
        return (self.subject, self.pool, self.transaction.session.branch) == (subject, pool, branch)


class Transactions:
    """What is open."""

    def __init__(self) -> None:
        self._open: dict[str, _Open] = {}
        self._lock = Lock()

    def add(self, transaction: LocalTransaction, subject: str, pool: str) -> None:
        """Keep a transaction that was begun."""
        with self._lock:
            self._forget_expired()
            if len(self._open) >= _MOST:
                raise TooMany(f"{_MOST} transactions are open (end some, or try again later)")
            self._open[transaction.id] = _Open(transaction, subject, pool)

    def find(self, ident: str | None, subject: str, pool: str, branch: str) -> LocalTransaction | None:
        """A transaction that a request has begun already."""
        entry = None if ident is None else self._open.get(ident)
        return entry.transaction if entry is not None and entry.is_of(subject, pool, branch) else None

    @contextmanager
    def of(self, ident: str, subject: str, pool: str, branch: str) -> Iterator[LocalTransaction]:
        """One of them, for as long as it is worked with."""
        key = as_id(ident)
        entry = None if key is None else self._open.get(to_text(key))
        if entry is None or not entry.is_of(subject, pool, branch):
            raise NotFound(f"{ident}: transaction not found (it has ended, has expired, or the service was restarted)")
        if not _acquire(entry.turn):
            raise TooMany(f"{ident}: this transaction is busy with another request (try again later)")
        try:
            yield entry.transaction
        finally:
            entry.turn.release()
        if entry.transaction.is_done:
            self._open.pop(entry.transaction.id, None)

    def _forget_expired(self) -> None:
        now = time.time()
        for ident in [i for i, each in self._open.items() if each.transaction.session.expires < now]:
            del self._open[ident]


def _acquire(turn: Lock) -> bool:
    """Wait for a turn, up to a limit, and as long as nothing stops the work that it is for."""
    until = time.monotonic() + _TURN_SECONDS
    while not turn.acquire(timeout=_LOOK_SECONDS):
        current().check()
        if time.monotonic() >= until:
            return False
    return True
