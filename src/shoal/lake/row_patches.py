"""Patches as rows: what one takes away and brings by the identities of rows, and where these are in a state."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple, Protocol

import numpy as np

from shoal.ids import Id
from shoal.lake.actions import Effect, Entry, Patch, patch_to
from shoal.lake.identities import NO_KEYS, Identities, Keys, Owned, is_in
from shoal.lake.keys import EVERYTHING, Bound, KeyRange, compare_in
from shoal.lake.masks import Rows, shown_rows
from shoal.lake.objects import DataObject
from shoal.lake.pools import Pool
from shoal.lake.row_masking import newly_hidden


class State(Protocol):
    """Knows which objects there are."""

    def objects(self, key_range: KeyRange = EVERYTHING, /) -> Iterable[DataObject]:
        """Those that may hold something in a range."""

    def version(self, entry: Entry, /) -> Entry | None:
        """The entry of the same id as it is there; None if it is not."""


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


@dataclass
class Touched:
    """Objects that may differ between two states, as somebody has described them: all others have the same rows."""

    plain: dict[Id, DataObject] = field(default_factory=dict)
    """Those whose rows were new in them."""
    moved: dict[Id, DataObject] = field(default_factory=dict)
    """Those with a lineage."""

    def add(self, entries: Iterable[Entry]) -> None:
        """Take more of them."""
        for o in entries:
            (self.plain if o.lineage is None else self.moved)[o.id] = o


def may_be_elsewhere(pool: Pool, patch: Patch, state: State, touched: Touched) -> bool:
    """Whether rows that a patch brings may be in a state already, in objects that the patch does not speak of.

    `touched` has the objects in which the state may differ from the one that the patch was made for. In others there is
    no such row: it would have been there twice. Where nothing was moved, no lineage is read.
    """
    own = {change.id for change in patch.effects()}
    come = [after for before, after in patch.effects() if after is not None]
    if not come:
        return False
    hull = hull_of(come)
    moved = [o for ident, o in touched.moved.items() if ident not in own and o.may_hold(hull)]
    if not moved and all(o.lineage is None for o in come):
        return False
    known = Identities(pool.store, pool.prefix)
    ids = {ident for o in come for ident in known.origin_ids(o)}
    if any(state.version(touched.plain[ident]) is not None for ident in (ids & touched.plain.keys()) - own):
        return True
    return any((now := state.version(o)) is not None and known.has_any(now, ids) for o in moved)


def is_of(pool: Pool, objects: Iterable[DataObject], others: Iterable[DataObject]) -> bool:
    """Whether all rows of objects are rows of others, which compactions may have moved."""
    patch = patch_to([*(Effect(o, None) for o in objects), *(Effect(None, o) for o in others)])
    return not len(row_patch(pool, Identities(pool.store, pool.prefix), patch).lost)


def hull_of(objects: Iterable[DataObject]) -> KeyRange:
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


@dataclass
class Located:
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
