"""Hypothesis strategies for types, values, and JSON texts like those of logs.

To build a strategy takes longer than to draw from it, so each is built once.
"""

from __future__ import annotations

import json
from decimal import Context, Decimal
from functools import cache, lru_cache
from typing import Any

from hypothesis import strategies as st

from shoal.formats.json.reader import decode_line
from shoal.formats.json.writer import to_json
from shoal.model import types as t
from shoal.model.decimals import fit
from shoal.model.literals import DAYS, make_net, round_float
from shoal.model.values import Value
from shoal.model.zcode import Data, normal_map, normal_set

_text = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
_plain_names = st.sampled_from(["a", "b", "c", "ts", "_path", "id", "x1", "$"])
field_names = st.one_of(_plain_names, _plain_names, _text)
type_names = st.one_of(
    st.sampled_from(["port", "zenum", "foo.bar", "my_type", "T"]),
    _text.filter(lambda n: n not in t.PRIMITIVES and not n.isdigit()),
)
primitive_types = st.one_of(
    st.sampled_from([*t.PRIMITIVES.values(), t.DATE]),
    st.sampled_from([t.decimal(9, 2), t.decimal(18, 0), t.decimal(38, 10), t.decimal(2, 2)]),
)
_MOST_TYPES = 10_000
enums = st.lists(field_names, min_size=1, max_size=4, unique=True).map(t.enum)


@cache
def types(max_leaves: int = 6) -> st.SearchStrategy[t.Type]:
    """Any type."""
    return st.recursive(st.one_of(primitive_types, primitive_types, enums), _compose, max_leaves=max_leaves)


def _compose(inner: st.SearchStrategy[t.Type]) -> st.SearchStrategy[t.Type]:
    return st.one_of(
        record_types(inner),
        inner.map(t.array),
        inner.map(t.set_of),
        st.tuples(inner, inner).map(lambda kv: t.map_of(*kv)),
        st.lists(inner, min_size=1, max_size=3).map(t.union),
        inner.map(t.error),
        st.tuples(type_names, inner).map(lambda ni: t.named(*ni)),
    )


@cache
def record_types(inner: st.SearchStrategy[t.Type] | None = None, min_size: int = 0) -> st.SearchStrategy[t.Record]:
    """Record types whose fields are of `inner` types."""
    fields = st.tuples(field_names, types() if inner is None else inner)
    return st.lists(fields, min_size=min_size, max_size=4, unique_by=lambda f: f[0]).map(t.record)


@lru_cache(_MOST_TYPES)
def data_of(typ: t.Type) -> st.SearchStrategy[Data]:
    """Data of this type, sometimes null."""
    present = _present(typ)
    return st.one_of(present, present, present, st.none())


@cache
def values() -> st.SearchStrategy[Value]:
    """A value of any type."""
    return types().flatmap(lambda typ: data_of(typ).map(lambda data: Value(typ, data)))


@cache
def records() -> st.SearchStrategy[Value]:
    """A record that is not null."""
    return record_types(min_size=1).flatmap(lambda typ: _present(typ).map(lambda data: Value(typ, data)))


@lru_cache(_MOST_TYPES)
def _present(typ: t.Type) -> st.SearchStrategy[Data]:
    typ = typ.under
    match typ:
        case t.Record():
            return st.tuples(*(data_of(f.type) for f in typ.fields))
        case t.Array():
            return st.lists(data_of(typ.elem), max_size=3).map(tuple)
        case t.Set():
            elem = typ.elem
            return st.lists(data_of(elem), max_size=3).map(lambda d: normal_set(elem, d))
        case t.Map():
            key = typ.key
            entries = st.lists(st.tuples(data_of(key), data_of(typ.value)), max_size=3)
            return entries.map(lambda d: normal_map(key, d))
        case t.Union():
            members = typ.types
            tags = st.integers(0, len(members) - 1)
            return tags.flatmap(
                lambda i: st.none() if members[i] is t.NULL else data_of(members[i]).map(lambda d: (i, d))
            )
        case t.Enum():
            return st.integers(0, len(typ.symbols) - 1)
        case t.Error():
            return _present(typ.inner)
        case _:
            return _primitive_data(typ)


_WIDE = Context(prec=t.MAX_DIGITS)
_SIZES = {t.FLOAT16: 2, t.FLOAT32: 4, t.FLOAT64: 8}


@cache
def _primitive_data(typ: t.Type) -> st.SearchStrategy[Data]:
    if typ in t.INT_RANGES:
        low, high = t.INT_RANGES[typ]
        return st.one_of(
            st.integers(low, high), st.integers(max(low, -100), min(high, 100)), st.sampled_from((low, high))
        )
    if typ in t.FLOATS:
        size = _SIZES[typ]
        return st.floats().map(lambda f: round_float(f, size))
    if isinstance(typ, t.Decimal):
        scale, most = typ.scale, 10**typ.precision - 1
        numbers = st.one_of(st.integers(-most, most), st.integers(max(-most, -500), min(most, 500)))
        return numbers.map(lambda n: fit(Decimal(n).scaleb(-scale, _WIDE), typ))
    plain: dict[t.Type, st.SearchStrategy[Data]] = {
        t.DATE: st.one_of(st.integers(DAYS[0], DAYS[-1]), st.integers(-30_000, 60_000)),
        t.BOOL: st.booleans(),
        t.BYTES: st.binary(max_size=8),
        t.STRING: _text,
        t.IP: _ips,
        t.NET: _ips.flatmap(lambda ip: st.integers(0, 8 * len(ip)).map(lambda bits: make_net(ip, bits))),
        t.TYPE: types(3),
        t.NULL: st.none(),
    }
    return plain[typ]


_ips = st.one_of(st.binary(min_size=4, max_size=4), st.binary(min_size=16, max_size=16))


# ---- JSON as it comes

_numbers = st.one_of(
    st.integers(-(2**63), 2**63 - 1),
    st.integers(-5, 5),
    st.floats(allow_nan=False, allow_infinity=False).filter(lambda f: not f.is_integer()),
)
_scalars = st.one_of(st.none(), st.booleans(), _numbers, _text)
json_values: st.SearchStrategy[Any] = st.recursive(
    _scalars,
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(field_names, inner, max_size=4)),
    max_leaves=8,
)
json_records = st.dictionaries(field_names, json_values, max_size=5)


def json_line(value: Any) -> bytes:
    """Canonical JSON: no spaces, only necessary escapes, the shortest numbers."""
    return to_json(decode_line(json.dumps(value))).encode()


def csv_texts(cell: st.SearchStrategy[str], most_lines: int, one_odd_in: int) -> st.SearchStrategy[bytes]:
    """Tables of CSV with some cells. About one line in `one_odd_in` has another width; there may be noise as well."""
    quoted = cell.map(lambda text: '"' + text.replace('"', '""') + '"')
    raw = st.text(st.sampled_from('",\n\r a1\t\ufeff'), max_size=6)
    line_end = st.sampled_from(["\n", "\n", "\n", "\r\n", "\n\n", "\r\n\r\n"])
    plain = cell.filter(lambda text: not set(text) & set('",\r\n'))

    @st.composite
    def tables(draw: st.DrawFn) -> bytes:
        width = draw(st.integers(1, 4))
        kind = draw(st.sampled_from([plain, st.one_of(plain, quoted), st.one_of(plain, quoted, raw)]))
        text = draw(st.sampled_from(["", "", "", "\ufeff", "\n", "\r\n"]))
        for _ in range(draw(st.integers(0, most_lines))):
            count = width if draw(st.integers(0, one_odd_in - 1)) else draw(st.integers(1, 5))
            text += ",".join(draw(kind) for _ in range(count)) + draw(line_end)
        data = text.encode()
        cut = draw(st.sampled_from([0, 0, 0, 0, 1, 2]))
        return data[: len(data) - cut] + draw(st.sampled_from([b"", b"", b"", b"\xff", b'"', b"\r"]))

    return tables()
