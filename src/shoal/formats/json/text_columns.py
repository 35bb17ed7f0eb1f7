"""A column of JSON texts of any shapes to typed columns, exactly, with DuckDB's JSON functions.

No step looks at a sample: the keys of every object and the type of every value are asked for, rows
with equal answers form a group, and a group is parsed with exactly the types it has. Objects and
array elements inside are columns of JSON texts again. Rows that no group can hold (repeated keys,
integers beyond int64, a shape that few rows have) are decoded one by one.
"""

from __future__ import annotations

import json
import os
import re
from typing import TYPE_CHECKING, Any

import numpy as np
import orjson
import pyarrow as pa

from shoal.errors import InvalidInput
from shoal.formats.columns.batches import Part, Rows, batch_of
from shoal.formats.columns.parts import (
    ROWS_PER_SHAPE,
    TooManyShapes,
    all_rows,
    check_shapes,
    groups,
    lists,
    merged,
    moved,
    records,
    selected,
)
from shoal.formats.columns.physical import arrow_type
from shoal.formats.json.reader import decode_line
from shoal.lazy import lazy
from shoal.model import types as t
from shoal.model.values import Value

if TYPE_CHECKING:
    import duckdb
    import pyarrow.compute as pc
else:  # a few lines are read without them
    duckdb = lazy("duckdb")
    pc = lazy("pyarrow.compute")

FEW = ROWS_PER_SHAPE
"""Groups of fewer rows are not worth a query."""
_MAX_KEYS = 400
_MAX_DEPTH = 32
_SEPARATORS = "\x1f\x1e\x1d\x1c\x1b\x1a"
OBJECT, ARRAY, STRING, NUMBER, BOOL, NULL, OTHER = range(7)
_KINDS = np.full(256, OTHER, np.uint8)
_KINDS[ord("{")], _KINDS[ord("[")], _KINDS[ord('"')] = OBJECT, ARRAY, STRING
_KINDS[[ord(c) for c in "-0123456789"]] = NUMBER
_KINDS[[ord("t"), ord("f")]] = BOOL
_KINDS[ord("n")] = NULL
SIGNED = ("UBIGINT", "BIGINT")
"""DuckDB distinguishes unsigned integers from negative ones; to us they are all int64."""
INTEGER_TYPES = pa.array(["BIGINT", "UBIGINT"])
"""What DuckDB calls a number that was written as an integer."""
EXACT_FLOATS = 2.0**53
"""Below this, a float that was an integer can be made one again."""
PROBED = 1000
"""Lines from which paths and types are guessed; a wrong guess costs time, and nothing else."""
_SCALARS: dict[str, t.Type] = {"BIGINT": t.INT64, "DOUBLE": t.FLOAT64, "VARCHAR": t.STRING, "BOOLEAN": t.BOOL}
_PARSED = {**{name: name for name in _SCALARS}, "OBJECT": "JSON", "ARRAY": ["JSON"]}


class BadText(Exception):
    """Some text of the column is not JSON; `row` is its number, once it was looked for."""

    def __init__(self, row: int = -1) -> None:
        super().__init__(f"no JSON in row {row}")
        self.row = row


def pointer(*keys: str) -> str:
    """A path in the form of RFC 6901, which any key can be written in."""
    return "".join("/" + key.replace("~", "~0").replace("/", "~1") for key in keys) or "$"


def kinds_of(texts: pa.Array) -> np.ndarray[Any, np.dtype[np.uint8]]:
    """The kind of value in each text, by its first byte."""
    if not len(texts):
        return np.zeros(0, np.uint8)
    _, offsets, data = texts.buffers()
    starts = np.frombuffer(offsets, np.int32)[texts.offset : texts.offset + len(texts) + 1]
    content = np.frombuffer(data, np.uint8) if data is not None and data.size else np.zeros(1, np.uint8)
    kinds = _KINDS[content[np.minimum(starts[:-1], len(content) - 1)]]
    kinds[starts[1:] == starts[:-1]] = OTHER
    return kinds


def unused_controls(texts: pa.Array, count: int) -> list[str]:
    """Characters that no key has. JSON writes control characters as escapes, so those can be looked for."""
    content = memoryview(texts.buffers()[2])
    if not re.search(rb"\\u001[a-fA-F]", content):
        return list(_SEPARATORS[:count])
    unused = [c for c in _SEPARATORS if not re.search(rb"\\u%04x" % ord(c), content, re.IGNORECASE)]
    if len(unused) < count:
        raise TooManyShapes
    return unused[:count]


def split_by_size(grouped: list[tuple[str, Rows]]) -> tuple[list[tuple[str, Rows]], Rows]:
    """The groups that are worth a query, and the rows of all others, which are decoded one by one.

    TooManyShapes if most of the work would be for shapes that hardly occur.
    """
    large = [(name, rows) for name, rows in grouped if len(rows) >= FEW]
    small = [rows for _, rows in grouped if len(rows) < FEW]
    check_shapes(len(small), sum(len(rows) for _, rows in large))
    return large, np.sort(np.concatenate(small)) if small else np.zeros(0, np.int64)


def one_by_one(texts: pa.Array, rows: Rows) -> list[Part]:
    """Texts decoded by the row reader."""
    if not len(rows):
        return []
    values: list[Value] = []
    for text in texts.take(pa.array(rows)).to_pylist():
        try:
            values.append(decode_line(text))
        except InvalidInput:
            raise BadText from None
    return moved(list(batch_of(values).parts), rows)


_databases: dict[int, duckdb.DuckDBPyConnection] = {}
"""An empty database by the id of the process that opened it, since a fork must not use that of its parent."""


def _connect() -> duckdb.DuckDBPyConnection:
    """A connection to the database of this process. To open another database takes 15 ms."""
    process = os.getpid()
    if process not in _databases:
        _databases[process] = duckdb.connect(":memory:", config={"threads": 1})
    return _databases[process].cursor()


class TextReader:
    """Decodes columns of JSON texts on a database connection of its own."""

    def __init__(self) -> None:
        self._db = _connect()

    def close(self) -> None:
        """Let go of the connection."""
        self._db.close()

    def query(self, sql: str, texts: pa.Array, *arguments: Any, **named: Any) -> pa.Array:
        """The one column of a query over `texts`, which it calls `texts.x`."""
        self._db.register("texts", pa.table({"x": texts}))
        try:
            column = self._db.sql(sql, params=named or list(arguments)).to_arrow_table().column(0)
        finally:
            self._db.unregister("texts")
        return column.combine_chunks() if column.num_chunks != 1 else column.chunk(0)

    def decode(self, texts: pa.Array, depth: int = 0) -> list[Part]:
        """The values of all texts, parted by shape."""
        kinds = kinds_of(texts)
        out: list[Part] = []
        for kind in np.unique(kinds).tolist():
            rows = np.flatnonzero(kinds == kind)
            out += moved(self._decode_kind(kind, selected(texts, rows), depth), rows)
        return out

    def _decode_kind(self, kind: int, texts: pa.Array, depth: int) -> list[Part]:
        rows = all_rows(texts)
        if kind in (OTHER, NULL) or depth > _MAX_DEPTH or len(texts) < FEW:
            return one_by_one(texts, rows)
        if kind == OBJECT:
            return self._objects(texts, depth)
        if kind == ARRAY:
            return self.arrays(self.query("SELECT from_json(x, '[\"JSON\"]') FROM texts", texts), depth)
        if kind == STRING:
            return [Part(t.STRING, self.query("SELECT from_json(x, '\"VARCHAR\"') FROM texts", texts), rows)]
        if kind == BOOL:
            return [Part(t.BOOL, self.query("SELECT from_json(x, '\"BOOLEAN\"') FROM texts", texts), rows)]
        return self._numbers(texts)

    def _numbers(self, texts: pa.Array) -> list[Part]:
        out: list[Part] = []
        for name, rows in groups(self.query("SELECT json_type(x) FROM texts", texts), SIGNED):
            if name not in _SCALARS or len(rows) < FEW:
                out += one_by_one(texts, rows)
                continue
            column = self.query("SELECT from_json(x, ?) FROM texts", selected(texts, rows), json.dumps(name))
            odd = _unfit(len(rows), [(name, column)])
            fit = np.setdiff1d(np.arange(len(rows)), odd)
            out += [*one_by_one(texts, rows[odd]), Part(_SCALARS[name], selected(column, fit), rows[fit])]
        return out

    # ---- objects

    def _objects(self, texts: pa.Array, depth: int) -> list[Part]:
        (separator,) = unused_controls(texts, 1)
        grouped = groups(self.query("SELECT array_to_string(json_keys(x), ?) FROM texts", texts, separator))
        large, others = split_by_size(grouped)
        out = one_by_one(texts, others)
        for joined, rows in large:
            keys = joined.split(separator)
            if not joined or not are_plain(keys):
                out += one_by_one(texts, rows)
            else:
                out += moved(self.objects_with_keys(selected(texts, rows), keys, depth), rows)
        return out

    def objects_with_keys(self, texts: pa.Array, keys: list[str], depth: int = 0) -> list[Part]:
        """Objects that have these keys in this order."""
        paths = [pointer(key) for key in keys]
        types = self.query("SELECT array_to_string(json_type(x, ?), ',') FROM texts", texts, paths)
        large, others = split_by_size(groups(types, SIGNED))
        out = one_by_one(texts, others)
        for signature, rows in large:
            names = signature.split(",")
            if len(names) != len(keys):
                out += one_by_one(texts, rows)
            else:
                out += moved(self._objects_with_types(selected(texts, rows), keys, names, depth), rows)
        return out

    def _objects_with_types(self, texts: pa.Array, keys: list[str], names: list[str], depth: int) -> list[Part]:
        """Objects that agree in their keys and in the kind of value of each key."""
        columns = self.fields(texts, {k: _PARSED[n] for k, n in zip(keys, names, strict=True) if n != "NULL"})
        odd = _unfit(len(texts), [(n, columns[k]) for k, n in zip(keys, names, strict=True) if n in _SCALARS])
        if len(odd):
            rest = np.setdiff1d(all_rows(texts), odd)
            fit = self._objects_with_types(texts.take(pa.array(rest)), keys, names, depth) if len(rest) else []
            return [*one_by_one(texts, odd), *moved(fit, rest)]
        fields = [self._field(name, columns.get(key), texts, depth) for key, name in zip(keys, names, strict=True)]
        return records(keys, fields, len(texts))

    def fields(self, texts: pa.Array, structure: dict[str, Any]) -> dict[str, pa.Array]:
        """The values of some keys, parsed to the given types."""
        if not structure:
            return {}
        parsed = self.query("SELECT from_json(x, ?) FROM texts", texts, orjson.dumps(structure).decode())
        return dict(zip(structure, parsed.flatten(), strict=True))

    def _field(self, name: str, column: pa.Array | None, texts: pa.Array, depth: int) -> list[Part]:
        if column is None:
            return [Part(t.NULL, pa.nulls(len(texts), arrow_type(t.NULL)), all_rows(texts))]
        if name == "OBJECT":
            return self.decode(column, depth + 1)
        if name == "ARRAY":
            return self.arrays(column, depth + 1)
        return [Part(_SCALARS[name], column, all_rows(texts))]

    # ---- arrays

    def arrays(self, column: pa.Array, depth: int = 0) -> list[Part]:
        """Arrays whose elements are texts, or null where they are null."""
        sizes = np.diff(column.offsets.to_numpy())
        inside = column.flatten()
        present = np.flatnonzero(inside.is_valid().to_numpy(zero_copy_only=False))
        elements = merged(self.decode(selected(inside, present), depth + 1)) if len(present) else []
        return lists(moved(elements, present), sizes)


def are_plain(keys: list[str]) -> bool:
    """Whether the database can take these keys apart: no repetition, whatever the case, and none empty."""
    return 0 < len(keys) <= _MAX_KEYS and "" not in keys and len({k.lower() for k in keys}) == len(keys)


def _unfit(length: int, scalars: list[tuple[str, pa.Array]]) -> Rows:
    """Rows with a number that its column cannot hold: an integer beyond int64, a float beyond float64."""
    out = np.zeros(length, bool)
    for name, column in scalars:
        if name == "BIGINT" and column.null_count:
            out |= column.is_null().to_numpy(zero_copy_only=False)
        if name == "DOUBLE":
            out |= ~pc.is_finite(column).to_numpy(zero_copy_only=False).astype(bool)
    return np.flatnonzero(out)
