"""The form of a table: which columns it has, in plain types, whatever layouts its rows come in.

A field is one column, of the common type of all that is in it (`model.common`). Values that are not records are in a
column `$value`. Beside these a table has companions, which hold the values of one exact type: `sku$int64`. A companion
is there for statements that name it, and no part of `*`. That of a nested field has its path for a name: `a.b$int64`.
A table without any column, as an empty pool is, has one: `$value`, which is always null.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache

import pyarrow as pa

from shoal.engines.tables.plain import Style, plain_type
from shoal.errors import InvalidInput, Unsupported
from shoal.formats.columns.layouts import VALUE, Path, bare, free_name, physical_names, type_word
from shoal.model import types as t
from shoal.model.common import common_type

MOST_COLUMNS = 10_000
"""What a table may have."""
ROW = "$shoal_row"
"""The column with the numbers of rows, in tables that a statement changes."""
ROW_BITS = 40
"""The low bits of the number of a row: its place among the rows of its file, or of its table. Above them is the number
of its source."""


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table."""

    name: str
    path: Path
    """Where its values are; () for values that are not records."""
    type: t.Type
    """Their common type; of a companion, the exact one."""
    is_exact: bool = False
    """Whether it is a companion."""


@dataclass(frozen=True)
class TableForm:
    """The columns of a table. It can be pickled."""

    shapes: tuple[t.Type, ...]
    style: Style
    names: frozenset[str] | None = None
    """The columns to read, in lower case; None for all but companions."""
    companions: frozenset[str] = frozenset()
    """The companions to read, in lower case, among other names."""
    wholes: frozenset[str] | None = None
    """The names of fields, in lower case, that are used as a whole; of other records only the fields in `names` are
    read. None: all are used as a whole."""
    is_numbered: bool = False
    """Whether rows have their numbers, in a last column `ROW`, which `*` leaves out."""

    def __post_init__(self) -> None:
        if self.is_numbered and ROW in self._fields.index:
            raise Unsupported(f"a field is called {ROW}, which SQL needs to change records (rename it: shoal update)")
        if len(self._fields.fields) > MOST_COLUMNS:
            what = f"{len(self._fields.fields)} columns are more than the {MOST_COLUMNS} that a table may have"
            raise Unsupported(f"{what} (choose some fields by a query: cut a, b)")

    def __reduce__(self) -> tuple[object, ...]:
        return TableForm, (self.shapes, self.style, self.names, self.companions, self.wholes, self.is_numbered)

    @cached_property
    def _fields(self) -> t.Record:
        """The fields of all records, each of its common type."""
        return _merged_fields(self.shapes)

    @cached_property
    def columns(self) -> tuple[Column, ...]:
        """Those that are read."""
        wanted = [column for column in (*self._plain, *self._companions) if self._is_wanted(column)]
        if self.names is None or self.wholes is None:
            return tuple(wanted)
        return tuple(replace(each, type=_used(each.name, each.type, self.names, self.wholes)) for each in wanted)

    @cached_property
    def paths(self) -> tuple[Path, ...] | None:
        """Where the values of all columns are; None if that is everywhere."""
        if self.names is None:
            return None
        whole = {column.path: column.type for column in self._plain}
        ends = (_ends(c.path, c.type, c.type if c.is_exact else whole[c.path]) for c in self.columns)
        return tuple(path for found in ends for path in found)

    @cached_property
    def _plain(self) -> tuple[Column, ...]:
        names = physical_names(self._fields)
        columns = [Column(name, (f.name,), f.type) for name, f in zip(names, self._fields.fields, strict=True)]
        others = common_type(shape for shape in self.shapes if not isinstance(shape.under, t.Record))
        if others is not t.NULL:
            columns.append(Column(free_name(VALUE, {name.lower() for name in names}), (), others))
        return tuple(columns)

    @cached_property
    def _companions(self) -> tuple[Column, ...]:
        used = {column.name.lower() for column in self._plain}
        columns: list[Column] = []
        for name, path in dict.fromkeys(
            found for wanted in sorted(self.companions - used) for found in self._at(wanted)
        ):
            columns += (
                Column(free_name(f"{name}${type_word(typ)}", used), path, typ, is_exact=True)
                for typ in self.types_at(path)
            )
        return tuple(columns)

    def _at(self, companion: str) -> Iterator[tuple[str, Path]]:
        """The names and paths of the columns, and of the fields inside of them, that a companion may belong to."""
        for column in self._plain:
            first = column.name.lower()
            if companion.startswith(f"{first}$"):
                yield column.name, column.path
            elif companion.startswith(f"{first}.") and column.path:
                for shape in self.shapes:
                    typ = _field(shape, column.path[0])
                    for inner in () if typ is None else _paths_below(companion[len(first) + 1 :], (), typ):
                        yield ".".join((column.name, *inner)), (*column.path, *inner)

    def _is_wanted(self, column: Column) -> bool:
        if column.is_exact:
            return column.name.lower() in self.companions
        return self.names is None or column.name.lower() in self.names

    def types_at(self, path: Path) -> list[t.Type]:
        """The exact types that values have at a path, records aside, without names and in their canonical order."""
        found: dict[t.Type, None] = {}
        for shape in self.shapes:
            typ: t.Type | None = shape
            for name in path:
                typ = None if typ is None else _field(typ, name)
            if typ is not None and not isinstance(typ.under, t.Record) and typ.under is not t.NULL:
                found[bare(typ)] = None
        return t.unique_types(found)

    def column_at(self, names: Path) -> Column | None:
        """A column, or a field inside of one, by its names in SQL, the case of which makes no difference."""
        first, *rest = (name.lower() for name in names)
        column = next((each for each in (*self._plain, *self._companions) if each.name.lower() == first), None)
        for name in rest:
            if column is None or not isinstance(column.type, t.Record):
                return None
            fields = zip(physical_names(column.type), column.type.fields, strict=True)
            field = next((f for sql_name, f in fields if sql_name.lower() == name), None)
            column = None if field is None else Column(name, (*column.path, field.name), field.type)
        return column

    def path_of(self, names: Path) -> Path:
        """Where a field is, by its names in SQL; names that the table does not have stand for themselves."""
        self.require_clear(names[:1])
        for end in range(len(names), 0, -1):
            column = self.column_at(names[:end])
            if column is not None and not column.is_exact:
                return (*column.path, *names[end:])
        return names

    def require_clear(self, names: Iterable[str]) -> None:
        """InvalidInput for the name of a field that SQL calls otherwise, since another one differs only in case."""
        asked = set(names)
        for name, field in zip(physical_names(self._fields), self._fields.fields, strict=True):
            if field.name in asked and name != field.name:
                other = next(f.name for f in self._fields.fields if f.name.lower() == field.name.lower())
                raise InvalidInput(
                    f"sql: {field.name} is ambiguous: fields {other} and {field.name} differ only in case, and SQL "
                    f'calls the second one "{name}" ("{other}" in lower or upper case is the first)'
                )

    @property
    def field_names(self) -> tuple[str, ...]:
        """The names of the fields of all records, in the order of the columns."""
        return tuple(field.name for field in self._fields.fields)

    def why_text(self, names: frozenset[str]) -> str:
        """Why columns are text that a statement names, if they hold other values as well."""
        for column in self._plain:
            types = self.types_at(column.path) if column.name.lower() in names and column.type is t.STRING else []
            if len(types) > 1:
                words = [type_word(typ) for typ in types]
                other = next((word for word in words if word != "string"), words[0])
                return (
                    f"column {column.name} is text, since it holds {', '.join(words[:-1])} and {words[-1]} values "
                    f'("{column.name}${other}" has the {other} ones): '
                )
        return ""

    @cached_property
    def schema(self) -> pa.Schema:
        """Names and types."""
        fields = [pa.field(column.name, plain_type(column.type, self.style)) for column in self.columns]
        numbers = [pa.field(ROW, pa.int64())] if self.is_numbered else []
        return pa.schema([*(fields or [pa.field(VALUE, pa.bool_())]), *numbers])

    @property
    def hidden(self) -> tuple[str, ...]:
        """The companions that are read, and the numbers of rows, which are no part of `*`."""
        return (*(column.name for column in self.columns if column.is_exact), *((ROW,) if self.is_numbered else ()))

    def for_statement(
        self, names: frozenset[str] | None, companions: frozenset[str], wholes: frozenset[str] | None = None
    ) -> TableForm:
        """The table with the columns, and the fields inside of them, that a statement may name."""
        return TableForm(self.shapes, self.style, names, companions, wholes, self.is_numbered)


@lru_cache(maxsize=256)
def _merged_fields(shapes: tuple[t.Type, ...]) -> t.Record:
    merged = common_type(shape for shape in shapes if isinstance(shape.under, t.Record))
    return merged if isinstance(merged, t.Record) else t.record(())


def _used(name: str, typ: t.Type, names: frozenset[str], wholes: frozenset[str]) -> t.Type:
    """The type of a field, without the fields inside of it that no statement with these names can look at."""
    if not isinstance(typ, t.Record) or name.lower() in wholes:
        return typ
    kept = [pair for pair in zip(physical_names(typ), typ.fields, strict=True) if pair[0].lower() in names]
    smaller = t.record([(f.name, _used(inner, f.type, names, wholes)) for inner, f in kept])
    # Names that differ in case alone have numbers, which depend on what is beside them.
    return smaller if kept and physical_names(smaller) == [inner for inner, _ in kept] else typ


def _ends(path: Path, used: t.Type, whole: t.Type) -> Iterator[Path]:
    """The paths to what is used of a field as a whole."""
    if used is whole or not isinstance(used, t.Record) or not isinstance(whole, t.Record):
        yield path
        return
    for name, typ in used.fields:
        yield from _ends((*path, name), typ, whole.fields[whole.index[name]].type)


def _field(typ: t.Type, name: str) -> t.Type | None:
    """The type of a field; None if there is no such field."""
    under = typ.under
    return under.fields[under.index[name]].type if isinstance(under, t.Record) and name in under.index else None


def _paths_below(companion: str, above: Path, typ: t.Type) -> Iterator[Path]:
    """The fields inside of a type that a companion, in lower case, may belong to."""
    under = typ.under
    for name, inner in under.fields if isinstance(under, t.Record) else ():
        if companion.startswith(f"{name.lower()}$"):
            yield (*above, name)
        elif companion.startswith(f"{name.lower()}."):
            yield from _paths_below(companion[len(name) + 1 :], (*above, name), inner)
