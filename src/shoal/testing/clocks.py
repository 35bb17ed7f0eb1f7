"""Clocks that tests set, of machines and of stores, and a pool whose writers have wrong ones."""

from __future__ import annotations

from collections.abc import Callable

from shoal.ids import Id
from shoal.lake import changes
from shoal.lake.branches import MAIN
from shoal.lake.commits import Note
from shoal.lake.lake import create, open_lake
from shoal.lake.objects import DataObject
from shoal.lake.pools import Pool
from shoal.lake.timelines import timeline_of
from shoal.model.literals import format_time
from shoal.storage.memory import MemoryStore
from shoal.storage.store import ObjectStore
from shoal.testing.lake_scenes import number, small_pool

MINUTE = 60 * 10**9
HOUR = 60 * MINUTE
DAY = 24 * HOUR
START = 1_800_000_000 * 10**9


class Machine:
    """A machine: stands for the module `time`. Its wall clock may be wrong; its monotonic one never is."""

    def __init__(self) -> None:
        self.passed = 0
        """Nanoseconds that have really passed."""
        self.ahead = 0
        """By how much the wall clock is wrong."""

    @property
    def truth(self) -> int:
        """The right time."""
        return START + self.passed

    def time_ns(self) -> int:
        """The wall clock."""
        return self.truth + self.ahead

    def time(self) -> float:
        """The wall clock in seconds."""
        return self.time_ns() / 1e9

    def monotonic(self) -> float:
        """Seconds that have passed."""
        return self.passed / 1e9

    def sleep(self, seconds: float) -> None:
        """Wait, in no time."""
        self.passed += int(seconds * 1e9)


class ClockedStore(MemoryStore):
    """A store in memory that dates objects by a given clock, in nanoseconds; its own, as in a cloud, or a machine's."""

    def __init__(self, clock: Callable[[], int], has_own_clock: bool) -> None:
        super().__init__()
        self._clock = clock
        self._has_own_clock = has_own_clock

    @property
    def has_own_clock(self) -> bool:
        return self._has_own_clock

    def _now(self) -> float:
        return self._clock() / 1e9


def directory(machine: Machine) -> ObjectStore:
    """A store that has the clock of its machine, like a local directory."""
    return ClockedStore(machine.time_ns, has_own_clock=False)


def share(machine: Machine) -> ObjectStore:
    """A store that looks like a directory and has a right clock, like a network file system."""
    return ClockedStore(lambda: machine.truth, has_own_clock=False)


def cloud(machine: Machine) -> ObjectStore:
    """A store with a right clock of its own."""
    return ClockedStore(lambda: machine.truth, has_own_clock=True)


class World:
    """A pool and its commits, each with the time when it was really made. Each step is a process of its own."""

    def __init__(self, machine: Machine, store: ObjectStore) -> None:
        self.machine = machine
        self.store = store
        self.commits: list[tuple[int, Id]] = []
        create(store).create_pool(small_pool("logs"))

    def pool(self) -> Pool:
        """The pool in a new process, which may write."""
        lake = open_lake(self.store)
        lake.require_writable()
        return lake.pool("logs")

    def data(self, pool: Pool) -> list[DataObject]:
        """Data that nothing refers to yet."""
        writer = pool.writer()
        writer.write(number(len(self.commits)))
        return writer.close()

    def load(self, pool: Pool, branch: str = MAIN) -> Id:
        """A commit of one record."""
        return pool.committer.commit(changes.load(branch, self.data(pool), Note("tester")))

    def commit(self, ahead: int = 0, after: int = MINUTE) -> Id:
        """A commit by a process whose clock is ahead, some time after the last one."""
        self.machine.passed += after
        self.machine.ahead = ahead
        commit = self.load(self.pool())
        self.machine.ahead = 0
        self.commits.append((self.machine.truth, commit))
        return commit

    def at(self, ns: int, warn: Callable[[str], None] | None = None) -> Id | None:
        """What `pool@time` stands for."""
        return self.pool().resolve(format_time(ns), warn)

    def warnings(self, ns: int) -> list[str]:
        """What a query of `pool@time` is warned of."""
        warnings: list[str] = []
        self.at(ns, warnings.append)
        return warnings

    def misdated(self) -> list[int]:
        """The numbers of the commits that `pool@time` does not find at the time when they were made."""
        return [number for number, (at, commit) in enumerate(self.commits) if self.at(at) != commit]

    def corrections(self) -> int:
        """How many corrections there are."""
        return len(timeline_of(self.pool().journal.read().entries).corrections)
