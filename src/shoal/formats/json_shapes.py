"""A column of JSON texts to shapes and typed columns, exactly, with DuckDB's JSON functions.

No step looks at a sample: the keys of every object and the type of every value are asked for, rows
with equal answers form a group, and a group is parsed with exactly the types it has. Objects and
array elements inside are columns of JSON texts again. Rows that no group can hold (repeated keys,
integers beyond int64, a shape that few rows have) are decoded one by one.
"""

from __future__ import annotations

import json
import re
from typing import Any

import duckdb
import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc

from shoal.errors import InvalidInput
from shoal.formats.columns import Part, Rows, batch_of
from shoal.formats.json_rows import decode_line
from shoal.formats.physical import arrow_type, list_array
from shoal.model import types as t
from shoal.model.values import Value

_FEW = 48
"""Groups of fewer rows are not worth a query: decoding them one by one is faster."""
_MAX_KEYS = 400
_MAX_DEPTH = 32
_SEPARATORS = "\x1f\x1e\x1d\x1c"
_OBJECT, _ARRAY, _STRING, _NUMBER, _BOOL, _NULL, _OTHER = range(7)
_KINDS = np.full(256, _OTHER, np.uint8)
_KINDS[ord("{")], _KINDS[ord("[")], _KINDS[ord('"')] = _OBJECT, _ARRAY, _STRING
_KINDS[[ord(c) for c in "-0123456789"]] = _NUMBER
_KINDS[[ord("t"), ord("f")]] = _BOOL
_KINDS[ord("n")] = _NULL
_SIGNED = ("UBIGINT", "BIGINT")
"""DuckDB tells integers that are not negative from negative ones; to us they are all int64."""
_SCALARS: dict[str, t.Type] = {"BIGINT": t.INT64, "DOUBLE": t.FLOAT64, "VARCHAR": t.STRING, "BOOLEAN": t.BOOL}
_PARSED = {**{name: name for name in _SCALARS}, "OBJECT": "JSON", "ARRAY": ["JSON"]}


class BadText(InvalidInput):
    """A text that is not JSON; `row` is its place in the column."""

    def __init__(self, row: int, what: str) -> None:
        super().__init__(what)
        self.row = row


class ShapeReader:
    """Decodes columns of JSON texts. One for each thread: it holds a database connection."""

    def __init__(self) -> None:
        self._db = duckdb.connect(":memory:", config={"threads": 1})

    def close(self) -> None:
        """Let go of the connection."""
        self._db.close()

    def decode(self, texts: pa.Array, suspect: Rows) -> list[Part]:
        """The values of all texts, parted by shape; suspect ones are looked at one by one.

        Raises BadText at the first text that is no JSON.
        """
        try:
            return _merge(self._decode(texts, 0) if not len(suspect) else self._decode_but(texts, suspect))
        except duckdb.InvalidInputException:
            # The database refuses a whole column for one text, which may still be JSON to us.
            valid = self._query("SELECT json_valid(x) FROM texts", texts).to_numpy(zero_copy_only=False)
            return _merge(self._decode_but(texts, np.union1d(np.flatnonzero(~valid.astype(bool)), suspect)))

    def _decode_but(self, texts: pa.Array, odd: Rows) -> list[Part]:
        """All texts, some of them one by one."""
        rest = np.setdiff1d(_all(texts), odd)
        return [*_one_by_one(texts, odd), *_moved(self._decode(texts.take(pa.array(rest)), 0), rest)]

    def _query(self, sql: str, texts: pa.Array, *arguments: Any) -> pa.Array:
        """The one column of a query over `texts`, which it calls `texts.x`."""
        self._db.register("texts", pa.table({"x": texts}))
        try:
            made = self._db.sql(sql, params=list(arguments)).to_arrow_table().column(0)
        finally:
            self._db.unregister("texts")
        return made.combine_chunks() if made.num_chunks != 1 else made.chunk(0)

    def _decode(self, texts: pa.Array, depth: int) -> list[Part]:
        kinds = _first_bytes(texts)
        if len(texts) and kinds.min() == kinds.max():
            return self._decode_kind(int(kinds[0]), texts, depth)
        out: list[Part] = []
        for kind in np.unique(kinds).tolist():
            rows = np.flatnonzero(kinds == kind)
            out += _moved(self._decode_kind(kind, texts.take(rows), depth), rows)
        return out

    def _decode_kind(self, kind: int, texts: pa.Array, depth: int) -> list[Part]:
        if kind == _OTHER or depth > _MAX_DEPTH or len(texts) < _FEW:
            return _one_by_one(texts, _all(texts))
        if kind == _OBJECT:
            return self._objects(texts, depth)
        if kind == _ARRAY:
            return self._arrays(self._query("SELECT from_json(x, '[\"JSON\"]') FROM texts", texts), texts, depth)
        if kind == _STRING:
            return [Part(t.STRING, self._query("SELECT from_json(x, '\"VARCHAR\"') FROM texts", texts), _all(texts))]
        if kind == _NUMBER:
            return self._numbers(texts)
        if kind == _NULL:
            return _one_by_one(texts, _all(texts))
        return [Part(t.BOOL, self._query("SELECT from_json(x, '\"BOOLEAN\"') FROM texts", texts), _all(texts))]

    def _numbers(self, texts: pa.Array) -> list[Part]:
        kinds = self._query("SELECT json_type(x) FROM texts", texts)
        out: list[Part] = []
        for name, rows in _groups(kinds, _SIGNED):
            if name not in _SCALARS or len(rows) < _FEW:
                out += _one_by_one(texts, rows)
                continue
            column = self._query("SELECT from_json(x, ?) FROM texts", texts.take(rows), json.dumps(name))
            out += _scalar_parts(texts, rows, _SCALARS[name], column)
        return out

    # ---- objects

    def _objects(self, texts: pa.Array, depth: int) -> list[Part]:
        out: list[Part] = []
        separator = _unused_control(texts)
        for joined, rows in _groups(
            self._query("SELECT array_to_string(json_keys(x), ?) FROM texts", texts, separator)
        ):
            keys = joined.split(separator)
            folded = {k.lower() for k in keys}
            if len(rows) < _FEW or len(folded) != len(keys) or len(keys) > _MAX_KEYS or (joined and "" in keys):
                out += _one_by_one(texts, rows)
                continue
            group = texts if len(rows) == len(texts) else texts.take(pa.array(rows))
            if joined:
                out += _moved(self._objects_with_keys(group, keys, depth), rows)
            elif pc.all(pc.equal(group, "{}")).as_py():
                out.append(Part(t.record(()), pa.array([True] * len(rows), pa.bool_()), rows))
            else:  # some have a key that is empty
                out += _one_by_one(texts, rows)
        return out

    def _objects_with_keys(self, texts: pa.Array, keys: list[str], depth: int) -> list[Part]:
        paths = ["/" + key.replace("~", "~0").replace("/", "~1") for key in keys]
        sql = "SELECT array_to_string(json_type(x, ?), ',') FROM texts"
        out: list[Part] = []
        for signature, rows in _groups(self._query(sql, texts, paths), _SIGNED):
            names = signature.split(",")
            if len(rows) < _FEW or len(names) != len(keys):
                out += _one_by_one(texts, rows)
            else:
                group = texts if len(rows) == len(texts) else texts.take(pa.array(rows))
                out += _moved(self._objects_with_types(group, keys, names, depth), rows)
        return out

    def _objects_with_types(self, texts: pa.Array, keys: list[str], names: list[str], depth: int) -> list[Part]:
        """Objects that agree in their keys and in the kind of value of each key."""
        structure = {k: _PARSED[n] for k, n in zip(keys, names, strict=True) if n != "NULL"}
        columns: dict[str, pa.Array] = {}
        if structure:
            sql = "SELECT from_json(x, ?) FROM texts"
            parsed = self._query(sql, texts, orjson.dumps(structure).decode())
            columns = dict(zip(structure, parsed.flatten(), strict=True))
        odd = _unfit(texts, [(n, columns[k]) for k, n in zip(keys, names, strict=True) if n in _SCALARS])
        if len(odd):
            rest = np.setdiff1d(_all(texts), odd)
            fit = self._objects_with_types(texts.take(rest), keys, names, depth) if len(rest) else []
            return [*_one_by_one(texts, odd), *_moved(fit, rest)]
        fields: list[list[Part]] = []
        for key, name in zip(keys, names, strict=True):
            if name == "NULL":
                fields.append([Part(t.NULL, pa.nulls(len(texts)), _all(texts))])
            elif name == "OBJECT":
                fields.append(self._decode(columns[key], depth + 1))
            elif name == "ARRAY":
                fields.append(self._arrays(columns[key], None, depth + 1))
            else:
                fields.append([Part(_SCALARS[name], columns[key], _all(texts))])
        return _records(keys, fields, len(texts))

    # ---- arrays

    def _arrays(self, lists: pa.Array, texts: pa.Array | None, depth: int) -> list[Part]:
        """Arrays whose elements are texts, or null where they are null."""
        sizes = np.diff(lists.offsets.to_numpy())
        texts_inside = lists.flatten()
        present = np.flatnonzero(texts_inside.is_valid().to_numpy(zero_copy_only=False))
        whole = len(present) == len(texts_inside)
        elements = self._decode(texts_inside if whole else texts_inside.drop_null(), depth + 1) if len(present) else []
        elements = _merge(elements)
        return _lists(elements if whole else _moved(elements, present), sizes)


def _unused_control(texts: pa.Array) -> str:
    """A character that no key has. JSON writes control characters as escapes, so those can be looked for."""
    content = memoryview(texts.buffers()[2])
    for c in _SEPARATORS:
        if not re.search(rb"\\u%04x" % ord(c), content, re.IGNORECASE):
            return c
    raise TooManyShapes


# ---- parts of a column


def _all(texts: pa.Array) -> Rows:
    return np.arange(len(texts), dtype=np.int64)


def _first_bytes(texts: pa.Array) -> np.ndarray[Any, np.dtype[np.uint8]]:
    """The kind of each text, by its first byte."""
    if not len(texts):
        return np.zeros(0, np.uint8)
    _, offsets, data = texts.buffers()
    starts = np.frombuffer(offsets, np.int32)[texts.offset : texts.offset + len(texts) + 1]
    content = np.frombuffer(data, np.uint8) if data is not None else np.zeros(1, np.uint8)
    kinds = _KINDS[content[np.minimum(starts[:-1], len(content) - 1)]]
    kinds[starts[1:] == starts[:-1]] = _OTHER
    return kinds


def _groups(column: pa.Array, spelling: tuple[str, str] = ("", "")) -> list[tuple[str, Rows]]:
    """Distinct texts and the rows that have them; texts that differ in spelling only are one."""
    encoded = column.dictionary_encode()
    old, new = spelling
    spelled = [name.replace(old, new) if old else name for name in encoded.dictionary.to_pylist()]
    names = list(dict.fromkeys(spelled))
    if len(names) == 1:
        return [(names[0], np.arange(len(column), dtype=np.int64))]
    codes = encoded.indices.to_numpy()
    if len(names) < len(spelled):
        place = {name: i for i, name in enumerate(names)}
        codes = np.array([place[name] for name in spelled])[codes]
    order = np.argsort(codes, kind="stable")
    sizes = np.bincount(codes, minlength=len(names))
    ends = np.cumsum(sizes)
    return [(name, order[end - size : end]) for name, end, size in zip(names, ends, sizes, strict=True)]


def _moved(parts: list[Part], rows: Rows) -> list[Part]:
    """Parts of a selection, as parts of what it was selected from."""
    return [Part(p.shape, p.column, rows[p.rows]) for p in parts]


def _one_by_one(texts: pa.Array, rows: Rows) -> list[Part]:
    """Texts decoded by the row reader."""
    if not len(rows):
        return []
    values: list[Value] = []
    for row, text in zip(rows.tolist(), texts.take(pa.array(rows)).to_pylist(), strict=True):
        try:
            values.append(decode_line(text))
        except InvalidInput as e:
            raise BadText(row, str(e)) from None
    return [Part(p.shape, p.column, rows[p.rows]) for p in batch_of(values).parts]


def _merge(parts: list[Part]) -> list[Part]:
    """One part for each shape."""
    by_shape: dict[t.Type, list[Part]] = {}
    for part in parts:
        by_shape.setdefault(part.shape, []).append(part)
    return [same[0] if len(same) == 1 else _concatenated(same) for same in by_shape.values()]


def _concatenated(parts: list[Part]) -> Part:
    rows = np.concatenate([p.rows for p in parts])
    column = pa.concat_arrays([p.column for p in parts])
    order = np.argsort(rows, kind="stable")
    return Part(parts[0].shape, column.take(pa.array(order)), rows[order])


def _unfit(texts: pa.Array, scalars: list[tuple[str, pa.Array]]) -> Rows:
    """Rows with a number that its column cannot hold: an integer beyond int64, a float beyond float64."""
    bad = [c.is_null() for n, c in scalars if n == "BIGINT" and c.null_count]
    bad += [pc.invert(pc.is_finite(c)) for n, c in scalars if n == "DOUBLE"]
    out = np.zeros(len(texts), bool)
    for mask in bad:
        out |= mask.to_numpy(zero_copy_only=False).astype(bool)
    return np.flatnonzero(out)


def _scalar_parts(texts: pa.Array, rows: Rows, typ: t.Type, column: pa.Array) -> list[Part]:
    name = "BIGINT" if typ is t.INT64 else "DOUBLE"
    odd = _unfit(column, [(name, column)])
    if not len(odd):
        return [Part(typ, column, rows)]
    fit = np.setdiff1d(np.arange(len(rows)), odd)
    return [*_one_by_one(texts, rows[odd]), Part(typ, column.take(pa.array(fit)), rows[fit])]


def _records(keys: list[str], fields: list[list[Part]], length: int) -> list[Part]:
    """Records of fields that are each parted by shape: a shape for each combination that occurs."""
    fields = [_merge(parts) for parts in fields]
    if all(len(parts) == 1 for parts in fields):
        return [_record(keys, [p[0].shape for p in fields], [p[0].column for p in fields], np.arange(length))]
    places = [_places(parts, length) for parts in fields]
    combined = np.zeros(length, np.int64)
    for (codes, _), parts in zip(places, fields, strict=True):
        combined = np.unique(combined * len(parts) + codes, return_inverse=True)[1]
    out = []
    for code in range(int(combined.max()) + 1):
        rows = np.flatnonzero(combined == code)
        chosen = [parts[codes[rows[0]]] for (codes, _), parts in zip(places, fields, strict=True)]
        columns = [p.column.take(pa.array(within[rows])) for p, (_, within) in zip(chosen, places, strict=True)]
        out.append(_record(keys, [p.shape for p in chosen], columns, rows))
    return out


def _record(keys: list[str], shapes: list[t.Type], columns: list[pa.Array], rows: Rows) -> Part:
    shape = t.record(zip(keys, shapes, strict=True))
    return Part(shape, pa.StructArray.from_arrays(columns, fields=list(arrow_type(shape))), rows)


def _places(parts: list[Part], length: int) -> tuple[Rows, Rows]:
    """For each row, which part it is in and at which place there; -1 where it is in none."""
    codes = np.full(length, -1, np.int64)
    within = np.full(length, -1, np.int64)
    for i, part in enumerate(parts):
        codes[part.rows] = i
        within[part.rows] = np.arange(len(part.rows))
    return codes, within


def _lists(elements: list[Part], sizes: np.ndarray[Any, Any]) -> list[Part]:
    """Arrays of elements that are parted by shape: a shape for each combination that an array has."""
    count = int(sizes.sum())
    codes, within = _places(elements, count)
    masks = _shape_sets(codes, sizes, len(elements))
    starts = np.cumsum(sizes) - sizes
    out = []
    for mask in np.unique(masks).tolist():
        rows = np.flatnonzero(masks == mask)
        chosen = sizes[rows]
        inside = np.arange(count) if len(rows) == len(sizes) else _ranges(starts[rows], chosen)
        members = [i for i in range(len(elements)) if mask >> i & 1]
        shape, values = _elements(elements, members, codes[inside], within[inside])
        out.append(Part(shape, list_array(arrow_type(shape), chosen, values, None), rows))
    return out


def _shape_sets(codes: Rows, sizes: np.ndarray[Any, Any], kinds: int) -> Rows:
    """For each array, the shapes of its elements as a set of bits; nulls do not count."""
    if kinds > 62:
        raise TooManyShapes
    bits = np.where(codes >= 0, np.left_shift(1, np.maximum(codes, 0)), 0)
    out = np.zeros(len(sizes), np.int64)
    filled = np.flatnonzero(sizes)
    if len(filled):
        starts = (np.cumsum(sizes) - sizes)[filled]
        out[filled] = np.bitwise_or.reduceat(bits, starts)
    return out


class TooManyShapes(Exception):
    """The elements of the arrays in one column have more shapes than the columnar path is made for."""


def _ranges(starts: Rows, sizes: np.ndarray[Any, Any]) -> Rows:
    """The numbers start, start + 1, ... of each range, end to end."""
    total = int(sizes.sum())
    shift = np.repeat(starts - (np.cumsum(sizes) - sizes), sizes)
    out: Rows = np.arange(total, dtype=np.int64) + shift
    return out


def _elements(elements: list[Part], members: list[int], codes: Rows, within: Rows) -> tuple[t.Type, pa.Array]:
    """The array type and the elements, laid end to end, of arrays with elements of these shapes."""
    if not members:
        return t.array(t.NULL), pa.nulls(len(codes))
    if len(members) == 1:
        part = elements[members[0]]
        return t.array(part.shape), _taken(part.column, within, codes == members[0])
    union = t.union(elements[i].shape for i in members)
    tag_of = np.full(len(elements) + 1, -1, np.int16)
    for i in members:
        tag_of[i] = union.tags[elements[i].shape]
    null = codes < 0
    tags = pa.array(tag_of[codes], pa.int16(), mask=null)
    by_tag = {union.tags[elements[i].shape]: i for i in members}
    columns = [_taken(elements[by_tag[tag]].column, within, codes == by_tag[tag]) for tag in range(len(union.types))]
    fields = list(arrow_type(union))
    return t.array(union), pa.StructArray.from_arrays([tags, *columns], fields=fields, mask=pa.array(null))


def _taken(column: pa.Array, places: Rows, wanted: np.ndarray[Any, Any]) -> pa.Array:
    """Items of a column at these places; null where they are not wanted."""
    if wanted.all():
        return (
            column
            if len(places) == len(column) and (places == np.arange(len(column))).all()
            else column.take(pa.array(places))
        )
    return column.take(pa.array(places, mask=~wanted))
