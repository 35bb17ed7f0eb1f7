"""A store that fails on command, in every way that a store call can fail."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from enum import Enum
from typing import TypeVar

from shoal.errors import NotFound, StorageFailure
from shoal.storage.store import Created, Listed, ObjectStore

T = TypeVar("T")


class Fault(Enum):
    """The fault of one call."""

    CRASH_BEFORE = "crash before"
    """The process dies before the request reaches the store."""
    CRASH_AFTER = "crash after"
    """The process dies after the store has done its work."""
    ERROR = "error"
    """The store reports a failure and has done nothing."""
    LOST_ANSWER = "lost answer"
    """The store does its work, but the response is lost."""
    REFUSED = "refused"
    """A create is rejected although the name is free, as S3 does with a 409."""
    LATE = "late"
    """The outcome is unknown, and the write happens later (`land_late`)."""
    DROPPED = "dropped"
    """The request is lost: the outcome of a create is unknown, and nothing ever happens."""
    DOUBLED = "doubled"
    """A proxy sends the request twice: a create lands, and its duplicate is rejected because of the object."""


class Crash(BaseException):
    """The process has died: no error handler runs. Only tests catch this."""


class FaultyStore:
    """Wraps a store and injects faults. `choose` is called before each call with its number, name and key."""

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

    @property
    def has_own_clock(self) -> bool:
        return self._store.has_own_clock

    def modified(self, key: str) -> float:
        return self._call("modified", key, lambda: self._store.modified(key))

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
        """Carry out the late writes."""
        late, self._late = self._late, []
        for act in late:
            with suppress(NotFound):  # nobody waits for the result of a late read
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
