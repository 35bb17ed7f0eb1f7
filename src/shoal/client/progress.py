"""How much of what is loaded has been sent to a service, for whoever wants to know."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

Take = Callable[[int], None]
"""Is told, again and again, how many bytes have been sent since it was told last."""
_watcher: ContextVar[Take | None] = ContextVar("watcher", default=None)


@contextmanager
def watching(take: Take) -> Iterator[None]:
    """What is sent inside of it is counted."""
    token = _watcher.set(take)
    try:
        yield
    finally:
        _watcher.reset(token)


def tell_sent(count: int) -> None:
    """So many bytes are on their way."""
    take = _watcher.get()
    if take is not None:
        take(count)
