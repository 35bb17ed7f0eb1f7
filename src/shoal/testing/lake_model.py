"""A lake as plain dictionaries: the result of each verb, as simply as possible. No journal, no files.

How values are cut into data objects is for the lake to choose. So a verb gives a Change, which says what has to come
and what has to go; `Pool.land` takes the objects that the lake wrote for it, compares them with the change, and from
then on relies on them. What cannot be done raises the error that the lake has to raise.
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
NONE: Objects = frozenset()


@dataclass(frozen=True, slots=True)
class Commit:
    """A commit: what it did, and which objects are there after it."""

    id: str
    parent: str | None
    merged: str | None
    adds: Objects
    deletes: Objects
    state: Objects
    message: str = ""


@dataclass(frozen=True)
class Change:
    """What a verb does to a branch: values that come in new objects, objects that come back, objects that go."""

    fresh: Counter[Value] = field(default_factory=Counter)
    back: Objects = NONE
    deletes: Objects = NONE
    merged: str | None = None


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
        self.branches: dict[str, str | None] = {"main": None}
        self.tags: dict[str, str] = {}
        self.purged: set[str] = set()
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

    def state(self, commit: str | None) -> Objects:
        """The objects at a commit."""
        return NONE if commit is None else self.commits[commit].state

    def values(self, commit: str | None) -> Counter[Value]:
        """All values at a commit; what was purged is left out."""
        return self.values_of(self.state(commit))

    def values_of(self, objects: Iterable[str]) -> Counter[Value]:
        """All values of some objects."""
        return Counter(value for o in objects if o not in self.purged for value in self.objects[o])

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
        return Change(deletes=self.find(self.state(self.tip(branch)), idents))

    def find(self, state: Objects, idents: Sequence[str]) -> Objects:
        """Objects by ids of objects or commits, all of which have to be in a state."""
        chosen = frozenset(self.added_by(idents))
        if not chosen:
            raise InvalidInput("none named")
        if not chosen <= state:
            raise NotFound(str(chosen - state))
        return chosen

    def delete_where(self, branch: str, select: Select) -> Change:
        """Records go."""
        return _not_empty(self.without(self.state(self.tip(branch)), select))

    def without(self, state: Objects, select: Select) -> Change:
        """Rewrite the objects that have matching records without them."""
        fresh: Counter[Value] = Counter()
        touched: set[str] = set()
        for o in state - self.purged:
            every = Counter(self.objects[o])
            gone = Counter(select(self.objects[o]))
            if gone:
                touched.add(o)
                fresh += every - gone
        return Change(fresh, deletes=frozenset(touched))

    def compact(self, branch: str, idents: Sequence[str]) -> Change:
        """Objects are replaced by others with the same values."""
        chosen = self.find(self.state(self.tip(branch)), idents)
        if len(chosen) < 2 or chosen & self.purged:
            raise InvalidInput("nothing to compact")
        return Change(self.values_of(chosen), deletes=chosen)

    def revert(self, branch: str, commitish: str) -> Change:
        """The opposite of a commit."""
        ident = self.resolve(commitish)
        if ident is None:
            raise NotFound(commitish)
        commit = self.commits[ident]
        if not commit.adds and not commit.deletes:
            raise InvalidInput("nothing to revert")
        now = self.state(self.tip(branch))
        if commit.deletes & now or commit.deletes & self.purged or not commit.adds <= now:
            raise Conflict(commitish)
        return Change(back=commit.deletes, deletes=commit.adds)

    def merge(self, child: str, into: str, source: str | None) -> Change:
        """What came and went in a commit of the child since both last met."""
        if child == into:
            raise InvalidInput("itself")
        self.tip(child)
        tip = self.tip(into)
        before = self.joined(self.meetings(source, tip))
        now, after = self.state(tip), self.state(source)
        change = Change(back=after - before - now, deletes=before - after, merged=source)
        _not_empty(change)
        if not change.deletes <= now or change.back & self.purged:
            raise Conflict(child)
        return change

    def joined(self, met: Sequence[str | None]) -> Objects:
        """The objects of commits merged: what all have, and what one has got that was not there when they met."""
        joined = self.state(met[0])
        for ident in met[1:]:
            before, other = self.joined(self.meetings(met[0], ident)), self.state(ident)
            joined = (joined & other) | (joined ^ other) - before
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
            if commit.merged is None or commit.merged not in reached:  # else it brings only what is there already
                own.append(commit)
        now = self.state(target)
        out: list[tuple[Commit, Change]] = []
        for commit in reversed(own):
            change = Change(back=commit.adds - now, deletes=commit.deletes, merged=commit.merged)
            if not change.deletes <= now:
                raise Conflict(commit.id)
            now = now - change.deletes | change.back
            out.append((commit, change))
        return out

    def land(
        self, branch: str, change: Change, ident: str, objects: Mapping[str, Sequence[Value]], message: str
    ) -> None:
        """A change is on a branch, as a commit; `objects` are the new objects that it came with."""
        self.branches[branch] = self.add(self.branches[branch], change, ident, objects, message)

    def add(
        self, parent: str | None, change: Change, ident: str, objects: Mapping[str, Sequence[Value]], message: str
    ) -> str:
        """A commit on top of another; the values of its new objects have to be those that were to come."""
        assert ident not in self.commits, f"commit {ident} is there already"
        assert not set(objects) & set(self.objects), "new objects with the ids of old ones"
        self.require(change, objects)
        self.objects.update((o, tuple(values)) for o, values in objects.items())
        adds = change.back | frozenset(objects)
        state = self.state(parent) - change.deletes | adds
        self.commits[ident] = Commit(ident, parent, change.merged, adds, change.deletes, state, message)
        return ident

    def require(self, change: Change, objects: Mapping[str, Sequence[Value]]) -> None:
        """The new objects have what was to come, no more and no less."""
        came = Counter(value for values in objects.values() for value in values)
        assert came == change.fresh, f"not the values that were to come: {came - change.fresh}, {change.fresh - came}"

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
            if ident in self.objects and ident not in self.purged:
                chosen.append(ident)
            elif ident not in self.commits:
                raise NotFound(ident)
            elif not self.commits[ident].adds:
                raise InvalidInput(ident)
            else:
                chosen += self.commits[ident].adds
        if any(self.state(tip) & set(chosen) for tip in (*self.branches.values(), *self.tags.values())):
            raise Conflict(str(chosen))
        self.purged |= set(chosen)
        return chosen

    def reachable(self) -> tuple[set[str], set[str]]:
        """The commits that a vacuum has to leave readable, and their objects."""
        commits: set[str] = set() if self.horizon is None else {self.horizon}
        for ref in (*self.branches.values(), *self.tags.values()):
            commits |= self.ancestors(ref) if self.horizon is None else {c.id for c in self.log(ref)}
        objects = set(self.state(self.horizon))
        for ident in commits:
            objects |= self.commits[ident].adds | self.commits[ident].deletes
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
        self.adds: dict[str, tuple[Value, ...]] = {}
        self.deletes: Objects = NONE
        self.has_read = False
        """Whether it has to fail if the branch has changed since: it has read all of it, and is serializable."""

    def state(self) -> Objects:
        """The objects that the transaction sees."""
        return self.pool.state(self.base) - self.deletes | frozenset(self.adds)

    def contents(self, ident: str) -> tuple[Value, ...]:
        """The values of an object that it sees."""
        return self.adds[ident] if ident in self.adds else self.pool.objects[ident]

    def values(self) -> Counter[Value]:
        """The values that the transaction sees."""
        return Counter(value for o in self.state() - self.pool.purged for value in self.contents(o))

    def stage(self, change: Change, objects: Mapping[str, Sequence[Value]]) -> None:
        """More changes; `objects` are the new objects that they came with."""
        self.pool.require(change, objects)
        self.deletes |= change.deletes - frozenset(self.adds)
        kept = {o: values for o, values in self.adds.items() if o not in change.deletes}
        self.adds = {**kept, **{o: tuple(values) for o, values in objects.items()}}

    def load(self, values: Sequence[Value]) -> Change:
        """Values come."""
        return Change(Counter(values))

    def delete(self, idents: Sequence[str]) -> Change:
        """Objects go."""
        return Change(deletes=self.pool.find(self.state(), idents))

    def delete_where(self, select: Select) -> Change:
        """Records go."""
        return self._whole().without(self.state(), select)

    def _whole(self) -> Pool:
        """A pool with what is staged beside the rest."""
        pool = Pool(self.pool.name, self.pool.key_text)
        pool.objects = {**self.pool.objects, **self.adds}
        pool.purged = self.pool.purged
        return pool

    def commit(self) -> Change:
        """All of it, if nobody is in the way."""
        if not self.adds and not self.deletes:
            raise InvalidInput("nothing is staged")
        tip = self.pool.tip(self.branch)
        now = self.pool.state(tip)
        if self.has_read and self._has_moved(tip):
            raise Conflict("read")
        if not self.deletes <= now:
            raise Conflict(str(self.deletes - now))
        fresh = Counter(value for values in self.adds.values() for value in values)
        return Change(fresh, deletes=self.deletes)

    def _has_moved(self, tip: str | None) -> bool:
        for commit in self.pool.walk(tip):
            if commit.id == self.base:
                return False
            if commit.adds or commit.deletes:
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
    if not change.fresh and not change.back and not change.deletes:
        raise InvalidInput("empty")
    return change
