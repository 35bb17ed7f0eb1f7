"""A pool: its journal, its commits, its data; and the one way by which branches come to new commits."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from importlib import import_module
from typing import TYPE_CHECKING, Any

from shoal.errors import Conflict, InvalidInput, NotFound, ShoalError, StorageFailure
from shoal.ids import Id, made_at, new, to_text
from shoal.lake import branches
from shoal.lake.branches import MAIN, Ref, Refs, VacuumMark
from shoal.lake.checkpoints import Checkpoints
from shoal.lake.commits import Commit, Commits, Note
from shoal.lake.history import knows
from shoal.lake.journal import Changes, Entry, Journal, Plan, State
from shoal.lake.objects import DataObject, key_of
from shoal.lake.pool_config import PoolConfig
from shoal.lake.snapshots import Patch, Snapshot, Snapshots, describe
from shoal.model.fields import NO_ID
from shoal.storage.store import Listed, ObjectStore
from shoal.storage.uris import reopen_store

if TYPE_CHECKING:
    from shoal.lake.object_writer import ObjectWriter

_SKEW = 24 * 3600
"""How many seconds the clocks of a writer and of the store may differ."""

Build = Callable[[Id | None], Patch]
"""From the tip of a branch to what to change there; called again if another writer was first."""


class _AlreadyBegun(Exception):
    """The commit of an operation's first attempt is somebody else's."""


class Pool:
    """A pool of a lake."""

    def __init__(self, store: ObjectStore, config: PoolConfig) -> None:
        self.store = store
        self.config = config
        self.prefix = to_text(config.id)
        self.commits = Commits(store, self.prefix)
        self.checkpoints = Checkpoints(store, self.prefix, config.key)
        self.snapshots = Snapshots(self.commits, self.checkpoints, config.key)
        self.journal = Journal(store, f"{self.prefix}/branches")
        self._op: Id | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        return _reopen, (self.store.uri, self.config)

    # ---- what there is

    def refs(self) -> Refs:
        """Branches and tags as they are now."""
        refs = Refs(self.journal.read())
        self.commits.horizon = refs.horizon
        return refs

    def resolve(self, commitish: str = "") -> Id | None:
        """The commit that a branch, a tag, an id or a time stands for; None is the empty beginning."""
        refs = self.refs()
        if (ref := refs.named(commitish or MAIN)) is not None:
            return ref.commit
        ident = branches.as_id(commitish)
        if ident is not None:
            return self._reachable(ident, refs)
        ns = branches.as_time(commitish)
        if ns is None:
            raise NotFound(f'"{commitish}": branch not found')
        main = Refs(self.journal.at_time(ns)).named(MAIN)
        if main is None:
            raise NotFound(f'{self.config.name}: there was no branch "{MAIN}" yet at {commitish}')
        return None if main.commit is None else self._reachable(main.commit, refs)

    def _reachable(self, ident: Id, refs: Refs) -> Id:
        """The id itself; NotFound for a commit that is not in the history that was kept."""
        self.commits.read(ident)
        if refs.horizon is not None and not self.descends(ident, refs.horizon):
            raise NotFound(f"{to_text(ident)}: this commit is older than {to_text(refs.horizon)}, where history begins")
        return ident

    def descends(self, tip: Id | None, ancestor: Id) -> bool:
        """Whether a commit is an ancestor of a tip, or the tip itself."""
        oldest = self.commits.read(ancestor).generation
        for commit in self.commits.walk(tip):
            if commit.generation <= oldest:
                return commit.id == ancestor
        return False

    def snapshot(self, commit: Id | None) -> Snapshot:
        """The objects at a commit."""
        return self.snapshots.at(commit)

    def log(self, tip: Id | None) -> Iterator[Commit]:
        """Commits from a tip back to the beginning of history."""
        horizon = self.refs().horizon
        for commit in self.commits.walk(tip):
            yield commit
            if commit.id == horizon:
                return

    # ---- names, which under the id of an operation are given and taken once

    def create_branch(self, name: str, at: Id | None, op: Id | None = None) -> None:
        """A new branch at a commit."""
        branches.check_name(name, "branch")

        def plan(state: State) -> Changes:
            Refs(state).require_free(name)
            self.require_commit(at, state)
            return branches.set_branch(name, at, time.time_ns())

        entry = self.once(op, plan)
        branches.require_set(entry.changes, branches.set_branch(name, at, 0))

    def create_tag(self, name: str, at: Id | None, op: Id | None = None) -> None:
        """A new tag at a commit, which never moves."""
        branches.check_name(name, "tag")

        def plan(state: State) -> Changes:
            Refs(state).require_free(name)
            if at is None:
                raise InvalidInput(f"{self.config.name}: there is no commit to tag yet")
            self.require_commit(at, state)
            return branches.set_tag(name, at, time.time_ns())

        entry = self.once(op, plan)
        branches.require_set(entry.changes, branches.set_tag(name, NO_ID, 0))

    def drop_branch(self, name: str, op: Id | None = None) -> Ref:
        """Remove a branch; what it pointed at. Its commits stay until a vacuum."""
        return self._drop(lambda refs: refs.branch(name), branches.drop_branch(name), op)

    def drop_tag(self, name: str, op: Id | None = None) -> Ref:
        """Remove a tag; what it pointed at."""
        return self._drop(lambda refs: refs.tag(name), branches.drop_tag(name), op)

    def once(self, op: Id | None, plan: Plan) -> Entry:
        """The entry of an operation that makes no commit of its own; InvalidInput for the id of one that did."""
        if op is not None and self.commits.has(op):
            raise InvalidInput(f"{to_text(op)}: this id is that of another operation (use a new one)")
        return self.journal.once(op, plan)

    def _drop(self, find: Callable[[Refs], Ref], changes: Changes, op: Id | None) -> Ref:
        found: dict[int, Ref] = {}

        def plan(state: State) -> Changes:
            found[state.position] = find(Refs(state))
            return changes

        entry = self.once(op, plan)
        branches.require_set(entry.changes, changes)
        before = entry.position - 1
        return found[before] if before in found else find(Refs(self.journal.at_position(before)))

    # ---- commits

    def require_commit(self, ident: Id | None, state: State) -> None:
        """NotFound for a commit that cannot be referred to any more: cut off, or taken by a vacuum, or about to be.

        What a branch or tag reaches stays. Anything else, as the tip of a branch that was dropped, is there as long as
        no vacuum that did not reach it was announced: its entry in the journal decides who was first.
        """
        if ident is None:
            return
        refs = Refs(state)
        if not self.is_reached(ident, refs):
            mark, found = refs.vacuum, self.commits.find(ident)
            if found is None or (mark is not None and self._is_taken(ident, found, mark)):
                raise NotFound(f"{to_text(ident)}: no branch or tag reaches this commit, and a vacuum has taken it")
        self._reachable(ident, refs)

    def is_reached(self, ident: Id, refs: Refs) -> bool:
        """Whether a branch or tag reaches a commit. Where history was cut, the data of what was merged may be gone."""
        tips = refs.tips()
        if ident in tips:
            return True
        if refs.horizon is not None:
            return any(self.descends(tip, ident) for tip in tips)
        return any(knows(self.commits, tip, ident) for tip in tips)

    def _is_taken(self, ident: Id, found: Listed, mark: VacuumMark) -> bool:
        if found.modified * 1e9 > mark.until:
            return False
        return not self.is_reached(ident, Refs(self.journal.at_position(mark.position)))

    def require_data(self, objects: Iterable[DataObject], state: State) -> None:
        """Conflict if a vacuum has taken objects that wait for their commit, or is about to."""
        mark = Refs(state).vacuum
        if mark is None:
            return
        for o in objects:
            if (made_at(o.id) - _SKEW) * 10**9 > mark.until:
                continue
            key = key_of(self.prefix, o)
            found = next((listed for listed in self.store.list(key) if listed.key == key), None)
            if found is None or found.modified * 1e9 <= mark.until:
                raise Conflict(f"{to_text(o.id)}: a vacuum has removed this data before its commit (write it again)")

    def writer(self) -> ObjectWriter:
        """Writes data objects, which nobody sees before a commit adds them."""
        module = import_module("shoal.lake.object_writer")
        made: ObjectWriter = module.ObjectWriter(self.store, self.prefix, self.config)
        return made

    def under(self, op: Id) -> Pool:
        """The same pool, for one operation that may be repeated by its id: the commit that it makes."""
        named = object.__new__(Pool)
        vars(named).update(vars(self), _op=op)
        return named

    def commit(
        self,
        branch: str,
        build: Build,
        note: Note,
        merged: Id | None = None,
        op: Id | None = None,
        after: int | None = None,
        needs: Iterable[Id | None] = (),
        is_fresh: bool = False,
    ) -> Id:
        """Put what `build` makes of the tip onto a branch, as one commit; its id.

        `needs` are commits that the new one refers to. With `is_fresh` its objects were just written.

        The commit of the first attempt has the id of the operation and says where the journal stood. So whoever
        repeats an operation finds out where to look for its entry; if there is no such commit, there is none.
        `after` is where whoever does it knows that it stood before, which need not be before the first attempt.
        """
        op = self._op if op is None else op
        ident = new() if op is None else op
        is_first = True
        if op is not None and after is None:
            after = self.began_after(op)
            is_first = after is None
        written: list[tuple[Commit, VacuumMark | None]] = []

        def plan(state: State) -> Changes:
            refs = Refs(state)
            tip = refs.branch(branch).commit
            for needed in needs:
                self.require_commit(needed, state)
            if written and written[-1][0].parent == tip and written[-1][1] == refs.vacuum:
                # Just another branch of the pool moved: the commit is good as it is, if its data is.
                commit = written[-1][0]
                self.check_adds(commit.adds, state, is_fresh)
                return branches.set_branch(branch, commit.id, commit.date)
            patch = build(tip)
            self.check_adds(patch.adds, state, is_fresh)
            made = self.new_commit(tip, patch, note, merged)
            commit = replace(made, op=ident, retries=len(written), position=state.position)
            if not written and is_first:
                commit = replace(commit, id=ident)
                if not self.commits.create(commit):
                    raise _AlreadyBegun
            else:
                self.commits.write(commit)
            written.append((commit, refs.vacuum))
            return branches.set_branch(branch, commit.id, commit.date)

        try:
            entry = self.journal.change(ident, plan, after)
        except _AlreadyBegun:
            # Somebody else does the same operation, or has begun it before: whoever comes first does it for all.
            began = self.began_after(ident)
            after, is_first = began if after is None or began is None else min(after, began), False
            entry = self.journal.change(ident, plan, after)
        landed = branches.commit_made(entry, ident, branch)
        if not any(commit.id == landed for commit, _ in written):
            self._require_in(branch, landed)
        with suppress(ShoalError):
            self.leave_checkpoint(self.commits.read(landed))
        return landed

    def _require_in(self, branch: str, landed: Id) -> None:
        """Conflict if a commit of the past is no longer in its branch, which was dropped and made anew, or rebased.

        It was done: that the store fails now is no reason to say that it was not.
        """
        try:
            is_in = knows(self.commits, self.refs().branch(branch).commit, landed)
        except StorageFailure:
            return
        if not is_in:
            raise Conflict(f'this operation was done as commit {to_text(landed)}, which is no longer in "{branch}"')

    def check_adds(self, adds: Sequence[DataObject], state: State, is_fresh: bool) -> None:
        """Conflict if the data of what a commit adds is not there, or is about to go."""
        if is_fresh:
            self.require_data(adds, state)
        refs = Refs(state)
        purged = [o for o in adds if refs.is_purged(o.id)]
        if purged:
            raise Conflict(f"{describe(purged)}: this data has been purged")

    def done(self, op: Id, branch: str, after: int | None = None) -> Id | None:
        """The commit that an operation made on a branch; None if it has not."""
        after = self.began_after(op) if after is None else after
        if after is None:
            return None
        entry = next((e for e in self.journal.entries(after) if e.has(op)), None)
        if entry is None:
            return None
        landed = branches.commit_made(entry, op, branch)
        self._require_in(branch, landed)
        return landed

    def began_after(self, op: Id) -> int | None:
        """The position of the journal before an operation that was tried already; None if it was not.

        What a vacuum may have taken says nothing any more: an id from before it is refused.
        """
        try:
            return self.commits.read(op).position
        except NotFound:
            if (began := self.journal.began(op)) is not None:
                return began
            mark = self.refs().vacuum
            if mark is not None and (made_at(op) + 1) * 10**9 <= mark.until:
                raise Conflict(
                    f"{to_text(op)}: a vacuum has run since this id was made, and nobody knows any more whether "
                    "the operation was done (look at the log, and use a new id)"
                ) from None
            return None

    def new_commit(self, parent: Id | None, patch: Patch, note: Note, merged: Id | None = None) -> Commit:
        """A commit on top of another, not stored yet."""
        known = {ident: self.commits.read(ident) for ident in (parent, merged) if ident is not None}
        generation = 1 + max((c.generation for c in known.values()), default=0)
        checkpoint, since = self.snapshots.hints(known[parent] if parent is not None else None)
        return Commit(
            new(),
            parent,
            time.time_ns(),
            note,
            patch.adds,
            patch.deletes,
            merged,
            generation=generation,
            checkpoint=checkpoint,
            since=since,
        )

    def leave_checkpoint(self, commit: Commit) -> None:
        """Write the checkpoint of a commit if one is due. Failing to is no failure: another one will come."""
        with suppress(ShoalError):
            self.snapshots.checkpoint(commit)

    def checked(self, patch: Patch, base: Id | None, tip: Id | None, what: str, fits_base: bool = True) -> Patch:
        """The patch itself, made for a base, if it can be applied to a tip; else a Conflict that says why."""
        if (tip == base and fits_base) or not patch.deletes:
            return patch
        now = self.snapshot(tip)
        gone = [o for o in patch.deletes if not now.has(o)]
        if gone:
            raise Conflict(
                f"{what}: {self._culprit(gone[0].id, base, tip)} has deleted or rewritten {describe(gone)} meanwhile "
                "(revert that commit first, or make the change anew on what is there now)"
            )
        return patch

    def _culprit(self, ident: Id, base: Id | None, tip: Id | None) -> str:
        """The commit that deleted an object."""
        with suppress(NotFound):  # where history was cut, the commit to blame may be gone
            for commit in self.commits.walk(tip, base):
                if any(o.id == ident for o in commit.deletes):
                    return f"commit {to_text(commit.id)}"
        return "another commit"


def _reopen(uri: str, config: PoolConfig) -> Pool:
    """A pool in another process."""
    return Pool(reopen_store(uri), config)
