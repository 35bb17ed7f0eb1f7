"""A pool: its journal, its commits, its data; and the one way by which branches come to new commits."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import replace

from shoal.errors import Conflict, InvalidInput, NotFound, ShoalError
from shoal.ids import Id, made_at, new, to_text
from shoal.lake import branches
from shoal.lake.branches import MAIN, Ref, Refs
from shoal.lake.checkpoints import Checkpoints
from shoal.lake.commits import Commit, Commits, Note
from shoal.lake.journal import Changes, Journal, State
from shoal.lake.objects import DataObject, ObjectWriter, data_key
from shoal.lake.pool_config import PoolConfig
from shoal.lake.snapshots import Patch, Snapshot, Snapshots, describe
from shoal.storage.store import ObjectStore

_LONG_AGO = 3600.0
"""Seconds after which an object without a commit may have been vacuumed by somebody with little patience."""

Build = Callable[[Id | None], Patch]
"""From the tip of a branch to what to change there; called again if another writer was first."""


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

    # ---- what there is

    def refs(self) -> Refs:
        """Branches and tags as they are now."""
        refs = Refs(self.journal.read())
        self.commits.is_cut = refs.horizon is not None
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

    # ---- names

    def create_branch(self, name: str, at: Id | None) -> None:
        """A new branch at a commit."""
        branches.check_name(name, "branch")

        def plan(state: State) -> Changes:
            Refs(state).require_free(name)
            return branches.set_branch(name, at, time.time_ns())

        self.journal.change(new(), plan)

    def create_tag(self, name: str, at: Id | None) -> None:
        """A new tag at a commit, which never moves."""
        branches.check_name(name, "tag")
        if at is None:
            raise InvalidInput(f"{self.config.name}: there is no commit to tag yet")

        def plan(state: State) -> Changes:
            Refs(state).require_free(name)
            return branches.set_tag(name, at, time.time_ns())

        self.journal.change(new(), plan)

    def drop_branch(self, name: str) -> Ref:
        """Remove a branch; what it pointed at. Its commits stay until a vacuum."""
        return self._drop(lambda refs: refs.branch(name), branches.drop_branch(name))

    def drop_tag(self, name: str) -> Ref:
        """Remove a tag; what it pointed at."""
        return self._drop(lambda refs: refs.tag(name), branches.drop_tag(name))

    def _drop(self, find: Callable[[Refs], Ref], changes: Changes) -> Ref:
        found: list[Ref] = []

        def plan(state: State) -> Changes:
            found[:] = [find(Refs(state))]
            return changes

        self.journal.change(new(), plan)
        return found[0]

    # ---- commits

    def require_data(self, objects: Iterable[DataObject]) -> None:
        """Conflict if objects that wait for their commit have been vacuumed, as after a stall of days."""
        for o in objects:
            if time.time() - made_at(o.id) > _LONG_AGO:
                try:
                    self.store.size(data_key(self.prefix, o.id))
                except NotFound:
                    raise Conflict(
                        f"{to_text(o.id)}: a vacuum has removed this data before its commit (write it again)"
                    ) from None

    def writer(self) -> ObjectWriter:
        """Writes data objects, which nobody sees before a commit adds them."""
        config = self.config
        return ObjectWriter(self.store, self.prefix, config.key, config.object_size, config.seek_stride)

    def commit(
        self,
        branch: str,
        build: Build,
        note: Note,
        merged: Id | None = None,
        op: Id | None = None,
        after: int | None = None,
    ) -> Id:
        """Put what `build` makes of the tip onto a branch, as one commit; its id.

        The commit of the first attempt has the id of the operation and says where the journal stood. So whoever
        repeats an operation finds out where to look for its entry; if there is no such commit, there is none.
        """
        ident = new() if op is None else op
        if op is not None and after is None:
            after = self._began_after(op)
        written: list[Commit] = []

        def plan(state: State) -> Changes:
            tip = Refs(state).branch(branch).commit
            if not written or written[-1].parent != tip:
                # Where just another branch of the pool moved, the commit is good as it is.
                made = self.new_commit(tip, build(tip), note, merged)
                commit = replace(made, op=ident, retries=len(written), position=state.position)
                first = replace(commit, id=ident)
                is_first = not written and after is None
                if is_first and self.commits.create(first):
                    commit = first
                else:
                    self.commits.write(commit)
                written.append(commit)
            return branches.set_branch(branch, written[-1].id, written[-1].date)

        entry = self.journal.change(ident, plan, after)
        landed = branches.commit_set(entry.changes, branch)
        self._leave_checkpoint(landed)
        return landed

    def done(self, op: Id, branch: str) -> Id | None:
        """The commit that an operation made on a branch; None if it has not."""
        after = self._began_after(op)
        if after is None:
            return None
        entry = next((e for e in self.journal.entries(after) if e.op == op), None)
        return None if entry is None else branches.commit_set(entry.changes, branch)

    def _began_after(self, op: Id) -> int | None:
        """The position of the journal before an operation that was tried already; None if it was not."""
        try:
            return self.commits.read(op).position
        except NotFound:
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

    def _leave_checkpoint(self, ident: Id) -> None:
        """Failing to write a checkpoint is no failure of the commit: another one will come."""
        with suppress(ShoalError):
            self.snapshots.checkpoint(self.commits.read(ident))

    def checked(self, patch: Patch, base: Id | None, tip: Id | None, what: str) -> Patch:
        """The patch itself, made for a base, if it can be applied to a tip; else a Conflict that says why."""
        if tip == base or not patch.deletes:
            return patch
        now = self.snapshot(tip)
        gone = [o for o in patch.deletes if not now.has(o)]
        if gone:
            raise Conflict(
                f"{what}: {self._culprit(gone[0].id, base, tip)} has deleted or rewritten {describe(gone)} meanwhile "
                "(look at that commit and try again)"
            )
        return patch

    def _culprit(self, ident: Id, base: Id | None, tip: Id | None) -> str:
        """The commit that deleted an object."""
        for commit in self.commits.walk(tip, base):
            if any(o.id == ident for o in commit.deletes):
                return f"commit {to_text(commit.id)}"
        return "another commit"
