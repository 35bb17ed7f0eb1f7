"""Scans of a pool that Spark does by itself: its own Parquet reader over the files of data objects.

Spark passes neither the needed columns nor a count to a source that is written in Python. Its own reader has both. So
where all columns of a table have a form that Spark can read, a table is a DataFrame over the files; Spark then reads
the columns that a query needs, prunes row groups by its filters, and counts rows by footers alone.

Damage is found as in any other read: the checksums of footers are compared before the DataFrame is made, and Spark
compares those of pages.
"""

from __future__ import annotations

import pickle
import re
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from shoal.engines.physical import Source
from shoal.engines.spark.stages import is_on_this_machine
from shoal.engines.tables.forms import Column, TableForm
from shoal.engines.tables.plain import plain_type
from shoal.engines.tables.projection import WAY_OUT, convert_leaf, path_name, slot_at
from shoal.formats.columns.layouts import Layout, Leaf, Path, Slot, Struct, layout_of, physical_names
from shoal.formats.columns.physical import arrow_type
from shoal.lake.column_form import file_with_footer
from shoal.lazy import lazy
from shoal.model import types as t
from shoal.planner.scan_units import ObjectReader

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession, functions
    from pyspark.sql.pandas import types as spark_types
    from pyspark.sql.types import DataType
else:
    functions = lazy("pyspark.sql.functions")
    spark_types = lazy("pyspark.sql.pandas.types")

FEW_FILES = 32
"""More than that Spark lists by a job with a task for each file."""
LARGE = 4 << 20
"""Bytes of a file from which the time to list it does not count."""
_READERS = 16
"""Threads that read footers."""
_PLAIN_PATH = re.compile(r"[\w./@+=, ~-]+")
"""Other characters may mean something to Hadoop, which takes paths for patterns."""
_VERIFY_PAGES = "parquet.page.verify-checksum.enabled"
_AS_STORED = (*t.SIGNED, *t.UNSIGNED, t.FLOAT32, t.FLOAT64, t.BOOL, t.STRING, t.BYTES, t.DATE, t.DURATION)
"""Primitive types that Spark reads from Parquet as a table has them."""


class NotNative(Exception):
    """Something that Spark's own reader does not read as a table has it."""


def native_frame(spark: SparkSession, form: TableForm, sources: Sequence[Source]) -> DataFrame | None:
    """The rows of data objects in files as a DataFrame; None if Spark cannot read them, or not well."""
    if not _are_large_files(sources) or any(source.hidden is not None for source in sources):
        return None
    try:
        scan = _Scan(form, _common_layout(sources), is_on_this_machine(spark))
        columns = [scan.column(column) for column in form.columns]
        schema = scan.schema()
    except NotNative:
        return None
    if not columns:
        return None
    paths = _paths(sources)
    if not all(map(_PLAIN_PATH.fullmatch, paths)):
        return None
    files = spark.read.schema(schema).option(_VERIFY_PAGES, "true").parquet(*(f"file://{path}" for path in paths))
    expected = spark_types.from_arrow_schema(form.schema)
    frame = files.select(*(c.alias(f.name) for c, f in zip(columns, expected.fields, strict=True)))
    return frame if frame.schema == expected else None


def _are_large_files(sources: Sequence[Source]) -> bool:
    return 0 < len(sources) <= FEW_FILES or sum(source.size for source in sources) >= LARGE * max(1, len(sources))


def _paths(sources: Sequence[Source]) -> list[str]:
    """The files of sources, whose footers are as they were written."""
    readers = [source.file.reading(file_with_footer) for source in sources if isinstance(source.file, ObjectReader)]
    with ThreadPoolExecutor(_READERS) as threads:
        return list(threads.map(ObjectReader.__call__, readers))


def _common_layout(sources: Sequence[Source]) -> Layout:
    """One layout for all: columns of a pool have the same names in all objects, but for some of old ones."""
    names: dict[tuple[Path, t.Type | None, bool], str] = {}
    layouts = {(source.shapes, source.names): source.layout for source in sources}
    for layout in layouts.values():
        for key, name in _named(layout):
            if names.setdefault(key, name) != name:
                raise NotNative("a column has two names")
    combined = layout_of(tuple(dict.fromkeys(shape for shapes, _ in layouts for shape in shapes)))
    columns = [key for key, _ in _named(combined)]
    if names.keys() != set(columns) or _collide(names):
        raise NotNative("records without any field in one object have some in another, or a name has two meanings")
    return layout_of(combined.shapes, tuple(names[key] for key in columns))


def _named(layout: Layout) -> Iterator[tuple[tuple[Path, t.Type | None, bool], str]]:
    """The columns of a layout by what is in them, and their names."""
    for node in layout.columns:
        if isinstance(node, Leaf):
            yield (node.path, node.type, False), node.column[-1]
        else:
            yield (node.path, None, node.is_bare), node.column[-1]


def _collide(names: dict[tuple[Path, t.Type | None, bool], str]) -> bool:
    """Whether two columns beside each other have one name."""
    places = [(path[:-1], name) for (path, _, _), name in names.items()]
    return len(set(places)) < len(places)


@dataclass
class _Needed:
    """What is read of a struct: columns by their names, each with a type or with what is read of it."""

    columns: dict[str, DataType | _Needed] = field(default_factory=dict)


class _Scan:
    """The columns of a table as expressions of Spark over files in a layout."""

    def __init__(self, form: TableForm, layout: Layout, has_package: bool) -> None:
        self._form, self._layout, self._has_package = form, layout, has_package
        self._needed = _Needed()

    def schema(self) -> Any:
        """What is read of the files, once all columns were asked for."""
        return _struct_type(self._needed)

    def column(self, column: Column) -> Any:
        """An expression for a column."""
        slot = slot_at(self._layout.root, column.path)
        if not column.is_exact:
            return self._slot(slot, column.type)
        leaf = None if slot is None else slot.leaves.get(column.type)
        return self._null(column.type) if leaf is None else self._leaf(leaf, column.type)

    def _null(self, typ: t.Type) -> Any:
        return functions.lit(None).cast(self._type(typ))

    def _type(self, typ: t.Type) -> DataType:
        """The type that a table has for a type."""
        return spark_types.from_arrow_type(plain_type(typ, self._form.style))

    def _slot(self, slot: Slot | None, typ: t.Type) -> Any:
        if slot is None:
            return self._null(typ)
        if isinstance(typ, t.Record):
            return self._null(typ) if slot.struct is None else self._struct(slot.struct, typ)
        if slot.struct is not None:
            raise NotNative("records as text")
        parts = [self._leaf(leaf, typ) for leaf in slot.leaves.values()]
        if not parts:
            return self._null(typ)
        return parts[0] if len(parts) == 1 else functions.coalesce(*parts)

    def _leaf(self, leaf: Leaf, common: t.Type) -> Any:
        typ = leaf.type
        if typ is t.TIME and common is t.TIME:
            return self._time(leaf)
        if not self._is_as_stored(typ):
            return self._converted(leaf, common)
        column = self._read(leaf.column, self._type(typ))
        if typ is common:
            return column
        if typ in _INTEGERS and (common in _INTEGERS or common is t.FLOAT64):
            return column.cast(self._type(common))
        return self._converted(leaf, common)

    def _converted(self, leaf: Leaf, common: t.Type) -> Any:
        """What Spark has no expression for, Python does, in queries that need the column."""
        if not self._has_package:
            raise NotNative("values that Python converts, where workers may not have Shoal")
        column = self._read(leaf.column, spark_types.from_arrow_type(_signed(arrow_type(leaf.type))))
        pickled = pickle.dumps((leaf.type, common, self._form.style, path_name(leaf)))
        return functions.arrow_udf(_conversion(pickled), self._type(common))(column)

    def _time(self, leaf: Leaf) -> Any:
        column = self._read(leaf.column, spark_types.from_arrow_type(plain_type(t.INT64, self._form.style)))
        if self._form.style.times == "integers":
            return column
        words = f"InvalidInput: column {path_name(leaf)}: a time has digits below the microsecond, "
        way_out = f" ns since 1970 ({WAY_OUT})"
        failure = functions.raise_error(functions.concat(functions.lit(words), column, functions.lit(way_out)))
        micros = functions.timestamp_micros(functions.expr(f"{quoted(leaf.column)} div 1000"))
        return functions.when(column % 1000 != 0, failure.cast("timestamp")).otherwise(micros)

    def _struct(self, source: Struct, typ: t.Record) -> Any:
        if source.is_bare:
            column = self._read(source.column, spark_types.from_arrow_type(plain_type(t.BOOL, self._form.style)))
            return column if not typ.fields else functions.when(column, self._empty(typ))
        if not typ.fields:
            raise NotNative("a record without fields beside one with some")
        names = zip(physical_names(typ), typ.fields, strict=True)
        fields = [self._slot(source.fields.get(f.name), f.type).alias(name) for name, f in names]
        if not self._is_read(source.column):
            raise NotNative("a record of which nothing is read but whether it is there")
        column = functions.col(quoted(source.column))
        return functions.when(column.isNotNull(), functions.struct(*fields)).cast(self._type(typ))

    def _empty(self, typ: t.Record) -> Any:
        """A record of which all fields are null."""
        names = zip(physical_names(typ), typ.fields, strict=True)
        return functions.struct(*(self._null(f.type).alias(name) for name, f in names)).cast(self._type(typ))

    def _is_as_stored(self, typ: t.Type) -> bool:
        """Whether Spark reads values of a type as a table has them."""
        under = typ.under
        match under:
            case t.Decimal():
                return True
            case t.Primitive():
                return under in _AS_STORED
            case t.Array() | t.Set():
                return self._is_as_stored(under.elem)
            case t.Record():
                return bool(under.fields) and all(self._is_as_stored(f.type) for f in under.fields)
        return False

    def _is_read(self, path: Path) -> bool:
        needed: DataType | _Needed | None = self._needed
        for name in path:
            needed = needed.columns.get(name) if isinstance(needed, _Needed) else None
        return needed is not None

    def _read(self, path: Path, typ: DataType) -> Any:
        needed = self._needed
        for name in path[:-1]:
            inner = needed.columns.setdefault(name, _Needed())
            assert isinstance(inner, _Needed)
            needed = inner
        needed.columns[path[-1]] = typ
        return functions.col(quoted(path))


_INTEGERS = (*t.SIGNED, *t.UNSIGNED)


def _signed(typ: pa.DataType) -> pa.DataType:
    """A physical type as Spark reads it, which has no unsigned numbers."""
    if pa.types.is_list(typ):
        return pa.list_(_signed(typ.value_type))
    if pa.types.is_struct(typ):
        return pa.struct([(typ.field(i).name, _signed(typ.field(i).type)) for i in range(typ.num_fields)])
    return _WIDER.get(typ, typ)


_WIDER = {pa.uint8(): pa.int16(), pa.uint16(): pa.int32(), pa.uint32(): pa.int64(), pa.uint64(): pa.decimal128(20, 0)}


def _conversion(pickled: bytes) -> Callable[..., Any]:
    """A function of Spark over columns. Types have pickles of ours: they are interned where they arrive."""

    def convert(column: pa.Array) -> pa.Array:
        typ, common, style, name = pickle.loads(pickled)  # noqa: S301 - of our own driver
        return convert_leaf(typ, common, column.cast(arrow_type(typ)), style, name)

    convert.__annotations__ = {"column": pa.Array, "return": pa.Array}
    return convert


def _struct_type(needed: _Needed) -> Any:
    from pyspark.sql.types import StructField, StructType  # noqa: PLC0415 - loaded by now

    return StructType(
        [
            StructField(name, _struct_type(typ) if isinstance(typ, _Needed) else typ)
            for name, typ in needed.columns.items()
        ]
    )


def quoted(path: Path) -> str:
    """A column, or a field inside of one, as Spark writes it."""
    return ".".join("`" + name.replace("`", "``") + "`" for name in path)
