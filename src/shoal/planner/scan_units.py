"""Data objects as engines read them: for a scan, in the order of the pool; for SQL, as the rows of a table."""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from threading import Lock
from typing import Any

import pyarrow as pa

from shoal.engines.physical import Scan, Source
from shoal.engines.tables.forms import TableForm
from shoal.engines.tables.plain import Style
from shoal.engines.tables.statements import Condition
from shoal.formats.columns.projection import Paths, project_shape
from shoal.ids import Id, to_text
from shoal.lake import column_form, external_form, row_form
from shoal.lake.keys import SortKey, key_getter, sorted_indices
from shoal.lake.masks import hidden_rows
from shoal.lake.names import Warn
from shoal.lake.object_writer import MOST_SHAPES
from shoal.lake.objects import DataObject, Form, Purged, RowMask, in_order, key_of, missing
from shoal.lake.pools import Pool
from shoal.lake.scans import partitions
from shoal.model import types as t
from shoal.planner.merge_policies import policy_of
from shoal.planner.merged_sources import Unmerged, pieces_of, source_of
from shoal.planner.prune import Pruned, condition_of, prune
from shoal.planner.value_tables import as_table
from shoal.storage.store import ObjectStore
from shoal.storage.uris import reopen_store


def make_scan(pool: Pool, objects: Sequence[DataObject], warn: Warn | None) -> Scan | None:
    """What an engine reads; None if the metadata does not list all shapes, or several keys have to be merged."""
    present = _present(pool, objects, warn)
    if pool.config.settings.policy:
        return _merged_scan(pool, present)
    if any(o.shapes is None for o in present):
        return None
    indexes = {o.id: i for i, o in enumerate(present)}
    key = pool.config.key
    runs = tuple(
        tuple(_sources(pool, part.objects, indexes)) for part in partitions(key, present, touching=len(key.paths) > 1)
    )
    if len(key.paths) > 1 and any(len(run) > 1 for run in runs):
        return None
    return Scan(runs, key.paths[0], key.order == "desc")


def _merged_scan(pool: Pool, present: Sequence[DataObject]) -> Scan | None:
    """What an engine reads of a pool with a merge policy; None as in `make_scan`."""
    key, runs = pool.config.key, _merged_runs(pool, present)
    is_listed = all(len(source.shapes) <= MOST_SHAPES for run in runs for source in run)
    if not is_listed or (len(key.paths) > 1 and any(len(run) > 1 for run in runs)):
        return None
    return Scan(tuple(runs), key.paths[0], key.order == "desc")


def _merged_runs(pool: Pool, present: Sequence[DataObject]) -> list[tuple[Source, ...]]:
    """What an engine reads of a pool with a merge policy: sources that overlap, and then those that come after them."""
    policy, key = policy_of(pool.config), pool.config.key
    assert policy is not None
    runs: list[tuple[Source, ...]] = []
    number = 0
    for piece in pieces_of(pool, present, policy):
        if isinstance(piece, Unmerged):
            source = source_of(piece, number)
            number += 1
            runs.extend([(source,)] if source.shapes else [])
            continue
        objects = with_shapes(pool, piece)
        indexes = {o.id: number + i for i, o in enumerate(objects)}
        number += len(objects)
        overlapping = partitions(key, objects, touching=len(key.paths) > 1)
        runs.extend(tuple(_sources(pool, part.objects, indexes)) for part in overlapping)
    return runs


def sources_of(pool: Pool, objects: Sequence[DataObject], warn: Warn | None) -> list[Source]:
    """What an engine reads where order does not matter: what the merge policy makes of objects, if there is one."""
    if not pool.config.settings.policy:
        return stored_sources(pool, objects, warn)
    present = in_order(pool.config.key, _present(pool, objects, warn))
    return [source for run in _merged_runs(pool, present) for source in run]


def stored_sources(pool: Pool, objects: Sequence[DataObject], warn: Warn | None) -> list[Source]:
    """What an engine reads of objects as they are stored, where order does not matter."""
    present = with_shapes(pool, _present(pool, objects, warn))
    return _sources(pool, present, {o.id: i for i, o in enumerate(present)})


def numbered_sources(pool: Pool, objects: Sequence[DataObject], warn: Warn | None) -> list[tuple[DataObject, Source]]:
    """What an engine reads of objects whose rows have numbers: a source for each, which has the number of its place."""
    present, has_files = with_shapes(pool, _present(pool, objects, warn)), column_form.has_files(pool.store)
    return [(o, _source(pool, o, i, has_files)) for i, o in enumerate(present)]


def _sources(pool: Pool, objects: Sequence[DataObject], indexes: Mapping[Id, int]) -> list[Source]:
    """Sources of objects that are read together; those that are part of commits are one source."""
    inline = [o for o in objects if o.inline is not None]
    has_files = column_form.has_files(pool.store)
    others = [_source(pool, o, indexes[o.id], has_files) for o in objects if len(inline) < 2 or o.inline is None]
    return others if len(inline) < 2 else [*others, _inline_source(pool, inline, indexes[inline[0].id])]


def _inline_source(pool: Pool, objects: Sequence[DataObject], index: int) -> Source:
    """Objects that are part of commits, as one."""
    counts: Counter[t.Type] = Counter()
    for o in objects:
        counts.update(dict(o.shapes or ()))
    read = _InlineRows(pool.store, pool.prefix, pool.config.key, tuple(objects), tuple(counts))
    size = sum(o.size for o in objects)
    narrow = _NarrowInline(index, read, tuple(counts.items()), size)
    return Source(index, tuple(counts), tuple(counts.values()), table=read, size=size, narrow=narrow)


@dataclass(frozen=True, slots=True)
class _InlineRows:
    """Reads objects that are part of commits: their values in the order of the pool, as a table."""

    store: ObjectStore
    prefix: str
    key: SortKey
    objects: tuple[DataObject, ...]
    shapes: tuple[t.Type, ...]
    paths: Paths | None = None

    def __call__(self) -> pa.Table:
        streams = [row_form.read_all(self.store, self.prefix, o) for o in self.objects]
        rows = [value for stream in streams for value in stream]
        keys = [key_getter(self.key)(row) for row in rows]
        return as_table([rows[i] for i in sorted_indices(keys, self.key.order)], self.shapes, self.paths)

    def __reduce__(self) -> tuple[Any, ...]:
        return _inline_elsewhere, (self.store.uri, self.prefix, self.key, self.objects, self.shapes, self.paths)


def _inline_elsewhere(uri: str, prefix: str, *rest: Any) -> _InlineRows:
    return _InlineRows(reopen_store(uri, prefix), prefix, *rest)


@dataclass(frozen=True, slots=True)
class _NarrowInline:
    """Makes a source of some fields of these objects."""

    index: int
    read: _InlineRows
    counts: tuple[tuple[t.Type, int], ...]
    size: int

    def __call__(self, paths: Paths) -> Source:
        counts: Counter[t.Type] = Counter()
        for shape, count in self.counts:
            counts[project_shape(shape, paths)] += count
        table = replace(self.read, paths=tuple(paths))
        return Source(self.index, tuple(counts), tuple(counts.values()), table=table, size=self.size)


def with_shapes(pool: Pool, objects: Iterable[DataObject]) -> list[DataObject]:
    """Objects with the shapes that they have; those of objects that do not list them are found by reading them."""
    return [o if o.shapes is not None else _with_shapes(pool, o) for o in objects]


def _with_shapes(pool: Pool, o: DataObject) -> DataObject:
    name = o.id, o.mask
    with _shapes_lock:
        shapes = _shapes.get(name)
        if shapes is not None:
            _shapes.move_to_end(name)
    if shapes is None:
        try:
            shapes = tuple(Counter(value.type for value in row_form.read_all(pool.store, pool.prefix, o)).items())
        except Purged:
            shapes = ()  # the scan that reads the object says so
        with _shapes_lock:
            _shapes[name] = shapes
            while len(_shapes) > SHAPES_CAPACITY:
                _shapes.popitem(last=False)
    return replace(o, shapes=shapes)


SHAPES_CAPACITY = 1024
"""How many objects have their shapes in the cache."""
_shapes: OrderedDict[tuple[Id, RowMask | None], tuple[tuple[t.Type, int], ...]] = OrderedDict()
"""Least recently used first. An entry is never stale: an object under one mask does not change."""
_shapes_lock = Lock()


def _present(pool: Pool, objects: Sequence[DataObject], warn: Warn | None) -> list[DataObject]:
    """The objects that were not purged, with a warning for those that were."""
    purged = frozenset(pool.refs().purged())
    if warn is not None:
        for o in objects:
            if o.id in purged:
                warn(f"{pool.config.name}: data object {to_text(o.id)} ({o.count} records) was purged and is left out")
    return [o for o in objects if o.id not in purged]


def make_source(pool: Pool, o: DataObject) -> Source:
    """One object, of which the shapes are known."""
    return _source(pool, o, 0, column_form.has_files(pool.store))


def _source(pool: Pool, o: DataObject, index: int, has_files: bool) -> Source:
    shapes = o.shapes or ()
    types = tuple(shape for shape, _ in shapes)
    counts = tuple(count for _, count in shapes)
    if o.external is not None:
        some = partial(external_form.read_table, key=pool.config.key)
        whole = ObjectReader(pool.store, pool.prefix, o, some)
        return Source(index, types, counts, table=whole, size=o.size, narrow=_Narrow(index, o, whole, some))
    if o.form is Form.COLUMNS and has_files:
        file = ObjectReader(pool.store, pool.prefix, o, column_form.checked_file)
        hidden = None if o.mask is None else file.reading(hidden_rows)
        return Source(index, types, counts, file=file, size=o.size, names=o.names, hidden=hidden)
    read = column_form.read_table if o.form is Form.COLUMNS else _rows_as_table
    table = ObjectReader(pool.store, pool.prefix, o, read)
    narrow = None if o.form is Form.COLUMNS else _Narrow(index, o, table, _rows_as_table)
    return Source(index, types, counts, table=table, size=o.size, names=o.names, narrow=narrow)


class ObjectReader:
    """Reads one object; in another process, from the same store opened there."""

    def __init__(self, store: ObjectStore, prefix: str, o: DataObject, read: Any) -> None:
        self._store, self._prefix, self._object, self._read = store, prefix, o, read

    def __call__(self) -> Any:
        try:
            return self._read(self._store, self._prefix, self._object)
        except Purged:
            raise missing(key_of(self._prefix, self._object)) from None

    def reading(self, read: Any) -> ObjectReader:
        """Another way to read it."""
        return ObjectReader(self._store, self._prefix, self._object, read)

    def __reduce__(self) -> tuple[Any, ...]:
        return _reader_elsewhere, (self._store.uri, self._prefix, self._object, self._read)


def _reader_elsewhere(uri: str, prefix: str, o: DataObject, read: Any) -> ObjectReader:
    return ObjectReader(reopen_store(uri, prefix), prefix, o, read)


@dataclass(frozen=True, slots=True)
class _Narrow:
    """Makes a source of some fields of an object in row form, or of an attached file."""

    index: int
    object: DataObject
    table: ObjectReader
    read: Any
    """Reads the object as a table, with just the fields at `paths`."""

    def __call__(self, paths: Paths) -> Source:
        counts: Counter[t.Type] = Counter()
        for shape, count in self.object.shapes or ():
            counts[project_shape(shape, paths)] += count
        table = self.table.reading(partial(self.read, paths=tuple(paths)))
        return Source(self.index, tuple(counts), tuple(counts.values()), table=table, size=self.object.size)


def _rows_as_table(store: Any, prefix: str, o: DataObject, paths: Paths | None = None) -> pa.Table:
    """An object in row form, as a table in the layout of its shapes; with just the fields at some paths, if given."""
    return as_table(row_form.read_all(store, prefix, o), tuple(shape for shape, _ in o.shapes or ()), paths)


# ---- pools as tables


@dataclass(frozen=True)
class PoolTable:
    """A pool at a commit."""

    pool: Pool
    commit: Id | None
    style: Style

    @cached_property
    def form(self) -> TableForm:
        """All columns."""
        if self.pool.config.settings.policy:
            every = sources_of(self.pool, list(self.pool.snapshot(self.commit).objects()), None)
            return TableForm(tuple(dict.fromkeys(shape for source in every for shape in source.shapes)), self.style)
        objects = with_shapes(self.pool, self.pool.snapshot(self.commit).objects())
        shapes = dict.fromkeys(shape for o in objects for shape, count in o.shapes or () if count)
        return TableForm(tuple(shapes), self.style)

    def prune(self, conditions: Sequence[Condition]) -> Pruned:
        """The objects that may have rows that meet conditions."""
        return prune(self.pool, self.commit, condition_of(self.form, conditions))

    def sources(self, pruned: Pruned, warn: Warn | None = None) -> list[Source]:
        """What an engine reads of those objects; what was purged is left out with a warning."""
        return sources_of(self.pool, pruned.objects, warn)
