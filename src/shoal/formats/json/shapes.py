"""Lines of JSON objects to shapes and typed columns, fast: two strict parsers check each other.

DuckDB lists the keys of every object, in order, at every nesting level; rows with equal keys form a
group. Arrow's JSON reader parses a group into columns and refuses a column of mixed kinds, so what
it accepts is exact but for three things, which are asked for: whether a float column holds integers,
which of two nulls it is, and what is inside arrays of anything but plain scalars. A group that Arrow
refuses, and the columns that it would blur, go the slower way of `text_columns`.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import duckdb
import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pj

from shoal.formats.columns.batches import Part, Rows
from shoal.formats.columns.parts import all_rows, groups, merged, moved, records, selected, without_nulls
from shoal.formats.json.exact_columns import (
    ArrayReader,
    Blurred,
    Exact,
    Integers,
    Keys,
    Path,
    float_columns,
    has_short_list,
    is_blurred,
    is_whole,
)
from shoal.formats.json.text_columns import (
    INTEGER_TYPES,
    OBJECT,
    PROBED,
    SIGNED,
    TextReader,
    are_plain,
    kinds_of,
    one_by_one,
    pointer,
    split_by_size,
    unused_controls,
)

_MAX_PATHS = 60
_MAX_SCHEMAS = 1000


class ShapeReader:
    """Decodes columns of JSON lines. One for each thread: it holds a database connection."""

    def __init__(self) -> None:
        self._texts = TextReader()
        self._arrays = ArrayReader(self._texts)
        self._paths: list[Path] = [()]
        self._schemas: dict[str, pa.Schema] = {}

    def close(self) -> None:
        """Let go of the connection."""
        self._texts.close()

    def decode(self, texts: pa.Array) -> list[Part]:
        """The values of all texts, grouped by shape. Raises BadText if a text is not valid JSON."""
        try:
            return merged(self._decode(texts))
        except duckdb.InvalidInputException:
            # The database refuses a whole column for one text, which may still be JSON to us.
            valid = self._texts.query("SELECT json_valid(x) FROM texts", texts).to_numpy(zero_copy_only=False)
            good, bad = np.flatnonzero(valid), np.flatnonzero(~valid.astype(bool))
            return merged([*one_by_one(texts, bad), *moved(self._decode(texts.take(pa.array(good))), good)])

    def _decode(self, texts: pa.Array) -> list[Part]:
        is_object = kinds_of(texts) == OBJECT
        rows, others = np.flatnonzero(is_object), np.flatnonzero(~is_object)
        out = moved(self._slowly(selected(texts, others)), others) if len(others) else []
        return [*out, *moved(self._objects(selected(texts, rows)), rows)] if len(rows) else out

    def _slowly(self, texts: pa.Array, keys: list[str] | None = None) -> list[Part]:
        """By way of texts. The database reads over trailing commas, so lines that may have one go one by one."""
        odd = _with_trailing_commas(texts)
        rest = np.setdiff1d(all_rows(texts), odd)
        plain = selected(texts, rest)
        parts = self._texts.decode(plain) if keys is None else self._texts.objects_with_keys(plain, keys)
        return [*one_by_one(texts, odd), *moved(parts, rest)]

    def _objects(self, texts: pa.Array) -> list[Part]:
        if len(self._paths) == 1:
            self._learn_paths(_object_paths(texts.slice(0, PROBED)))
        (separator,) = unused_controls(texts, 1)
        paths = list(self._paths)
        large, others = split_by_size(groups(self._keys(texts, paths, separator)))
        out = one_by_one(texts, others)
        for signature, rows in large:
            keys = _keys_at(paths, texts[rows[0]].as_py())
            repeated = sum(map(len, keys.values())) != signature.count(separator) + 1
            if repeated or not are_plain(keys[()]):
                out += one_by_one(texts, rows)
                continue
            group = selected(texts, rows)
            try:
                parts = self._group(group, keys, signature)
            except (Blurred, pa.ArrowInvalid):
                parts = self._split_by_type(group, keys, signature)
            out += moved(parts, rows)
        return out

    def _keys(self, texts: pa.Array, paths: list[Path], separator: str) -> pa.Array:
        """For each row, the keys of its objects at some paths, one after another.

        Where the keys of one object end and those of the next begin is not known. It need not be: if the keys
        of some object differed from those of the group's first row, Arrow would show a key too many.
        """
        sql = "SELECT array_to_string(flatten(json_keys(x, ?)), ?) FROM texts"
        return self._texts.query(sql, texts, [pointer(*path) for path in paths], separator)

    def _learn_paths(self, paths: set[Path]) -> None:
        """Ask for the keys at these paths from now on."""
        new = sorted(p for p in paths if p not in self._paths and "" not in p)
        self._paths += new[: _MAX_PATHS - len(self._paths)]

    # ---- a group of rows with the same keys

    def _group(self, texts: pa.Array, keys: Keys, signature: str) -> list[Part]:
        table = self._parse(texts, signature)
        self._learn_paths({path for field in table.schema for path in _struct_paths(field.type, (field.name,))})
        if set(table.column_names) != set(keys[()]):
            raise Blurred
        columns = {name: table.column(name).chunk(0) for name in table.column_names}
        integers = self._integers_among_floats(texts, columns)
        fields = [self._field(columns[key], (key,), keys, integers, texts) for key in keys[()]]
        return records(keys[()], fields, len(texts))

    def _integers_among_floats(self, texts: pa.Array, columns: dict[str, pa.Array]) -> Integers:
        """For each column of floats, the rows in which it is an integer. Only a whole number can be one."""
        out: Integers = {}
        for name, column in columns.items():
            for path, floats in float_columns(column, (name,)):
                whole = np.flatnonzero(is_whole(floats))
                if len(whole):
                    types = self._texts.query(
                        "SELECT json_type(x, ?) FROM texts", selected(texts, whole), pointer(*path)
                    )
                    rows = whole[pc.is_in(types, INTEGER_TYPES).to_numpy(zero_copy_only=False)]
                    if len(rows):
                        out[path] = np.isin(np.arange(len(texts)), rows)
        return out

    def _split_by_type(self, texts: pa.Array, keys: Keys, signature: str) -> list[Part]:
        """A group that Arrow refused, because some key has values of several kinds."""
        sql = "SELECT array_to_string(json_type(x, ?), ',') FROM texts"
        split = groups(self._texts.query(sql, texts, [pointer(key) for key in keys[()]]), SIGNED)
        if len(split) == 1:
            return self._slowly(texts, keys[()])
        large, others = split_by_size(split)
        out = one_by_one(texts, others)
        for types, rows in large:
            out += moved(self._retry(selected(texts, rows), keys, f"{signature} {types}"), rows)
        return out

    def _retry(self, texts: pa.Array, keys: Keys, signature: str) -> list[Part]:
        """Part of a group, in which each key has values of one kind."""
        try:
            return self._group(texts, keys, signature)
        except (Blurred, pa.ArrowInvalid):
            return self._slowly(texts, keys[()])

    def _parse(self, texts: pa.Array, signature: str) -> pa.Table:
        """The group as Arrow sees it, with nothing taken for a time."""
        start, end = texts.offset, texts.offset + len(texts)
        offsets = np.frombuffer(texts.buffers()[1], np.int32)
        lines = texts.buffers()[2].slice(int(offsets[start]), int(offsets[end] - offsets[start]))
        schema = self._schemas.get(signature)
        try:
            table = _read_json(lines, schema)
        except pa.ArrowInvalid:
            if schema is None:
                raise
            table = _read_json(lines, None)
        while _has_times(table.schema):
            if len(self._schemas) >= _MAX_SCHEMAS:
                self._schemas.clear()
            self._schemas[signature] = _strings_only(table.schema)
            table = _read_json(lines, self._schemas[signature])
        if table.num_rows != len(texts) or any(column.num_chunks != 1 for column in table.columns):
            raise Blurred
        return table

    def _field(self, column: pa.Array, path: Path, keys: Keys, integers: Integers, texts: pa.Array) -> list[Part]:
        """A top-level field; one that holds what Arrow blurs is parsed from its text."""
        if not is_blurred(column.type) and not has_short_list(column):
            return list(Exact(keys, integers).parts(column, path, all_rows(texts)))
        is_list = pa.types.is_list(column.type)
        if is_list:
            with suppress(Blurred):
                return self._arrays.parts(column, path[0], texts)
        parsed = self._texts.fields(texts, {path[0]: ["JSON"] if is_list else "JSON"})[path[0]]
        valid, nulls = without_nulls(parsed)
        present = selected(parsed, valid)
        return [*nulls, *moved(self._texts.arrays(present) if is_list else self._texts.decode(present), valid)]


# ---- what Arrow made of a group


def _read_json(lines: pa.Buffer, schema: pa.Schema | None) -> pa.Table:
    reading = pj.ReadOptions(use_threads=False, block_size=max(lines.size, 1) + 1)
    return pj.read_json(pa.BufferReader(lines), reading, pj.ParseOptions(explicit_schema=schema))


def _has_times(schema: pa.Schema) -> bool:
    return "timestamp" in str(schema) and any(_contains_time(field.type) for field in schema)


def _contains_time(typ: pa.DataType) -> bool:
    if pa.types.is_struct(typ) or pa.types.is_list(typ):
        return any(_contains_time(typ.field(i).type) for i in range(typ.num_fields))
    return bool(pa.types.is_timestamp(typ))


def _strings_only(schema: pa.Schema) -> pa.Schema:
    """What to ask for so that strings stay strings; the rest is left for Arrow to find out."""
    fields = ((field.name, _string_type(field.type)) for field in schema)
    return pa.schema([(name, typ) for name, typ in fields if typ is not None])


def _string_type(typ: pa.DataType) -> pa.DataType | None:
    if pa.types.is_timestamp(typ) or pa.types.is_string(typ):
        return pa.string()
    if pa.types.is_struct(typ):
        inside = [(f.name, _string_type(f.type)) for f in typ]
        return pa.struct([(n, s) for n, s in inside if s is not None]) if any(s for _, s in inside) else None
    if pa.types.is_list(typ):
        element = _string_type(typ.value_type)
        return None if element is None else pa.list_(element)
    return None


def _struct_paths(typ: pa.DataType, path: Path) -> Iterator[Path]:
    if pa.types.is_struct(typ):
        yield path
        for field in typ:
            yield from _struct_paths(field.type, (*path, field.name))


# ---- what has to be known before


def _keys_at(paths: list[Path], text: str) -> Keys:
    """The keys of the objects in one text."""
    out: Keys = {}
    decoded = orjson.loads(text)
    for path in paths:
        inner = decoded
        for key in path:
            inner = inner.get(key) if isinstance(inner, dict) else None
        out[path] = list(inner) if isinstance(inner, dict) else []
    return out


def _object_paths(texts: pa.Array) -> set[Path]:
    """Where the first texts have objects inside objects. Any missed here only cost time."""
    paths: set[Path] = set()

    def walk(decoded: Any, path: Path) -> None:
        for key, value in decoded.items():
            if isinstance(value, dict) and len(paths) < _MAX_PATHS:
                paths.add((*path, key))
                walk(value, (*path, key))

    for text in texts.to_pylist():
        try:
            decoded = orjson.loads(text)
        except orjson.JSONDecodeError:
            continue
        if isinstance(decoded, dict):
            walk(decoded, ())
    return paths


def _with_trailing_commas(texts: pa.Array) -> Rows:
    """Rows with a comma before a bracket closes, be it in a string or not."""
    content = np.frombuffer(texts.buffers()[2], np.uint8)
    offsets = np.frombuffer(texts.buffers()[1], np.int32)[texts.offset : texts.offset + len(texts) + 1]
    before = np.flatnonzero((content == ord("}")) | (content == ord("]"))) - 1
    while (blank := (content[before] <= ord(" ")) & (before > 0)).any():
        before[blank] -= 1
    commas = before[content[before] == ord(",")]
    commas = commas[(commas >= offsets[0]) & (commas < offsets[-1])]
    return np.unique(np.searchsorted(offsets, commas, "right") - 1)
