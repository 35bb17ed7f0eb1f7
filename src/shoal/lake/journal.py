"""The journal: the only thing in a lake that changes, a map from keys to values as numbered, immutable entries.

A slot is claimed by put-if-missing. HEAD is only a hint: readers probe past it. An entry carries the id of
the operation that wrote it, so that a writer that lost the answer recognises its own entry. The loop in
`Journal.change` is the one retry loop of the lake; whatever must be true of the newest state is checked
inside the function it is given.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import field, replace
from typing import Protocol

from shoal.errors import CorruptData, NotFound, OutcomeUnknown, ShoalError, StorageFailure
from shoal.ids import Id, new, to_text
from shoal.lake.claims import Patience, claim, confirm, unknown
from shoal.lake.clocks import FAR, Clock
from shoal.lake.decisions import Decision
from shoal.lake.pending import Pending
from shoal.lake.sealed import seal, unseal
from shoal.lake.timelines import CLOCK, Timeline, format_timeline, timeline_of
from shoal.model import types as t
from shoal.model.fields import get_data, get_id, get_or, id_value, named, time_value, uint64
from shoal.model.node import frozen
from shoal.model.values import NULL, Value, record, string
from shoal.storage.backoff import backoff
from shoal.storage.store import ObjectStore, dropping_damage, turn

HEAD_EVERY = 8
SNAPSHOT_EVERY = 16

Changes = Mapping[str, Value | None]
"""New values by key; None takes a key away."""
Plan = Callable[["State"], "Changes | Group"]
Meet = Callable[["Entry"], None]
Counts = Callable[[Decision], bool]
"""Whether a decision counts. A transaction whose decision does not is undecided."""


@frozen
class State:
    """The map after a number of entries."""

    position: int
    at: int
    """When the last entry was made, in nanoseconds since 1970."""
    entries: Mapping[str, Value]
    owner: str = ""
    """The name of the pool whose journal it is, for messages; "" for the other journals of a lake."""


EMPTY = State(0, 0, {})


@frozen
class Group:
    """Changes that several operations make together, by one entry."""

    changes: Changes
    commits: Mapping[Id, Id]
    """The commit of each operation."""


@frozen
class Settled:
    """A state in which everything is resolved that has been decided elsewhere."""

    state: State
    changes: Changes = field(default_factory=dict)
    """What has to be written so that the journal says the same; empty if it does."""
    not_before: int = 0
    """The time, in nanoseconds since 1970, that an entry with these changes has at least."""
    undecided: tuple[Pending, ...] = ()
    """What waits for a decision."""


class Settles(Protocol):
    """Knows what has been decided about pending entries of a journal."""

    def settle(self, state: State, counts: Counts | None = None, /) -> Settled:
        """A state with all resolved that is decided by now, as far as that counts."""

    def decision(self, txn: Id, /) -> Decision | None:
        """The decision about a transaction; None if there is none yet."""

    def blocking(self, settled: Settled, changes: Changes, /) -> tuple[Pending, ...]:
        """What has to be decided before some changes can be made."""

    def wait(self, pending: tuple[Pending, ...], seconds: float, /) -> None:
        """Let some time pass for decisions to come; abort what has taken too long."""


@frozen
class Entry:
    """One entry: which operation, when, and what it changed."""

    position: int
    op: Id
    at: int
    changes: Changes
    group: Mapping[Id, Id] = field(default_factory=dict)
    """The operations that came together as this one, each with its commit."""

    def has(self, op: Id) -> bool:
        """Whether it is the entry of an operation."""
        return self.op == op or op in self.group


@frozen
class Moment:
    """A time in the past of a journal."""

    position: int
    """The last entry that counts as made by then."""
    following: int | None
    """The time that the next entry counts by, in nanoseconds since 1970; None if there is none."""
    is_corrected: bool
    """Whether a wrong clock was corrected there."""


class Journal:
    """One journal of a lake. A handle remembers how far it has read; handles need not know of each other.

    Threads may share one: what it remembers is where to go on reading from, and never the answer itself. With a clock,
    entries with a wrong time are corrected.
    """

    def __init__(
        self,
        store: ObjectStore,
        prefix: str,
        patience: Patience = Patience(),
        clock: Clock | None = None,
        guard: Callable[[State], None] | None = None,
        settles: Settles | None = None,
        owner: str = "",
    ) -> None:
        """`guard` is asked before each change: it raises if this handle may not make one in this state.

        Who plans a change, or reads with `settled`, sees pending entries as `settles` resolves them.
        """
        self._store = store
        self._guard = guard
        self._settles = settles
        self._prefix = prefix
        self._patience = patience
        self._clock = clock
        self._known = State(0, 0, {}, owner)

    def rename(self, owner: str) -> None:
        """The pool has another name, as messages tell from now on."""
        self._known = replace(self._known, owner=owner)

    # ---- reading

    @property
    def _empty(self) -> State:
        return State(0, 0, {}, self._known.owner)

    def read(self) -> State:
        """The newest state."""
        state = self._known
        return self._learn(self._follow(state if state.position else self._open_at(self._find_end())))

    def settled(self, state: State | None = None, counts: Counts | None = None) -> Settled:
        """A state, by default the newest, with pending entries resolved as they are decided now, if that counts."""
        state = self.read() if state is None else state
        return Settled(state) if self._settles is None else self._settles.settle(state, counts)

    def decision(self, txn: Id) -> Decision | None:
        """The decision about a transaction; None if there is none yet."""
        return None if self._settles is None else self._settles.decision(txn)

    def wait(self, pending: tuple[Pending, ...], seconds: float) -> None:
        """Let some time pass for decisions to come; abort what has taken too long."""
        if self._settles is not None:
            self._settles.wait(pending, seconds)

    @property
    def known(self) -> State:
        """The newest state that this handle has read; the store is not asked."""
        return self._known

    def _learn(self, state: State) -> State:
        """Remember a state, if it is the newest; other threads may have come further meanwhile."""
        if state.position > self._known.position:
            self._known = state
        return state

    def at_position(self, position: int) -> State:
        """The state after an entry of the past."""
        return self._empty if position == 0 else self._open_at(position)

    def moment(self, ns: int) -> Moment:
        """Where the journal stood at a time, in nanoseconds since 1970."""
        state = self.read()
        newest, timeline = state.position, timeline_of(state.entries)
        position = self._last_by(ns, newest, timeline)
        following = None if position == newest else self._time(position + 1, timeline)
        is_corrected = any(timeline.time(each) is not None for each in (position, position + 1))
        return Moment(position, following, is_corrected or timeline.is_doubtful(ns, newest))

    def _last_by(self, ns: int, newest: int, timeline: Timeline) -> int:
        """The last entry by a time. No entry counts as later than its successor, so a binary search finds it."""
        low, high = 0, newest
        while low < high:
            middle = (low + high + 1) // 2
            low, high = (middle, high) if self._time(middle, timeline) <= ns else (low, middle - 1)
        return low

    def _time(self, position: int, timeline: Timeline) -> int:
        corrected = timeline.time(position)
        return self.entry(position).at if corrected is None else corrected

    def entries(self, after: int = 0) -> Iterator[Entry]:
        """All entries after a position, oldest first."""
        position = after + 1
        while (entry := self._entry(position)) is not None:
            yield entry
            position += 1

    def entry(self, position: int) -> Entry:
        """One entry, which has to be there."""
        entry = self._entry(position)
        if entry is None:
            raise CorruptData(f"{self._slot(position)}: this entry of the journal is gone (restore it from a backup)")
        return entry

    def _slot(self, position: int) -> str:
        return f"{self._prefix}/{position:020d}.zng"

    def _mark(self, op: Id) -> str:
        return f"{self._prefix}/{to_text(op)}.zng"

    def _snapshot(self, position: int) -> str:
        return f"{self._prefix}/{position:020d}.snap.zng"

    @property
    def _head(self) -> str:
        return f"{self._prefix}/HEAD"

    def _entry(self, position: int) -> Entry | None:
        slot = self._slot(position)
        try:
            with dropping_damage(self._store, slot):
                return _parse_entry(self._store.get(slot), position, slot)
        except NotFound:
            return None

    def _exists(self, position: int) -> bool:
        try:
            self._store.size(self._slot(position))
        except NotFound:
            return False
        return True

    def _find_end(self) -> int:
        """The last position: from the hint, if it is one, by doubling steps and then by halves."""
        start = self._read_head()
        if start and not self._exists(start):
            start = 0
        step = 1
        while self._exists(start + step):
            start, step = start + step, step * 2
        low, high = start, start + step
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if self._exists(middle) else (low, middle)
        if self._exists(low + 2) and not self._exists(low + 1):
            raise CorruptData(f"{self._slot(low + 1)}: this entry of the journal is gone (restore it from a backup)")
        return low

    def _read_head(self) -> int:
        try:
            head = unseal(self._store.get(self._head), self._head)
            return int(get_data(head[0], "position", self._head))
        except (NotFound, CorruptData, IndexError):
            return 0

    def _open_at(self, position: int) -> State:
        """The state at a position: the nearest snapshot that can be read, and the entries since."""
        state, at = self._empty, position - position % SNAPSHOT_EVERY
        while at > 0:
            with suppress(NotFound, CorruptData):
                state = self._read_snapshot(at)
                break
            at -= SNAPSHOT_EVERY
        entries = dict(state.entries)
        last = state.at
        for i in range(state.position + 1, position + 1):
            entry = self.entry(i)
            _apply(entries, entry.changes)
            last = entry.at
        return State(position, last, entries, state.owner)

    def _read_snapshot(self, position: int) -> State:
        key = self._snapshot(position)
        values = unseal(self._store.get(key), key)
        if not values or get_data(values[0], "position", key) != position:
            raise CorruptData(f"{key}: not a snapshot of this position")
        entries: dict[str, Value] = {}
        _apply(entries, dict(_parse_change(v, key) for v in values[1:]))
        return State(position, get_data(values[0], "at", key), entries, self._known.owner)

    def _follow(self, state: State, meet: Meet | None = None) -> State:
        """The state after the entries that came since; `meet` gets each of them."""
        entries: dict[str, Value] | None = None
        position, at = state.position, state.at
        while (entry := self._entry(position + 1)) is not None:
            entries = dict(state.entries) if entries is None else entries
            _apply(entries, entry.changes)
            position, at = entry.position, entry.at
            if meet is not None:
                meet(entry)
        return state if entries is None else State(position, at, entries, state.owner)

    # ---- writing

    def change(self, op: Id, plan: Plan, after: int | None = None, meet: Meet | None = None) -> Entry:
        """Claim the next slot with what `plan` makes of the newest state; the entry that did it.

        `plan` is called again whenever another writer was first; it raises if it no longer can. Where the
        operation may have been tried before, `after` is a position from before that: if its entry is
        found since, that is the answer. `meet` gets each entry after that position, or after the state that was
        read first, before `plan` is called. OutcomeUnknown names the operation.
        """
        own: list[Entry] = []

        def on_entry(entry: Entry) -> None:
            if entry.has(op):
                own.append(entry)
            if meet is not None:
                meet(entry)

        state = self.read()
        if after is not None:
            # Up to the state and no further: what lands later takes the slot that is claimed next, and is met there.
            for position in range(after + 1, state.position + 1):
                on_entry(self.entry(position))
                if own:
                    return self.confirm(own[0], op)
        waits = backoff()
        while True:
            with turn(self._store, self._prefix):
                state = self._learn(self._follow(state, on_entry))
                if own:
                    return self.confirm(own[0], op)
                if self._guard is not None:
                    self._guard(state)
                settled = self.settled(state)
                if settled.changes:
                    self._resolve(state, settled)
                    continue
                entry = self._proposed(state, op, plan(settled.state))
                blocking = self._blocking(settled, entry.changes)
                is_ours = not blocking and self._claim(entry)
            if is_ours:
                self._remember(state, entry)
                return entry
            if blocking:
                self.wait(blocking, next(waits))
            else:
                time.sleep(next(waits))

    def settle(self) -> None:
        """Write what has been decided about pending entries, if there is something."""
        while True:
            with turn(self._store, self._prefix):
                state = self.read()
                settled = self.settled(state)
                if not settled.changes or self._resolve(state, settled):
                    return

    def _resolve(self, state: State, settled: Settled) -> bool:
        """Claim the next slot with what was decided about pending entries, as any other writer would."""
        entry = self._proposed(state, new(), settled.changes, settled.not_before)
        try:
            is_ours = self._claim(entry)
        except OutcomeUnknown as e:
            raise StorageFailure(str(e)) from e  # what is to be done after it was not begun
        if is_ours:
            self._remember(state, entry)
        return is_ours

    def _blocking(self, settled: Settled, changes: Changes) -> tuple[Pending, ...]:
        return () if self._settles is None else self._settles.blocking(settled, changes)

    def once(self, op: Id | None, plan: Plan) -> Entry:
        """As `change`, for an operation that is not recognised by a commit: under its id it is done once.

        The first attempt leaves a mark that says where the journal stood; a repeat looks from there on.
        An operation without an id is never repeated.
        """
        return self.change(new(), plan) if op is None else self.change(op, plan, self._begin(op))

    def began(self, op: Id) -> int | None:
        """Where the journal stood when an operation left its mark; None if it has left none."""
        key = self._mark(op)
        try:
            with dropping_damage(self._store, key):
                values = unseal(self._store.get(key), key)
        except NotFound:
            return None
        if not values:
            raise CorruptData(f"{key}: a mark without a position")
        return int(get_data(values[0], "position", key))

    def done(self, op: Id) -> Entry | None:
        """The entry of an operation that has left a mark; None if it has none."""
        after = self.began(op)
        return None if after is None else next((entry for entry in self.entries(after) if entry.has(op)), None)

    def _begin(self, op: Id) -> int:
        """Leave the mark of an operation; where the journal stood when its first attempt did."""
        first = self.began(op)
        if first is not None:
            return first
        key, position = self._mark(op), self.read().position
        mark = named("Mark", ("op", id_value(op)), ("position", uint64(position)))
        try:
            is_ours = claim(self._store, key, seal([mark], key), self._patience)
        except OutcomeUnknown as e:
            raise unknown(op, e) from e
        first = position if is_ours else self.began(op)
        if first is None:
            raise CorruptData(f"{key}: this mark of an operation is gone (restore it from a backup)")
        return first

    def _proposed(self, state: State, op: Id, proposal: Changes | Group, not_before: int = 0) -> Entry:
        """The next entry."""
        group = proposal if isinstance(proposal, Group) else Group(proposal, {})
        at, timeline = self._date(state, not_before)
        changes = group.changes if timeline is None else {**group.changes, CLOCK: format_timeline(timeline)}
        if len(group.commits) == 1:
            return Entry(state.position + 1, next(iter(group.commits)), at, changes)  # a group of one is none
        return Entry(state.position + 1, op, at, changes, group.commits)

    def _date(self, state: State, not_before: int) -> tuple[int, Timeline | None]:
        """The time of the next entry, and the timeline if it changes. Only from a time far ahead does it go back."""
        if self._clock is None:
            return max(time.time_ns(), state.at, not_before), None
        newest, timeline, now = state.position, timeline_of(state.entries), self._clock.now()
        if state.at - now >= FAR:
            now = self._clock.checked()
        if state.at - now >= FAR:
            first = self._last_by(now, newest, timeline) + 1
            high = None if self._clock.is_confirmed else state.at
            return now, timeline.going_back(first, newest, now, high)
        at = max(now, state.at, not_before)
        settled = timeline.settled(newest, at)
        return at, None if settled == timeline else settled

    def _claim(self, entry: Entry) -> bool:
        """Whether an entry is in its slot; False if another's is. Returns once that is certain."""
        try:
            slot = self._slot(entry.position)
            return claim(self._store, slot, _format_entry(entry, slot), self._patience)
        except OutcomeUnknown as e:
            raise unknown(entry.op, e) from e

    def confirm(self, entry: Entry, op: Id) -> Entry:
        """The entry of an operation that was found by reading, once the store says that the slot is taken for good."""
        try:
            slot = self._slot(entry.position)
            confirm(self._store, slot, _format_entry(entry, slot))
        except OutcomeUnknown as e:
            raise unknown(op, e) from e
        return entry

    def _remember(self, state: State, entry: Entry) -> None:
        """Keep the new state; now and then leave hints for others, which may fail."""
        entries = dict(state.entries)
        _apply(entries, entry.changes)
        new = self._learn(State(entry.position, entry.at, entries, state.owner))
        with suppress(ShoalError):
            if entry.position % SNAPSHOT_EVERY == 0:
                key = self._snapshot(entry.position)
                self._store.put(key, _format_snapshot(new, key))
            if entry.position % HEAD_EVERY == 0:
                head = record([("position", uint64(entry.position))])
                self._store.put(self._head, seal([head], self._head))


def _apply(entries: dict[str, Value], changes: Changes) -> None:
    for key, value in changes.items():
        if value is None:
            entries.pop(key, None)
        else:
            entries[key] = value


# ---- entries as values


def _format_entry(entry: Entry, slot: str) -> bytes:
    members = [record([("op", id_value(op)), ("commit", id_value(commit))]) for op, commit in entry.group.items()]
    group = [("group", Value(t.array(members[0].type), tuple(each.data for each in members)))] if members else []
    head = named("Entry", ("op", id_value(entry.op)), ("at", time_value(entry.at)), *group)
    return seal([head, *(_change(key, value) for key, value in entry.changes.items())], slot)


def _change(key: str, value: Value | None) -> Value:
    return record([("key", string(key)), ("value", NULL if value is None else value)])


def _parse_entry(data: bytes, position: int, where: str) -> Entry:
    values = unseal(data, where)
    if not values:
        raise CorruptData(f"{where}: an entry without a head")
    changes = dict(_parse_change(v, where) for v in values[1:])
    head = values[0]
    group = {Id(op): Id(commit) for op, commit in get_or(head, "group", ())}
    return Entry(position, get_id(head, "op", where), get_data(head, "at", where), changes, group)


def _parse_change(value: Value, where: str) -> tuple[str, Value | None]:
    item = value.field("value")
    return get_data(value, "key", where), None if item is None or item.data is None else item


def _format_snapshot(state: State, key: str) -> bytes:
    head = named("Snapshot", ("position", uint64(state.position)), ("at", time_value(state.at)))
    return seal([head, *(_change(name, value) for name, value in state.entries.items())], key)
