"""Physical types in SQL: those of `formats.physical`, by the names that DuckDB has for them."""

from __future__ import annotations

from sqlglot import exp

from shoal.engines.sql import build
from shoal.engines.sql.build import Sql
from shoal.engines.sql.nodes import Const, Leaf, NotColumnar
from shoal.model import types as t
from shoal.model.values import Value
from shoal.model.zcode import encode_type

_PRIMITIVES = {
    t.UINT8: "UTINYINT", t.UINT16: "USMALLINT", t.UINT32: "UINTEGER", t.UINT64: "UBIGINT",
    t.INT8: "TINYINT", t.INT16: "SMALLINT", t.INT32: "INTEGER", t.INT64: "BIGINT",
    t.DURATION: "BIGINT", t.TIME: "BIGINT",
    t.FLOAT16: "FLOAT", t.FLOAT32: "FLOAT", t.FLOAT64: "DOUBLE",
    t.BOOL: "BOOLEAN", t.STRING: "VARCHAR", t.NULL: "BOOLEAN",
    t.BYTES: "BLOB", t.IP: "BLOB", t.NET: "BLOB", t.TYPE: "BLOB",
}  # fmt: skip


def sql_type(typ: t.Type) -> str:
    """The name of the physical type of a primitive, or of a list of them; others are passed on as they are."""
    under = typ.under
    if isinstance(under, t.Error):
        return sql_type(under.inner)
    if isinstance(under, t.Enum):
        return "INTEGER"
    if isinstance(under, t.Array | t.Set):
        return f"{sql_type(under.elem)}[]"
    if under not in _PRIMITIVES:
        raise NotColumnar("a constant that is not primitive")
    return _PRIMITIVES[under]


def physical(node: Leaf | Const) -> Sql:
    """A value in its physical form."""
    return node.sql if isinstance(node, Leaf) else literal(node.value)


def literal(value: Value) -> Sql:
    """A known value in its physical form, of the exact type."""
    under = value.type.under
    if isinstance(under, t.Error):
        return literal(Value(under.inner, value.data))
    data = value.data
    if data is None:
        return build.null(_PRIMITIVES[under]) if under in _PRIMITIVES else build.NULL.copy()
    kind = sql_type(value.type)
    if isinstance(under, t.Array | t.Set):
        elements = [literal(Value(under.elem, item)) for item in data]
        return build.cast(exp.Array(expressions=elements), kind)
    if under is t.BOOL:
        return build.TRUE.copy() if data else build.FALSE.copy()
    if under is t.STRING:
        if "\0" in data:
            raise NotColumnar("a zero byte in a constant")
        return build.text(data)
    if under in t.FLOATS:
        return build.cast(build.text(repr(data)), kind)
    if isinstance(data, int):
        return build.cast(build.integer(data), kind)
    return build.call("unhex", build.text(_bytes(under, data).hex()))


def _bytes(typ: t.Type, data: object) -> bytes:
    if typ is t.TYPE:
        assert isinstance(data, t.Type)
        return encode_type(data)
    assert isinstance(data, bytes)
    if typ is t.IP:
        return (b"\4" if len(data) == 4 else b"\6") + data
    return data
