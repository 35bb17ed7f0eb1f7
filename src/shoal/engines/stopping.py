"""Stopping a query from another thread: a limit is reached, or the caller is gone.

Work that is done here looks at `why` between two values, which costs next to nothing. Work that is done elsewhere, in
the threads of DuckDB or the tasks of Spark, is cancelled. Engines find the stop of the query they work for by
`current()`, whenever they are asked for more of its results.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from copy import copy
from threading import Event, RLock, Thread
from typing import TypeVar

from shoal.errors import ShoalError, Stopped

V = TypeVar("V")
C = TypeVar("C")
REMEDY = "limit of the service; narrow it, or ask for less"
DISK_PER_MEMORY = 16
"""How much more may go to disk than is in memory."""
_AGAIN = 0.05
"""Seconds between two cancellations of the same work."""


class Stop:
    """Something that can be stopped, once. All methods may be called from any thread."""

    def __init__(self) -> None:
        self.why: ShoalError | None = None
        """The error that the work fails with; None while it may go on."""
        self.memory: int | None = None
        """How many bytes engines may hold for the work; None is as much as there is."""
        self.spark: object | None = None
        """The session of Spark that the work runs on; None is the active one, or a new one."""
        self._callbacks: list[Callable[[], None]] = []
        self._lock = RLock()

    def stop(self, why: ShoalError) -> None:
        """Let the work end with an error; the first one counts."""
        with self._lock:
            if self.why is None:
                self.why = why
                for callback in list(self._callbacks):
                    callback()

    def check(self) -> None:
        """Raise the error, if it is stopped."""
        if self.why is not None:
            raise copy(self.why)  # of its own, since several threads may raise it

    def checked(self, values: Iterable[V]) -> Iterator[V]:
        """Values, up to the stop, which closes what they come from."""
        for value in values:
            if self.why is not None:
                if isinstance(values, Generator):
                    values.close()
                self.check()
            yield value

    def comparing(self, compare: Callable[[C, C], int]) -> Callable[[C, C], int]:
        """A comparison that fails after the stop: for sorts, which are one call however long they take."""

        def run(a: C, b: C) -> int:
            if self.why is not None:
                self.check()
            return compare(a, b)

        return run

    def out_of_memory(self) -> ShoalError:
        """What work fails with that needs more memory than it may have."""
        return Stopped(f"the query needs more than {(self.memory or 0) >> 20} MiB of memory ({REMEDY})")

    @property
    def disk(self) -> int | None:
        """How many bytes of temporary files engines may write for the work; None is as much as there is."""
        return None if self.memory is None else DISK_PER_MEMORY * self.memory

    def out_of_disk(self) -> ShoalError:
        """What work fails with that needs more temporary files than it may have."""
        return Stopped(f"the query needs more than {(self.disk or 0) >> 20} MiB of temporary files ({REMEDY})")

    def too_large(self, size: int) -> ShoalError:
        """What work fails with that makes a value larger than its share of the memory."""
        share = f"{size / (1 << 20):.3g} MiB, its share of {(self.memory or 0) >> 20} MiB"
        return Stopped(f"the query makes a value of more than {share} ({REMEDY})")

    @contextmanager
    def on_stop(self, callback: Callable[[], None]) -> Iterator[None]:
        """Within, a stop calls back, at once if it has come already. Afterwards it does no more."""
        with self._lock:
            self._callbacks.append(callback)
            if self.why is not None:
                callback()
        try:
            yield
        finally:
            with self._lock:
                self._callbacks.remove(callback)

    @contextmanager
    def cancelling(self, cancel: Callable[[], object]) -> Iterator[None]:
        """Within, a stop cancels from a thread of its own, again and again: work that has not begun ignores it."""
        over = Event()
        threads: list[Thread] = []

        def insist() -> None:
            while not over.is_set():
                with suppress(Exception):
                    cancel()
                over.wait(_AGAIN)

        def begin() -> None:
            threads.append(Thread(target=insist, daemon=True))
            threads[0].start()

        try:
            with self.on_stop(begin):
                try:
                    yield
                finally:
                    over.set()
        finally:
            for thread in threads:
                thread.join()


class _Never(Stop):
    """For work that nobody stops: nothing is looked at."""

    def stop(self, why: ShoalError) -> None:
        raise AssertionError("a query that was not given a stop cannot be stopped")

    def checked(self, values: Iterable[V]) -> Iterator[V]:
        return iter(values)

    def comparing(self, compare: Callable[[C, C], int]) -> Callable[[C, C], int]:
        return compare


NEVER: Stop = _Never()
_current: ContextVar[Stop] = ContextVar("stop", default=NEVER)


def current() -> Stop:
    """What stops the work that is done here."""
    return _current.get()


@contextmanager
def stopped_by(stop: Stop) -> Iterator[None]:
    """What is done within can be stopped."""
    token = _current.set(stop)
    try:
        yield
    finally:
        _current.reset(token)


@contextmanager
def running_on(spark: object) -> Iterator[Stop]:
    """What is done within runs on a session of Spark."""
    stop = Stop() if current() is NEVER else current()
    stop.spark = spark
    with stopped_by(stop):
        yield stop


def results_stopped_by(stop: Stop, values: Iterator[V]) -> Iterator[V]:
    """Values of which each is computed as something that can be stopped."""
    return values if stop is NEVER else _stopped_by(stop, values)


def _stopped_by(stop: Stop, values: Iterator[V]) -> Generator[V, None, None]:
    try:
        while True:
            # The consumer of the values is not part of the work, so the variable is reset each time.
            token = _current.set(stop)
            try:
                stop.check()
                value = next(values)
            except StopIteration:
                return
            finally:
                _current.reset(token)
            yield value
    finally:
        if isinstance(values, Generator):
            values.close()
