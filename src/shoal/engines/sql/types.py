"""Physical types in SQL: those of `formats.physical`, by the names that DuckDB has for them; errors around values."""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from shoal.engines.sql import build
from shoal.engines.sql.build import Sql
from shoal.engines.sql.nodes import Const, Leaf, Node, NotColumnar
from shoal.formats.columns.layouts import physical_names
from shoal.model import types as t
from shoal.model.text import format_primitive
from shoal.model.values import Value, structured_error
from shoal.model.zcode import Data, encode_type

_PRIMITIVES = {
    t.UINT8: "UTINYINT", t.UINT16: "USMALLINT", t.UINT32: "UINTEGER", t.UINT64: "UBIGINT",
    t.INT8: "TINYINT", t.INT16: "SMALLINT", t.INT32: "INTEGER", t.INT64: "BIGINT",
    t.DURATION: "BIGINT", t.TIME: "BIGINT", t.DATE: "DATE",
    t.FLOAT16: "FLOAT", t.FLOAT32: "FLOAT", t.FLOAT64: "DOUBLE",
    t.BOOL: "BOOLEAN", t.STRING: "VARCHAR", t.NULL: "BOOLEAN",
    t.BYTES: "BLOB", t.IP: "BLOB", t.NET: "BLOB", t.TYPE: "BLOB",
}  # fmt: skip


def sql_type(typ: t.Type) -> str:
    """The name of the physical type."""
    match typ.under:
        case t.Error(inner=inner):
            return sql_type(inner)
        case t.Enum():
            return "INTEGER"
        case t.Array(elem=elem) | t.Set(elem=elem):
            return f"{sql_type(elem)}[]"
        case t.Map(key=key, value=value):
            return f"{_struct(('key', 'value'), (key, value))}[]"
        case t.Record() as under:
            types = [f.type for f in under.fields]
            return _struct(physical_names(under), types) if types else "BOOLEAN"
        case t.Union(types=types):
            return _struct(("tag", *map(str, range(len(types)))), (t.INT16, *types))
        case t.Decimal() as under:
            return f"DECIMAL({under.precision}, {under.scale})"
        case t.Primitive() as under:
            return _PRIMITIVES[under]
    raise AssertionError(typ)


def _struct(names: Sequence[str], types: Sequence[t.Type]) -> str:
    fields = (
        f"{exp.to_identifier(name, quoted=True).sql('duckdb')} {sql_type(typ)}"
        for name, typ in zip(names, types, strict=True)
    )
    return f"STRUCT({', '.join(fields)})"


def physical(node: Leaf | Const) -> Sql:
    """A value in its physical form."""
    return node.sql if isinstance(node, Leaf) else literal(node.value)


def literal(value: Value) -> Sql:
    """A known value in its physical form, of the exact type."""
    under, data = value.type.under, value.data
    kind = sql_type(value.type)
    if data is None:
        return build.null(kind)
    match under:
        case t.Primitive():
            return _primitive(under, data, kind)
        case t.Error(inner=inner):
            return literal(Value(inner, data))
        case t.Enum():
            return build.cast(build.integer(data), kind)
        case t.Array(elem=elem) | t.Set(elem=elem):
            return _list([literal(Value(elem, d)) for d in data], kind)
        case t.Map(key=key, value=inner):
            return _list([_row(literal(Value(key, k)), literal(Value(inner, v))) for k, v in data], kind)
        case t.Record(fields=fields):
            parts = [literal(Value(f.type, d)) for f, d in zip(fields, data, strict=True)]
            return build.cast(_row(*parts), kind) if parts else build.TRUE.copy()
        case t.Union(types=types):
            tag, inner = data
            parts = [literal(Value(typ, inner if i == tag else None)) for i, typ in enumerate(types)]
            return build.cast(_row(build.integer(tag), *parts), kind)
    raise AssertionError(under)


def _row(*parts: Sql) -> Sql:
    return build.call("row", *parts)


def _list(parts: list[Sql], kind: str) -> Sql:
    return build.cast(exp.Array(expressions=parts), kind)


def _primitive(typ: t.Type, data: Data, kind: str) -> Sql:
    if typ is t.BOOL:
        return build.TRUE.copy() if data else build.FALSE.copy()
    if typ is t.STRING:
        if "\0" in data:
            raise NotColumnar("a zero byte in a constant")
        return build.text(data)
    if typ in t.FLOATS:
        return build.cast(build.text(repr(data)), kind)
    if typ is t.DATE or isinstance(typ, t.Decimal):
        return build.cast(build.text(format_primitive(typ, data)), kind)
    if isinstance(data, int):
        return build.cast(build.integer(data), kind)
    return build.call("unhex", build.text(_bytes(typ, data).hex()))


def _bytes(typ: t.Type, data: object) -> bytes:
    if typ is t.TYPE:
        assert isinstance(data, t.Type)
        return encode_type(data)
    assert isinstance(data, bytes)
    if typ is t.IP:
        return (b"\4" if len(data) == 4 else b"\6") + data
    return data


def failed(typ: t.Type) -> t.Type:
    """The type of an error around a value of a type."""
    if typ.depth > t.MAX_DEPTH - 2:
        raise NotColumnar("a value that nests deep")
    return t.error(t.record((("message", t.STRING), ("on", typ))))


def failure(message: str, node: Node) -> Node:
    """An error around a value."""
    if isinstance(node, Const):
        return Const(structured_error(message, node.value))
    if not isinstance(node, Leaf):
        raise NotColumnar("an error around a record")
    typ = failed(node.type)
    return Leaf(typ, build.cast(build.call("row", build.text(message), node.sql), sql_type(typ)))
