"""Changes of keyed pools: a branch has at most one record with a primary key.

A load refuses keys that are there. An upsert hides the records that have them, and adds the new ones. What a change is
on a tip that others have moved is found by key: for each key that the change concerns, there is the record before it,
the record that it brings, and the record at the tip. If the record at the tip is the one before, wherever a compaction
has put it, the change applies to it. Otherwise somebody else has changed it as well: a conflict, which names the keys.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt

from shoal.errors import AlreadyExists, Conflict, InvalidInput
from shoal.ids import Id
from shoal.lake.actions import Effect, Patch, patch_to
from shoal.lake.key_index import KeyIndex
from shoal.lake.keys import Path, getter
from shoal.lake.masks import Rows, hidden_rows
from shoal.lake.objects import DataObject
from shoal.lake.pools import Pool
from shoal.lake.primary_keys import KeyGroup, read_keys
from shoal.lake.row_masking import change_rows, changed_parts, hide_rows, only
from shoal.lake.scans import read_object
from shoal.lake.snapshots import Snapshot
from shoal.lake.workers import HERE, Workers
from shoal.lazy import lazy
from shoal.model.node import frozen
from shoal.model.order import compare_values
from shoal.model.values import NULL, Value

if TYPE_CHECKING:
    from shoal.lake import key_shuffle
else:
    key_shuffle = lazy("shoal.lake.key_shuffle")

Mask = npt.NDArray[np.bool_]
OnConflict = Literal["fail", "ours", "theirs", "newest"]
_NOWHERE = -1
_CHOOSE = "repeat the change on what is there now, or choose with -on-conflict"
_WAYS_OUT = {
    **dict.fromkeys(("upsert", "update", "delete"), _CHOOSE),
    "transaction": "begin again, and repeat the change on what is there now",
}
"""What to do about a conflict, by the first word of what is done."""
_FROM_A_BRANCH = "upsert or delete it on one side so that both agree, and try again"


@frozen
class Resolution:
    """What becomes of records that somebody else has changed as well."""

    rule: OnConflict = "fail"
    field: Path = ()
    """Of `newest`: the field whose greater value wins; ours, if they are equal."""


def parse_resolution(text: str | None) -> Resolution:
    """The resolution in the text of a flag."""
    if text in (None, "", "fail"):
        return Resolution()
    if text in ("ours", "theirs"):
        return Resolution(text)  # type: ignore[arg-type]
    rule, _, name = str(text).partition(":")
    if rule != "newest" or not name or not all(name.split(".")):
        raise InvalidInput(f"on conflict: {text!r} is not one of fail, ours, theirs, newest:FIELD")
    return Resolution("newest", tuple(name.split(".")))


def index_of(pool: Pool, objects: Sequence[DataObject]) -> KeyIndex:
    """The primary keys of objects."""
    return KeyIndex((number, group) for number, o in enumerate(objects) for group in read_keys(pool, o))


def require_distinct(index: KeyIndex) -> None:
    """InvalidInput if two new records have the same key."""
    again = index.duplicates()
    if len(again):
        noun = "key is" if len(again) == 1 else "keys are"
        raise InvalidInput(f"duplicate records: {len(again)} primary {noun} given more than once: {index.texts(again)}")


class Located:
    """Where the keys of an index are in a state."""

    def __init__(self, pool: Pool, state: Iterable[DataObject], index: KeyIndex) -> None:
        self.objects: list[DataObject] = []
        self.object = np.full(len(index), _NOWHERE, np.int64)
        """For each key, the place of its object in `objects`."""
        self.row = np.full(len(index), _NOWHERE, np.int64)
        for o in state:
            rows, positions = index.find(read_keys(pool, o))
            if len(rows):
                self.object[positions], self.row[positions] = len(self.objects), rows
                self.objects.append(o)

    @cached_property
    def is_there(self) -> Mask:
        """Which keys are there."""
        there: Mask = self.object != _NOWHERE
        return there

    def rows_by_object(self, positions: Rows) -> Iterator[tuple[DataObject, Rows]]:
        """The rows of some keys, by object."""
        places = self.object[positions]
        for place in np.unique(places[places != _NOWHERE]).tolist():
            yield self.objects[place], np.sort(self.row[positions[places == place]])


def locate(pool: Pool, now: Snapshot, index: KeyIndex) -> Located:
    """Where keys are at a commit; only objects that may have one of them are read."""
    return Located(pool, _touched(pool, now, index), index)


def _touched(pool: Pool, now: Snapshot, index: KeyIndex) -> Iterator[DataObject]:
    path = pool.config.settings.primary[0]
    ranges = index.ranges() if path == pool.config.key.paths[0] else ()
    seen: set[Id] = set()
    for o in (o for each in ranges for o in now.objects(each)) if ranges else now.objects():
        if o.id not in seen and index.may_touch(o, path):
            seen.add(o.id)
            yield o


# ---- what is done


def adding(pool: Pool, branch: str, objects: Sequence[DataObject], by: Workers = HERE) -> Callable[[Id | None], Patch]:
    """A load: on each tip, the new objects; AlreadyExists if a key is there."""
    if by.is_remote:
        return lambda tip: key_shuffle.adding(pool, branch, pool.snapshot(tip), objects, by)
    index = index_of(pool, objects)
    require_distinct(index)

    def build(tip: Id | None) -> Patch:
        there = np.flatnonzero(locate(pool, pool.snapshot(tip), index).is_there)
        if len(there):
            noun = "a record has" if len(there) == 1 else f"{len(there)} records have"
            raise AlreadyExists(
                f'{index.texts(there)}: {noun} this primary key in "{branch}" (upsert replaces records)'
            )
        return patch_to(Effect(None, o) for o in objects)

    return build


def upserting(
    pool: Pool, base: Id | None, objects: Sequence[DataObject], resolution: Resolution, by: Workers = HERE
) -> Callable[[Id | None], Patch]:
    """An upsert: on each tip, the new objects, and the records that they replace hidden."""
    if by.is_remote:
        planned = key_shuffle.replacing(pool, pool.snapshot(base), objects, by)
    else:
        index = index_of(pool, objects)
        require_distinct(index)
        planned = replacing(pool, base, objects, index)
    return lambda tip: planned if tip == base else fit_by_key(pool, planned, tip, "upsert", resolution)


def replacing(pool: Pool, commit: Id | None, objects: Sequence[DataObject], index: KeyIndex) -> Patch:
    """The patch that adds objects, and hides the records with their keys."""
    located = locate(pool, pool.snapshot(commit), index)
    hidden = [hide_rows(pool, o, rows) for o, rows in located.rows_by_object(np.arange(len(index)))]
    return patch_to([*(Effect(None, o) for o in objects), *hidden])


def deleting(
    pool: Pool, base: Id | None, keys: Sequence[KeyGroup], resolution: Resolution
) -> Callable[[Id | None], Patch]:
    """A deletion of the records with some keys; those that no record has do not matter."""
    index = KeyIndex((0, group) for group in keys)
    planned = without_keys(pool, base, index)
    return lambda tip: planned if tip == base else fit_by_key(pool, planned, tip, "delete", resolution)


def without_keys(pool: Pool, commit: Id | None, index: KeyIndex) -> Patch:
    """The patch that hides the records with some keys."""
    located = locate(pool, pool.snapshot(commit), index)
    return patch_to(hide_rows(pool, o, rows) for o, rows in located.rows_by_object(np.arange(len(index))))


def require_free(pool: Pool, commit: Id | None, patch: Patch, objects: Sequence[DataObject], what: str) -> None:
    """InvalidInput if new records of a patch have the same primary key, or that of another record at a commit."""
    index = index_of(pool, objects)
    require_distinct(index)
    left = {o.id: o for o in pool.snapshot(commit).objects()}
    for before, after in patch.effects():
        if before is not None:
            left.pop(before.id, None)
            if after is not None:
                left[after.id] = after
    taken = np.flatnonzero(Located(pool, left.values(), index).is_there)
    if len(taken):
        raise InvalidInput(f"{what}: other records have the primary key {index.texts(taken)}")


def require_one_each(pool: Pool, patch: Patch, base: Id | None, what: str) -> None:
    """Conflict if several records had one of the keys of a patch where two branches parted.

    That can be where the pool had no primary key yet: then nobody knows which of them a side has changed.
    """
    gone, come = changed_parts(pool, patch)
    index = index_of(pool, [*come, *gone])
    counts = np.zeros(len(index), np.int64)
    for o in pool.snapshot(base).objects():
        np.add.at(counts, index.find(read_keys(pool, o)).positions, 1)
    several = np.flatnonzero(counts > 1)
    if len(several):
        raise Conflict(
            f"{what}: before this pool had its primary key, several records had the key {index.texts(several)} "
            "(upsert what is meant on one of the branches, and create the other one again)"
        )


# ---- on another tip


def fit_by_key(pool: Pool, patch: Patch, tip: Id | None, what: str, resolution: Resolution | None = None) -> Patch:
    """What a patch is on a tip; a Conflict that names the keys, if both sides changed their records."""
    now = pool.snapshot(tip)
    gone, come = changed_parts(pool, patch)
    require_distinct(index_of(pool, come))
    change = _KeyedChange(pool, patch, gone, come, now)
    if not patch.lost_in(now) and not patch.present_in(now) and not change.clashes():
        return patch
    ours = change.resolve(what, resolution or Resolution())
    return change.patch(ours)


@dataclass
class _KeyedChange:
    """A patch by its keys, and the state that it is brought to."""

    pool: Pool
    original: Patch
    gone: list[DataObject]
    come: list[DataObject]
    now: Snapshot
    values: dict[tuple[Id, int], Value] = field(default_factory=dict)

    @cached_property
    def index(self) -> KeyIndex:
        """All keys that the patch concerns: of the records that come, and of those that go and do not come back."""
        return KeyIndex([*self._groups(self.come, 0), *self._left_behind()])

    def _groups(self, parts: Sequence[DataObject], first: int) -> Iterator[tuple[int, KeyGroup]]:
        for number, o in enumerate(parts, first):
            yield from ((number, group) for group in read_keys(self.pool, o))

    def _left_behind(self) -> Iterator[tuple[int, KeyGroup]]:
        coming = KeyIndex(self._groups(self.come, 0))
        for number, group in self._groups(self.gone, len(self.come)):
            back = np.isin(group.rows, coming.find([group]).rows)
            kept = np.flatnonzero(~back)
            columns = tuple(_taken(column, kept) for column in group.columns)
            if len(kept):
                yield number, KeyGroup(group.kinds, columns, group.rows[kept])

    @cached_property
    def before(self) -> Located:
        """The records that the patch takes away."""
        return Located(self.pool, self.gone, self.index)

    @cached_property
    def after(self) -> Located:
        """The records that it brings."""
        return Located(self.pool, self.come, self.index)

    @cached_property
    def there(self) -> Located:
        """The records at the tip."""
        return locate(self.pool, self.now, self.index)

    @cached_property
    def is_elsewhere(self) -> Rows:
        """The keys whose record at the tip is not, or not where, it was before the patch."""
        before, there = self.before, self.there
        old = np.array([_number(o.id) for o in before.objects] + [_NOWHERE], object)[before.object]
        new = np.array([_number(o.id) for o in there.objects] + [_NOWHERE], object)[there.object]
        return np.flatnonzero((old != new) | (before.row != there.row))

    def clashes(self) -> bool:
        """Whether the tip has other records for some of the keys than the patch was made for."""
        return len(self.is_elsewhere) > 0

    def resolve(self, what: str, resolution: Resolution) -> Mask:
        """Which keys get the record of the patch; the others keep what is at the tip."""
        ours = np.ones(len(self.index), bool)
        conflicts = []
        for key in self.is_elsewhere.tolist():
            before, after, there = (self._value(side, key) for side in (self.before, self.after, self.there))
            if before == after or after == there:
                ours[key] = False  # moved by the patch, or both sides did the same
            elif before != there:
                ours[key] = _is_ours(resolution, after, there)
                conflicts.append(key)
        if conflicts and resolution.rule == "fail":
            noun = "a record" if len(conflicts) == 1 else f"{len(conflicts)} records"
            raise Conflict(
                f"{what}: another commit has changed {noun} with primary key {self.index.texts(conflicts)} meanwhile "
                f"({_WAYS_OUT.get(what.split(maxsplit=1)[0], _FROM_A_BRANCH)})"
            )
        return ours

    def _value(self, side: Located, key: int) -> Value | None:
        place = int(side.object[key])
        if place == _NOWHERE:
            return None
        o, row = side.objects[place], int(side.row[key])
        if (o.id, row) not in self.values:
            self._read(side, o)
        return self.values[o.id, row]

    def _read(self, side: Located, o: DataObject) -> None:
        """Read the records of an object that have to be compared."""
        keys = self.is_elsewhere[side.object[self.is_elsewhere] == side.objects.index(o)]
        rows = np.sort(side.row[keys])
        pool = self.pool
        values = read_object(pool.store, pool.prefix, pool.config.key, only(pool, o, rows))
        self.values.update(((o.id, row), value) for row, value in zip(rows.tolist(), values, strict=True))

    def patch(self, ours: Mask) -> Patch:
        """The patch that gives some keys the record of the original one."""
        chosen = np.flatnonzero(ours)
        hidden = {o.id: (o, rows) for o, rows in self.there.rows_by_object(chosen)}
        effects = []
        for number, part in enumerate(self.come):
            own = np.flatnonzero(self.index.objects == number)
            taken, left = self.index.rows[own[ours[own]]], self.index.rows[own[~ours[own]]]
            present = self.now.version(part)
            if present is not None:
                _, gone = hidden.pop(part.id, (present, np.zeros(0, np.int64)))
                effects.append(change_rows(self.pool, present, gone, np.sort(taken)))
            elif part.id in self._brought:
                added = part if not len(left) else hide_rows(self.pool, part, np.sort(left)).after
                effects.append(Effect(None, added))
            elif len(taken):
                effects.append(Effect(None, self._part_of(part.id, taken)))
        effects += [hide_rows(self.pool, o, rows) for o, rows in hidden.values()]
        return patch_to(effects)

    def _part_of(self, ident: Id, rows: Rows) -> DataObject | None:
        """An object that the tip does not have any more, with some of its rows, which are to come back."""
        o = next(mask.object for mask in self.original.masks if mask.object.id == ident)
        shown = np.setdiff1d(np.arange(o.rows), hidden_rows(self.pool.store, self.pool.prefix, o))
        return hide_rows(self.pool, o, np.setdiff1d(shown, rows)).after

    @cached_property
    def _brought(self) -> frozenset[Id]:
        return frozenset(o.id for o in self.original.adds)


def _taken(column: Any, places: Rows) -> Any:
    return [column[place] for place in places.tolist()] if isinstance(column, list) else column.take(places)


def _number(ident: Id) -> int:
    return int.from_bytes(ident, "big")


def _is_ours(resolution: Resolution, ours: Value | None, theirs: Value | None) -> bool:
    if resolution.rule != "newest":
        return resolution.rule == "ours"
    get = getter(resolution.field)
    one, other = (NULL if value is None else get(value) or NULL for value in (ours, theirs))
    return compare_values(one, other, nulls_max=False) >= 0


# ---- checks of a whole branch


def require_unique(pool: Pool, commit: Id | None) -> None:
    """InvalidInput if a commit has records without a primary key, or with the same one."""
    objects = list(pool.snapshot(commit).objects())
    index = index_of(pool, objects)
    lacking = sum(o.count for o in objects) - len(index)
    if lacking:
        noun = "record has" if lacking == 1 else "records have"
        fields = ", ".join(".".join(path) for path in pool.config.settings.primary)
        raise InvalidInput(f"{pool.config.name}: {lacking} {noun} no primary key ({fields} is null or missing)")
    require_distinct(index)
