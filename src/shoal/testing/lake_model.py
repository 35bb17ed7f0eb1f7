"""A lake as plain dictionaries: the result of each verb, as simply as possible. No journal, no files.

A row has an identity for good: the object that it was first in, and its number there. What a verb does is a set of
identities that go and one of those that come, besides new values. How rows are cut into data objects, and which
compactions move where, is for the lake to choose: `Pool.land` takes the objects as they lie after a commit, compares
the rows that are in them with the change, and from then on knows them by their ids. What cannot be done raises the
error that the lake has to raise.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from shoal.errors import AlreadyExists, Conflict, InvalidInput, NotFound
from shoal.model import types as t
from shoal.model.order import compare_values
from shoal.model.values import NULL, Value

Objects = frozenset[str]
Select = Callable[[Sequence[Value]], Iterable[Value]]
"""Those of some values that a filter is true for."""


Identity = tuple[str, int]
"""The object that a row was first in, and its number in the order of that object."""
Rows = frozenset[Identity]
Layout = Mapping[str, Mapping[int, Identity]]
"""The objects that are there, and which row each of their rows is that is not hidden."""
NOTHING: Rows = frozenset()


def rows_of(layout: Layout) -> Rows:
    """All rows of some objects."""
    return frozenset(row for rows in layout.values() for row in rows.values())


@dataclass(frozen=True, slots=True)
class Commit:
    """A commit: what it did, and what is there after it."""

    id: str
    parent: str | None
    merged: str | None
    gone: Rows
    come: Rows
    layout: Layout
    message: str = ""
    generation: int = 1
    adds: Objects = frozenset()
    deletes: Objects = frozenset()
    is_empty: bool = False
    """Whether it did not even move rows."""


@dataclass(frozen=True)
class Change:
    """What a verb does to a branch: values that come in new objects, and rows that go and come."""

    fresh: Counter[Value] = field(default_factory=Counter)
    gone: Rows = NOTHING
    come: Rows = NOTHING
    merged: str | None = None
    removed: Objects = frozenset()
    """Objects that cannot stay."""
    may_be_refused: bool = False
    """Whether there is nothing to do but to move rows, if they are where they were: else it is refused."""

    @property
    def is_empty(self) -> bool:
        """Whether no row comes or goes."""
        return not (self.fresh or self.gone or self.come)


@dataclass(frozen=True, slots=True)
class Key:
    """What the values of a pool are sorted by: paths, and 1 or -1 for the direction."""

    paths: tuple[tuple[str, ...], ...]
    sign: int

    def of(self, value: Value) -> list[Value]:
        """The key of a value: what is not there counts as null."""
        return [_find(value, path) or NULL for path in self.paths]

    def has(self, value: Value) -> bool:
        """Whether a value has the field that objects are bounded by."""
        return _find(value, self.paths[0]) is not None

    def compare(self, a: Value, b: Value) -> int:
        """Which of two values comes first."""
        for x, y in zip(self.of(a), self.of(b), strict=True):
            if c := compare_values(x, y, nulls_max=True):
                return c * self.sign
        return 0

    def require_order(self, values: Iterable[Value]) -> None:
        """Values are in this order."""
        for a, b in pairwise(values):
            assert self.compare(a, b) <= 0, f"{a} comes before {b}"


def parse_key(text: str) -> Key:
    """The key in a text such as `a.b,c:desc`; `this` is the whole value."""
    names, _, order = text.partition(":")
    paths = tuple(() if name == "this" else tuple(name.split(".")) for name in names.split(","))
    return Key(paths, -1 if order == "desc" else 1)


def _find(value: Value, path: tuple[str, ...]) -> Value | None:
    inner: Value | None = value
    for name in path:
        inner = None if inner is None else inner.field(name)
    return inner.under() if inner is not None and isinstance(inner.type.under, t.Union) else inner


class Pool:
    """A pool."""

    def __init__(self, name: str, key: str) -> None:
        self.name = name
        self.key_text = key
        self.key = parse_key(key)
        self.commits: dict[str, Commit] = {}
        self.objects: dict[str, tuple[Value, ...]] = {}
        """All rows of each object, hidden ones as well."""
        self.rows: dict[Identity, Value] = {}
        """The value of each row."""
        self.branches: dict[str, str | None] = {"main": None}
        self.tags: dict[str, str] = {}
        self.purged: set[str] = set()
        self.inline: set[str] = set()
        """Objects that are part of commits: these remember that there was one."""
        self.horizon: str | None = None
        self.unreadable: set[str] = set()
        """Merged commits whose data a vacuum has removed."""

    # ---- what there is

    def tip(self, branch: str) -> str | None:
        """The commit of a branch."""
        if branch not in self.branches:
            raise NotFound(branch)
        return self.branches[branch]

    def resolve(self, commitish: str) -> str | None:
        """The commit that a branch, a tag or an id stands for."""
        if commitish in self.branches:
            return self.branches[commitish]
        commit = self.tags.get(commitish, commitish)
        if commit not in self.commits or commit in self.unreadable or not self.is_kept(commit):
            raise NotFound(commitish)
        return commit

    def is_kept(self, commit: str) -> bool:
        """Whether a commit is in the history that was not vacated."""
        return self.horizon is None or self.horizon in (c.id for c in self.walk(commit))

    def layout(self, commit: str | None) -> Layout:
        """The objects at a commit."""
        return {} if commit is None else self.commits[commit].layout

    def state(self, commit: str | None) -> Rows:
        """The rows at a commit."""
        return rows_of(self.layout(commit))

    def values(self, commit: str | None) -> Counter[Value]:
        """All values at a commit; what was purged is left out."""
        return self.values_of(self.layout(commit))

    def values_of(self, layout: Layout) -> Counter[Value]:
        """All values of some objects."""
        return Counter(self.rows[row] for row in rows_of({o: layout[o] for o in layout.keys() - self.purged}))

    def is_purged(self, *commits: str | None) -> bool:
        """Whether something that is at one of some commits was purged: then it cannot be moved or brought back."""
        return any(self.layout(commit).keys() & self.purged for commit in commits)

    def walk(self, tip: str | None) -> Iterator[Commit]:
        """Commits from a tip back, by parents, as far as there are any."""
        while tip is not None and tip in self.commits:
            yield self.commits[tip]
            tip = self.commits[tip].parent

    def log(self, tip: str | None) -> list[Commit]:
        """Commits from a tip back to where history begins."""
        out: list[Commit] = []
        for commit in self.walk(tip):
            out.append(commit)
            if commit.id == self.horizon:
                break
        return out

    def ancestors(self, tip: str | None) -> set[str]:
        """All commits that a tip reaches, through parents and merges."""
        seen: set[str] = set()
        todo = [tip]
        while todo:
            ident = todo.pop()
            if ident is not None and ident in self.commits and ident not in seen:
                seen.add(ident)
                todo += [self.commits[ident].parent, self.commits[ident].merged]
        return seen

    def meetings(self, a: str | None, b: str | None) -> list[str | None]:
        """The newest commits that two tips have in common: those that no other common one knows of."""
        common = self.ancestors(a) & self.ancestors(b)
        newest = [c for c in common if not any(c in self.ancestors(other) for other in common - {c})]
        return list(newest) or [None]

    def added_by(self, idents: Iterable[str]) -> list[str]:
        """Objects by their ids; the id of a commit stands for those that it added."""
        out: list[str] = []
        for ident in idents:
            out += sorted(self.commits[ident].adds) if ident in self.commits else [ident]
        return out

    # ---- names

    def create_branch(self, name: str, at: str) -> None:
        """A new branch."""
        commit = self.resolve(at)
        self._require_free(name)
        self.branches[name] = commit

    def drop_branch(self, name: str) -> None:
        """A branch goes."""
        self.tip(name)
        del self.branches[name]

    def create_tag(self, name: str, at: str) -> None:
        """A new tag."""
        commit = self.resolve(at)
        if commit is None:
            raise InvalidInput(at)
        self._require_free(name)
        self.tags[name] = commit

    def drop_tag(self, name: str) -> None:
        """A tag goes."""
        if name not in self.tags:
            raise NotFound(name)
        del self.tags[name]

    def _require_free(self, name: str) -> None:
        if name in self.branches or name in self.tags:
            raise AlreadyExists(name)

    # ---- changes

    def load(self, branch: str, values: Sequence[Value]) -> Change:
        """Values come."""
        self.tip(branch)
        return _not_empty(Change(Counter(values)))

    def delete(self, branch: str, idents: Sequence[str]) -> Change:
        """Objects go."""
        return self.find(self.layout(self.tip(branch)), idents)

    def find(self, layout: Layout, idents: Sequence[str]) -> Change:
        """Objects by ids of objects or commits go, all of which have to be there."""
        chosen = frozenset(self.added_by(idents))
        if not chosen:
            raise InvalidInput("none named")
        if not chosen <= layout.keys():
            raise NotFound(str(chosen - layout.keys()))
        return Change(gone=rows_of({o: layout[o] for o in chosen}), removed=chosen)

    def delete_where(self, branch: str, select: Select) -> Change:
        """Records go."""
        return _not_empty(self.without(self.layout(self.tip(branch)), select))

    def without(self, layout: Layout, select: Select) -> Change:
        """The records that match go."""
        rows = rows_of(layout)
        matching = set(select([self.rows[row] for row in rows]))
        return Change(gone=frozenset(row for row in rows if self.rows[row] in matching))

    def compact(self, branch: str, idents: Sequence[str]) -> Change:
        """Objects are replaced by others with the same rows."""
        chosen = self.find(self.layout(self.tip(branch)), idents).removed
        if len(chosen) < 2 or chosen & self.purged:
            raise InvalidInput("nothing to compact")
        return Change(removed=chosen)

    def revert(self, branch: str, commitish: str) -> Change:
        """The opposite of a commit."""
        commit = self._commit(commitish)
        if commit.is_empty:
            raise InvalidInput("nothing to revert")
        tip = self.tip(branch)
        gone, come = self.fitted(commit.come, commit.gone, self.state(tip), None, self.others(tip, commit.id))
        if not gone and not come and (commit.come or commit.gone):
            raise Conflict(commitish)
        return Change(gone=gone, come=come, may_be_refused=True)

    def cherry_pick(self, branch: str, commitish: str) -> Change:
        """What a commit did, once more."""
        commit = self._commit(commitish)
        tip = self.tip(branch)
        if commit.is_empty:
            raise InvalidInput("nothing to pick")
        gone, come = self.fitted(commit.gone, commit.come, self.state(tip), None, self.others(tip, commit.id))
        if not gone and not come and (commit.come or commit.gone):
            raise InvalidInput("done already")
        return Change(gone=gone, come=come, may_be_refused=True)

    def _commit(self, commitish: str) -> Commit:
        ident = self.resolve(commitish)
        if ident is None:
            raise NotFound(commitish)
        return self.commits[ident]

    def others(self, tip: str | None, known: str | None) -> list[Commit]:
        """The commits that a tip knows of and another does not, the oldest first, without merges of such commits."""
        beyond = [self.commits[ident] for ident in self.ancestors(tip) - self.ancestors(known)]
        own = [commit for commit in beyond if commit.merged is None or commit.merged not in self.commits]
        return sorted(own, key=lambda commit: (commit.generation, commit.id))

    def fitted(
        self,
        gone: Rows,
        come: Rows,
        now: Rows,
        ours: Sequence[Commit] | None,
        theirs: Sequence[Commit],
        is_merge: bool = False,
    ) -> tuple[Rows, Rows]:
        """Rows that are to go and to come, as it is in a state; Conflict if both sides have changed one.

        A row was replaced by a commit that takes it away and brings others. `ours` are the commits that the change is
        the sum of; without them it is one by itself.
        """
        missing, new = gone - now, come - now
        for commit in theirs:
            if commit.gone & missing and commit.come - come:
                raise Conflict(commit.id)
        for taken, brought in [(gone, come)] if ours is None else [(commit.gone, commit.come) for commit in ours]:
            if taken & missing and brought - now:
                raise Conflict("changed by both")
        if is_merge:
            both = {o for o, _ in come & now}
            new = frozenset(row for row in new if row[0] not in both or row not in _deleted(theirs))
            gone |= frozenset(row for row in _deleted(ours or ()) - come if row[0] in both)
        return gone & now, new

    def merge(self, child: str, into: str, source: str | None) -> Change:
        """What came and went in a commit of the child since both last met."""
        if child == into:
            raise InvalidInput("itself")
        self.tip(child)
        tip = self.tip(into)
        met = self.meetings(source, tip)
        before, after = self.joined(met), self.state(source)
        ours, theirs = self.others(source, tip), self.others(tip, source)
        if len(met) == 1 and self.layout(met[0]) == self.layout(source):
            raise InvalidInput("nothing to merge")
        if len(met) == 1 and met[0] == tip:
            return Change(gone=before - after, come=after - before, merged=source)
        gone, come = self.fitted(before - after, after - before, self.state(tip), ours, theirs, is_merge=True)
        return Change(gone=gone, come=come, merged=source, may_be_refused=True)

    def joined(self, met: Sequence[str | None]) -> Rows:
        """The rows of commits merged: what all have, and what one has got that was not there when they met."""
        joined = self.state(met[0])
        for ident in met[1:]:
            before, other = self.joined(self.meetings(met[0], ident)), self.state(ident)
            joined = joined - (before - other) | (other - before)
        return joined

    def is_tangled(self, a: str | None, b: str | None) -> bool:
        """Whether two tips met so often at once that it is not said how they merge."""
        met = self.meetings(a, b)
        return len(met) > 2 or (len(met) == 2 and len(self.meetings(*met)) > 1)

    def rebase(self, branch: str, onto: str) -> list[tuple[Commit, Change]]:
        """The commits that a branch has of its own, oldest first, each with what it does on the tip of another."""
        if branch == onto:
            raise InvalidInput("itself")
        tip, target = self.tip(branch), self.tip(onto)
        reached = self.ancestors(target)
        own: list[Commit] = []
        for commit in self.walk(tip):
            if commit.id in reached:
                break
            if commit.merged is None or any(each.gone or each.come for each in self.others(commit.merged, target)):
                own.append(commit)  # else it brings only what is there already
        now = first = self.state(target)
        out: list[tuple[Commit, Change]] = []
        for commit in reversed(own):
            theirs = self.others(target, commit.id)
            ours = [commit] if commit.merged is None else self.others(commit.merged, target)
            old = frozenset().union(*(self.state(base) for base in self.meetings(commit.id, target)))
            if commit.merged is None and (commit.come - now) & (old - first):
                raise Conflict("it brings back what the other side has deleted")
            gone, come = self.fitted(commit.gone, commit.come, now, ours, theirs, is_merge=True)
            come -= old - first
            now = now - gone | come
            out.append((commit, Change(gone=gone, come=come, merged=commit.merged)))
        return out

    def land(
        self,
        branch: str,
        change: Change,
        ident: str,
        layout: Layout,
        made: Mapping[str, Sequence[Value]],
        message: str,
    ) -> None:
        """A change is on a branch, as a commit after which objects lie so; `made` are all rows of new objects."""
        self.branches[branch] = self.add(self.branches[branch], change, ident, layout, made, message)

    def add(
        self,
        parent: str | None,
        change: Change,
        ident: str,
        layout: Layout,
        made: Mapping[str, Sequence[Value]],
        message: str,
    ) -> str:
        """A commit on top of another, whose rows have to be those that were to be left and to come."""
        assert ident not in self.commits, f"commit {ident} is there already"
        assert not set(made) & set(self.objects), "new objects with the ids of old ones"
        before, after = self.state(parent), rows_of(layout)
        assert sum(map(len, layout.values())) == len(after), "a row is there twice"
        kept = before - change.gone | change.come
        assert kept <= after, f"rows are missing: {kept - after}"
        self.rows.update(((o, row), v) for o, values in made.items() for row, v in enumerate(values))
        for row in after:
            assert row in self.rows, "a row of an object that nobody knows"
        self.require(change, after - kept)
        old = self.layout(parent)
        assert not change.removed & layout.keys(), "an object is still there"
        adds, deletes = frozenset(layout.keys() - old.keys()), frozenset(old.keys() - layout.keys())
        self.objects.update((o, tuple(values)) for o, values in made.items())
        parents = [self.commits[each].generation for each in (parent, change.merged) if each in self.commits]
        self.commits[ident] = Commit(
            ident, parent, change.merged, before - after, after - before, layout, message,
            1 + max(parents, default=0), adds, deletes, old == layout,
        )  # fmt: skip
        return ident

    def require(self, change: Change, rows: Rows) -> None:
        """The new rows are what was to come, no more and no less."""
        present = Counter(self.rows[row] for row in rows)
        more, fewer = present - change.fresh, change.fresh - present
        assert present == change.fresh, f"not the values that were to come: {more}, {fewer}"

    # ---- what goes for good

    def vacate(self, commitish: str) -> None:
        """History begins with a commit."""
        ident = self.resolve(commitish)
        if ident is None:
            raise NotFound(commitish)
        for ref in (*self.branches.values(), *self.tags.values()):
            if ident not in (commit.id for commit in self.walk(ref)):
                raise Conflict(str(ref))
        self.horizon = ident

    def purge(self, idents: Sequence[str]) -> list[str]:
        """Objects go from all of history."""
        if not idents:
            raise InvalidInput("none named")
        chosen: list[str] = []
        for ident in idents:
            if ident in self.objects and (ident in self.inline or ident not in self.purged):
                chosen.append(ident)
            elif ident not in self.commits:
                raise NotFound(ident)
            elif not self.commits[ident].adds:
                raise InvalidInput(ident)
            else:
                chosen += self.commits[ident].adds
        if any(self.layout(tip).keys() & set(chosen) for tip in (*self.branches.values(), *self.tags.values())):
            raise Conflict(str(chosen))
        self.purged |= set(chosen)
        return chosen

    def reachable(self) -> tuple[set[str], set[str]]:
        """The commits that a vacuum has to leave readable, and their objects."""
        commits: set[str] = set() if self.horizon is None else {self.horizon}
        for ref in (*self.branches.values(), *self.tags.values()):
            commits |= self.ancestors(ref) if self.horizon is None else {c.id for c in self.log(ref)}
        objects = set(self.layout(self.horizon))
        for ident in commits:
            commit = self.commits[ident]
            objects |= commit.layout.keys() | commit.deletes if ident != self.horizon else commit.deletes
        return commits, objects

    def vacuum(self) -> None:
        """All that nothing reaches goes. What was merged still counts as merged, also where history was cut."""
        readable, objects = self.reachable()
        reached = readable.union(*(self.ancestors(ref) for ref in (*self.branches.values(), *self.tags.values())))
        self.commits = {ident: commit for ident, commit in self.commits.items() if ident in reached}
        self.unreadable = reached - readable
        self.objects = {o: values for o, values in self.objects.items() if o in objects}


class Transaction:
    """Changes to a branch that come as one commit. What is staged is seen by nobody else."""

    def __init__(self, pool: Pool, branch: str) -> None:
        self.pool = pool
        self.branch = branch
        self.base = pool.tip(branch)
        self.made: dict[str, tuple[Value, ...]] = {}
        """All rows of the objects that it has written."""
        self.layout: Layout = pool.layout(self.base)
        """The objects that it sees."""
        self.has_read = False
        """Whether it has to fail if the branch has changed since: it has read all of it, and is serializable."""

    def values(self) -> Counter[Value]:
        """The values that the transaction sees."""
        return self._whole().values_of(self.layout)

    def stage(self, change: Change, layout: Layout, made: Mapping[str, Sequence[Value]]) -> None:
        """More changes, after which objects lie so; `made` are all rows of those that were just written."""
        self.made.update((o, tuple(values)) for o, values in made.items())
        before, after = rows_of(self.layout), rows_of(layout)
        kept = before - change.gone
        assert kept <= after
        self._whole().require(change, after - kept)
        assert not change.removed & layout.keys()
        self.layout = layout

    def load(self, values: Sequence[Value]) -> Change:
        """Values come."""
        return Change(Counter(values))

    def delete(self, idents: Sequence[str]) -> Change:
        """Objects go."""
        return self.pool.find(self.layout, idents)

    def delete_where(self, select: Select) -> Change:
        """Records go."""
        return self._whole().without(self.layout, select)

    def _whole(self) -> Pool:
        """A pool with what is staged beside the rest."""
        pool = Pool(self.pool.name, self.pool.key_text)
        pool.rows = {**self.pool.rows, **{(o, i): v for o, values in self.made.items() for i, v in enumerate(values)}}
        pool.purged = self.pool.purged
        return pool

    def commit(self) -> Change:
        """All of it, if nobody is in the way."""
        before, staged = self.pool.layout(self.base), rows_of(self.layout)
        if before == self.layout:
            raise InvalidInput("nothing is staged")
        tip = self.pool.tip(self.branch)
        if self.has_read and self._has_moved(tip):
            raise Conflict("read")
        new = staged - rows_of(before)
        theirs = self.pool.others(tip, self.base)
        gone, _ = self.pool.fitted(rows_of(before) - staged, new, self.pool.state(tip), None, theirs)
        whole = self._whole()
        change = Change(Counter(whole.rows[row] for row in new), gone)
        if change.is_empty:
            raise Conflict("done already")
        return change

    def _has_moved(self, tip: str | None) -> bool:
        for commit in self.pool.walk(tip):
            if commit.id == self.base:
                return False
            if commit.gone or commit.come:
                return True
        return False


class Lake:
    """Pools by their names."""

    def __init__(self) -> None:
        self.pools: dict[str, Pool] = {}

    def pool(self, name: str) -> Pool:
        """A pool."""
        if name not in self.pools:
            raise NotFound(name)
        return self.pools[name]

    def create(self, name: str, key: str) -> Pool:
        """A new pool."""
        if name in self.pools:
            raise AlreadyExists(name)
        self.pools[name] = Pool(name, key)
        return self.pools[name]

    def rename(self, old: str, new: str) -> None:
        """A pool gets another name."""
        pool = self.pool(old)
        if old != new and new in self.pools:
            raise AlreadyExists(new)
        del self.pools[old]
        pool.name = new
        self.pools[new] = pool

    def drop(self, name: str) -> None:
        """A pool goes."""
        self.pool(name)
        del self.pools[name]


def _not_empty(change: Change) -> Change:
    if change.is_empty:
        raise InvalidInput("empty")
    return change


def _deleted(commits: Iterable[Commit]) -> Rows:
    """The rows that commits, the oldest first, have taken away and not brought back."""
    deleted = NOTHING
    for commit in commits:
        deleted = (deleted | commit.gone) - commit.come
    return deleted
