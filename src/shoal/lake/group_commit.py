"""Group commit: loads to one branch that are ready at the same moment come as a chain of commits, by one entry.

The entry names the operation of each member, so that it is found as if it had come alone. Only first attempts are in
groups: an operation that has been begun already, here or elsewhere, is done alone, and looks for its entry first.
Why nothing is lost or doubled by that is in `docs/adr/0018-group-commit.md`.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from copy import copy
from dataclasses import dataclass, field

from shoal.errors import Conflict, InvalidInput, OutcomeUnknown, ShoalError, StorageFailure
from shoal.ids import Id, new
from shoal.lake import branches, changes
from shoal.lake.branches import Refs, VacuumMark
from shoal.lake.claims import unknown
from shoal.lake.commits import Commit, Note
from shoal.lake.journal import Entry, Group, State
from shoal.lake.objects import DataObject
from shoal.lake.pools import Pool

MOST = 64
"""How many loads a group has at most: each commit of it lists those before, up to the last checkpoint."""
AT_ONCE = 8
"""How many commits are written at a time."""


class BegunElsewhere(Exception):
    """Another attempt at this operation is under way or has been: it has to be done alone."""


Outcome = Id | ShoalError | BegunElsewhere


@dataclass
class Load:
    """A load whose data is written, in search of a commit."""

    objects: tuple[DataObject, ...]
    note: Note
    op: Id
    outcome: Outcome | None = None
    """None as long as it is in the group."""
    commit: Commit | None = None
    """What was last written for it."""
    stands_on: tuple[Commit | None, VacuumMark | None] | None = None
    """The commit before that, all of it, since two attempts at an operation give its first commit the same id; and
    the last vacuum at that time."""
    retries: int = 0


class _NothingLeft(Exception):
    """All members have left the group."""


class Chain:
    """One group on its way to the journal. `arrived` gives those who want to come along."""

    def __init__(self, pool: Pool, branch: str, first: Load, arrived: Callable[[int], Iterable[Load]]) -> None:
        self._pool = pool
        self._branch = branch
        self._arrived = arrived
        self._seen: int | None = None
        """How far the journal has been searched for the members."""
        self._limit = MOST
        """How many go into the next entry. It shrinks with each race that is lost: who writes much loses often."""
        self._proposed: Mapping[Id, Id] = {}
        self.members = [first]

    def commit(self) -> None:
        """Let every member have an outcome. Nothing but what ends the process is raised."""
        while self._left():
            self._limit, self._proposed = 2 * MOST, {}
            try:
                self._settle(self._pool.journal.change(new(), self._plan))
            except _NothingLeft:
                pass
            except OutcomeUnknown as e:
                self._give_up(e.__cause__ if isinstance(e.__cause__, OutcomeUnknown) else e)
            except ShoalError as e:
                for load in self._left():
                    load.outcome = copy(e)

    def leave_checkpoint(self) -> None:
        """Write the newest checkpoint that is due among the commits that have landed."""
        landed = [load.commit for load in self.members if load.commit and load.outcome == load.commit.id]
        for commit in reversed(landed):
            if self._pool.snapshots.is_due(commit):
                self._pool.leave_checkpoint(commit)
                return

    def _left(self) -> list[Load]:
        return [load for load in self.members if load.outcome is None]

    def _settle(self, entry: Entry) -> None:
        for load in self._left():
            if entry.has(load.op):
                load.outcome = branches.commit_made(entry, load.op, self._branch)

    def _give_up(self, cause: OutcomeUnknown) -> None:
        """Nobody knows what became of those who were in the entry; of the others, nothing did."""
        for load in self._left():
            is_in = load.op in self._proposed
            load.outcome = unknown(load.op, cause) if is_in else StorageFailure(str(cause))

    def _plan(self, state: State) -> Group:
        self._limit = max(1, self._limit // 2)
        refs = Refs(state)
        tip = refs.branch(self._branch).commit
        self._meet_others(state)
        if self._limit == MOST:
            self._take()
        for load in self._left():
            try:
                self._pool.check_adds(load.objects, state, is_fresh=True)
            except Conflict as e:
                load.outcome = e
        # Who cannot be written leaves a gap, and those after it need other parents.
        while not self._write(tip, refs.vacuum, state.position):
            pass
        chain = [load.commit for load in self._left()[: self._limit] if load.commit is not None]
        if not chain:
            raise _NothingLeft
        self._proposed = {commit.op: commit.id for commit in chain}
        return Group(branches.set_branch(self._branch, chain[-1].id, chain[-1].date), self._proposed)

    def _take(self) -> None:
        """Those who have arrived become members, but for a second attempt at what is in the group already."""
        for load in self._arrived(MOST - len(self.members)):
            if any(load.op == other.op for other in self.members):
                load.outcome = BegunElsewhere()
            self.members.append(load)

    def _meet_others(self, state: State) -> None:
        """Those leave whom another attempt has done meanwhile."""
        if self._seen is not None:
            for position in range(self._seen + 1, state.position + 1):
                entry = self._pool.journal.entry(position)
                for load in self._left():
                    if entry.has(load.op):
                        load.outcome = BegunElsewhere()
        self._seen = state.position

    def _write(self, tip: Id | None, vacuum: VacuumMark | None, position: int) -> bool:
        """Store the commits of all who are left as a chain on a tip; False if somebody had to leave."""
        parent = None if tip is None else self._pool.commits.read(tip)
        checkpoint, since = self._pool.snapshots.hints(parent)
        changed: list[tuple[Load, Commit]] = []
        for load in self._left()[: self._limit]:
            if load.commit is not None and load.stands_on == (parent, vacuum):
                commit = load.commit
            else:
                ident = load.op if load.commit is None else new()
                commit = self._commit(load, ident, parent, checkpoint, since, position)
                changed.append((load, commit))
                load.stands_on = parent, vacuum
            parent, checkpoint, since = commit, commit.checkpoint, (*commit.since, commit.id)
        for (load, commit), outcome in zip(changed, self._store(changed), strict=True):
            load.outcome = outcome
            load.commit = commit
        return all(load.outcome is None for load, _ in changed)

    def _commit(
        self, load: Load, ident: Id, parent: Commit | None, checkpoint: Id | None, since: tuple[Id, ...], position: int
    ) -> Commit:
        load.retries += load.commit is not None
        return Commit(
            ident,
            None if parent is None else parent.id,
            time.time_ns(),
            load.note,
            load.objects,
            retries=load.retries,
            generation=1 if parent is None else parent.generation + 1,
            checkpoint=checkpoint,
            op=load.op,
            position=position,
            since=since,
        )

    def _store(self, written: Sequence[tuple[Load, Commit]]) -> list[Outcome | None]:
        if len(written) < 2 or AT_ONCE < 2:
            return [self._store_one(load, commit) for load, commit in written]
        with ThreadPoolExecutor(min(AT_ONCE, len(written))) as threads:
            return list(threads.map(lambda pair: self._store_one(*pair), written))

    def _store_one(self, load: Load, commit: Commit) -> Outcome | None:
        """Store a commit, the first one of an operation under its id; why it was not, if it was not."""
        try:
            if commit.id != load.op:
                self._pool.commits.write(commit)
            elif not self._pool.commits.create(commit):
                return BegunElsewhere()
        except ShoalError as e:
            return e
        return None


def commit_group(pool: Pool, branch: str, loads: Sequence[Load]) -> list[Id | ShoalError]:
    """Commit loads as one group; the commit of each, or why there is none."""
    first, *others = loads
    waiting = list(others)

    def arrived(most: int) -> list[Load]:
        taken = waiting[:most]
        del waiting[:most]
        return taken

    chain = Chain(pool, branch, first, arrived)
    chain.commit()
    chain.leave_checkpoint()
    return [_outcome(pool, branch, load) for load in loads]


def _outcome(pool: Pool, branch: str, load: Load) -> Id | ShoalError:
    """What became of a load, which is done alone if it could not be done with others."""
    if load.outcome is not None and not isinstance(load.outcome, BegunElsewhere):
        return load.outcome
    try:
        return changes.load(pool, branch, load.objects, load.note, load.op)
    except ShoalError as e:
        return e


# ---- who leads


@dataclass
class _Waiter:
    load: Load
    is_called: threading.Event = field(default_factory=threading.Event)
    """Set when there is an outcome, or when it is to lead."""
    leads: bool = False


class GroupCommits:
    """The loads of one process to one pool."""

    def __init__(self, pool: Pool, is_grouping: bool = True) -> None:
        self._pool = pool
        self._is_grouping = is_grouping
        self._lock = threading.Lock()
        self._waiting: dict[str, list[_Waiter]] = {}
        """Who waits, by branch; a branch is here as long as somebody leads."""

    def load(self, branch: str, objects: Sequence[DataObject], note: Note, op: Id | None = None) -> Id:
        """Add objects that were just written to a branch, together with what others load at the same moment.

        Only a new operation goes with others; one that was begun before is done by itself.
        """
        if not objects:
            raise InvalidInput("empty transaction")
        note = changes.with_message(note, changes.list_objects("loaded", objects))
        if not self._is_grouping:
            return changes.load(self._pool, branch, objects, note, op)
        ident = new() if op is None else op
        me = _Waiter(Load(tuple(objects), note, ident))
        if op is not None and (after := self._pool.began_after(op)) is not None:
            return changes.load(self._pool, branch, objects, note, op, after)
        self._join(branch, me)
        if me.leads:
            self._lead(branch, me)
        return self._told(branch, me.load)

    def _join(self, branch: str, me: _Waiter) -> None:
        """Come to lead, or to have an outcome."""
        with self._lock:
            if branch not in self._waiting:
                self._waiting[branch] = []
                me.leads = True
                return
            self._waiting[branch].append(me)
        try:
            me.is_called.wait()
        except BaseException:
            with self._lock:
                if me in self._waiting[branch]:
                    self._waiting[branch].remove(me)
            if me.leads:
                self._pass_on(branch)
            raise

    def _lead(self, branch: str, me: _Waiter) -> None:
        taken: list[_Waiter] = []

        def arrived(most: int) -> list[Load]:
            with self._lock:
                queue = self._waiting[branch]
                more, queue[:most] = queue[:most], []
            taken.extend(more)
            return [waiter.load for waiter in more]

        try:
            chain = Chain(self._pool, branch, me.load, arrived)
            chain.commit()
        finally:
            self._pass_on(branch)
            for waiter in taken:
                if waiter.load.outcome is None:
                    waiter.load.outcome = unknown(waiter.load.op, OutcomeUnknown("who led the group was interrupted"))
                waiter.is_called.set()
        chain.leave_checkpoint()

    def _pass_on(self, branch: str) -> None:
        """Let the first one who waits lead; if nobody does, there is no group under way."""
        with self._lock:
            queue = self._waiting[branch]
            if not queue:
                del self._waiting[branch]
                return
            following = queue.pop(0)
            following.leads = True
        following.is_called.set()

    def _told(self, branch: str, load: Load) -> Id:
        outcome = _outcome(self._pool, branch, load)
        if isinstance(outcome, ShoalError):
            raise outcome
        return outcome
