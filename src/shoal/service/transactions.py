"""Transactions that clients have begun, by their ids, until they end or expire."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from threading import Lock
from typing import TypeAlias

from shoal.engines.stopping import current
from shoal.errors import InvalidInput, NotFound, TooMany
from shoal.ids import to_text
from shoal.lake.branches import as_id
from shoal.local.lake_transactions import LocalLakeTransaction
from shoal.local.transactions import LocalTransaction

_MOST = 10_000
_TURN_SECONDS = 30.0
_LOOK_SECONDS = 0.1
"""How often a request that waits for its turn looks whether it was stopped."""
Open: TypeAlias = LocalTransaction | LocalLakeTransaction
"""A transaction on one branch, or over several pools."""
Scene: TypeAlias = tuple[str, str] | None
"""Where a transaction was begun: the id of a pool and a branch, or None if it is over several pools.

Who may not write to the pool any more is not let in through another one.
"""


@dataclass(slots=True)
class _Entry:
    transaction: Open
    subject: str
    """Who began it: it is nobody else's."""
    scene: Scene
    turn: Lock = field(default_factory=Lock)
    """A transaction does one thing at a time."""

    def is_of(self, subject: str, scene: Scene) -> bool:
        """Whether it was begun by this caller, there."""
        return (self.subject, self.scene) == (subject, scene)


class Transactions:
    """What is open."""

    def __init__(self) -> None:
        self._open: dict[str, _Entry] = {}
        self._lock = Lock()

    def add(self, transaction: Open, subject: str, scene: Scene) -> Open:
        """Keep a transaction that was begun; the one that is open, if the same request came twice at a time.

        InvalidInput if its id is that of another one: it is the key of a request, so that anybody may choose it.
        """
        with self._lock:
            self._forget_expired()
            entry = self._open.get(transaction.id)
            if entry is not None and not entry.transaction.is_done:
                if not entry.is_of(subject, scene):
                    raise InvalidInput(f"{transaction.id}: this id is that of another transaction (use a new one)")
                return entry.transaction
            if len(self._open) >= _MOST:
                raise TooMany(f"{_MOST} transactions are open (end some, or try again later)")
            self._open[transaction.id] = _Entry(transaction, subject, scene)
            return transaction

    def find(self, ident: str | None, subject: str, scene: Scene) -> Open | None:
        """A transaction of this caller that is open there."""
        key = None if ident is None else as_id(ident)
        entry = None if key is None else self._open.get(to_text(key))
        return entry.transaction if entry is not None and entry.is_of(subject, scene) else None

    def all_of(self, subject: str, scene: Scene) -> list[Open]:
        """The transactions of this caller that are open there, oldest first."""
        with self._lock:
            self._forget_expired()
            return [entry.transaction for entry in self._open.values() if entry.is_of(subject, scene)]

    @contextmanager
    def of(self, ident: str, subject: str, scene: Scene) -> Iterator[Open]:
        """One of them, for as long as it is worked with."""
        key = as_id(ident)
        entry = None if key is None else self._open.get(to_text(key))
        if entry is None or not entry.is_of(subject, scene):
            raise not_found(ident)
        if not _acquire(entry.turn):
            raise TooMany(f"{ident}: this transaction is busy with another request (try again later)")
        try:
            if entry.transaction.is_done:  # by the request that had the turn before
                raise not_found(ident)
            yield entry.transaction
        finally:
            if entry.transaction.is_done:
                self._remove(entry)
            entry.turn.release()

    def _remove(self, entry: _Entry) -> None:
        with self._lock:
            if self._open.get(entry.transaction.id) is entry:
                del self._open[entry.transaction.id]

    def _forget_expired(self) -> None:
        now = time.time()
        for ident in [i for i, each in self._open.items() if each.transaction.expires < now]:
            del self._open[ident]


def not_found(ident: str) -> NotFound:
    """The error about a transaction that is not open."""
    return NotFound(f"{ident}: transaction not found (it has ended, has expired, or the service was restarted)")


def _acquire(turn: Lock) -> bool:
    """Wait for a turn, up to a limit, and as long as nothing stops the work that it is for."""
    until = time.monotonic() + _TURN_SECONDS
    while not turn.acquire(timeout=_LOOK_SECONDS):
        current().check()
        if time.monotonic() >= until:
            return False
    return True
