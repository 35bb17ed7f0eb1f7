"""How far an engine has come with what it is asked, for whoever wants to know."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

Show = Callable[[int, int], None]
"""Is told how many tasks of a job are done, and of how many; again and again, and at last with zeros."""
_watcher: ContextVar[Show | None] = ContextVar("watcher", default=None)


@contextmanager
def watching(show: Show) -> Iterator[None]:
    """Jobs that are run inside of it tell how far they have come."""
    token = _watcher.set(show)
    try:
        yield
    finally:
        _watcher.reset(token)


def watcher() -> Show | None:
    """Who wants to know."""
    return _watcher.get()
