"""What an ETL job gives, in plain Python: one pass over all raw records, one record after the other.

The job that it models has a transform of each kind, and one that looks at records of any topic. Tests compare it with
the rounds of a real job, however they are cut, and wherever it is stopped.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import product
from typing import Any

from hypothesis import strategies as st

from shoal.model.node import frozen

TRANSFORMS: list[dict[str, Any]] = [
    {"type": "stateless", "in": "T", "where": "value.n==0", "zed": "yield {zero:seqno}", "out": "zeros"},
    {
        "type": "transaction",
        "in": ["T", "U"],
        "id": "value.k",
        "done": "(or(value.n==3) and (count() where value.n!=1)>=2) or count()>=4",
        "zed": "yield {txn,seqno,numbers:(over records | collect(seqno))}",
        "out": "whole",
    },
    {
        "type": "denorm",
        "on": {"A": "value.k", "B": "value.other"},
        "zed": "where A.value.n+B.value.n!=5 | yield {a:A.seqno,b:B.seqno}",
        "out": "pairs",
        "pool": "other",
    },
    {"where": "value.n==2", "zed": "yield seqno,{topic:kafka.topic}", "out": "zeros", "key": "this"},
]


@frozen
class Raw:
    """A raw record."""

    topic: str
    k: int
    n: int
    time: int | None
    """Seconds."""

    def fields(self, seqno: int) -> dict[str, Any]:
        """The record as the raw pool has it."""
        name = "other" if self.topic == "B" else "k"
        kafka: dict[str, Any] = {"topic": self.topic, "partition": 0, "offset": seqno}
        if self.time is not None:
            kafka["timestamp"] = datetime.fromtimestamp(self.time, UTC)
        return {"seqno": seqno, "kafka": kafka, "value": {name: self.k, "n": self.n}}


@dataclass
class Given:
    """What a job has given."""

    outputs: dict[str, list[tuple[int, Any]]] = field(default_factory=dict)
    """By topic, in order of offset: number and value."""
    expired: list[tuple[int, str, int, tuple[int, ...]]] = field(default_factory=list)
    """Number, reason, id, the numbers of its records; sorted."""
    cursor: int = 0
    pending: set[int] = field(default_factory=set)


def raw_records() -> st.SearchStrategy[list[Raw]]:
    """Histories of raw records, whose times go forward with steps back, or are missing."""
    times = st.one_of(st.none(), st.integers(-3, 6))
    steps = st.tuples(st.sampled_from("TTUUABX"), st.integers(0, 3), st.integers(0, 5), times)
    return st.lists(steps, min_size=1, max_size=40).map(_placed)


def _placed(steps: list[tuple[str, int, int, int | None]]) -> list[Raw]:
    now, records = 10, []
    for topic, k, n, step in steps:
        now = max(0, now + (step or 0))
        records.append(Raw(topic, k, n, None if step is None else now))
    return records


@dataclass
class _Group:
    numbers: list[int]
    members: list[Raw]

    def newest(self) -> int | None:
        return max((r.time for r in self.members if r.time is not None), default=None)


def _is_whole(members: list[Raw]) -> bool:
    return len(members) >= 4 or (any(r.n == 3 for r in members) and sum(r.n != 1 for r in members) >= 2)


class Model:
    """The job in one pass."""

    def __init__(self, after: int | None, patience: int | None) -> None:
        """Seconds and records after which a group expires; None for never."""
        self._after, self._patience = after, patience
        self._clock: int | None = None
        self._groups: dict[str, dict[int, _Group]] = {"whole": {}, "pairs": {}}
        self._completed: dict[int, int] = {}
        self.given = Given()

    def run(self, records: Sequence[Raw]) -> Given:
        """What it gives."""
        for number, each in enumerate(records, 1):
            if each.time is not None and (self._clock is None or each.time > self._clock):
                self._clock = each.time
            self._expire(number)
            self._take(number, each)
        given = self.given
        given.pending = {n for groups in self._groups.values() for group in groups.values() for n in group.numbers}
        given.cursor = min(given.pending, default=len(records))
        given.expired.sort()
        return given

    def _give(self, topic: str, number: int, value: Any) -> None:
        self.given.outputs.setdefault(topic, []).append((number, value))

    def _take(self, number: int, each: Raw) -> None:
        if each.topic == "T" and each.n == 0:
            self._give("zeros", number, {"zero": number})
        elif each.topic in "TU":
            self._gather(number, each)
        elif each.topic in "AB":
            self._join(number, each)
        elif each.n == 2:
            self._give("zeros", number, number)
            self._give("zeros", number, {"topic": each.topic})

    def _gather(self, number: int, each: Raw) -> None:
        completed = self._completed.get(each.k)
        if self._patience is not None and completed is not None and number - completed <= self._patience:
            self.given.expired.append((number, "late", each.k, (number,)))
            return
        group = self._add("whole", number, each)
        if _is_whole(group.members):
            del self._groups["whole"][each.k]
            self._completed[each.k] = number
            self._give("whole", number, {"txn": each.k, "seqno": number, "numbers": group.numbers})

    def _join(self, number: int, each: Raw) -> None:
        group = self._add("pairs", number, each)
        pairs = list(zip(group.numbers, group.members, strict=True))
        sides = [[(at, r) for at, r in pairs if r.topic == topic] for topic in "AB"]
        if all(sides):
            del self._groups["pairs"][each.k]
            for (a, left), (b, right) in product(*sides):
                if left.n + right.n != 5:
                    self._give("pairs", number, {"a": a, "b": b})

    def _add(self, kind: str, number: int, each: Raw) -> _Group:
        group = self._groups[kind].setdefault(each.k, _Group([], []))
        group.numbers.append(number)
        group.members.append(each)
        return group

    def _expire(self, number: int) -> None:
        for groups in self._groups.values():
            for k, group in list(groups.items()):
                reason = self._reason(number, group)
                if reason is not None:
                    del groups[k]
                    self.given.expired.append((group.numbers[-1], reason, k, tuple(group.numbers)))

    def _reason(self, number: int, group: _Group) -> str | None:
        newest, clock = group.newest(), self._clock
        if None not in (self._after, newest, clock) and clock - newest > self._after:  # type: ignore[operator]
            return "after"
        if self._patience is not None and number - group.numbers[-1] > self._patience:
            return "records"
        return None
