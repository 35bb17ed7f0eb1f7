"""Limits on a query: its time, its rows and its memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from itertools import islice
from threading import Timer
from typing import TYPE_CHECKING

from shoal.api.results import Results
from shoal.engines.stopping import REMEDY, Stop
from shoal.errors import Stopped
from shoal.model.node import frozen
from shoal.model.values import Value

if TYPE_CHECKING:
    from shoal.formats.columns.batches import Piece


@frozen
class Limits:
    """Limits of one query; None for no limit."""

    seconds: float | None = None
    """From the request to the last value, time spent waiting for the reader included."""
    rows: int | None = None
    """Number of result values."""
    memory: int | None = None
    """Bytes that engines use for it. Sorts, groups and joins that need more spill to disk; anything else fails."""


def limited(limits: Limits, stop: Stop, ask: Callable[[], Results]) -> Results:
    """Run a query within limits. `ask` starts it under `stop`; beyond a limit its results end with Stopped."""
    stop.memory = limits.memory
    with ExitStack() as started:
        started.enter_context(timed(limits.seconds, stop))
        results = ask()
        clock = started.pop_all()
    return results.through(lambda pieces: _counted(pieces, limits, stop, clock))


@contextmanager
def timed(seconds: float | None, stop: Stop) -> Iterator[None]:
    """Stop what goes on within after some seconds; None is never."""
    if seconds is None:
        yield
        return
    timer = Timer(seconds, stop.stop, [Stopped(f"the query took longer than {seconds:g}s ({REMEDY})")])
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def _counted(pieces: Iterator[Piece], limits: Limits, stop: Stop, clock: ExitStack) -> Iterator[Piece]:
    count = 0
    with clock:
        for piece in stop.checked(pieces):
            length = 1 if isinstance(piece, Value) else piece.length
            if limits.rows is not None and count + length > limits.rows:
                if not isinstance(piece, Value):
                    yield from islice(piece.values(), limits.rows - count)
                raise Stopped(f"the query returns more than {limits.rows} values ({REMEDY})")
            count += length
            yield piece
