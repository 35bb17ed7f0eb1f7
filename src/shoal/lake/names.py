"""Names for the commits of a pool: branches and tags that come and go, and what a name stands for.

Under the id of an operation a name is given or taken once, however often it is tried.
"""

from __future__ import annotations

from collections.abc import Callable

from shoal.errors import InvalidInput, NotFound
from shoal.ids import Id, to_text
from shoal.lake import branches
from shoal.lake.branches import MAIN, Ref, Refs
from shoal.lake.clocks import NEAR
from shoal.lake.commits import Commit, MissingCommit, older_than_history
from shoal.lake.cuts import Cut
from shoal.lake.decisions import Decisions
from shoal.lake.history import History, knows
from shoal.lake.journal import Changes, Entry, Journal, Moment, Plan, State
from shoal.lake.reach import Vacuumed
from shoal.model.fields import NO_ID
from shoal.model.literals import format_time
from shoal.model.node import frozen

Warn = Callable[[str], None]


class NotYet(NotFound):
    """A branch at a time before it was created."""


def unreached(ident: Id) -> NotFound:
    """The error of a commit that a vacuum took, or its parents or data, since nothing kept it."""
    return NotFound(f"{to_text(ident)}: no branch or tag reaches this commit, and a vacuum has taken it")


def _unknown(ident: Id) -> NotFound:
    return NotFound(f"{to_text(ident)}: commit not found (see: shoal log)")


@frozen
class Names:
    """The branches and tags of a pool."""

    pool: str
    """The name of the pool, for messages."""
    journal: Journal
    history: History
    ident: Id
    """The id of the pool."""
    decisions: Decisions
    vacuumed: Vacuumed

    def refs(self, cut: Cut | None = None) -> Refs:
        """Branches and tags as they are now, or in a cut."""
        if cut is not None:
            return cut.refs(self.ident, self.journal)
        state = self.journal.read()
        if not state.position:
            self.journal.entry(1)  # a pool is listed after its branch was created, so this one is gone
        return Refs(self.journal.settled(state).state)

    # ---- what a name stands for

    def resolve(self, commitish: str = "", warn: Warn | None = None, cut: Cut | None = None) -> Id | None:
        """The commit that a branch, a tag, an id or a time stands for; None is the empty beginning, the id of zeros.

        The id of a transaction stands for its commit here. `warn` gets a line if a time is near a clock that was wrong.
        """
        refs = self.refs(cut)
        if (ref := refs.named(commitish or MAIN)) is not None:
            return ref.commit
        ident = branches.as_id(commitish)
        if ident == NO_ID:
            return None  # how plans name the empty beginning
        if ident is not None:
            return self._kept(self.commit(self._part_of(ident)).id, refs)
        ns = branches.as_time(commitish)
        if ns is None:
            raise refs.unknown_branch(commitish)
        return self.tip_at(ns, commitish, warn, cut)

    def tip_at(self, ns: int, text: str, warn: Warn | None = None, cut: Cut | None = None) -> Id | None:
        """The commit of `main` at a time in nanoseconds since 1970, which the caller has as a text."""
        moment = self.journal.moment(ns)
        doubt = self._doubt(f"{self.pool}@{text}", moment)
        if warn is not None and doubt is not None:
            warn(doubt)
        main = (Cut() if cut is None else cut).refs_at(self.ident, self.journal, moment.position, ns).named(MAIN)
        if main is None:
            raise NotYet(f'{self.pool}: there was no branch "{MAIN}" yet at {text}')
        return None if main.commit is None else self._kept(main.commit, self.refs(cut))

    def _part_of(self, ident: Id) -> Id:
        """The commit that a transaction made here, on `main` if it made several; an id of anything else as it is."""
        if self.history.commits.lookup(ident) is not None or (decision := self.decisions.committed(ident)) is None:
            return ident
        parts = sorted((part.branch != MAIN, part.branch, part.commit) for part in decision.parts_in(self.ident))
        return next((commit for _, _, commit in parts if commit is not None), ident)

    def _doubt(self, what: str, moment: Moment) -> str | None:
        """Why what was read at a moment may not be all that had been committed by then."""
        following = moment.following
        if following is not None and following - self.history.clock.now() >= NEAR:
            return (
                f"{what}: the next commit is dated {format_time(following)}, in the future, so it is left out with all "
                "that follow: a clock is wrong, here or where it was made (any commit with a right clock corrects it)"
            )
        if moment.is_corrected:
            return (
                f"{what}: a clock was wrong around this time, so some commits may be left out or too many included "
                f"(see: shoal query 'from {self.pool}:branchlog')"
            )
        return None

    def commit(self, ident: Id) -> Commit:
        """A commit by an id that a caller gave; NotFound if there is no such commit.

        That a recent one is gone is damage. For an id that may be anything, all of history is not searched.
        """
        commits = self.history.commits
        commit = commits.lookup(ident)
        if commit is None:
            tips = self.refs().tips()
            if ident in tips or any(ident in commits.needed_by(commits.read(tip)) for tip in tips):
                commits.read(ident)
            raise _unknown(ident)
        return commit

    def _kept(self, ident: Id, refs: Refs) -> Id:
        """The id of a commit that was made; NotFound if it is not in the history that was kept."""
        if self.history.commits.lookup(ident) is None:
            self.is_reached(ident, refs)
            raise _unknown(ident)
        if refs.horizon is not None and not self.history.descends(ident, refs.horizon):
            raise older_than_history(ident, refs.horizon)
        return ident

    def require_commit(self, ident: Id | None, state: State) -> None:
        """NotFound for a commit that cannot be referred to any more: cut off, or taken by a vacuum, or about to be.

        What a branch or tag reaches stays. Anything else, as the tip of a branch that was dropped, is there as long as
        no vacuum that did not reach it was announced: its entry in the journal decides which was first.
        """
        if ident is None:
            return
        refs = Refs(state)
        if not self.is_reached(ident, refs):
            mark = refs.vacuum
            if self.history.commits.find(ident) is None or (mark and self.vacuumed.has_commit(ident, mark)):
                raise unreached(ident)
        self._kept(ident, refs)

    def is_reached(self, ident: Id, refs: Refs) -> bool:
        """Whether a branch or tag reaches a commit; MissingCommit if one does, and the commit is gone.

        Where history was cut, the data of what was merged may be gone.
        """
        tips = refs.tips()
        if ident in tips:
            self.history.commits.read(ident)
            return True
        lost: MissingCommit | None = None
        for tip in tips:
            try:
                if self._reaches(tip, ident, refs.horizon):
                    return True
            except MissingCommit as e:  # a branch that was dropped meanwhile, if another one reaches it
                lost = e
        if lost is not None:
            raise lost
        return False

    def _reaches(self, tip: Id, ident: Id, horizon: Id | None) -> bool:
        return self.history.descends(tip, ident) if horizon is not None else knows(self.history.commits, tip, ident)

    # ---- names that come and go

    def create_branch(self, name: str, at: Id | None, op: Id | None = None) -> None:
        """A new branch at a commit."""
        branches.check_name(name, "branch")

        def plan(state: State) -> Changes:
            Refs(state).require_free(name)
            self.require_commit(at, state)
            return branches.set_branch(name, at, self.history.clock.now())

        entry = self.once(op, plan)
        branches.require_set(entry.changes, branches.set_branch(name, at, 0))

    def create_tag(self, name: str, at: Id | None, op: Id | None = None) -> None:
        """A new tag at a commit, which never moves."""
        branches.check_name(name, "tag")

        def plan(state: State) -> Changes:
            Refs(state).require_free(name)
            if at is None:
                raise InvalidInput(f"{self.pool}: there is no commit to tag yet")
            self.require_commit(at, state)
            return branches.set_tag(name, at, self.history.clock.now())

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
        if op is not None and self.history.commits.lookup(op) is not None:
            raise InvalidInput(f"{to_text(op)}: this id is that of another operation (use a new one)")
        return self.journal.once(op, plan)

    def _drop(self, find: Callable[[Refs], Ref], changes: Changes, op: Id | None) -> Ref:
        planned: dict[int, Ref] = {}

        def plan(state: State) -> Changes:
            planned[state.position] = find(Refs(state))
            return changes

        entry = self.once(op, plan)
        branches.require_set(entry.changes, changes)
        before = entry.position - 1
        return planned[before] if before in planned else find(Refs(self.journal.at_position(before)))
