"""Tables of DuckDB: the data objects of a pool, each in its own layout, as one view in the form of a table.

What DuckDB cannot convert by itself, such as addresses to text, functions of Python do.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import pyarrow as pa
from sqlglot import exp

from shoal.engines.duckdb.queries import parquet_table
from shoal.engines.duckdb.statement_job import Conversion, Job
from shoal.engines.physical import Source
from shoal.engines.sql import build
from shoal.engines.sql.build import Sql
from shoal.engines.tables.forms import TableForm, source_slot
from shoal.engines.tables.plain import is_plain, plain_type
from shoal.formats.columns import fusion
from shoal.formats.columns.layouts import Layout, Leaf, Slot, Struct
from shoal.formats.columns.physical import arrow_type
from shoal.model import types as t
from shoal.storage.verified_files import VerifiedFile

_DIALECT = "duckdb"


class Views:
    """The views of one statement, and what they are made of."""

    def __init__(self) -> None:
        self._views: list[str] = []
        self._conversions: dict[tuple[str, t.Type], Conversion] = {}
        self._tables: list[tuple[str, pa.Table]] = []
        self.files: list[VerifiedFile] = []
        """All that is read."""

    def job(self, text: str, settings: Mapping[str, str]) -> Job:
        """A statement over the views that were added."""
        return Job(
            text,
            tuple(self._views),
            tuple(self._conversions.values()),
            tuple(self._tables),
            tuple(file.path for file in self.files),
            settings,
        )

    def add(self, form: TableForm, sources: Sequence[Source]) -> str:
        """A view of some data objects; its name."""
        name = f"t{len(self._views)}"
        parts = [self._part(form, same) for same in _alike(sources)] or [_nothing(form)]
        query = " UNION ALL ".join(part.sql(_DIALECT) for part in parts)
        self._views.append(f"CREATE TEMPORARY VIEW {name} AS {query}")
        return name

    def _part(self, form: TableForm, sources: list[Source]) -> exp.Select:
        layout = sources[0].layout
        columns = [sql for _, sql in _Columns(self, form, layout).top()]
        names = form.schema.names
        items = [exp.alias_(sql, name, quoted=True) for sql, name in zip(columns, names, strict=True)]
        return exp.select(*items).from_(self._table(sources))

    def _table(self, sources: list[Source]) -> exp.Table:
        if sources[0].file is not None:
            files = [source.file() for source in sources if source.file is not None]
            self.files += files
            return parquet_table([file.path for file in files])
        name = f"r{len(self._tables)}"
        table = pa.concat_tables([source.table() for source in sources if source.table is not None])
        self._tables.append((name, table))
        return exp.to_table(name)

    def function(self, typ: t.Type, form: TableForm, column: str) -> str:
        """The name of a function of DuckDB that makes columns of a type plain."""
        conversion = self._conversions.get((column, typ))
        if conversion is None:
            name, result = f"plain{len(self._conversions)}", sql_type(plain_type(typ, form.style))
            conversion = Conversion(name, typ, form.style, column, sql_type(arrow_type(typ)), result)
            self._conversions[column, typ] = conversion
        return conversion.name


def _alike(sources: Sequence[Source]) -> list[list[Source]]:
    by_layout: dict[tuple[tuple[t.Type, ...], tuple[str, ...], bool], list[Source]] = {}
    for source in sources:
        by_layout.setdefault((source.shapes, source.names, source.file is not None), []).append(source)
    return list(by_layout.values())


def _nothing(form: TableForm) -> exp.Select:
    """No rows."""
    items = [exp.alias_(build.null(sql_type(f.type)), f.name, quoted=True) for f in form.schema]
    return exp.select(*items).where(exp.false())


class _Columns:
    """The columns of a form, from tables in a layout."""

    def __init__(self, views: Views, form: TableForm, source: Layout) -> None:
        self._views, self._form, self._source = views, form, source

    def top(self) -> Iterator[tuple[str, Sql]]:
        form, source = self._form, self._source.root
        root = form.layout.root
        has_value = False
        fields = {} if root.struct is None else root.struct.fields
        slots = [(slot, source_slot(source, name)) for name, slot in fields.items()]
        for slot, other in [*slots, (Slot(None, root.leaves), source)]:
            for name, sql in self._slot(slot, other):
                if form.is_wanted(name):
                    has_value = True
                    yield name, sql
        if not has_value:
            yield form.schema.names[0], build.null("BOOLEAN")

    def _slot(self, target: Slot, source: Slot | None) -> Iterator[tuple[str, Sql]]:
        if target.struct is not None:
            yield target.struct.column[-1], self._struct(target.struct, None if source is None else source.struct)
        for typ, leaf in target.leaves.items():
            yield leaf.column[-1], self._leaf(leaf, None if source is None else source.leaves.get(typ))

    def _leaf(self, target: Leaf, source: Leaf | None) -> Sql:
        if source is None:
            return build.null(sql_type(plain_type(target.type, self._form.style)))
        column = build.nested(source.column)
        if is_plain(source.type, self._form.style):
            return column
        if source.type is t.TIME:
            return build.call("make_timestamp_ns", column)
        return build.call(self._views.function(source.type, self._form, ".".join(target.column)), column)

    def _struct(self, target: Struct, source: Struct | None) -> Sql:
        target_type = self._form.struct_type(target)
        if source is None:
            return build.null(sql_type(target_type))
        column = build.nested(source.column)
        if fusion.struct_type(source) == target_type and self._is_plain(source):
            return column
        fields = [
            exp.PropertyEQ(this=exp.to_identifier(name, quoted=True), expression=sql)
            for inner, slot in target.fields.items()
            for name, sql in self._slot(slot, source.fields.get(inner))
        ]
        struct_sql = exp.Struct(expressions=fields)
        return build.choose([(build.is_null(column), build.null(sql_type(target_type)))], struct_sql)

    def _is_plain(self, struct: Struct) -> bool:
        """Whether all that is in a struct is there as the table has it."""
        return all(
            (slot.struct is None or self._is_plain(slot.struct))
            and all(is_plain(typ, self._form.style) for typ in slot.leaves)
            for slot in struct.fields.values()
        )


# ---- types by their names


def sql_type(typ: pa.DataType) -> str:
    """The name of an Arrow type in DuckDB."""
    if pa.types.is_struct(typ):
        inside = ", ".join(f"{quoted(typ.field(i).name)} {sql_type(typ.field(i).type)}" for i in range(typ.num_fields))
        return f"STRUCT({inside})"
    if pa.types.is_map(typ):
        return f"MAP({sql_type(typ.key_type)}, {sql_type(typ.item_type)})"
    if pa.types.is_list(typ):
        return f"{sql_type(typ.value_type)}[]"
    return _NAMES[typ]


def quoted(name: str) -> str:
    """A name as DuckDB writes it."""
    return exp.to_identifier(name, quoted=True).sql(_DIALECT)


_NAMES = {
    pa.uint8(): "UTINYINT", pa.uint16(): "USMALLINT", pa.uint32(): "UINTEGER", pa.uint64(): "UBIGINT",
    pa.int8(): "TINYINT", pa.int16(): "SMALLINT", pa.int32(): "INTEGER", pa.int64(): "BIGINT",
    pa.float32(): "FLOAT", pa.float64(): "DOUBLE", pa.bool_(): "BOOLEAN",
    pa.string(): "VARCHAR", pa.binary(): "BLOB", pa.timestamp("ns"): "TIMESTAMP_NS",
}  # fmt: skip
