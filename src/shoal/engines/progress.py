"""Progress of the jobs of an engine, for callers that show it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

Show = Callable[[int, int], None]
"""Called with the number of tasks of a job that are done, and of all; repeatedly, and at last with zeros."""
_watcher: ContextVar[Show | None] = ContextVar("watcher", default=None)


@contextmanager
def watching(show: Show) -> Iterator[None]:
    """Jobs that run inside of it report their progress."""
    token = _watcher.set(show)
    try:
        yield
    finally:
        _watcher.reset(token)


def watcher() -> Show | None:
    """The callback for progress; None if nothing shows it."""
    return _watcher.get()
