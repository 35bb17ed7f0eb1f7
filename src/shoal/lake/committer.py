"""The committer: the only way to put a new commit onto a branch.

A change is data: a branch, what to do there, and a note about it. Changes of one branch that are ready at the same
moment make a group, which is a chain of commits and one entry of the journal. A single commit is a group of one.

The commit of an operation's first attempt has the id of the operation, and says where the journal stood. So a repeat
knows from where on to look for its entry; if there is no such commit, there is no entry. Why nothing is lost or doubled
by that is in `docs/adr/0018-group-commit.md`.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from copy import copy
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from shoal.errors import AlreadyExists, Conflict, InvalidInput, NotFound, OutcomeUnknown, ShoalError, StorageFailure
from shoal.ids import Id, created_at, new, to_text
from shoal.lake import branches
from shoal.lake.actions import Patch, describe
from shoal.lake.branches import Refs, VacuumMark
from shoal.lake.claims import unknown
from shoal.lake.commits import Commit, Hints, Note
from shoal.lake.history import History, knows
from shoal.lake.journal import Entry, Group, Journal, State
from shoal.lake.names import Names
from shoal.lake.tallies import NO_RECORDS, Count, Tally, one_sided
from shoal.lazy import lazy
from shoal.model.node import frozen

if TYPE_CHECKING:
    from concurrent import futures
else:
    futures = lazy("concurrent.futures")

MOST = 64
"""How many commits a group has at most: each lists those before it, up to the last checkpoint."""
AT_ONCE = 8
"""How many commits are written at a time."""

Build = Callable[[Id | None], Patch]
"""From the tip of a branch to what to change there; called again if another writer was first."""


@frozen
class Change:
    """A commit that is to be made."""

    branch: str
    build: Patch | Build
    """A patch fits any tip."""
    note: Note
    op: Id | None = None
    """The id of the operation, by which it can be repeated."""
    merged: Id | None = None
    """The commit of another branch whose changes this one brings in."""
    needs: tuple[Id | None, ...] = ()
    """Commits that the new one refers to."""
    is_fresh: bool = False
    """Whether its data was just written, and no commit refers to it yet."""
    begun: int | None = None
    """A position that the journal had reached before that data was written, if it is known."""
    after: int | None = None
    """A position of the journal that is known to be before the entry of this operation."""
    check: Callable[[], None] | None = None
    """Called before each attempt: raises if something outside of the branch has changed that the commit depends on."""
    count: Count = one_sided
    """Counts the records that the patch concerns, as it lands."""
    is_maintenance: bool = False
    """Whether it only moves rows."""

    def tally(self, patch: Patch) -> Tally | None:
        """What a patch does in records. Nothing fails because that cannot be counted."""
        if self.is_maintenance:
            return NO_RECORDS
        try:
            return self.count(patch)
        except ShoalError:
            return None


Outcome = Id | ShoalError


@dataclass(eq=False)
class _Member:
    """A change on its way into a branch."""

    change: Change
    op: Id
    is_first: bool = True
    """Whether no attempt at this operation is known of: its commit is created under the id of the operation."""
    after: int | None = None
    """Entries up to this position have been searched for the operation, or cannot have it."""
    is_begun_elsewhere: bool = False
    """Another attempt at the operation turned up: look where it began before going on."""
    commit: Commit | None = None
    """The commit that was last written for it."""
    basis: tuple[Commit | None, VacuumMark | None] | None = None
    """The parent of that commit, all of it, since two attempts at an operation give its first commit the same id; and
    the last vacuum at that time."""
    written: set[Id] = field(default_factory=set)
    entry: Entry | None = None
    """The entry of another attempt."""
    outcome: Outcome | None = None
    """None as long as it is on its way."""

    @property
    def is_ready(self) -> bool:
        """Whether it can go into the next entry."""
        return self.outcome is None and self.entry is None and not self.is_begun_elsewhere


class _NothingLeft(Exception):
    """No member can go into an entry."""


Arrivals = Callable[[int], Iterable[_Member]]
"""Takes at most this many members from those that wait."""


class _Chain:
    """One group on its way to the journal, until each member has an outcome."""

    def __init__(self, committer: Committer, members: list[_Member], arrivals: Arrivals = lambda most: ()) -> None:
        self._committer = committer
        self._journal = committer.journal
        self._history = committer.history
        self._branch = members[0].change.branch
        self._arrivals = arrivals
        self._limit = MOST
        """How many go into the next entry. It halves with each race that is lost: large groups lose often."""
        self._proposed: Mapping[Id, Id] = {}
        self.members = members

    def commit(self) -> None:
        """Bring every member to an outcome. Only what ends the process is raised."""
        while left := self._left():
            for member in left:
                self._look_up(member)
            self._limit, self._proposed = 2 * MOST, {}
            try:
                self._journal.change(new(), self._plan, self._searched(), self._meet)
                for member in self._left():
                    member.outcome = self._proposed.get(member.op) if member.is_ready else None
            except _NothingLeft:
                pass
            except OutcomeUnknown as e:
                self._give_up(e.__cause__ if isinstance(e.__cause__, OutcomeUnknown) else e)
            except ShoalError as e:
                for number, member in enumerate(filter(_is_ready, self.members)):
                    member.outcome = copy(e) if number else e
            self._confirm()

    def leave_checkpoint(self) -> None:
        """Write the newest checkpoint that is due among the commits that have landed."""
        for member in reversed(self.members):
            if not isinstance(member.outcome, bytes):
                continue
            with suppress(ShoalError):
                commit = self._history.commits.read(member.outcome)
                if self._history.snapshots.is_due(commit):
                    self._history.leave_checkpoint(commit)
                    return

    def _left(self) -> list[_Member]:
        return [member for member in self.members if member.outcome is None]

    # ---- other attempts at the same operations

    def _look_up(self, member: _Member) -> None:
        """Find out where another attempt at the operation of a member began."""
        if not member.is_begun_elsewhere:
            return
        try:
            positions = (member.after, self._committer.began_after(member.op))
        except ShoalError as e:
            member.outcome = e
            return
        member.after = min((position for position in positions if position is not None), default=None)
        member.is_first, member.is_begun_elsewhere = False, False

    def _searched(self) -> int | None:
        """The position up to which the journal has been searched for all members."""
        return min((m.after for m in self.members if m.is_ready and m.after is not None), default=None)

    def _meet(self, entry: Entry) -> None:
        """Members that another attempt has brought in leave the group."""
        for member in self.members:
            if member.is_ready and entry.has(member.op):
                member.entry = entry

    def _confirm(self) -> None:
        """The outcome of members that were met in the entries of other attempts."""
        for member in self._left():
            if member.entry is not None:
                member.outcome = self._confirmed(member, member.entry)

    def _confirmed(self, member: _Member, entry: Entry) -> Outcome:
        try:
            self._journal.confirm(entry, member.op)
            commit = branches.commit_of(entry, member.op, self._branch)
            if commit not in member.written:
                self._committer.require_in(self._branch, commit)
        except ShoalError as e:
            return e
        return commit

    def _give_up(self, cause: OutcomeUnknown) -> None:
        """It is unknown what became of those that were in the entry; the others were not done."""
        for member in filter(_is_ready, self.members):
            is_in = member.op in self._proposed
            member.outcome = unknown(member.op, cause) if is_in else StorageFailure(str(cause))

    # ---- the entry

    def _plan(self, state: State) -> Group:
        self._limit = max(1, self._limit // 2)
        if self._limit == MOST:
            self.members.extend(self._arrivals(MOST - len(self.members)))
        if not any(map(_is_ready, self.members)):
            raise _NothingLeft
        refs = Refs(state)
        tip = refs.branch(self._branch).commit
        # A member that cannot be written leaves a gap, and those after it need other parents.
        while (chain := self._link(tip, refs, state)) is None:
            pass
        for member in filter(_is_ready, self.members):
            member.after = state.position
        if not chain:
            raise _NothingLeft
        self._proposed = {commit.op: commit.id for commit in chain}
        return Group(branches.set_branch(self._branch, chain[-1].id, chain[-1].date), self._proposed)

    def _link(self, tip: Id | None, refs: Refs, state: State) -> list[Commit] | None:
        """The commits of members on a tip, in the store; None if one of them could not be stored."""
        parent, hints = (None if tip is None else self._history.commits.read(tip)), None
        chain: list[Commit] = []
        unstored: list[tuple[_Member, Commit]] = []
        for member in self._next():
            try:
                if not isinstance(member.change.build, Patch) and unstored:
                    if not self._store(unstored):
                        return None
                    unstored = []
                commit = self._draft(member, parent, hints, refs, state)
            except ShoalError as e:
                member.outcome = e
                continue
            if commit is not member.commit:
                unstored.append((member, commit))
            chain.append(commit)
            parent, hints = commit, commit.hints
        return chain if self._store(unstored) else None

    def _next(self) -> Iterator[_Member]:
        """The members of the next entry. A second attempt at what is in it has to wait."""
        ops: set[Id] = set()
        for member in filter(_is_ready, self.members):
            if len(ops) == self._limit:
                return
            if member.op in ops:
                member.is_begun_elsewhere = True
                continue
            ops.add(member.op)
            yield member

    def _draft(self, member: _Member, parent: Commit | None, hints: Hints | None, refs: Refs, state: State) -> Commit:
        """The commit of a member on a parent: the one that was written before, as long as it stands on the same."""
        change = member.change
        self._committer.require_basis(change, state)
        if member.commit is not None and member.basis == (parent, refs.vacuum):
            self._committer.require_data(Patch(member.commit.actions), refs, change)
            return member.commit
        patch = self._committer.patch_at(change, None if parent is None else parent.id, refs)
        member.basis = parent, refs.vacuum
        ident = member.op if member.is_first and not member.written else new()
        commit = self._history.draft(parent, patch, change.note, change.merged, hints, ident)
        return replace(
            commit,
            op=member.op,
            retries=len(member.written),
            position=state.position,
            records=change.tally(patch),
            is_maintenance=change.is_maintenance,
        )

    def _store(self, drafts: Sequence[tuple[_Member, Commit]]) -> bool:
        """Write commits; False if a member had to leave."""
        if len(drafts) < 2 or AT_ONCE < 2:
            stored = [self._store_one(*draft) for draft in drafts]
        else:
            with futures.ThreadPoolExecutor(min(AT_ONCE, len(drafts))) as threads:
                stored = list(threads.map(lambda draft: self._store_one(*draft), drafts))
        return all(stored)

    def _store_one(self, member: _Member, commit: Commit) -> bool:
        """Write a commit, the first one of an operation under its id."""
        try:
            if commit.id != member.op:
                self._history.commits.write(commit)
            elif not self._history.commits.create(commit):
                member.is_begun_elsewhere = True
                return False
        except ShoalError as e:
            member.outcome = e
            return False
        member.commit = commit
        member.written.add(commit.id)
        return True


def _is_ready(member: _Member) -> bool:
    return member.is_ready


# ---- the committer of a pool


@dataclass(eq=False)
class _Waiter:
    member: _Member
    is_called: threading.Event = field(default_factory=threading.Event)
    """Set when there is an outcome, or when it is to lead."""
    leads: bool = False


class Committer:
    """Puts changes onto the branches of a pool. The threads of a process share one."""

    def __init__(
        self,
        journal: Journal,
        history: History,
        names: Names,
        is_grouping: bool = True,
        is_keyed: bool = False,
    ) -> None:
        self.journal = journal
        self.history = history
        self.names = names
        self._is_keyed = is_keyed
        self.is_grouping = is_grouping
        """Whether changes that threads `join` at the same moment share an entry of the journal."""
        self._lock = threading.Lock()
        self._waiting: dict[str, list[_Waiter]] = {}
        """Those that wait, by branch; a branch is here as long as somebody leads."""

    def commit(self, change: Change) -> Id:
        """Make a commit, by an entry of its own; its id."""
        (outcome,) = self.commit_all([change])
        return _landed(outcome)

    def commit_all(self, changes: Sequence[Change]) -> list[Outcome]:
        """Make commits on one branch as a group; the id of each, or why there is none."""
        if len({change.branch for change in changes}) != 1:
            raise InvalidInput("the changes of a group are to be for one branch")
        return self._finish([self._member(change) for change in changes])

    def _finish(self, members: list[_Member]) -> list[Outcome]:
        group = _Chain(self, members)
        group.commit()
        group.leave_checkpoint()
        return [member.outcome for member in members if member.outcome is not None]

    def _member(self, change: Change) -> _Member:
        """A change, and whether it was tried before."""
        member = _Member(change, new() if change.op is None else change.op, after=change.after)
        if change.op is not None and change.after is None:
            try:
                member.after = self.began_after(change.op)
            except ShoalError as e:
                member.outcome = e
            member.is_first = member.after is None
        return member

    # ---- what has been done under the id of an operation

    def once(self, op: Id | None, branch: str, act: Callable[[], Id]) -> Id:
        """The commit that `act` makes on a branch; under an id, the one that it has made already."""
        if op is None:
            return act()
        done = self.done(op, branch)
        try:
            return act() if done is None else done
        except (AlreadyExists, Conflict, InvalidInput, NotFound):
            # What it was to add, to remove or to merge may be so because another attempt has done it meanwhile.
            done = self.done(op, branch)
            if done is None:
                raise
            return done

    def done(self, op: Id, branch: str, after: int | None = None) -> Id | None:
        """The commit that an operation made on a branch; None if it has not."""
        after = self.began_after(op) if after is None else after
        if after is None:
            return None
        entry = next((entry for entry in self.journal.entries(after) if entry.has(op)), None)
        if entry is None:
            return None
        commit = branches.commit_of(entry, op, branch)
        self.require_in(branch, commit)
        return commit

    def began_after(self, op: Id) -> int | None:
        """The position of the journal before an operation that was tried already; None if it was not.

        A vacuum may have taken the commit that says so: an id from before it is refused.
        """
        commit = self.history.commits.lookup(op)
        if commit is not None:
            return commit.position
        if (began := self.journal.began(op)) is not None:
            return began
        mark = self.names.refs().vacuum
        if mark is not None and (created_at(op) + 1) * 10**9 <= mark.until:
            raise Conflict(
                f"{to_text(op)}: outcome unknown: a vacuum has run since this id was created "
                "(check the log, then retry with a new id; if this one is new, the clock that made it is behind)"
            )
        return None

    def require_in(self, branch: str, commit: Id) -> None:
        """Conflict if a commit of the past is no longer in its branch, which was dropped and created again, or rebased.

        The commit was made: a store that fails now does not change that.
        """
        try:
            is_in = knows(self.history.commits, self.names.refs().branch(branch).commit, commit)
        except StorageFailure:
            return
        if not is_in:
            raise Conflict(f'this operation was done as commit {to_text(commit)}, which is no longer in "{branch}"')

    # ---- what has to be there

    def require_basis(self, change: Change, state: State) -> None:
        """Raise if something that a change depends on, besides the tip of its branch, is no longer so."""
        if change.check is not None:
            change.check()
        for ident in change.needs:
            self.names.require_commit(ident, state)

    def patch_at(self, change: Change, tip: Id | None, refs: Refs) -> Patch:
        """What a change does on a tip; Conflict if it cannot be done there."""
        patch = change.build if isinstance(change.build, Patch) else change.build(tip)
        self.require_data(patch, refs, change)
        return patch

    def require_data(self, patch: Patch, refs: Refs, change: Change) -> None:
        """Conflict if what a patch newly refers to is not in the store, or is about to go."""
        if self._is_keyed and isinstance(change.build, Patch) and patch.adds:
            raise InvalidInput("this pool has a primary key, so what is added has to be compared with what is there")
        mark = refs.vacuum
        # A vacuum that was announced before the data was written cannot have listed it.
        if change.is_fresh and mark is not None and mark.position > (change.begun or 0):
            lost = self.names.vacuumed.objects(patch.references(), mark)
            if lost:
                raise Conflict(f"{describe(lost)}: a vacuum has removed this data before its commit (write it again)")
        purged = [o for o in patch.adds if refs.is_purged(o.id)]
        if purged:
            raise Conflict(f"{describe(purged)}: this data has been purged")

    # ---- the threads of this process

    def join(self, change: Change) -> Id:
        """Make a commit together with those that other threads join at the same moment; its id.

        An operation that was begun before goes by itself, since it has to be looked for in the journal first.
        """
        member = self._member(change)
        if not self.is_grouping or member.after is not None or member.outcome is not None:
            (outcome,) = self._finish([member])
            return _landed(outcome)
        waiter = _Waiter(member)
        self._wait(change.branch, waiter)
        if waiter.leads:
            self._lead(change.branch, waiter)
        assert member.outcome is not None
        return _landed(member.outcome)

    def _wait(self, branch: str, me: _Waiter) -> None:
        """Wait until this waiter leads the branch, or its change has an outcome."""
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

        def arrivals(most: int) -> list[_Member]:
            with self._lock:
                queue = self._waiting[branch]
                more, queue[:most] = queue[:most], []
            taken.extend(more)
            return [waiter.member for waiter in more]

        group = _Chain(self, [me.member], arrivals)
        try:
            group.commit()
        finally:
            self._pass_on(branch)
            for waiter in taken:
                if waiter.member.outcome is None:
                    cause = OutcomeUnknown("the thread that led the group was interrupted")
                    waiter.member.outcome = unknown(waiter.member.op, cause)
                waiter.is_called.set()
        group.leave_checkpoint()

    def _pass_on(self, branch: str) -> None:
        """Let the first one that waits lead; if there is none, no group is under way."""
        with self._lock:
            queue = self._waiting[branch]
            if not queue:
                del self._waiting[branch]
                return
            following = queue.pop(0)
            following.leads = True
        following.is_called.set()


def _landed(outcome: Outcome) -> Id:
    if isinstance(outcome, ShoalError):
        raise outcome
    return outcome
