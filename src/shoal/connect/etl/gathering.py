"""Transforms that wait until they have all records of a group: what is complete, late, expired, and still awaited.

What becomes of a record depends on the records before it, and never on how they were cut into rounds. So the lake says
at which record each group is complete, by an aggregate that runs along its records, and what comes of it. It is asked
about all new records at once, then about exactly the records of groups that began in a round before, or of which a part
expired. There is nothing to ask about groups that got no records.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence

from shoal.connect.etl.expiry import Item, Limits, Reason
from shoal.connect.etl.programs import running, within
from shoal.connect.etl.raw import NUMBER, Snapshot, batches_of, is_small, may_meet
from shoal.connect.etl.seqnos import Leg, legs_of, runs_of
from shoal.connect.etl.stateless import output_of
from shoal.connect.etl.steps import Common, Expired, Past, Round, Step, Worker
from shoal.connect.etl.values import elements, part
from shoal.errors import TooLarge
from shoal.model import types as t
from shoal.model.node import frozen
from shoal.model.values import Value

Items = list[Item]
_MOST = 500
"""Groups of one id that a query looks for: each is a call in the call before."""


@frozen
class Gather:
    """What a transform asks the lake about its groups."""

    common: Common
    topics: tuple[str, ...]
    id: str
    """An expression over a raw record: the group that it belongs to."""
    done: str
    """An expression of aggregates, which is true once a group is complete."""
    result: str
    """An expression over `shoal_txn` and `shoal_records`, a complete group: what comes of it, as `{value,key}`."""
    repeats: bool
    """Whether the records after that make a group again; else they are late."""

    @property
    def declarations(self) -> str:
        """Functions of the program: the number of the record that completes a group, and the groups that follow."""
        aggregates, done = running(self.done)
        puts = ",".join(f"shoal_{n}:={each}" for n, each in enumerate(aggregates))
        number = f"{f'put {puts} | ' if puts else ''}yield {{n:int64(count()),is_done:{within(done)}}}"
        number += " | where is_done==true | head 1 | yield n"
        rest = ",...shoal_groups(txn,records[n:],shoal_first(records[n:]),most-1)" if self.repeats else ""
        return (
            f"func shoal_first(shoal_records): ( (over shoal_records | {number}) )\n"
            f"func shoal_results(shoal_txn,shoal_records): ( {self.result} )\n"
            "func shoal_groups(txn,records,n,most): "
            f"( n==null or most==0 ? null : [{{n,results:shoal_results(txn,records[:n])}}{rest}] )\n"
        )

    def text(self, takes: str) -> str:
        """The program that the lake runs over records, of which it takes some."""
        return (
            f"where {takes}\n| records:=collect(this),count:=count() by txn:={within(self.id)}\n"
            f"| yield {{txn,count,records:(over records | sort {NUMBER} | collect(this))}}\n"
            "| yield {txn,count,records,n:shoal_first(records)}\n"
            f"| yield {{txn,count,items:(over records | yield {{{NUMBER},time:kafka.timestamp}} | collect(this)),"
            f"groups:shoal_groups(txn,records,n,{_MOST})}}"
        )

    def listing(self, takes: str) -> str:
        """A program that only says which group each record belongs to."""
        return f"where {takes} | yield {{txn:{within(self.id)},{NUMBER},time:kafka.timestamp}}"


@frozen
class _Complete:
    """A complete group: how many records it has, and what comes of them."""

    count: int
    results: tuple[Value, ...]


class GatheringWorker(Worker):
    """Waits for groups."""

    def __init__(self, gather: Gather, takes: str, limits: Limits | None, past: Past) -> None:
        self._gather = gather
        self._takes = takes
        self._limits = limits or Limits()
        self._memory = None if gather.repeats else self._limits.records
        """For how many records the id of a complete group is remembered."""
        self._pending: dict[Value, Items] = {}
        self._completed: dict[Value, int] = {}
        self._order: deque[tuple[int, Value]] = deque()
        """Complete groups, the oldest first."""
        self._restore(past)

    # ---- between processes

    def unfinished(self) -> Iterable[int]:
        return (number for items in self._pending.values() for number, _ in items)

    def _restore(self, past: Past) -> None:
        program = self._gather.listing(self._takes)
        for legs in batches_of(past.unfinished):
            for row in past.raw.run(legs, program):
                self._pending.setdefault(part(row, "txn"), []).append(_item(row))
        for items in self._pending.values():
            items.sort()
        if self._memory is not None:
            mine = [(number, txn) for number, name, txn in past.completed if name == self._gather.common.name]
            self._remember(sorted(mine, key=lambda each: each[0]))

    def _remember(self, completed: Iterable[tuple[int, Value]]) -> None:
        for number, txn in completed:
            self._completed[txn] = number
            self._order.append((number, txn))

    def _forget(self, upto: int) -> None:
        while self._order and self._memory is not None and self._order[0][0] < upto - self._memory:
            number, txn = self._order.popleft()
            if self._completed.get(txn) == number:
                del self._completed[txn]

    # ---- a round

    def step(self, work: Round) -> Step:
        step = Step()
        again: dict[Value, Items] = {}
        is_asked = may_meet(self._gather.topics, work.news.topics)
        for txn, items, groups in self._ask(work.raw, [work.news.leg]) if is_asked else ():
            before = self._pending.pop(txn, None)
            if before is not None:
                again[txn] = before + items
            else:
                again.update(self._take(work, step, txn, items, groups))
        while again:
            asked, again = again, {}
            for txn, items, groups in self._ask_again(work.raw, asked):
                again.update(self._take(work, step, txn, items, groups))
        self._expire(work, step)
        step.completed.sort(key=lambda each: each[0])
        self._remember((number, txn) for number, _, txn in step.completed)
        self._forget(work.news.upto)
        return step

    def _ask(self, raw: Snapshot, legs: Sequence[Leg]) -> Iterator[tuple[Value, Items, list[_Complete]]]:
        """The groups of some records: their ids, their records, and those of them that are complete."""
        gather = self._gather
        for row in raw.run(legs, gather.text(self._takes), gather.declarations):
            txn, items = part(row, "txn"), [_item(item) for item in elements(part(row, "items"))]
            if len(items) != part(row, "count").data:
                raise TooLarge(f"the records of {txn!r} do not fit into memory (its id is that of too many records)")
            yield txn, items, [_complete(group) for group in elements(part(row, "groups"))]

    def _ask_again(
        self, raw: Snapshot, groups: Mapping[Value, Items]
    ) -> Iterator[tuple[Value, Items, list[_Complete]]]:
        """The groups of exactly these records."""
        for some in _batches(list(groups.items())):
            legs = legs_of(runs_of(number for _, items in some for number, _ in items))
            asked = dict(some)
            for txn, items, complete in self._ask(raw, legs):
                if txn in asked:
                    yield txn, items, complete

    def _take(
        self, work: Round, step: Step, txn: Value, items: Items, groups: Sequence[_Complete]
    ) -> Mapping[Value, Items]:
        """Decide about the records of a group; what is left over has to be asked for again."""
        late = self._late(step, txn, items)
        if late:
            return {txn: items[late:]} if late < len(items) else {}
        at = 0
        for group in groups:
            members = items[at : at + group.count]
            rest = self._cut(work, step, txn, members)
            if rest is not None:
                return {txn: items[at + rest :]}
            at += group.count
            self._complete(step, txn, members[-1][0], group)
            if self._memory is not None:
                break
        left = items[at:]
        if len(groups) == _MOST and left:
            return {txn: left}
        if at and left and self._memory is not None:
            late = self._late(step, txn, left, items[at - 1][0])
            return {txn: left[late:]} if late < len(left) else {}
        rest = self._cut(work, step, txn, left)
        if rest is not None:
            return {txn: left[rest:]}
        if left:
            self._pending[txn] = left
        return {}

    def _complete(self, step: Step, txn: Value, number: int, group: _Complete) -> None:
        common = self._gather.common
        step.outputs += [output_of(common, number, result) for result in group.results]
        if self._memory is not None:
            step.completed.append((number, common.name, txn))

    def _late(self, step: Step, txn: Value, items: Items, completed: int | None = None) -> int:
        """How many records came after their group was complete, and before it was forgotten; they are given up."""
        number = self._completed.get(txn) if completed is None else completed
        if self._memory is None or number is None:
            return 0
        late = sum(item[0] - number <= self._memory for item in items)
        step.expired += [Expired((item[0],), txn, "late") for item in items[:late]]
        return late

    def _cut(self, work: Round, step: Step, txn: Value, items: Items) -> int | None:
        """How many records had expired when the others came, if so; they are given up."""
        gap = self._limits.gap(items, work.clock)
        if gap is None:
            return None
        self._give_up(step, txn, items[: gap[0]], gap[1])
        return gap[0]

    def _expire(self, work: Round, step: Step) -> None:
        """Give up the groups that nothing was added to for too long."""
        if self._limits.after is None and self._limits.records is None:
            return
        for txn, items in list(self._pending.items()):
            end = self._limits.end(items, work.clock)
            if end is not None and end[0] <= work.news.upto:
                del self._pending[txn]
                self._give_up(step, txn, items, end[1])

    def _give_up(self, step: Step, txn: Value, items: Items, reason: Reason) -> None:
        step.expired.append(Expired(tuple(number for number, _ in items), txn, reason))


def _batches(groups: list[tuple[Value, Items]]) -> Iterator[list[tuple[Value, Items]]]:
    """Groups of which one query can read the records. One group alone may be read with others between its records."""
    groups.sort(key=lambda group: group[1][0][0])
    if len(groups) < 2 or is_small(runs_of(number for _, items in groups for number, _ in items)):
        yield groups
        return
    half = len(groups) // 2
    yield from _batches(groups[:half])
    yield from _batches(groups[half:])


def _item(row: Value) -> Item:
    time = part(row, "time")
    return part(row, NUMBER).data, time.data if time.type.under is t.TIME else None


def _complete(group: Value) -> _Complete:
    return _Complete(part(group, "n").data, tuple(elements(part(group, "results"))))
