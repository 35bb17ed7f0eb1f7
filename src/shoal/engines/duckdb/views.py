"""Tables of DuckDB: the data objects of a pool, each in its own layout, as one view in the form of a table.

What DuckDB cannot convert by itself, such as addresses to text, functions of Python do.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa
from sqlglot import exp

from shoal.engines.duckdb.queries import by_kind, hidden_table, parquet_table, without_hidden
from shoal.engines.duckdb.statement_job import Conversion, Job
from shoal.engines.physical import Source
from shoal.engines.sql import build
from shoal.engines.sql.build import Sql
from shoal.engines.tables.forms import ROW, ROW_BITS, Column, TableForm
from shoal.engines.tables.object_rows import row_numbers, rows_of
from shoal.engines.tables.plain import Style, is_plain, plain_type
from shoal.engines.tables.projection import Projection, path_name, present_root, slot_at
from shoal.formats.columns import fusion
from shoal.formats.columns.layouts import Layout, Leaf, Slot, Struct, physical_names
from shoal.formats.columns.physical import arrow_type
from shoal.model import types as t
from shoal.storage.verified_files import VerifiedFile

_DIALECT = "duckdb"
_FEW_ROWS, _MANY_FIELDS = 10_000, 300


class Views:
    """The views of one statement, and what they are made of."""

    def __init__(self) -> None:
        self._views: list[str] = []
        self._conversions: dict[tuple[str, t.Type, t.Type], Conversion] = {}
        self._tables: list[tuple[str, pa.Table]] = []
        self._sources: list[Source] = []
        self.files: list[VerifiedFile] = []
        """All that is read."""

    def again(self) -> Views | None:
        """These views for another run, with files that were verified again; None if they cannot be used again."""
        if self._tables:
            return None  # rows in memory, which nobody should hold between two runs
        views = Views()
        views._views, views._conversions, views._sources = self._views, self._conversions, self._sources
        views.files = _verified(self._sources)
        is_same = [file.path for file in views.files] == [file.path for file in self.files]
        return views if is_same else None

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
        needed = [source.narrowed(form.paths) for source in sources]
        parts = [self._part(form, same) for same in by_kind(needed)] or [_nothing(form)]
        query = " UNION ALL ".join(part.sql(_DIALECT, copy=False) for part in parts)
        self._views.append(f"CREATE TEMPORARY VIEW {name} AS {query}")
        return name

    def _part(self, form: TableForm, sources: list[Source]) -> exp.Select:
        layout = sources[0].layout
        present = frozenset(index for source in sources for index in source.present)
        names = form.schema.names
        if Projection(form, layout, present).has_record_texts or _is_wide(form, sources):
            # DuckDB's text of a struct would show the fields that only other records have.
            table = self._registered(pa.Table.from_batches(rows_of(form, sources), form.schema))
            return exp.select(*(build.column(name) for name in names)).from_(table)
        root = present_root(layout, present)
        columns = [_Columns(self, form, column, layout).sql(root) for column in form.columns] or [build.null("BOOLEAN")]
        columns += [_row_number(sources)] if form.is_numbered else []
        items = [exp.alias_(sql, name, quoted=True, copy=False) for sql, name in zip(columns, names, strict=True)]
        return exp.select(*items, copy=False).from_(self._table(sources, form.is_numbered), copy=False)

    def _table(self, sources: list[Source], is_numbered: bool) -> exp.Table | exp.Subquery:
        if sources[0].file is not None:
            files = _verified(sources)
            self._sources += sources
            self.files += files
            table = parquet_table([file.path for file in files])
            if sources[0].hidden is None:
                return table
            return without_hidden(table, self._registered(hidden_table(sources)).name)
        tables = [(source, source.table()) for source in sources if source.table is not None]
        if is_numbered:
            tables = [(s, table.append_column(ROW, row_numbers(s, np.arange(len(table))))) for s, table in tables]
        return self._registered(pa.concat_tables([table for _, table in tables]))

    def _registered(self, table: pa.Table) -> exp.Table:
        name = f"r{len(self._tables)}"
        self._tables.append((name, table))
        return exp.to_table(name)

    def function(self, typ: t.Type, common: t.Type, form: TableForm, column: str) -> str:
        """The name of a function of DuckDB that brings columns of a type into a common type."""
        conversion = self._conversions.get((column, typ, common))
        if conversion is None:
            name, result = f"plain{len(self._conversions)}", sql_type(plain_type(common, form.style))
            conversion = Conversion(name, typ, common, form.style, column, sql_type(arrow_type(typ)), result)
            self._conversions[column, typ, common] = conversion
        return conversion.name


def _row_number(sources: Sequence[Source]) -> Sql:
    """The number of a row of some data objects: a column of their tables, or from its file and its place there."""
    if sources[0].file is None:
        return build.column(ROW)
    numbers = build.cast(
        exp.Array(expressions=[build.integer(source.number << ROW_BITS) for source in sources]), "BIGINT[]"
    )
    place = exp.Add(this=build.cast(build.column("file_index"), "BIGINT"), expression=build.integer(1))
    return exp.Add(this=build.call("list_extract", numbers, place), expression=build.column("file_row_number"))


def _verified(sources: Sequence[Source]) -> list[VerifiedFile]:
    """The files of sources. To ask for one verifies its checksums."""
    return [source.file() for source in sources if source.file is not None]


def _is_wide(form: TableForm, sources: Sequence[Source]) -> bool:
    """Whether SQL for each field would take longer than to convert the rows: there are many fields and few rows."""
    return sum(source.count for source in sources) < _FEW_ROWS and _fields(form.schema.types) > _MANY_FIELDS


def _fields(types: Sequence[pa.DataType]) -> int:
    """How many columns of these types there are, with those inside of structs."""
    structs = [[typ.field(i).type for i in range(typ.num_fields)] for typ in types if pa.types.is_struct(typ)]
    return len(types) + sum(map(_fields, structs))


def _nothing(form: TableForm) -> exp.Select:
    """No rows."""
    items = [exp.alias_(build.null(sql_type(f.type)), f.name, quoted=True) for f in form.schema]
    return exp.select(*items).where(exp.false())


class _Columns:
    """A column of a form, from tables in a layout."""

    def __init__(self, views: Views, form: TableForm, column: Column, layout: Layout) -> None:
        self._views, self._form, self._column, self._layout = views, form, column, layout

    def sql(self, root: Slot) -> Sql:
        """The expression for it, from what the layout has for the values that there are."""
        column = self._column
        slot = slot_at(root, column.path)
        if not column.is_exact:
            return self._slot(slot, column.type)
        leaf = None if slot is None else slot.leaves.get(column.type)
        return self._null(column.type) if leaf is None else self._leaf(leaf, column.type)

    def _null(self, typ: t.Type) -> Sql:
        return build.null(sql_type(plain_type(typ, self._form.style)))

    def _slot(self, slot: Slot | None, typ: t.Type) -> Sql:
        if slot is None:
            return self._null(typ)
        if isinstance(typ, t.Record):
            return self._null(typ) if slot.struct is None else self._struct(slot.struct, typ)
        parts = [self._leaf(leaf, typ) for leaf in slot.leaves.values()]
        if not parts:
            return self._null(typ)
        return parts[0] if len(parts) == 1 else exp.Coalesce(this=parts[0], expressions=parts[1:])

    def _leaf(self, leaf: Leaf, common: t.Type) -> Sql:
        column, style = build.nested(leaf.column), self._form.style
        typ = leaf.type
        if typ is common and is_plain(typ, style):
            return column
        if typ is common is t.TIME:
            return build.call("make_timestamp_ns", column)
        if _casts(typ, common):
            return build.cast(column, sql_type(plain_type(common, style)))
        return build.call(self._views.function(typ, common, self._form, path_name(leaf)), column)

    def _struct(self, source: Struct, typ: t.Record) -> Sql:
        column, style = build.nested(source.column), self._form.style
        target_type = plain_type(typ, style)
        is_whole = self._layout.structs[source.index] is source
        if is_whole and fusion.struct_type(source) == target_type and is_unchanged(source, typ, style):
            return column
        if not typ.fields:
            return column
        fields = [
            exp.PropertyEQ(
                this=exp.to_identifier(name, quoted=True), expression=self._slot(source.fields.get(f.name), f.type)
            )
            for name, f in zip(physical_names(typ), typ.fields, strict=True)
        ]
        struct_sql = exp.Struct(expressions=fields)
        return build.choose([(build.is_null(column), build.null(sql_type(target_type)))], struct_sql)


def _casts(typ: t.Type, common: t.Type) -> bool:
    """Whether a cast of DuckDB gives the values of a type in a common type."""
    if common is t.STRING:
        return typ in t.SIGNED or typ in t.UNSIGNED or typ is t.BOOL or typ is t.DATE or isinstance(typ, t.Decimal)
    is_exact = not isinstance(typ, t.Decimal) or isinstance(common, t.Decimal)
    return is_exact and t.is_number(typ) and t.is_number(common) and typ not in (t.TIME, t.DURATION)


def is_unchanged(struct: Struct, typ: t.Record, style: Style) -> bool:
    """Whether a struct has just what a record of a common type has, in plain types."""
    if list(struct.fields) != list(typ.index):
        return False
    for slot, (_, inner) in zip(struct.fields.values(), typ.fields, strict=True):
        if slot.struct is not None:
            if slot.leaves or not isinstance(inner, t.Record) or not is_unchanged(slot.struct, inner, style):
                return False
        elif list(slot.leaves) != [inner] or not is_plain(inner, style):
            return False
    return True


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
    if pa.types.is_decimal(typ):
        return f"DECIMAL({typ.precision}, {typ.scale})"
    return _NAMES[typ]


def quoted(name: str) -> str:
    """A name as DuckDB writes it."""
    return exp.to_identifier(name, quoted=True).sql(_DIALECT)


_NAMES = {
    pa.uint8(): "UTINYINT", pa.uint16(): "USMALLINT", pa.uint32(): "UINTEGER", pa.uint64(): "UBIGINT",
    pa.int8(): "TINYINT", pa.int16(): "SMALLINT", pa.int32(): "INTEGER", pa.int64(): "BIGINT",
    pa.float32(): "FLOAT", pa.float64(): "DOUBLE", pa.bool_(): "BOOLEAN",
    pa.string(): "VARCHAR", pa.binary(): "BLOB", pa.timestamp("ns"): "TIMESTAMP_NS",
    pa.date32(): "DATE",
}  # fmt: skip
