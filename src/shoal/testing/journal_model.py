"""The journal protocol as a state machine, and all the states that it can reach.

Surprising: what makes the protocol safe is neither the read-back nor the op-id alone. It is that a put into a
slot is sent only by a writer that has compared every entry before that slot with its own op-id. Entries do not
change, so a second entry of an operation would have to be put by a writer that had read the first. Late puts,
crashes, repeats and two attempts at once change nothing about that. It breaks as soon as a repeat begins past the
position where its operation began, as at a newer HEAD; and when entries are deleted: a late put into a dead slot leaves
rubbish in the slot of the own entry, so that the tail has to be read before a put as well as after it.

Writers are alike, so states that differ only in the names of the writers are explored once and counted as many.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from enum import IntEnum
from math import factorial
from typing import NamedTuple

_ABSENT = 0
_HEAD = 0
"""HEAD as the target of a request; slots count from 1."""


@dataclass(frozen=True, slots=True)
class Rules:
    """What is explored, and which rules writers keep: `False` is a planted mistake."""

    writers: int = 3
    operations: int = 2
    """How many operations each writer has to do, one after the other."""
    faults: int = 2
    """How often the world may misbehave, over all writers."""
    has_late: bool = True
    """Whether requests may arrive when their sender has given them up."""
    has_head: bool = False
    """Whether HEAD is part of the world. Without it writers begin at the last entry that they know: the stalest of
    all positions, from which those that HEAD could name are reached by scanning."""
    trims: bool = False
    """Whether the tail of the journal moves and entries before it are deleted."""
    attempts: int = 1
    """How many of the writers are attempts at the same operation, going on at the same time. With more than one,
    `operations` is 1: an attempt at a second operation could begin past the entry of another attempt at it."""

    reads_back: bool = True
    """After anything but a clean success the slot is read again."""
    compares: bool = True
    """Entries met while scanning forward are compared with the own op-id."""
    probes_past_head: bool = True
    """HEAD is a hint. If not: the journal ends where HEAD says."""
    acknowledges_last: bool = True
    """The caller hears of success when the put has landed. If not: before it is sent."""
    repeats_from_the_start: bool = True
    """A repeat scans from where its operation first began. If not: from HEAD."""
    checks_boundary: bool = True
    """After success the tail is read: an entry in a slot before it is none."""
    looks_back: bool = True
    """Before a put, too, the tail is read: what the scan passed may have been rubbish in dead slots, instead of
    the own entry."""
    keeps_trimmed: bool = True
    """The op-ids of trimmed entries are kept."""
    moves_tail_first: bool = True
    """An entry is deleted only when the tail has moved past it."""


class Phase(IntEnum):
    """What a writer does next."""

    READY = 0
    """Between two operations."""
    SCAN = 1
    """Read the next slot."""
    LOOK_BACK = 2
    """Read the tail: the next slot is free, or dead."""
    PUT = 3
    """Put into the next slot."""
    REREAD = 4
    """Read the slot of the put, whose outcome was not a clean success."""
    CHECK = 5
    """Read the tail: the own entry is in the next slot."""
    PUBLISH = 6
    """Write HEAD; only writers that trust HEAD must."""
    UNKNOWN = 7
    """The caller got the error that the outcome is unknown."""
    GONE = 8
    """The process died."""


class Late(NamedTuple):
    """A request that its sender gave up and that may still arrive."""

    target: int
    """A slot, or _HEAD."""
    content: int
    """The number of the operation; for HEAD, what HEAD will say."""


class Writer(NamedTuple):
    """A writer. It does not know its name, so that equal writers are equal."""

    phase: Phase = Phase.READY
    operation: int = 0
    at: int = 0
    """Every entry up to here was read and is another's."""
    since: int = 0
    """Where the operation began: nothing up to here can be of it."""
    acknowledged: int = 0
    """A bit for each operation."""
    late: tuple[Late, ...] = ()


class Journal(NamedTuple):
    """What is in the store. An entry is the op-id: a number over all writers, from 1."""

    slots: tuple[int, ...] = ()
    kept: tuple[int, ...] = ()
    """The op-ids of the entries before the tail, and so the position of the tail."""
    deleted: int = 0
    """How many slots were emptied. A put into one of them succeeds, and nobody will read it."""
    head: int = 0

    @property
    def tail(self) -> int:
        """How many entries were trimmed."""
        return len(self.kept)

    @property
    def history(self) -> tuple[int, ...]:
        """The entries that count."""
        return self.kept + self.slots[len(self.kept) :]

    def read(self, slot: int) -> int:
        """What is in a slot."""
        return self.slots[slot - 1] if 0 < slot <= len(self.slots) else _ABSENT

    def write(self, slot: int, entry: int) -> Journal:
        """With another content of a slot."""
        slots = self.slots + (_ABSENT,) * (slot - len(self.slots))
        return Journal((*slots[: slot - 1], entry, *slots[slot:]), self.kept, self.deleted, self.head)

    def create(self, slot: int, entry: int) -> Journal:
        """Put if missing."""
        return self if self.read(slot) else self.write(slot, entry)

    def with_head(self, head: int) -> Journal:
        """With another HEAD."""
        return Journal(self.slots, self.kept, self.deleted, head)


class State(NamedTuple):
    """The whole world."""

    journal: Journal
    writers: tuple[Writer, ...]
    faults: int
    """How many are left."""


class Step(NamedTuple):
    """A transition: who, what, and the world after it."""

    actor: int
    """The number of a writer; -1 is nobody's doing."""
    text: str
    after: State
    is_expected: bool = True
    """Whether progress may rest on it: not on faults, on luck, or on the dead coming back."""


Steps = Iterator[Step]


class _Move:
    """One writer's view of a state, and how to write down what it does."""

    __slots__ = ("i", "journal", "me", "op", "rules", "slot", "state")

    def __init__(self, rules: Rules, state: State, i: int) -> None:
        self.rules = rules
        self.state = state
        self.journal = state.journal
        self.i = i
        self.me = state.writers[i]
        self.op = op_id(rules, i, self.me.operation)
        self.slot = self.me.at + 1

    def to(self, text: str, me: Writer, journal: Journal | None = None) -> Step:
        """A step in which nothing goes wrong."""
        return self._step(text, me, journal, 0)

    def fault(self, text: str, me: Writer, journal: Journal | None = None) -> Steps:
        """A step in which something goes wrong, if it still may."""
        if self.state.faults:
            yield self._step(text, me, journal, 1)

    def _step(self, text: str, me: Writer, journal: Journal | None, faults: int) -> Step:
        writers = self.state.writers
        after = State(
            self.journal if journal is None else journal,
            (*writers[: self.i], me, *writers[self.i + 1 :]),
            self.state.faults - faults,
        )
        return Step(self.i, text, after, faults == 0)

    def phase(self, phase: Phase) -> Writer:
        """In another phase, at the same slot."""
        _, operation, at, since, acknowledged, late = self.me
        return Writer(phase, operation, at, since, acknowledged, late)

    def stopped(self, phase: Phase) -> Writer:
        """In a phase that forgets the position of the scan."""
        _, operation, _, since, acknowledged, late = self.me
        return Writer(phase, operation, since, since, acknowledged, late)

    def scanning(self, at: int) -> Writer:
        """Scanning, from a position."""
        _, operation, _, since, acknowledged, late = self.me
        return Writer(Phase.SCAN, operation, at, since, acknowledged, late)

    def acknowledged(self, at: int) -> Writer:
        """Success is reported; on to the next operation, knowing the journal up to a position."""
        _, operation, _, _, acknowledged, late = self.me
        return Writer(Phase.READY, operation + 1, at, at, acknowledged | 1 << operation, late)

    def at_the_end(self) -> Writer:
        """The next slot is free."""
        if self.rules.trims and self.rules.looks_back:
            return self.phase(Phase.LOOK_BACK)
        if self.rules.acknowledges_last:
            return self.phase(Phase.PUT)
        _, operation, at, since, acknowledged, late = self.me
        return Writer(Phase.PUT, operation, at, since, acknowledged | 1 << operation, late)

    def in_place(self) -> Writer:
        """The own entry is in the next slot."""
        if self.rules.trims and self.rules.checks_boundary:
            return self.phase(Phase.CHECK)
        if not self.rules.probes_past_head:
            return self.phase(Phase.PUBLISH)
        return self.acknowledged(self.slot)

    def late(self, text: str, me: Writer, target: int, content: int) -> Steps:
        """A step that leaves a request on its way, for which nobody waits."""
        if self.rules.has_late:
            late = tuple(sorted((*me.late, Late(target, content))))
            yield from self.fault(text, me._replace(late=late))


def op_id(rules: Rules, writer: int, operation: int) -> int:
    """The op-id of an operation: the same each time it is tried."""
    return (0 if writer < rules.attempts else writer * rules.operations) + operation + 1


def _ready(move: _Move) -> Steps:
    """Begin the next operation from HEAD or from the state read before; or rewrite HEAD first, or never."""
    _, operation, at, _, acknowledged, late = move.me
    rules, journal = move.rules, move.journal
    if rules.has_head and rules.probes_past_head and journal.head != at:
        yield move.to("writes HEAD", move.me, journal.with_head(at))
        yield from move.late("writes HEAD, late", move.me, _HEAD, at)
    if operation == rules.operations:
        return
    if not rules.probes_past_head:
        yield move.to("believes HEAD", Writer(Phase.PUT, operation, journal.head, journal.head, acknowledged, late))
        return
    hint = journal.head if journal.head > at and journal.read(journal.head) else at
    yield move.to("begins", Writer(Phase.SCAN, operation, hint, hint, acknowledged, late))


def _scan(move: _Move) -> Steps:
    """Compare the entry of the next slot; where there is none, the journal ends."""
    entry = move.journal.read(move.slot)
    if entry == _ABSENT:
        yield move.to("finds the end", move.at_the_end())
    elif entry == move.op and move.rules.compares:
        yield move.to("finds its entry", move.in_place())
    else:
        yield move.to("passes an entry", move.scanning(move.slot))
    yield from move.fault("cannot read", move.stopped(Phase.UNKNOWN))


def _look_back(move: _Move) -> Steps:
    """Put only if the own entry is not among the trimmed ones."""
    tail = move.journal.tail
    if move.rules.keeps_trimmed and move.op in move.journal.kept:
        yield move.to("looks back, was trimmed", move.acknowledged(max(move.me.at, tail)))
    elif move.me.at < tail:
        yield move.to("looks back, is before the tail", move.scanning(tail))
    else:
        yield move.to("looks back", move.phase(Phase.PUT))
    yield from move.fault("cannot read the tail", move.stopped(Phase.UNKNOWN))


def _put(move: _Move) -> Steps:
    """Put if missing, with its three outcomes."""
    unclear = move.phase(Phase.REREAD)
    if move.journal.read(move.slot) == _ABSENT:
        landed = move.journal.create(move.slot, move.op)
        yield move.to("puts, lands", move.in_place(), landed)
        yield from move.fault("puts, lands, hears nothing", unclear, landed)
    else:
        yield move.to("puts, loses", unclear)
    yield from move.fault("puts, is refused or fails, nothing applied", unclear)
    yield from move.late("puts, late, hears nothing", unclear, move.slot, move.me.operation)
    yield from move.late("dies with its put on the way", move.stopped(Phase.GONE), move.slot, move.me.operation)


def _reread(move: _Move) -> Steps:
    """Find out what became of the put."""
    if not move.rules.reads_back:
        yield move.to("tries again", move.scanning(move.me.at))
        return
    entry = move.journal.read(move.slot)
    if entry == move.op:
        yield move.to("reads back its entry", move.in_place())
    elif entry == _ABSENT:
        yield move.to("reads back nothing, will put again", move.phase(Phase.PUT))
        yield move.to("reads back nothing, gives up", move.stopped(Phase.UNKNOWN))
    elif move.rules.probes_past_head:
        yield move.to("reads back another's", move.scanning(move.slot))
    else:
        yield move.to("reads back another's, asks HEAD again", move.stopped(Phase.READY))
    yield from move.fault("cannot read back", move.stopped(Phase.UNKNOWN))


def _check(move: _Move) -> Steps:
    """An entry counts if its slot is past the tail, or if it was there when it was trimmed."""
    tail = move.journal.tail
    if move.slot > tail:
        yield move.to("is past the tail", move.acknowledged(move.slot))
    elif move.rules.keeps_trimmed and move.op in move.journal.kept:
        yield move.to("was trimmed", move.acknowledged(tail))
    else:
        yield move.to("is in a dead slot", move.scanning(tail))
    yield from move.fault("cannot read the tail", move.stopped(Phase.UNKNOWN))


def _publish(move: _Move) -> Steps:
    yield move.to("writes HEAD", move.acknowledged(move.slot), move.journal.with_head(move.slot))
    yield from move.late("writes HEAD, late", move.me, _HEAD, move.slot)


def _unknown(move: _Move) -> Steps:
    """The caller repeats the operation with the same op-id, or forgets about it."""
    yield move.to("is asked again", _again(move))
    _, operation, at, since, acknowledged, late = move.me
    forgotten = Writer(Phase.READY, operation + 1, at, since, acknowledged, late)
    yield move.to("is not asked again", forgotten)._replace(is_expected=False)


def _gone(move: _Move) -> Steps:
    yield move.to("comes back, is asked again", _again(move))._replace(is_expected=False)


def _again(move: _Move) -> Writer:
    """Repeat the operation, from where it first began."""
    if not move.rules.probes_past_head:
        return move.stopped(Phase.READY)
    if not move.rules.repeats_from_the_start:
        return move.scanning(max(move.me.since, move.journal.head))
    return move.scanning(move.me.since)


_DOES: dict[Phase, Callable[[_Move], Steps]] = {
    Phase.READY: _ready,
    Phase.SCAN: _scan,
    Phase.LOOK_BACK: _look_back,
    Phase.PUT: _put,
    Phase.REREAD: _reread,
    Phase.CHECK: _check,
    Phase.PUBLISH: _publish,
    Phase.UNKNOWN: _unknown,
    Phase.GONE: _gone,
}
_AT_REST = (Phase.READY, Phase.UNKNOWN, Phase.GONE)
"""Phases in which death changes nothing: there is no work to lose."""


def _dies(move: _Move) -> Steps:
    if move.me.phase not in _AT_REST:
        yield from move.fault("dies", move.stopped(Phase.GONE))


def _arrives(move: _Move) -> Steps:
    """A late request is carried out."""
    for k, (target, content) in enumerate(move.me.late):
        me = move.me._replace(late=move.me.late[:k] + move.me.late[k + 1 :])
        if target == _HEAD:
            step = move.to("has a late HEAD written", me, move.journal.with_head(content))
        else:
            landed = move.journal.create(target, op_id(move.rules, move.i, content))
            step = move.to(f"has a late put into slot {target} arrive", me, landed)
        yield step._replace(is_expected=False)


def _trims(rules: Rules, state: State) -> Steps:
    """Move the tail by one, or delete one entry. The newest entry stays."""
    slots, kept, deleted, head = journal = state.journal
    newest = len(slots) - 1
    if len(kept) < newest:
        moved = Journal(slots, (*kept, slots[len(kept)]), deleted, head)
        yield Step(-1, "the tail moves", State(moved, state.writers, state.faults), False)
    if deleted < (len(kept) if rules.moves_tail_first else newest):
        emptied = journal.write(deleted + 1, _ABSENT)._replace(deleted=deleted + 1)
        yield Step(-1, f"slot {deleted + 1} is emptied", State(emptied, state.writers, state.faults), False)


def start(rules: Rules) -> State:
    """Where every run begins."""
    return State(Journal(), (Writer(),) * rules.writers, rules.faults)


def steps(rules: Rules, state: State) -> Steps:
    """All that may happen next."""
    for i, writer in enumerate(state.writers):
        move = _Move(rules, state, i)
        yield from _DOES[writer.phase](move)
        yield from _dies(move)
        if writer.late:
            yield from _arrives(move)
    if rules.trims:
        yield from _trims(rules, state)


def is_finished(rules: Rules, state: State) -> bool:
    """Whether every writer that is alive has nothing left to do."""
    return all(w.phase is Phase.GONE or w.operation == rules.operations for w in state.writers)


def seen_by_readers(rules: Rules, journal: Journal) -> tuple[int, ...]:
    """The history as a reader sees it that opens the journal now."""
    return journal.history if rules.probes_past_head else journal.history[: journal.head]


def broken_in(rules: Rules, state: State) -> str | None:
    """Which promise a state breaks, if any."""
    history = seen_by_readers(rules, state.journal)
    if _ABSENT in history:
        return "the history has a gap"
    if len(set(history)) != len(history):
        return "an operation is in the history twice"
    for i, writer in enumerate(state.writers):
        for operation in range(rules.operations):
            if writer.acknowledged >> operation & 1 and op_id(rules, i, operation) not in history:
                return "an acknowledged operation is not in the history"
    return None


def broken_by(rules: Rules, before: Journal, after: Journal) -> str | None:
    """Which promise a change of the journal breaks, if any."""
    if after is before:
        return None
    was, history = seen_by_readers(rules, before), seen_by_readers(rules, after)
    return None if history[: len(was)] == was else "the history did not only grow"


@dataclass(frozen=True, slots=True)
class Verdict:
    """What an exploration found."""

    states: int
    """All states that were reached."""
    classes: int
    """States that differ in more than the names of writers."""
    violation: str | None = None
    trace: tuple[str, ...] = ()
    """The shortest way to the violation."""


class _Codes:
    """States as numbers, the same for states that differ only in the names of writers."""

    _BITS = 20

    def __init__(self, rules: Rules) -> None:
        self._rules = rules
        self._writers: list[Writer] = []
        self._writer_codes: dict[Writer, int] = {}
        self._journals: list[tuple[Journal, int]] = []
        self._journal_codes: dict[tuple[Journal, int], int] = {}
        self._in_journal: dict[Journal, tuple[int, ...]] = {}
        self._renamed: dict[tuple[Journal, tuple[int, ...]], Journal] = {}

    def encode(self, state: State) -> int:
        journal, writers, faults = state
        codes = [self._writer_code(writer) for writer in writers]
        order = self._order(journal, codes)
        journal = self._rename(journal, order)
        key = journal, faults
        code = self._journal_codes.get(key)
        if code is None:
            code = self._journal_codes[key] = len(self._journals)
            self._journals.append(key)
        for i in order:
            code = code << self._BITS | codes[i]
        return code

    def decode(self, code: int) -> State:
        writers: list[Writer] = []
        for _ in range(self._rules.writers):
            writers.append(self._writers[code & (1 << self._BITS) - 1])
            code >>= self._BITS
        journal, faults = self._journals[code]
        return State(journal, tuple(reversed(writers)), faults)

    def count(self, code: int) -> int:
        """How many states this one stands for."""
        state = self.decode(code)
        if self._rules.attempts > 1:
            return 1
        free = state.writers[len(self._named(state.journal)) :]
        count = factorial(len(state.writers))
        for writer in set(free):
            count //= factorial(free.count(writer))
        return count

    def _writer_code(self, writer: Writer) -> int:
        code = self._writer_codes.get(writer)
        if code is None:
            code = self._writer_codes[writer] = len(self._writers)
            self._writers.append(writer)
            assert code < 1 << self._BITS
        return code

    def _order(self, journal: Journal, codes: list[int]) -> tuple[int, ...]:
        """The writers, in the order of their entries, then of what they do."""
        named = self._named(journal)
        free = [i for i in range(len(codes)) if i not in named]
        if len(free) > 1:
            free.sort(key=codes.__getitem__)
        return (*named, *free)

    def _named(self, journal: Journal) -> tuple[int, ...]:
        """The writers that can be distinguished: those with entries, in the order of the first of each."""
        if self._rules.attempts > 1:
            return tuple(range(self._rules.writers))
        named = self._in_journal.get(journal)
        if named is None:
            writers = {(op - 1) // self._rules.operations: None for op in (*journal.kept, *journal.slots) if op}
            named = self._in_journal[journal] = tuple(writers)
        return named

    def _rename(self, journal: Journal, order: tuple[int, ...]) -> Journal:
        if order == tuple(range(len(order))):
            return journal
        key = journal, order
        renamed = self._renamed.get(key)
        if renamed is None:
            each = self._rules.operations
            names = {i * each + n + 1: k * each + n + 1 for k, i in enumerate(order) for n in range(each)}
            names[_ABSENT] = _ABSENT
            slots, kept, deleted, head = journal
            renamed = Journal(tuple(names[op] for op in slots), tuple(names[op] for op in kept), deleted, head)
            self._renamed[key] = renamed
        return renamed


def explore(rules: Rules, *, progress: bool = False) -> Verdict:
    """Reach all states, breadth first, and stop at the first broken promise.

    With `progress` it is a promise too that from every state the writers that are alive can finish, whatever has gone
    wrong before, if nothing goes wrong after.
    """
    codes = _Codes(rules)
    first = codes.encode(start(rules))
    parents = {first: first}
    origins: dict[int, list[int]] = {}
    queue = deque([first])
    while queue:
        code = queue.popleft()
        state = codes.decode(code)
        for step in steps(rules, state):
            after = codes.encode(step.after)
            if after not in parents:
                parents[after] = code
                queue.append(after)
                if violation := broken_in(rules, step.after):
                    return _verdict(rules, codes, parents, violation, _path(parents, after))
            if violation := broken_by(rules, state.journal, step.after.journal):
                return _verdict(rules, codes, parents, violation, [*_path(parents, code), after])
            if progress and step.is_expected:
                origins.setdefault(after, []).append(code)
    if progress and (stuck := _stuck(rules, codes, parents, origins)) is not None:
        return _verdict(rules, codes, parents, "a writer that is alive cannot finish", _path(parents, stuck))
    return _verdict(rules, codes, parents, None, [])


def _stuck(rules: Rules, codes: _Codes, parents: Iterable[int], origins: dict[int, list[int]]) -> int | None:
    """The first state from which no expected steps lead to the end."""
    good = {code for code in parents if is_finished(rules, codes.decode(code))}
    queue = list(good)
    while queue:
        for origin in origins.get(queue.pop(), ()):
            if origin not in good:
                good.add(origin)
                queue.append(origin)
    return next((code for code in parents if code not in good), None)


def _verdict(rules: Rules, codes: _Codes, parents: dict[int, int], violation: str | None, path: list[int]) -> Verdict:
    return Verdict(sum(map(codes.count, parents)), len(parents), violation, tuple(_trace(rules, codes, path)))


def _path(parents: dict[int, int], code: int) -> list[int]:
    path = [code]
    while parents[code] != code:
        code = parents[code]
        path.append(code)
    return path[::-1]


def _trace(rules: Rules, codes: _Codes, path: list[int]) -> Iterator[str]:
    """A path as text. It is walked again, because codes do not identify writers."""
    state = start(rules)
    for number, code in enumerate(path[1:], 1):
        step = next(step for step in steps(rules, state) if codes.encode(step.after) == code)
        state = step.after
        who = "" if step.actor < 0 else f"{chr(ord('a') + step.actor)} "
        yield f"{number:2} {who}{step.text}: {_shown(rules, state.journal)}"


def _shown(rules: Rules, journal: Journal) -> str:
    names = {
        op_id(rules, i, n): f"{chr(ord('a') + i)}{n + 1}"
        for i in reversed(range(rules.writers))
        for n in range(rules.operations)
    }
    text = " ".join(names.get(op, "-") for op in journal.slots)
    head = f" HEAD {journal.head}" if rules.has_head else ""
    tail = f" tail {journal.tail}" if rules.trims else ""
    return f"[{text}]{head}{tail}"
