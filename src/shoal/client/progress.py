"""Counts the bytes that uploads send. It is a module of its own because every command can show progress."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

Take = Callable[[int], None]
"""Gets the number of bytes that were sent since the last call."""
_watcher: ContextVar[Take | None] = ContextVar("watcher", default=None)


@contextmanager
def watching(take: Take) -> Iterator[None]:
    """Count what is sent inside this block."""
    token = _watcher.set(take)
    try:
        yield
    finally:
        _watcher.reset(token)


def tell_sent(count: int) -> None:
    """Count bytes that were sent."""
    take = _watcher.get()
    if take is not None:
        take(count)
