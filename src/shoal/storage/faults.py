"""A store that fails on command: every way in which a call to a store is known to go wrong."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from enum import Enum
from typing import TypeVar

from shoal.errors import NotFound, StorageFailure
from shoal.storage.store import Created, Listed, ObjectStore

T = TypeVar("T")


class Fault(Enum):
    """What goes wrong with one call."""

    CRASH_BEFORE = "crash before"
    """The process dies and the store never hears of it."""
    CRASH_AFTER = "crash after"
    """The process dies when the store has done its work."""
    ERROR = "error"
    """The store says that it failed, and it did."""
    LOST_ANSWER = "lost answer"
    """The store does its work and the answer gets lost."""
    REFUSED = "refused"
    """A create is turned down although nobody holds the name, as S3 does with a 409."""
    LATE = "late"
    """The outcome is unknown, and the write happens later (`land_late`)."""
    DROPPED = "dropped"
    """The request gets lost on its way: the outcome of a create is unknown, and nothing ever happens."""
    DOUBLED = "doubled"
    """Something on the way sends the request again: a create lands and is then turned down by its own object."""


class Crash(BaseException):
    """The process is gone: no handler for errors runs. What catches this is a test."""


class FaultyStore:
    """Another store, with faults. `choose` is asked before each call: its number, its name and its key."""

    def __init__(self, store: ObjectStore, choose: Callable[[int, str, str], Fault | None]) -> None:
        self._store = store
        self._choose = choose
        self._late: list[Callable[[], object]] = []
        self.calls: list[tuple[str, str]] = []

    @property
    def uri(self) -> str:
        return self._store.uri

    def get(self, key: str) -> bytes:
        return self._call("get", key, lambda: self._store.get(key))

    def get_range(self, key: str, start: int, length: int) -> bytes:
        return self._call("get_range", key, lambda: self._store.get_range(key, start, length))

    def size(self, key: str) -> int:
        return self._call("size", key, lambda: self._store.size(key))

    def put(self, key: str, data: bytes) -> None:
        return self._call("put", key, lambda: self._store.put(key, data))

    def delete(self, key: str) -> None:
        return self._call("delete", key, lambda: self._store.delete(key))

    def list(self, prefix: str = "") -> Iterator[Listed]:
        return iter(self._call("list", prefix, lambda: list(self._store.list(prefix))))

    def create(self, key: str, data: bytes) -> Created:
        fault = self._next("create", key)
        match fault:
            case Fault.REFUSED:
                return Created.LOST
            case Fault.LATE:
                self._late.append(lambda: self._store.create(key, data))
                return Created.UNKNOWN
            case Fault.LOST_ANSWER:
                self._store.create(key, data)
                return Created.UNKNOWN
            case Fault.DROPPED:
                return Created.UNKNOWN
        return self._with(fault, key, lambda: self._store.create(key, data))

    def land_late(self) -> None:
        """Let the late writes happen."""
        late, self._late = self._late, []
        for act in late:
            with suppress(NotFound):  # a read that comes too late is nobody's any more
                act()

    def _next(self, name: str, key: str) -> Fault | None:
        self.calls.append((name, key))
        return self._choose(len(self.calls) - 1, name, key)

    def _call(self, name: str, key: str, act: Callable[[], T]) -> T:
        return self._with(self._next(name, key), key, act)

    def _with(self, fault: Fault | None, key: str, act: Callable[[], T]) -> T:
        match fault:
            case Fault.CRASH_BEFORE:
                raise Crash(key)
            case Fault.CRASH_AFTER:
                act()
                raise Crash(key)
            case Fault.DOUBLED:
                act()
            case Fault.ERROR | Fault.REFUSED | Fault.DROPPED:
                raise StorageFailure(f"{self.uri}/{key}: failed on command")
            case Fault.LOST_ANSWER:
                act()
                raise StorageFailure(f"{self.uri}/{key}: answer lost on command")
            case Fault.LATE:
                self._late.append(act)
                raise StorageFailure(f"{self.uri}/{key}: late on command")
        return act()
