"""Patches at another commit, row by row: what one takes away and brings, wherever the rows are by now.

Rows are compared by identity. So what compactions have moved meanwhile, on either side, is not a change: a row is
hidden where it is now, and one that comes back comes in the object that it was first in, if the one that it was last
in is gone. A compaction itself takes its rows along as far as they are where it found them, without those that
somebody else has deleted; rows that another compaction has moved stay there.

Only changes conflict: a row that one side has replaced, and the other has replaced or deleted. Which rows were replaced
is judged commit by commit: a commit that takes rows away and brings others has replaced them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Set
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple, Protocol

import numpy as np

from shoal.errors import Conflict
from shoal.ids import Id, to_text
from shoal.lake.actions import Effect, Entry, Patch, describe, patch_to
from shoal.lake.identities import NO_KEYS, Identities, Keys, Owned, is_in
from shoal.lake.keys import EVERYTHING, Bound, KeyRange, compare_in
from shoal.lake.masks import Rows, shown_rows
from shoal.lake.objects import DataObject
from shoal.lake.pools import Pool
from shoal.lake.row_masking import change_rows, newly_hidden
from shoal.lake.tracing import origin_objects

NO_ROWS: Rows = np.zeros(0, np.int64)


class State(Protocol):
    """Knows which objects there are."""

    def objects(self, key_range: KeyRange = EVERYTHING, /) -> Iterable[DataObject]:
        """Those that may hold something in a range."""

    def version(self, entry: Entry, /) -> Entry | None:
        """The entry of the same id as it is there; None if it is not."""


class Parted(NamedTuple):
    """Where a branch and another one parted, for what may not come back."""

    bases: tuple[State, ...]
    """The states that both knew."""
    target: State
    """The other branch as it is."""
    is_merge: bool
    """Whether the rows were merged into the branch: then they stay away. Else it has restored them: a Conflict."""


class Sides(NamedTuple):
    """What both sides have done since they parted, commit by commit. It is asked for only if a row is missing."""

    ours: Callable[[], Iterable[Patch]]
    """What the patch is the sum of."""
    theirs: Callable[[], Iterable[tuple[str, Patch]]]
    """What has become of the state, and who has done it."""
    is_merge: bool = False
    """Whether rows that both sides have, because one has picked them from the other, go if one of them deleted them."""
    parted: Parted | None = None
    """Of a branch whose commits are done again one by one."""


class Part(NamedTuple):
    """Rows of an object that a patch takes away or brings, and their identities."""

    object: DataObject
    rows: Rows
    owned: Owned


@dataclass
class RowPatch:
    """A patch as rows."""

    known: Identities
    gone: list[Part] = field(default_factory=list)
    come: list[Part] = field(default_factory=list)

    @cached_property
    def gone_keys(self) -> Keys:
        """The identities of what goes, ascending."""
        return _all_keys(self.gone)

    @cached_property
    def come_keys(self) -> Keys:
        """The identities of what comes, ascending."""
        return _all_keys(self.come)

    @cached_property
    def lost(self) -> Keys:
        """Identities that go and do not come back elsewhere."""
        return self.gone_keys[~is_in(self.gone_keys, self.come_keys)]

    @cached_property
    def new(self) -> Keys:
        """Identities that come and were not there."""
        return self.come_keys[~is_in(self.come_keys, self.gone_keys)]

    @property
    def is_move(self) -> bool:
        """Whether it only moves rows."""
        return not len(self.lost) and not len(self.new)


def _all_keys(parts: Iterable[Part]) -> Keys:
    return np.unique(np.concatenate([NO_KEYS, *(part.owned.keys for part in parts)]))


def row_patch(pool: Pool, known: Identities, patch: Patch) -> RowPatch:
    """The rows that a patch takes away and brings."""
    rows = RowPatch(known)
    for before, after in patch.effects():
        for parts, one, other in ((rows.gone, before, after), (rows.come, after, before)):
            if one is not None:
                changed = shown_rows(pool.store, pool.prefix, one) if other is None else newly_hidden(pool, one, other)
                if len(changed):
                    parts.append(Part(one, changed, known.owned(one, changed)))
    return rows


def is_move(pool: Pool, patch: Patch) -> bool:
    """Whether a patch only moves rows, as a compaction does."""
    if patch.is_empty or not patch.needs_state or not (patch.adds or patch.masks):
        return patch.is_empty
    return row_patch(pool, Identities(pool.store, pool.prefix), patch).is_move


def may_be_elsewhere(pool: Pool, patch: Patch, state: State) -> bool:
    """Whether rows that a patch brings may be in a state already, in objects that the patch does not speak of."""
    own = {change.id for change in patch.effects()}
    come = [after for before, after in patch.effects() if after is not None]
    known = Identities(pool.store, pool.prefix)
    ids = {ident for o in come for ident in known.origin_ids(o)}
    has_lineage = any(o.lineage is not None for o in come)
    others = (o for o in state.objects(_hull(come)) if o.id not in own and (has_lineage or o.lineage is not None))
    return bool(come) and any(known.has_any(o, ids) for o in others)


def is_of(pool: Pool, objects: Iterable[DataObject], others: Iterable[DataObject]) -> bool:
    """Whether all rows of objects are rows of others, which compactions may have moved."""
    patch = patch_to([*(Effect(o, None) for o in objects), *(Effect(None, o) for o in others)])
    return not len(row_patch(pool, Identities(pool.store, pool.prefix), patch).lost)


def _hull(objects: Iterable[DataObject]) -> KeyRange:
    """The keys that all of some objects are between."""
    low = high = None
    for o in objects:
        if not o.is_ranged or o.min.data is None:
            return EVERYTHING
        low = o.min if low is None or compare_in("asc", o.min, low) < 0 else low
        high = o.max if high is None or compare_in("asc", o.max, high) > 0 else high
    if low is None or high is None:
        return EVERYTHING
    return KeyRange(Bound(low), None if high.data is None else Bound(high))


# ---- at another commit


def translated(
    pool: Pool, patch: Patch, state: State, what: str, sides: Sides | None, tips: Iterable[Id | None] = ()
) -> Patch:
    """What is left to do of a patch in a state; a Conflict, if both sides have changed a row.

    Without `sides` it is not asked who has changed what. Objects that rows were first in are looked for in the history
    of `tips`.
    """
    known = Identities(pool.store, pool.prefix)
    rows = row_patch(pool, known, patch)
    there = _Located(known, state, _hull(e for change in patch.effects() for e in change if e), rows)
    missing = rows.lost[~is_in(rows.lost, there.keys)]
    if len(missing) and sides is not None:
        _require_unchanged(pool, rows, there, missing, what, sides)
    if sides is not None and sides.parted is not None:
        _leave_out(rows, sides.parted, what)
    if sides is not None and sides.is_merge:
        _leave_deleted(pool, rows, there, sides)
    return _Translation(pool, patch, state, rows, there, what, tuple(tips)).patch()


@dataclass
class _Located:
    """Where the rows that a patch speaks of are in a state."""

    known: Identities
    state: State
    hull: KeyRange
    patch: RowPatch
    objects: list[DataObject] = field(default_factory=list)
    places: list[tuple[Rows, Keys]] = field(default_factory=list)
    """Of each object, rows and the identities that are asked for."""
    keys: Keys = field(default_factory=lambda: NO_KEYS)
    """The identities that are there, ascending."""

    def __post_init__(self) -> None:
        self.locate(np.union1d(self.patch.gone_keys, self.patch.come_keys), self.hull)

    def locate(self, wanted: Keys, hull: KeyRange) -> None:
        """Look for the rows that have some identities, which are somewhere in a range."""
        ids = {ident for ident, _ in self.known.by_object(wanted)}
        for o in self.state.objects(hull) if len(wanted) else ():
            if self.known.has_any(o, ids):
                rows, keys = self.known.among(o, wanted)
                if len(rows):
                    self.objects.append(o)
                    self.places.append((rows, keys))
        self.keys = np.unique(np.concatenate([NO_KEYS, *(keys for _, keys in self.places)]))

    def with_any(self, wanted: Keys) -> Iterator[tuple[DataObject, Rows]]:
        """The rows that have some identities, by object."""
        for o, (rows, keys) in zip(self.objects, self.places, strict=True):
            chosen = np.unique(rows[is_in(keys, wanted)])
            if len(chosen):
                yield o, chosen


@dataclass
class _Translation:
    """What a patch is in a state."""

    pool: Pool
    original: Patch
    state: State
    rows: RowPatch
    there: _Located
    what: str
    tips: tuple[Id | None, ...]
    objects: dict[Id, DataObject] = field(default_factory=dict)
    """Those that change or come, as they are: in the state, or else as somebody has described them."""
    hidden: dict[Id, list[Rows]] = field(default_factory=lambda: defaultdict(list))
    shown: dict[Id, list[Rows]] = field(default_factory=lambda: defaultdict(list))

    def patch(self) -> Patch:
        """What is left to do."""
        new = self.rows.new[~is_in(self.rows.new, self.there.keys)]
        taken, brought = [NO_KEYS], [NO_KEYS]
        for part in self.rows.come:
            keys = self._come(part, new)
            taken.append(keys[~is_in(keys, new)])
            brought.append(keys[is_in(keys, new)])
        left = self._hide(np.unique(np.concatenate([self.rows.lost, *taken])))
        rest = new[~is_in(new, np.unique(np.concatenate(brought)))]
        self._bring_back(np.union1d(left, rest))
        return patch_to(self._effects())

    def _come(self, part: Part, new: Keys) -> Keys:
        """Rows of an object that come, because they are new or because the object takes them along; their keys."""
        owners, keys = part.owned
        moves = is_in(keys, self.there.keys) & ~is_in(keys, self.rows.new)
        may_come = is_in(keys, new)
        if self._is_where_it_was(keys[moves]):
            may_come |= moves
        is_whole = np.ones(len(part.rows), bool)
        is_whole[owners[~may_come]] = False
        if not is_whole.any():
            return NO_KEYS
        self._add(part.object, part.rows[is_whole])
        chosen: Keys = np.unique(keys[is_whole[owners]])
        return chosen

    def _is_where_it_was(self, moved: Keys) -> bool:
        """Whether rows are still in objects that the patch takes them from."""
        sources = {part.object.id for part in self.rows.gone}
        return all(o.id in sources for o, _ in self.there.with_any(np.unique(moved)))

    def _add(self, o: DataObject, rows: Rows) -> None:
        """Rows of an object are to be visible, those of the state as well."""
        if o.id not in self.objects:
            self.objects[o.id] = self.state.version(o) or o
        self.shown[o.id].append(rows)

    def _hide(self, keys: Keys) -> Keys:
        """Hide the rows that have some identities. Others that these rows have absorbed are left over."""
        left = [NO_KEYS]
        for o, rows in self.there.with_any(keys):
            self.objects[o.id] = o
            self.hidden[o.id].append(rows)
            if o.lineage is not None:
                every = self.rows.known.owned(o, rows).keys
                left.append(every[~is_in(every, keys)])
        return np.unique(np.concatenate(left))

    def _bring_back(self, keys: Keys) -> None:
        """Rows come in the objects that they were first in."""
        if not len(keys):
            return
        wanted = dict(self.rows.known.by_object(keys))
        first = {e.id: e for change in self.original.effects() for e in change if e is not None and e.lineage is None}
        first |= origin_objects(self.pool, self.tips, wanted.keys() - first.keys())
        for ident, rows in wanted.items():
            if ident not in first:
                raise Conflict(
                    f"{self.what}: records of data object {to_text(ident)} were merged with others, and that object is "
                    "gone with its branch or with old history (delete the merged records: shoal delete -where)"
                )
            self._add(first[ident], rows)

    def _effects(self) -> Iterator[Effect]:
        for ident, o in self.objects.items():
            hidden, shown = (_joined(rows.get(ident, ())) for rows in (self.hidden, self.shown))
            now = self.state.version(o)
            if now is not None:
                yield change_rows(self.pool, now, hidden, shown)
                continue
            visible = shown_rows(self.pool.store, self.pool.prefix, o)
            if np.array_equal(visible, shown):
                yield Effect(None, o)
            else:
                come = change_rows(self.pool, o, np.setdiff1d(visible, shown), np.setdiff1d(shown, visible))
                yield Effect(None, come.after)


def _joined(rows: Iterable[Rows]) -> Rows:
    joined: Rows = np.unique(np.concatenate([NO_ROWS, *rows]))
    return joined


# ---- rows that one side has deleted


def _leave_out(rows: RowPatch, parted: Parted, what: str) -> None:
    """Rows that were there where two branches parted do not come back if the other side has deleted them since.

    A branch that has deleted and restored a row has not changed it, and so does not undo its deletion elsewhere.
    """
    if not len(rows.new):
        return
    hull = _hull(part.object for part in rows.come)
    before = np.concatenate([NO_KEYS, *(_Located(rows.known, base, hull, rows).keys for base in parted.bases)])
    old = rows.new[np.isin(rows.new, before)]
    deleted = old[~is_in(old, _Located(rows.known, parted.target, hull, rows).keys)] if len(old) else old
    if len(deleted) and not parted.is_merge:
        objects = [part.object for part in rows.come if is_in(part.owned.keys, deleted).any()]
        raise Conflict(
            f"{what}: it brings back records of {describe(objects)}, which the other branch has deleted or rewritten "
            "(merge instead, or delete them here as well)"
        )
    rows.new = rows.new[~is_in(rows.new, deleted)]


def _leave_deleted(pool: Pool, rows: RowPatch, there: _Located, sides: Sides) -> None:
    """Rows of objects that both sides have added go, if one of them has deleted them.

    One has picked the other's commit. An object of which the state has no row any more comes as any other.
    """
    known = rows.known
    both = {ident for ident, _ in known.by_object(rows.new[is_in(rows.new, there.keys)])}
    if not both:
        return
    ours, theirs = (
        _deleted(pool, known, patches, both) for patches in (list(sides.ours()), [patch for _, patch in sides.theirs()])
    )
    rows.new = rows.new[is_in(rows.new, there.keys) | ~is_in(rows.new, theirs)]
    gone = ours[~is_in(ours, rows.gone_keys) & ~is_in(ours, rows.come_keys)]
    if len(gone):
        there.locate(gone, EVERYTHING)
        rows.lost = np.union1d(rows.lost, gone)


def _deleted(pool: Pool, known: Identities, patches: Iterable[Patch], ids: Set[Id]) -> Keys:
    """The rows of some objects that patches (the newest first) have taken away and not brought back, ascending."""
    deleted = NO_KEYS
    for patch in reversed(list(patches)):
        if any(known.has_any(entry, ids) for change in patch.effects() for entry in change if entry is not None):
            rows = row_patch(pool, known, patch)
            deleted = np.union1d(deleted, rows.lost)
            deleted = deleted[~is_in(deleted, rows.new)]
    return known.of_objects(deleted, ids)


# ---- conflicts


def _require_unchanged(pool: Pool, rows: RowPatch, there: _Located, missing: Keys, what: str, sides: Sides) -> None:
    """Conflict if a row that is missing was replaced: by us, or by who has taken it away."""
    who = "another commit"
    for name, theirs in _touching(pool, rows.known, sides.theirs(), missing):
        who = name
        if not is_in(theirs.new, rows.new).all():
            raise _changed(what, name, rows, np.intersect1d(theirs.lost, missing))
    for _, ours in _touching(pool, rows.known, (("", patch) for patch in sides.ours()), missing):
        there.locate(ours.new, _hull(part.object for part in ours.come))
        if not is_in(ours.new, there.keys).all():
            raise _changed(what, who, rows, np.intersect1d(ours.lost, missing))


def _touching(
    pool: Pool, known: Identities, commits: Iterable[tuple[str, Patch]], keys: Keys
) -> Iterator[tuple[str, RowPatch]]:
    """The commits that have taken some rows away, and what they did."""
    ids = {ident for ident, _ in known.by_object(keys)}
    for name, patch in commits:
        if any(before is not None and known.has_any(before, ids) for before, _ in patch.effects()):
            rows = row_patch(pool, known, patch)
            if is_in(rows.lost, keys).any():
                yield name, rows


def _changed(what: str, who: str, rows: RowPatch, keys: Keys) -> Conflict:
    objects = [part.object for part in rows.gone if is_in(part.owned.keys, keys).any()]
    return Conflict(
        f"{what}: {who} has deleted or rewritten records of {describe(objects)} meanwhile "
        "(revert that commit first, or repeat the change on what is there now)"
    )


def who_did(pool: Pool, patch: Patch, commits: Iterable[tuple[str, Patch]]) -> str:
    """The commit that has done what a patch was to do."""
    known = Identities(pool.store, pool.prefix)
    rows = row_patch(pool, known, patch)
    objects = {part.object.id for part in rows.gone}
    for name, other in commits:
        if any(True for _ in _touching(pool, known, [(name, other)], rows.lost)):
            return name
        if not len(rows.lost) and any(before is not None and before.id in objects for before, _ in other.effects()):
            return name
    return "another commit"
