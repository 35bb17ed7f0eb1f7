"""Reading VNG columns, lazily. A column yields exactly as many items as its metadata says, or raises.

That makes most checks arithmetic on declared lengths. Since a constant or a run of nulls takes no
bytes, a few bytes can declare billions of values: those are never all in memory, and one value is
limited in how many cells it may gather from such columns.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice, repeat

from shoal.api.options import DEFAULT_READ, ReadOptions
from shoal.errors import InvalidInput
from shoal.formats.limits import check_bytes, check_cells
from shoal.formats.vng.metadata import MAX_COUNT, Meta
from shoal.formats.vng.segments import SegmentReader
from shoal.model import types as t
from shoal.model.node import frozen
from shoal.model.values import Value
from shoal.model.zcode import Data, bodies, decode_int, decoder, normal_map, normal_set, read_uvarint

_END = object()


@frozen
class _Column:
    type: t.Type
    length: int
    items: Iterator[Data]
    cells: int
    """What one item adds to the size of a value, apart from its arrays, sets and maps."""


def read_columns(metadata: Meta, segments: SegmentReader, options: ReadOptions = DEFAULT_READ) -> Iterator[Value]:
    """The values of one object."""
    reader = _Reader(segments, options)
    if metadata.kind == "Variant":
        yield from reader.read_variant(metadata)
        return
    column = reader.column(metadata)
    typ = column.type
    for data in column.items:
        reader.cells = 0
        yield Value(typ, data)


class _Reader:
    """Opens the columns of one object. All segments are read at once, items one by one."""

    def __init__(self, segments: SegmentReader, options: ReadOptions) -> None:
        self._segments = segments
        self._options = options
        self.cells = 0
        """Elements of the value that is being read, at all its levels together."""

    def column(self, meta: Meta) -> _Column:
        """The column that `meta` describes."""
        make = _KINDS.get(meta.kind)
        if make is None:
            raise InvalidInput(f"unknown kind of metadata {meta.kind!r}")
        column = make(self, meta)
        if column.length > MAX_COUNT:
            raise InvalidInput(f"{meta.kind!r} column of {column.length} values")
        return column

    def read_variant(self, meta: Meta) -> Iterator[Value]:
        """Values of several types, in their order."""
        columns = [self.column(child) for child in meta.children("Values")]
        for tag, data in self._tagged(meta, columns):
            self.cells = 0
            yield Value(columns[tag].type, data)

    def _tagged(self, meta: Meta, columns: list[_Column]) -> Iterator[tuple[int, Data]]:
        length = meta.count("Length")
        if sum(c.length for c in columns) != length:
            raise InvalidInput(f"{meta.kind!r} of {length} values has columns of another length")
        tags = _ints(meta.segment("Tags", self._segments), length)
        return _pick(tags, [c.items for c in columns])

    def _ints(self, meta: Meta) -> Iterator[int]:
        return _ints(meta.segment("Lengths", self._segments), meta.count("Length"))

    def _spend(self, cells: int) -> None:
        self.cells += cells
        check_cells(self.cells, self._options)
        self._segments.grow(8 * cells)

    # ---- one method for each kind of metadata

    def _named(self, meta: Meta) -> _Column:
        inner = self.column(meta.child("Values"))
        return _Column(t.named(meta.text("Name"), inner.type), inner.length, inner.items, inner.cells)

    def _error(self, meta: Meta) -> _Column:
        inner = self.column(meta.child("Values"))
        return _Column(t.error(inner.type), inner.length, inner.items, inner.cells)

    def _nulls(self, meta: Meta) -> _Column:
        values = self.column(meta.child("Values"))
        nulls = meta.count("Count")
        runs = _ints(meta.segment("Runs", self._segments), None)
        return _Column(values.type, values.length + nulls, _with_nulls(runs, values, nulls), values.cells)

    def _record(self, meta: Meta) -> _Column:
        length = meta.count("Length")
        fields = [(f.text("Name"), self.column(f.child("Values"))) for f in meta.children("Fields")]
        for name, column in fields:
            if column.length != length:
                raise InvalidInput(f"field {name!r} has {column.length} values in a record of {length}")
        items = zip(*(c.items for _, c in fields), strict=True) if fields else repeat((), length)
        typ = t.record((name, c.type) for name, c in fields)
        return _Column(typ, length, items, 1 + sum(c.cells for _, c in fields))

    def _array(self, meta: Meta) -> _Column:
        values = self.column(meta.child("Values"))
        items = self._slices(self._ints(meta), values)
        return _Column(t.array(values.type), meta.count("Length"), items, 1)

    def _set(self, meta: Meta) -> _Column:
        values = self.column(meta.child("Values"))
        items = (normal_set(values.type, data) for data in self._slices(self._ints(meta), values))
        return _Column(t.set_of(values.type), meta.count("Length"), items, 1)

    def _map(self, meta: Meta) -> _Column:
        keys, values = self.column(meta.child("Keys")), self.column(meta.child("Values"))
        if keys.length != values.length:
            raise InvalidInput(f"a map has {keys.length} keys and {values.length} values")
        pairs = zip(keys.items, values.items, strict=True)
        entries = _Column(t.NULL, keys.length, pairs, keys.cells + values.cells)
        items = (normal_map(keys.type, data) for data in self._slices(self._ints(meta), entries))
        return _Column(t.map_of(keys.type, values.type), meta.count("Length"), items, 1)

    def _slices(self, lengths: Iterator[int], values: _Column) -> Iterator[tuple[Data, ...]]:
        """The items of `values`, cut into pieces of these lengths."""
        left = values.length
        for n in lengths:
            if n > left:
                raise InvalidInput("lengths of containers exceed the number of elements")
            left -= n
            self._spend(n * values.cells)
            yield tuple(islice(values.items, n))
        if left:
            raise InvalidInput(f"{left} elements belong to no container")
        _expect_end(values.items)

    def _union(self, meta: Meta) -> _Column:
        columns = [self.column(child) for child in meta.children("Values")]
        typ = t.union(c.type for c in columns)
        tags = [typ.tags[c.type] for c in columns]
        null = typ.tags.get(t.NULL)
        items = (None if tags[tag] == null else (tags[tag], data) for tag, data in self._tagged(meta, columns))
        return _Column(typ, meta.count("Length"), items, 1 + max(c.cells for c in columns))

    def _const(self, meta: Meta) -> _Column:
        value, length = meta.value("Value"), meta.count("Count")
        return _Column(value.type, length, repeat(value.data, length), 1)

    def _primitive(self, meta: Meta) -> _Column:
        typ, length = meta.type_value("Type"), meta.count("Count")
        if not isinstance(typ.under, (t.Primitive, t.Enum)):
            raise InvalidInput("expected a primitive type or an enum as the type of a primitive column")
        body = meta.segment("Location", self._segments)
        entries = meta.children("Dict") if meta.value("Dict").data else []
        items = _look_up(typ, body, entries, length) if entries else _decode(typ, body, length, self._options)
        return _Column(typ, length, items, 1)


_KINDS: dict[str, Callable[[_Reader, Meta], _Column]] = {
    "Record": _Reader._record,
    "Array": _Reader._array,
    "Set": _Reader._set,
    "Map": _Reader._map,
    "Union": _Reader._union,
    "Named": _Reader._named,
    "Error": _Reader._error,
    "Nulls": _Reader._nulls,
    "Const": _Reader._const,
    "Primitive": _Reader._primitive,
}


def _expect_end(items: Iterator[Data]) -> None:
    """Let a column check that its data ends where its last item did."""
    if next(items, _END) is not _END:
        raise InvalidInput("column has more values than it declares")


def _ints(body: bytes, length: int | None) -> Iterator[int]:
    """The counts in a segment, `length` of them if that is known."""
    seen = 0
    for item in bodies(body):
        if item is None or len(item) > 8 or (n := decode_int(item)) < 0:
            raise InvalidInput("expected an int64 that is not negative in a segment of lengths, runs or tags")
        seen += 1
        yield n
    if length is not None and seen != length:
        raise InvalidInput(f"segment holds {seen} numbers, not the declared {length}")


def _pick(tags: Iterator[int], columns: list[Iterator[Data]]) -> Iterator[tuple[int, Data]]:
    """The next item of the column that each tag names."""
    for tag in tags:
        if tag >= len(columns):
            raise InvalidInput(f"tag {tag} names none of {len(columns)} columns")
        data = next(columns[tag], _END)
        if data is _END:
            raise InvalidInput(f"more tags name column {tag} than it has values")
        yield tag, data
    for column in columns:
        _expect_end(column)


def _with_nulls(runs: Iterator[int], values: _Column, nulls: int) -> Iterator[Data]:
    """Items of `values` with nulls among them: runs of values and of nulls take turns."""
    left = [values.length, nulls]
    sources = [values.items, repeat(None)]
    turn = 0
    for run in runs:
        if run > left[turn]:
            raise InvalidInput(f"runs of {'nulls' if turn else 'values'} exceed their number")
        left[turn] -= run
        yield from islice(sources[turn], run)
        turn = 1 - turn
    if any(left):
        raise InvalidInput("runs of nulls end before the column does")
    _expect_end(values.items)


def _look_up(typ: t.Type, body: bytes, entries: list[Meta], length: int) -> Iterator[Data]:
    """The items of a column with a dictionary: a byte for each is its position there."""
    table = [entry.value("Value") for entry in entries]
    if any(value.type is not typ for value in table):
        raise InvalidInput("dictionary holds values of another type than its column")
    if len(body) != length:
        raise InvalidInput(f"segment holds {len(body)} positions, not the declared {length}")
    if body and max(body) >= len(table):
        raise InvalidInput(f"position {max(body)} in a dictionary of {len(table)}")
    return map([value.data for value in table].__getitem__, body)


def _decode(typ: t.Type, body: bytes, length: int, options: ReadOptions) -> Iterator[Data]:
    """The items of a column without dictionary."""
    decode, pos, end = decoder(typ), 0, len(body)
    while pos < end:
        tag = body[pos]
        pos += 1
        if tag > 127:
            tag, pos = read_uvarint(body, pos - 1)
            check_bytes(typ, min(tag, end), options)
        stop = pos + tag - 1
        if tag == 0 or stop > end:
            raise InvalidInput("null or cut value in a segment")
        yield decode(body, pos, stop)
        pos = stop
        length -= 1
    if length:
        raise InvalidInput("segment holds another number of values than declared")
