"""A seeded scheduler over storage calls: clients in threads, of which exactly one runs at a time.

Each call to the store and each pause of the journal is a point where the turn may go to another client. The client
that stops chooses the next one, so that going on itself costs nothing. All chance comes from the seed,
also that of ids, clocks and pauses: a seed is a schedule, and it can be run again.
"""

from __future__ import annotations

import math
import os
import random
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random
from threading import Lock, Thread

import pytest

from shoal.storage.faults import Fault, FaultyStore
from shoal.storage.store import ObjectStore

_LONGEST = 60.0
"""Seconds after which a run counts as hanging."""
_EPOCH = 1_800_000_000.0
_MOST_FAULTY_STEPS = 2_000
"""The number of calls after which nothing fails any more, so that every run ends."""
_MOST_STEPS = 10 * _MOST_FAULTY_STEPS
"""The number of calls after which a client counts as stuck."""


class Crew:
    """Threads that take turns; they are kept from one run to the next."""

    def __init__(self, size: int) -> None:
        self._hands = [_Hand(self) for _ in range(size)]
        self._home = Lock()
        self._home.acquire()
        self._random = Random()
        self._active: list[_Hand] = []
        self._running = self._hands[0]

    def run(self, chance: Random, bodies: Sequence[Callable[[], None]]) -> None:
        """Run functions as clients until all have ended. What one of them raises is raised here."""
        self._random = chance
        hands = self._hands[: len(bodies)]
        for hand, body in zip(hands, bodies, strict=True):
            hand.body, hand.failure = body, None
        self._active = list(hands)
        self._choose().turn.release()
        if not self._home.acquire(timeout=_LONGEST):
            raise TimeoutError("a client neither ends nor calls the store")
        for hand in hands:
            if hand.failure is not None:
                raise hand.failure

    def pause(self) -> None:
        """Let any client go on, maybe the one that calls this."""
        me = self._running
        if self._active and self._choose() is not me:
            self._running.turn.release()
            me.turn.acquire()

    def end(self, hand: _Hand) -> None:
        """A client has ended; another goes on."""
        self._active.remove(hand)
        if self._active:
            self._choose().turn.release()
        else:
            self._home.release()

    def _choose(self) -> _Hand:
        self._running = self._active[int(self._random.random() * len(self._active))]
        return self._running


class _Hand:
    """A thread that runs one function after the other, whenever it is its turn."""

    def __init__(self, crew: Crew) -> None:
        self.turn = Lock()
        self.turn.acquire()
        self.body: Callable[[], None] = lambda: None
        self.failure: BaseException | None = None
        self._crew = crew
        Thread(target=self._work, daemon=True).start()

    def _work(self) -> None:
        while True:
            self.turn.acquire()
            try:
                self.body()
            except BaseException as e:  # whatever it is, the run that asked for it gets it
                self.failure = e
            self._crew.end(self)


class Clock:
    """Stands for the module `time`: it goes on only when somebody sleeps, and then the turn may go to another."""

    def __init__(self, crew: Crew) -> None:
        self._crew = crew
        self.now = 0.0

    def sleep(self, seconds: float) -> None:
        """Time passes, and others may do something."""
        self.now += seconds
        self._crew.pause()

    def monotonic(self) -> float:
        return self.now

    def time(self) -> float:
        return _EPOCH + self.now

    def time_ns(self) -> int:
        return int((_EPOCH + self.now) * 1e9)


class Chance:
    """Stands for the module `random` and the function `os.urandom`."""

    def __init__(self) -> None:
        self.random = Random()

    def uniform(self, low: float, high: float) -> float:
        return self.random.uniform(low, high)

    def urandom(self, size: int) -> bytes:
        return self.random.randbytes(size)


@dataclass(frozen=True, slots=True)
class Weather:
    """How often something goes wrong, of the calls to the store."""

    faults: float = 0.0
    crashes: float = 0.0
    creates: float = 0.0
    """How often a create goes wrong, beside all the other faults: those are what the journal is about."""
    landings: float = 0.2
    """How often a call finds that late writes of some client have happened just before it."""


_CREATES = (Fault.ERROR, Fault.LOST_ANSWER, Fault.REFUSED, Fault.LATE, Fault.LATE, Fault.DROPPED, Fault.DOUBLED)
_PUTS = (Fault.ERROR, Fault.LOST_ANSWER, Fault.LATE)
_FAULTS = {"create": _CREATES, "put": _PUTS}
_READS = (Fault.ERROR,)
_CRASHES = (Fault.CRASH_BEFORE, Fault.CRASH_AFTER)
_DEATHS = 0.3


class Scheduler:
    """Runs clients over one store, by seeds. `install` is to be called before."""

    def __init__(self, most_clients: int) -> None:
        self._crew = Crew(most_clients)
        self._clock = Clock(self._crew)
        self._chance = Chance()
        self._stores: list[FaultyStore] = []
        self.weather = Weather()
        self._steps = 0
        self.random = Random()

    def install(self, patch: pytest.MonkeyPatch) -> None:
        """Take clocks and chance away from the lake."""
        stands: dict[str, tuple[object, object]] = {
            "time": (time, self._clock),
            "random": (random, self._chance),
            "urandom": (os.urandom, self._chance.urandom),
        }
        for name, module in list(sys.modules.items()):
            if name in ("shoal.ids", "shoal.storage.backoff") or name.startswith("shoal.lake."):
                for attribute, (real, stand) in stands.items():
                    if getattr(module, attribute, None) is real:
                        patch.setattr(module, attribute, stand)
        # A store that takes its time is read by several threads; here that would be others than the clients.
        patch.setattr("shoal.lake.commits._SLOW", math.inf)

    def begin(self, seed: int) -> Random:
        """A new run; the chance of what its clients do."""
        self.random = Random(seed)
        self._chance.random = Random(seed)
        self._clock.now = 0.0
        self._steps = 0
        self._stores = []
        self.weather = Weather()
        return self.random

    def wrap(self, store: ObjectStore) -> FaultyStore:
        """The store as one client sees it; a client that is restarted goes on with the same one."""
        wrapped = FaultyStore(store, _Troubles(self).before)
        self._stores.append(wrapped)
        return wrapped

    def run(self, weather: Weather, bodies: Sequence[Callable[[], None]]) -> None:
        """Run clients to their end, and let happen what is late."""
        self.weather = weather
        self._crew.run(self.random, bodies)
        for store in self._stores:
            store.land_late()

    def turn(self) -> bool:
        """Before each call: others may have their turn, and late writes may happen. Whether it may go wrong."""
        self._crew.pause()
        if self.random.random() < self.weather.landings:
            self._stores[int(self.random.random() * len(self._stores))].land_late()
        self._steps += 1
        assert self._steps <= _MOST_STEPS, "clients that go round in circles"
        return self._steps <= _MOST_FAULTY_STEPS


class _Troubles:
    """What goes wrong with the calls of one client. One that waits for a create often dies before it knows more."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self._waits = False

    def before(self, number: int, name: str, key: str) -> Fault | None:
        may_fail, waits = self._scheduler.turn(), self._waits
        self._waits = False
        if not may_fail:
            return None
        chance, weather = self._scheduler.random, self._scheduler.weather
        if chance.random() < weather.crashes + (_DEATHS if waits and weather.crashes else 0.0):
            return chance.choice(_CRASHES)
        if chance.random() < weather.faults + (weather.creates if name == "create" else 0.0):
            fault = chance.choice(_FAULTS.get(name, _READS))
            self._waits = name == "create"
            return fault
        return None
