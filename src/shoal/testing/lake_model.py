"""A lake as plain dictionaries: the result of each verb, as simply as possible. No journal, no files.

How values are cut into data objects is for the lake to choose. So a verb gives a Change, which says what has to come
and what has to go; `Pool.land` takes the objects that the lake wrote for it, compares them with the change, and from
then on relies on them. What cannot be done raises the error that the lake has to raise.

At a state an object has some rows that are hidden. A change takes each object that it has to do with from one state to
another; not to be there is a state as well.
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


Rows = frozenset[int]
"""Rows of an object that are hidden, by their numbers in its order."""
State = Mapping[str, Rows]
"""The objects that are there, and what of each is hidden."""
Effects = Mapping[str, tuple[Rows | None, Rows | None]]
"""What happens to objects: what of them was hidden before and is hidden after. None: the object is not there."""
WHOLE: Rows = frozenset()


@dataclass(frozen=True, slots=True)
class Commit:
    """A commit: what it did, and which objects are there after it."""

    id: str
    parent: str | None
    merged: str | None
    effects: Effects
    state: State
    message: str = ""

    @property
    def adds(self) -> Objects:
        """The objects that come."""
        return came(self.effects)

    @property
    def deletes(self) -> Objects:
        """The objects that go."""
        return went(self.effects)


@dataclass(frozen=True)
class Change:
    """What a verb does to a branch: values that come in new objects, and what happens to objects that there are."""

    fresh: Counter[Value] = field(default_factory=Counter)
    effects: Effects = field(default_factory=dict)
    merged: str | None = None

    @property
    def back(self) -> Objects:
        """Objects that come back."""
        return came(self.effects)

    @property
    def deletes(self) -> Objects:
        """Objects that go."""
        return went(self.effects)

    @property
    def masks(self) -> dict[str, Rows]:
        """Objects of which rows are hidden or shown, and what is hidden then."""
        return {o: after for o, (before, after) in self.effects.items() if before is not None and after is not None}


def came(effects: Effects) -> Objects:
    """The objects that were not there before."""
    return frozenset(o for o, (before, _) in effects.items() if before is None)


def went(effects: Effects) -> Objects:
    """The objects that are not there any more."""
    return frozenset(o for o, (_, after) in effects.items() if after is None)


def applied(state: State, effects: Effects) -> dict[str, Rows]:
    """A state after changes."""
    every: dict[str, Rows | None] = {**state, **{o: after for o, (_, after) in effects.items()}}
    return {o: hidden for o, hidden in every.items() if hidden is not None}


def between(old: State, new: State) -> Effects:
    """What has to happen to come from one state to another."""
    return {o: (old.get(o), new.get(o)) for o in {*old, *new} if old.get(o) != new.get(o)}


def missing(effects: Effects, now: State) -> Effects:
    """Changes without those that are done already. An object that is there does not come: what it hides is hidden."""
    out: dict[str, tuple[Rows | None, Rows | None]] = {}
    for o, (before, after) in effects.items():
        if before is None and o in now:
            before = WHOLE
        if before != after and (after is None or now.get(o) != after):
            out[o] = before, after
    return out


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

    def state(self, commit: str | None) -> State:
        """The objects at a commit."""
        return {} if commit is None else self.commits[commit].state

    def values(self, commit: str | None) -> Counter[Value]:
        """All values at a commit; what was purged is left out."""
        return self.values_of(self.state(commit))

    def values_of(self, state: State) -> Counter[Value]:
        """All values of some objects."""
        return Counter(value for o in state.keys() - self.purged for value in self.visible(o, state[o]).values())

    def visible(self, o: str, hidden: Rows) -> dict[int, Value]:
        """The rows of an object that are not hidden, by their numbers."""
        return {row: value for row, value in enumerate(self.objects[o]) if row not in hidden}

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
        return Change(effects=self.find(self.state(self.tip(branch)), idents))

    def find(self, state: State, idents: Sequence[str]) -> Effects:
        """Objects by ids of objects or commits go, all of which have to be in a state."""
        chosen = frozenset(self.added_by(idents))
        if not chosen:
            raise InvalidInput("none named")
        if not chosen <= state.keys():
            raise NotFound(str(chosen - state.keys()))
        return {o: (state[o], None) for o in chosen}

    def delete_where(self, branch: str, select: Select) -> Change:
        """Records go."""
        return _not_empty(self.without(self.state(self.tip(branch)), select))

    def without(self, state: State, select: Select) -> Change:
        """Hide the records that match. An object of which half is hidden then is written again without them."""
        fresh: Counter[Value] = Counter()
        effects: dict[str, tuple[Rows | None, Rows | None]] = {}
        for o in state.keys() - self.purged:
            there = self.visible(o, state[o])
            matching = Counter(select(list(there.values())))
            gone = frozenset(row for row, value in there.items() if value in matching)
            hidden = state[o] | gone
            if not gone:
                continue
            is_masked = 2 * len(hidden) < len(self.objects[o])
            effects[o] = state[o], hidden if is_masked else None
            if not is_masked:
                fresh += Counter(self.visible(o, hidden).values())
        return Change(fresh, effects)

    def compact(self, branch: str, idents: Sequence[str]) -> Change:
        """Objects are replaced by others with the same values."""
        state = self.state(self.tip(branch))
        effects = self.find(state, idents)
        if len(effects) < 2 or effects.keys() & self.purged:
            raise InvalidInput("nothing to compact")
        return Change(self.values_of({o: state[o] for o in effects}), effects)

    def revert(self, branch: str, commitish: str) -> Change:
        """The opposite of a commit."""
        ident = self.resolve(commitish)
        if ident is None:
            raise NotFound(commitish)
        effects = {o: (after, before) for o, (before, after) in self.commits[ident].effects.items()}
        if not effects:
            raise InvalidInput("nothing to revert")
        now = self.state(self.tip(branch))
        if came(effects) & now.keys() or came(effects) & self.purged:
            raise Conflict(commitish)
        fitted = self.fitted(effects, now)
        if not fitted:
            raise Conflict(commitish)
        return Change(effects=fitted)

    def cherry_pick(self, branch: str, commitish: str) -> Change:
        """What a commit did, once more."""
        ident = self.resolve(commitish)
        now = self.state(self.tip(branch))
        if ident is None:
            raise NotFound(commitish)
        every = self.commits[ident].effects
        effects = missing(every, now)
        lost = {o for o, (_, after) in every.items() if after is None} - now.keys()
        is_done = came(every) <= now.keys() and all(o in lost for o, (_, after) in effects.items() if after is None)
        is_done = is_done and all(after is None for _, after in effects.values())
        if not effects or (came(every) and is_done):
            raise InvalidInput("done already")
        fitted = self.fitted(effects, now)
        if not fitted:
            raise InvalidInput("done already")
        if came(fitted) & self.purged:
            raise Conflict(commitish)
        return Change(effects=fitted)

    def fitted(self, effects: Effects, now: State, is_writing: bool = False) -> Effects:
        """Changes of objects as they are now; Conflict if an object that has to be there is not.

        What is hidden and shown by both sides is joined. But records may live on in objects that come, if some do:
        then nobody else may have hidden one that this hides, nor any of an object that goes.
        """
        may_move = is_writing or bool(came(effects))
        out: dict[str, tuple[Rows | None, Rows | None]] = {}
        for o, (before, after) in effects.items():
            if before is None:
                out[o] = None, after
                continue
            if o not in now:
                raise Conflict(o)
            meanwhile = now[o] - before
            if after is None:
                if now[o] != before and (may_move or before - now[o]):
                    raise Conflict(o)
                out[o] = now[o], None
                continue
            if may_move and (after - before) & meanwhile:
                raise Conflict(o)
            hidden = (now[o] | (after - before)) - (before - after)
            if hidden != now[o]:
                out[o] = now[o], None if len(hidden) == len(self.objects[o]) else hidden
        return out

    def merge(self, child: str, into: str, source: str | None) -> Change:
        """What came and went in a commit of the child since both last met."""
        if child == into:
            raise InvalidInput("itself")
        self.tip(child)
        tip = self.tip(into)
        before = self.joined(self.meetings(source, tip))
        now = self.state(tip)
        effects = missing(between(before, self.state(source)), now)
        fitted = self.fitted(effects, now)
        _not_empty(Change(effects=fitted))
        if came(fitted) & self.purged:
            raise Conflict(child)
        return Change(effects=fitted, merged=source)

    def joined(self, met: Sequence[str | None]) -> State:
        """The objects of commits merged: what all have, and what one has got that was not there when they met.

        It is the same with rows that are hidden.
        """
        joined = self.state(met[0])
        for ident in met[1:]:
            before, other = self.joined(self.meetings(met[0], ident)), self.state(ident)
            kept = (joined.keys() & other.keys()) | (joined.keys() ^ other.keys()) - before.keys()
            out: dict[str, Rows] = {}
            for o in kept:
                old = before.get(o, WHOLE)
                one, two = joined.get(o, old), other.get(o, old)
                out[o] = (one & two) | (one ^ two) - old
            joined = out
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
            change = Change(effects=self.fitted(missing(commit.effects, now), now), merged=commit.merged)
            now = applied(now, change.effects)
            out.append((commit, change))
        return out

    def land(
        self, branch: str, change: Change, ident: str, objects: Mapping[str, tuple[Sequence[Value], Rows]], message: str
    ) -> None:
        """A change is on a branch, as a commit; `objects` are the new objects that it came with, and what is hidden."""
        self.branches[branch] = self.add(self.branches[branch], change, ident, objects, message)

    def add(
        self,
        parent: str | None,
        change: Change,
        ident: str,
        objects: Mapping[str, tuple[Sequence[Value], Rows]],
        message: str,
    ) -> str:
        """A commit on top of another; the values of its new objects have to be those that were to come."""
        assert ident not in self.commits, f"commit {ident} is there already"
        assert not set(objects) & set(self.objects), "new objects with the ids of old ones"
        self.require(change, objects)
        self.objects.update((o, tuple(values)) for o, (values, _) in objects.items())
        effects = {**change.effects, **{o: (None, hidden) for o, (_, hidden) in objects.items()}}
        state = applied(self.state(parent), effects)
        self.commits[ident] = Commit(ident, parent, change.merged, effects, state, message)
        return ident

    def require(self, change: Change, objects: Mapping[str, tuple[Sequence[Value], Rows]]) -> None:
        """The new objects have what was to come, no more and no less."""
        present = Counter(
            value for values, hidden in objects.values() for row, value in enumerate(values) if row not in hidden
        )
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
        if any(self.state(tip).keys() & set(chosen) for tip in (*self.branches.values(), *self.tags.values())):
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
            objects |= self.commits[ident].effects.keys()
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
        self.effects: Effects = {}
        self.has_read = False
        """Whether it has to fail if the branch has changed since: it has read all of it, and is serializable."""

    @property
    def adds(self) -> Objects:
        """The objects that come."""
        return came(self.effects)

    def state(self) -> State:
        """The objects that the transaction sees."""
        return applied(self.pool.state(self.base), self.effects)

    def values(self) -> Counter[Value]:
        """The values that the transaction sees."""
        return self._whole().values_of(self.state())

    def stage(self, change: Change, objects: Mapping[str, Sequence[Value]]) -> None:
        """More changes; `objects` are the new objects that they came with."""
        self.pool.require(change, {o: (values, WHOLE) for o, values in objects.items()})
        self.made.update((o, tuple(values)) for o, values in objects.items())
        state = applied(self.state(), {**change.effects, **dict.fromkeys(objects, (None, WHOLE))})
        self.effects = between(self.pool.state(self.base), state)

    def load(self, values: Sequence[Value]) -> Change:
        """Values come."""
        return Change(Counter(values))

    def delete(self, idents: Sequence[str]) -> Change:
        """Objects go."""
        return Change(effects=self.pool.find(self.state(), idents))

    def delete_where(self, select: Select) -> Change:
        """Records go."""
        return self._whole().without(self.state(), select)

    def _whole(self) -> Pool:
        """A pool with what is staged beside the rest."""
        pool = Pool(self.pool.name, self.pool.key_text)
        pool.objects = {**self.pool.objects, **self.made}
        pool.purged = self.pool.purged
        return pool

    def commit(self) -> Change:
        """All of it, if nobody is in the way."""
        if not self.effects:
            raise InvalidInput("nothing is staged")
        tip = self.pool.tip(self.branch)
        now = self.pool.state(tip)
        if self.has_read and self._has_moved(tip):
            raise Conflict("read")
        old = {o: change for o, change in self.effects.items() if o not in self.adds}
        fresh = self._whole().values_of({o: hidden for o, hidden in self.state().items() if o in self.adds})
        effects = self.pool.fitted(old, now, is_writing=bool(self.adds))
        if not fresh and not effects:
            raise Conflict("done already")
        return Change(fresh, effects)

    def _has_moved(self, tip: str | None) -> bool:
        for commit in self.pool.walk(tip):
            if commit.id == self.base:
                return False
            if commit.effects:
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
    if not change.fresh and not change.effects:
        raise InvalidInput("empty")
    return change
