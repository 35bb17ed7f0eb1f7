"""Identities of rows as numbers, to be compared by the million: which rows two objects have in common.

A row that a merge policy has made of several stands for all of them: it has an identity of its own, that of the row it
equals, and it has those that it absorbed as well.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence, Set
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from shoal.ids import Id
from shoal.lake import lineage
from shoal.lake.lineage import Absorbed, Lineage
from shoal.lake.masks import Rows, hidden_rows
from shoal.lake.objects import DataObject
from shoal.storage.store import ObjectStore

Keys = npt.NDArray[np.int64]
"""Identities as numbers: the code of an object, and the row in it."""
_ROW_BITS = 32
_ROW = (1 << _ROW_BITS) - 1
NO_KEYS: Keys = np.zeros(0, np.int64)


class Owned(NamedTuple):
    """The identities of some rows, and whose each is."""

    owners: Rows
    """For each identity the place of its row among those that were asked for."""
    keys: Keys


@dataclass
class Identities:
    """Codes for the objects that rows were first in."""

    store: ObjectStore
    pool: str
    ids: list[Id] = field(default_factory=list)
    codes: dict[Id, int] = field(default_factory=dict)

    def code(self, ident: Id) -> int:
        """The code of an object."""
        code = self.codes.setdefault(ident, len(self.ids))
        if code == len(self.ids):
            self.ids.append(ident)
        return code

    def read(self, o: DataObject) -> Lineage | None:
        """The lineage of an object; None if its rows are new in it."""
        return lineage.read(self.store, self.pool, o)

    def origin_ids(self, o: DataObject) -> tuple[Id, ...]:
        """The objects that rows of an object were first in."""
        known = self.read(o)
        return (o.id,) if known is None else known.ids

    def has_any(self, o: DataObject, ids: Set[Id]) -> bool:
        """Whether an object has rows that were first in some objects."""
        return any(ident in ids for ident in self.origin_ids(o))

    def own(self, o: DataObject, rows: Rows) -> Keys:
        """The identity of each of some rows."""
        known = self.read(o)
        if known is None:
            return (self.code(o.id) << _ROW_BITS) | rows
        return self._keys(known, known.origins[rows], known.rows[rows])

    def origins(self, o: DataObject, rows: Rows) -> Origins:
        """What some rows were before, for who writes them into other objects."""
        keys, known = self.own(o, rows), self.read(o)
        if known is None or known.absorbed is None:
            return Origins(self, keys)
        counts, places = _absorbed_by(known.absorbed.counts, rows)
        more = self._keys(known, known.absorbed.origins[places], known.absorbed.rows[places])
        return Origins(self, keys, counts, more)

    def owned(self, o: DataObject, rows: Rows) -> Owned:
        """All identities that some rows have."""
        origins = self.origins(o, rows)
        owners = np.arange(len(rows), dtype=np.int64)
        if origins.counts is None:
            return Owned(owners, origins.keys)
        every = np.concatenate([origins.keys, origins.absorbed])
        return Owned(np.concatenate([owners, np.repeat(owners, origins.counts)]), every)

    def _keys(self, known: Lineage, origins: lineage.Numbers, rows: lineage.Numbers) -> Keys:
        codes = np.array([self.code(ident) for ident in known.ids], np.int64)
        return (codes[origins] << _ROW_BITS) | rows

    def among(self, o: DataObject, wanted: Keys) -> tuple[Rows, Keys]:
        """The visible rows of an object that have some identities (ascending), and which; a row may have several."""
        hidden = hidden_rows(self.store, self.pool, o)
        if o.lineage is None:
            low, high = np.searchsorted(wanted, [(code := self.code(o.id)) << _ROW_BITS, (code + 1) << _ROW_BITS])
            keys = wanted[low:high]
            rows = keys & _ROW
        else:
            owners, every = self.owned(o, np.arange(o.rows, dtype=np.int64))
            is_wanted = is_in(every, wanted)
            rows, keys = owners[is_wanted], every[is_wanted]
        is_shown = ~is_in(rows, hidden)
        return rows[is_shown], keys[is_shown]

    def of_objects(self, keys: Keys, ids: Set[Id]) -> Keys:
        """Those identities that are of rows which were first in some objects."""
        codes = np.array(sorted(self.codes[ident] for ident in ids if ident in self.codes), np.int64)
        return keys[is_in(keys >> _ROW_BITS, codes)]

    def origin_of(self, key: int) -> tuple[Id, int]:
        """The object that a row was first in, and its number there. Younger objects have greater ids."""
        return self.ids[key >> _ROW_BITS], key & _ROW

    def by_object(self, keys: Keys) -> Iterable[tuple[Id, Rows]]:
        """The rows that identities are, by the object that they were first in."""
        codes = keys >> _ROW_BITS
        for code in np.unique(codes).tolist():
            yield self.ids[code], np.unique(keys[codes == code] & _ROW)


def is_in(numbers: Keys, wanted: Keys) -> npt.NDArray[np.bool_]:
    """Which of some numbers are among others, which ascend."""
    if not len(wanted):
        return np.zeros(len(numbers), bool)
    places = np.minimum(np.searchsorted(wanted, numbers), len(wanted) - 1)
    present: npt.NDArray[np.bool_] = wanted[places] == numbers
    return present


def _absorbed_by(every: npt.NDArray[np.integer[Any]], rows: Rows) -> tuple[Rows, Rows]:
    """How many rows each of some rows has absorbed, and the places of all of these; `every` has the counts of all."""
    ends = np.cumsum(every, dtype=np.int64)
    counts = every[rows].astype(np.int64)
    firsts = ends[rows] - counts
    within = np.arange(int(counts.sum())) - np.repeat(np.cumsum(counts) - counts, counts)
    return counts, np.repeat(firsts, counts) + within


# ---- of what is written


class Origins(NamedTuple):
    """The identities of values on their way into objects, in the order of their arrival."""

    known: Identities
    keys: Keys
    counts: Rows | None = None
    """How many rows each has absorbed; None if none has."""
    absorbed: Keys = NO_KEYS

    def taken(self, places: Rows) -> Origins:
        """Those of some values."""
        if self.counts is None:
            return Origins(self.known, self.keys[places])
        counts, chosen = _absorbed_by(self.counts, places)
        return Origins(self.known, self.keys[places], counts, self.absorbed[chosen])

    def lineage(self) -> Lineage:
        """What an object says that has just these values."""
        codes = np.concatenate([self.keys, self.absorbed]) >> _ROW_BITS
        is_used = np.zeros(len(self.known.ids), bool)
        is_used[codes] = True
        ids = tuple(self.known.ids[code] for code in np.flatnonzero(is_used).tolist())
        origins, count = (np.cumsum(is_used, dtype=np.uint32) - np.uint32(1))[codes], len(self.keys)
        rows = (self.keys & _ROW).astype(np.uint32)
        if self.counts is None or not self.counts.any():
            return Lineage(ids, origins, rows)
        merged = (self.absorbed & _ROW).astype(np.uint32)
        return Lineage(ids, origins[:count], rows, Absorbed(self.counts.astype(np.uint32), origins[count:], merged))


def listed_origins(known: Identities, keys: Sequence[tuple[int, ...]]) -> Origins:
    """The identities of values, each with its own first and those that it absorbed after it."""
    own = np.fromiter((each[0] for each in keys), np.int64, len(keys))
    counts = np.fromiter((len(each) - 1 for each in keys), np.int64, len(keys))
    if not counts.any():
        return Origins(known, own)
    return Origins(known, own, counts, np.array([key for each in keys for key in each[1:]], np.int64))


def key_lists(origins: Origins) -> list[tuple[int, ...]]:
    """The identities of each value, its own first."""
    keys = origins.keys.tolist()
    if origins.counts is None:
        return [(key,) for key in keys]
    absorbed, ends = origins.absorbed.tolist(), np.cumsum(origins.counts).tolist()
    starts = [0, *ends]
    return [(key, *absorbed[start:end]) for key, start, end in zip(keys, starts, ends, strict=False)]


def joined_origins(parts: Sequence[Origins]) -> Origins:
    """The identities of values that came one after the other; all know the same codes."""
    known, keys = parts[0].known, np.concatenate([part.keys for part in parts])
    if all(part.counts is None for part in parts):
        return Origins(known, keys)
    counts = [np.zeros(len(part.keys), np.int64) if part.counts is None else part.counts for part in parts]
    return Origins(known, keys, np.concatenate(counts), np.concatenate([part.absorbed for part in parts]))
