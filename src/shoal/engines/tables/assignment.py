"""Values that SQL computes, in the types that a pool has: a field that is an `int64` stays one if it is set to 1.

SQL gives a constant the narrowest type, and shows addresses as texts and durations as integers. If the type of a value
is none of those that the field has in the pool, it is stored in the first of these that shows it as it is. Without such
a type it keeps its own: a field may hold values of any types.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from decimal import Decimal

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from shoal.engines.tables.answers import plain_integers
from shoal.engines.tables.forms import TableForm
from shoal.engines.tables.object_rows import batch_in_form
from shoal.engines.tables.plain import text_of
from shoal.errors import InvalidInput
from shoal.formats.arrow.reader import plain_column, refusing
from shoal.formats.columns import kernels
from shoal.formats.columns.batches import Batch, Part, Rows
from shoal.formats.columns.layouts import bare
from shoal.formats.columns.parts import all_rows, merged, moved, records
from shoal.formats.columns.physical import arrow_type, from_arrow, to_arrow
from shoal.model import types as t
from shoal.model.cast import cast_primitive, is_castable
from shoal.model.values import Value, is_error

Mask = npt.NDArray[np.bool_]
Path = tuple[str, ...]
TypesAt = Callable[[Path], Sequence[t.Type]]
"""The exact types, records aside, that values have at a path of a pool."""
Setting = tuple[Path, list[Part]]
"""A field, and its values by type: one for each row."""

_INTEGERS = (*t.SIGNED, *t.UNSIGNED)
_SHOWN_AS_TEXT = (t.IP, t.NET, t.TYPE)
_DIGITS = {t.FLOAT16: 3, t.FLOAT32: 6, t.FLOAT64: 15}
"""Digits of decimals that a float keeps."""
_DAY = re.compile(r"\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d.*)?")
"""A text that SQL takes for a time, where one is wanted."""


def natural_parts(column: pa.Array) -> list[Part]:
    """A column of an answer as values, in the type that SQL gave to it."""
    with refusing("sql"):
        typ, array = plain_column(plain_integers(column))
    return [Part(typ, kernels.whole(array), all_rows(array))]


def _stored(typ: t.Type, column: pa.Array, path: Path, types_at: TypesAt, own: t.Type | None = None) -> list[Part]:
    """Values for a field, by the types that they are stored in; `own` is the type that the field has in these rows."""
    types = _candidates(typ, types_at(path), own)
    if isinstance(typ, t.Record) and typ.fields:
        return _stored_records(typ, column, path, types_at)
    if isinstance(typ, t.Array):
        return _stored_lists(typ, column, types)
    if typ in types[:1] or (typ in types and own is None):
        return [Part(typ, column, all_rows(column))]
    left, out = all_rows(column), []
    for target in types:
        known, array = _converted(typ, column.take(pa.array(left)), target)
        rows = left[known]
        if len(rows):
            out.append(Part(target, array.filter(pa.array(known)), rows))
        left = left[~known]
    if len(left):
        rest = column.take(pa.array(left))
        is_null = rest.null_count == len(rest)
        out.append(Part(t.NULL, pa.nulls(len(rest), arrow_type(t.NULL)), left) if is_null else Part(typ, rest, left))
    return merged(out)


def _candidates(typ: t.Type, types: Sequence[t.Type], own: t.Type | None) -> list[t.Type]:
    """The types that a value may be stored in, the best one first: that of the record, its own, wide ones."""
    usable = [each for each in types if not isinstance(each.under, t.Union | t.Error)]
    if any(each is not t.DURATION for each in usable):  # beside others a duration is not shown as a number
        usable = [each for each in usable if each is not t.DURATION]
    ordered = sorted(usable, key=lambda each: (each is not typ, _kind(each) != _kind(typ), -_WIDTHS.get(each, 0)))
    return ordered if own is None or own not in usable else [own, *(each for each in ordered if each is not own)]


def _kind(typ: t.Type) -> str:
    if typ in _INTEGERS:
        return "integer"
    return "fraction" if typ in t.FLOATS or isinstance(typ, t.Decimal) else ""


_WIDTHS: dict[t.Type, int] = {
    typ: width for width, typ in enumerate((*t.UNSIGNED, *t.SIGNED, t.FLOAT16, t.FLOAT32, t.FLOAT64))
}


def _stored_records(typ: t.Record, column: pa.Array, path: Path, types_at: TypesAt) -> list[Part]:
    children = column.flatten()
    fields = [_stored(f.type, child, (*path, f.name), types_at) for f, child in zip(typ.fields, children, strict=True)]
    parts = records([f.name for f in typ.fields], fields, len(column))
    if not column.null_count:
        return parts
    nulls = np.flatnonzero(column.is_null().to_numpy(zero_copy_only=False))
    shape = parts[0].shape
    kept = [_without(part, nulls) for part in parts]
    return merged(
        [*(part for part in kept if len(part.rows)), Part(shape, to_arrow(shape, [None] * len(nulls)), nulls)]
    )


def _without(part: Part, rows: Rows) -> Part:
    kept = ~np.isin(part.rows, rows)
    return part if kept.all() else Part(part.shape, part.column.filter(pa.array(kept)), part.rows[kept])


def _stored_lists(typ: t.Array, column: pa.Array, types: Sequence[t.Type]) -> list[Part]:
    """Lists, whose elements become values of one type that the pool has in lists, if all of them do."""
    elements = [each.elem for each in types if isinstance(each, t.Array)]
    if typ in types or not elements:
        return [Part(typ, column, all_rows(column))]
    parts = _stored(typ.elem, column.flatten(), (), lambda _: elements)
    if len(parts) > 1 or (parts and parts[0].shape is t.NULL):
        return [Part(typ, column, all_rows(column))]
    elem, values = (parts[0].shape, parts[0].column) if parts else (elements[0], pa.array([], arrow_type(elements[0])))
    sizes = pc.fill_null(column.value_lengths(), 0).to_numpy(zero_copy_only=False)
    offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int32)
    mask = column.is_null() if column.null_count else None
    target = t.array(elem)
    array = pa.ListArray.from_arrays(pa.array(offsets), values, type=arrow_type(target), mask=mask)
    return [Part(target, array, all_rows(array))]


# ---- what stays as it is


def unchanged(form: TableForm, batch: Batch, columns: Sequence[tuple[Path, pa.Array]]) -> list[Mask]:
    """For each field, by its names in SQL, which records have the value already that a column sets, as SQL shows it.

    So a mixed field that is set to itself keeps its types, and a record that lacks it still does.
    """
    top = frozenset(names[0].lower() for names, _ in columns)
    shown = batch_in_form(replace(form.for_statement(top, frozenset()), is_numbered=False), batch)
    return [_same(_shown_at(form, shown, names), column) for names, column in columns]


def _shown_at(form: TableForm, shown: pa.RecordBatch, names: Path) -> pa.Array | None:
    """A column as SQL shows it, or a field inside of one; None if there is none."""
    column = form.column_at(names)
    if column is None or column.is_exact:
        return None
    array = next(shown.column(i) for i, name in enumerate(shown.schema.names) if name.lower() == names[0].lower())
    for name in names[1:]:
        inner = next(i for i in range(array.type.num_fields) if array.type.field(i).name.lower() == name.lower())
        array = array.flatten()[inner]
    return array


def _same(old: pa.Array | None, new: pa.Array) -> Mask:
    if old is None or old.type != new.type:
        return np.zeros(len(new), bool)
    if pa.types.is_nested(new.type):
        return np.array([one == other for one, other in zip(old.to_pylist(), new.to_pylist(), strict=True)], bool)
    both_null = pc.and_(old.is_null(), new.is_null())
    same: Mask = pc.or_(pc.fill_null(pc.equal(old, new), False), both_null).to_numpy(zero_copy_only=False)
    return same


# ---- from one type to another


def _converted(typ: t.Type, column: pa.Array, target: t.Type) -> tuple[Mask, pa.Array]:
    """Which values a type shows as they are, and the column in that type; a null is one of any type."""
    nulls: Mask = column.is_null().to_numpy(zero_copy_only=False)
    if typ in _INTEGERS and (target in _INTEGERS or target in (t.FLOAT64, t.DURATION)):
        physical = pa.int64() if target is t.DURATION else arrow_type(target)
        array = column.cast(physical, safe=False)
        return _within(column, physical) | nulls, array.cast(arrow_type(target))
    if not _may_show(typ, target):
        return nulls, pa.nulls(len(column), arrow_type(target))
    coded = column.dictionary_encode()
    data = [None if each is None else _shown(typ, each, target) for each in from_arrow(typ, coded.dictionary)]
    known = np.array([each is not None for each in data], bool)
    places = pc.fill_null(coded.indices, 0).to_numpy(zero_copy_only=False)
    fits: Mask = nulls | (known[places] if len(known) else nulls)
    return fits, to_arrow(target, data).take(coded.indices) if data else pa.nulls(len(column), arrow_type(target))


def _within(column: pa.Array, typ: pa.DataType) -> Mask:
    """Which integers another type of numbers has."""
    numbers = column.fill_null(0).to_numpy(zero_copy_only=False)
    own = np.iinfo(numbers.dtype)
    least, most = (-(1 << 53), 1 << 53) if pa.types.is_floating(typ) else _bounds(typ)
    within: Mask = (numbers >= max(least, int(own.min))) & (numbers <= min(most, int(own.max)))
    return within


def _bounds(typ: pa.DataType) -> tuple[int, int]:
    info = np.iinfo(typ.to_pandas_dtype())
    return int(info.min), int(info.max)


def _may_show(typ: t.Type, target: t.Type) -> bool:
    if typ is t.STRING:
        return target in (*_SHOWN_AS_TEXT, t.TIME, t.DATE) or isinstance(target, t.Enum)
    if typ is t.DATE:
        return target is t.TIME
    return t.is_number(typ) and t.is_number(target) and is_castable(target)


def _shown(typ: t.Type, data: object, target: t.Type) -> object:
    """The data of a type that show a value as it is; None if there are none."""
    value = Value(typ, data)
    if isinstance(target, t.Enum):
        return target.symbols.index(data) if data in target.symbols else None
    if target in (t.TIME, t.DATE) and typ is t.STRING and _DAY.match(str(data)) is None:
        return None
    cast = cast_primitive(value, target)
    if is_error(cast):
        return None
    if isinstance(typ, t.Decimal) and target in _DIGITS:  # as a constant with a fraction is written
        return cast.data if isinstance(data, Decimal) and len(data.as_tuple().digits) <= _DIGITS[target] else None
    if target in (t.TIME, t.DATE) and typ is t.STRING:
        return cast.data
    if typ is t.STRING:
        return cast.data if text_of(target, cast.data) == data else None
    if typ is t.DATE:
        return cast.data
    try:
        is_same = Decimal(text_of(typ, data)) == Decimal(text_of(target, cast.data))
    except ArithmeticError:
        is_same = text_of(typ, data) == text_of(target, cast.data)
    return cast.data if is_same else None


# ---- records


def records_with(settings: Sequence[Setting], length: int, types_at: TypesAt) -> list[Part]:
    """New records of fields."""
    return with_fields([], settings, length, types_at)


def with_fields(
    parts: Sequence[Part], settings: Sequence[Setting], length: int, types_at: TypesAt, above: Path = ()
) -> list[Part]:
    """Records with some of their fields set; all others stay as they are, in their types and their order.

    Rows that are in no part become records of these fields alone. The records are fields at the path `above`.
    """
    out: list[Part] = []
    missing = np.ones(length, bool)
    for part in parts:
        missing[part.rows] = False
        own = [(path, taken(values, part.rows, length)) for path, values in settings]
        out += moved(_set(part, own, len(part.rows), types_at, above), part.rows)
    rows = np.flatnonzero(missing)
    if len(rows):
        own = [(path, taken(values, rows, length)) for path, values in settings]
        out += moved(_set(None, own, len(rows), types_at, above), rows)
    return merged(out)


def _set(part: Part | None, settings: Sequence[Setting], length: int, types_at: TypesAt, above: Path) -> list[Part]:
    """The rows of a part, numbered from 0, with fields set."""
    fields: dict[str, list[Part]] = {}
    if part is not None:
        under = part.shape.under
        if not isinstance(under, t.Record):
            path = ".".join((*above, *settings[0][0]))
            raise InvalidInput(f"sql: {length} of the values have no field {path}, since they are not records")
        children = part.column.flatten() if under.fields else []
        fields = {f.name: [Part(f.type, c, all_rows(c))] for f, c in zip(under.fields, children, strict=True)}
    inner: dict[str, list[Setting]] = {}
    for (name, *rest), values in settings:
        if rest:
            inner.setdefault(name, []).append((tuple(rest), values))
            continue
        own = bare(fields[name][0].shape) if name in fields else None
        stored = [moved(_stored(v.shape, v.column, (*above, name), types_at, own), v.rows) for v in values]
        fields[name] = merged([each for parts in stored for each in parts])
    for name, below in inner.items():
        fields[name] = with_fields(fields.get(name, []), below, length, types_at, (*above, name))
    return records(list(fields), list(fields.values()), length)


def taken(parts: Sequence[Part], rows: Rows, length: int) -> list[Part]:
    """The parts of some rows, numbered from 0."""
    if len(rows) == length:
        return list(parts)
    places = np.full(length, -1, np.int64)
    places[rows] = np.arange(len(rows))
    out = []
    for part in parts:
        kept = places[part.rows] >= 0
        if kept.any():
            out.append(Part(part.shape, part.column.filter(pa.array(kept)), places[part.rows[kept]]))
    return out


def as_batch(parts: Sequence[Part], length: int) -> Batch:
    """Parts as a batch."""
    return Batch(tuple(parts), length)
