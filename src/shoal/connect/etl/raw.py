"""The raw pool as a round sees it: one commit, of which it reads ranges of `seqno`.

Numbers are dense and only grow, so what is new is a range, and a round costs what is in it, however large the pool is.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import field

from shoal.api.branch import Branch
from shoal.api.lake import GetPool, Lake
from shoal.api.options import Memory
from shoal.connect.etl.expiry import Clock
from shoal.connect.etl.places import Place
from shoal.connect.etl.programs import source_of
from shoal.connect.etl.seqnos import MOST_MASKED, Leg, Run, count, is_readable, legs_of
from shoal.errors import InvalidInput
from shoal.model import types as t
from shoal.model.fields import get_data
from shoal.model.literals import format_duration
from shoal.model.node import frozen
from shoal.model.values import Value

NUMBER = "seqno"


@frozen
class News:
    """What a commit has beyond the records that were read."""

    after: int
    """The number of the last record that was read before."""
    upto: int
    """The number of the last record to read now."""
    count: int
    topics: tuple[str, ...]
    """The topics that occur; none stands for any."""
    is_all: bool = True
    """Whether the commit has nothing beyond it."""

    @property
    def leg(self) -> Leg:
        """The range that is new."""
        return Leg(self.after + 1, self.upto)


def may_meet(topics: Collection[str], others: Collection[str]) -> bool:
    """Whether some topics may be among others; none stands for any."""
    return not topics or not others or not set(topics).isdisjoint(others)


@frozen
class Snapshot:
    """A commit of the raw pool."""

    lake: Lake
    pool: str
    commit: str
    engine: str | None = None
    memory: Memory | None = None
    where: str = field(default="raw")

    def run(self, legs: Iterable[Leg], program: str, declarations: str = "") -> Iterator[Value]:
        """The results of a program over some ranges."""
        source = source_of(f"{self.pool}@{self.commit}", list(legs))
        text = f"{declarations}{source}\n| {program}"
        with self.lake.query(text, engine=self.engine, memory=self.memory) as results:
            yield from results

    def news(self, after: int, most: int) -> News | None:
        """What is new, up to a number of records; None if nothing is."""
        news = self._news(after, after + most)
        if news is None:
            first = self._first_after(after + most)  # numbers begin later if the oldest records were deleted
            news = None if first is None else self._news(after, first + most - 1)
        return news

    def _news(self, after: int, upto: int) -> News | None:
        program = "count:=count(),last:=max(seqno) by topic:=kafka.topic"
        rows = list(self.run([Leg(after + 1, upto)], program))
        if not rows:
            return None
        names = [row.field("topic") for row in rows]
        is_plain = all(name is not None and name.type is t.STRING and name.data is not None for name in names)
        last = max(int(get_data(row, "last", self.where)) for row in rows)
        return News(
            after,
            last,
            sum(int(get_data(row, "count", self.where)) for row in rows),
            tuple(str(name.data) for name in names if name is not None) if is_plain else (),
            is_all=last < upto,  # numbers are dense
        )

    def _first_after(self, number: int) -> int | None:
        source = f"from {self.pool}@{self.commit} | seqno>{number} | first:=min(seqno)"
        with self.lake.query(source, engine=self.engine) as results:
            return next((int(get_data(row, "first", self.where)) for row in results), None)

    def clock(self, start: int | None, news: News, tick: int) -> Clock:
        """How the newest timestamp grows in what is new."""
        program = f"where is(kafka.timestamp,<time>) | {NUMBER}:=min(seqno) by time:={_rounded(tick)}"
        rows = self.run([news.leg], program)
        ticks = [(int(get_data(row, NUMBER, self.where)), row.field("time")) for row in rows]
        return Clock(
            start, news.after + 1, [(number, time.data) for number, time in ticks if time and time.data is not None]
        )

    def newest_time(self, upto: int, tick: int) -> int | None:
        """The newest timestamp of all records up to one."""
        program = f"where is(kafka.timestamp,<time>) | time:=max({_rounded(tick)})"
        for row in self.run([Leg(0, upto)], program):
            time = row.field("time")
            return None if time is None else time.data
        return None

    def records(self, runs: list[Run]) -> Iterator[tuple[int, Value]]:
        """Raw records by their numbers."""
        for legs in batches_of(runs):
            for value in self.run(legs, "pass"):
                yield int(get_data(value, NUMBER, self.where)), value


def _rounded(tick: int) -> str:
    return f"bucket(kafka.timestamp,{format_duration(tick)})"


def batches_of(runs: list[Run]) -> Iterator[list[Leg]]:
    """Legs that have these runs, as few queries can read them."""
    legs = legs_of(runs)
    if is_readable(legs):
        if legs:
            yield legs
    elif len(runs) > 1:
        half = len(runs) // 2
        yield from batches_of(runs[:half])
        yield from batches_of(runs[half:])
    else:
        raise AssertionError("a single run needs no mask")


def is_small(runs: list[Run]) -> bool:
    """Whether one query can read these runs."""
    return count(runs) <= MOST_MASKED and is_readable(legs_of(runs))


def open_raw(lake: Lake, place: Place) -> Branch:
    """The branch of raw records; InvalidInput if it is not sorted by their numbers."""
    pool = lake.pool(place.pool)
    info = lake.do(GetPool(pool.id))
    if info.paths[:1] != ((NUMBER,),) or info.order != "asc":
        raise InvalidInput(
            f"{place.pool}: a pool of raw records is sorted by {NUMBER}, ascending, and this one is not "
            f"(create one with: shoal create -orderby {NUMBER} NAME)"
        )
    return pool.branch(place.branch)
