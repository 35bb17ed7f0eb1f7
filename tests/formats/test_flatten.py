"""Flattening of records into columns."""

from __future__ import annotations

import pytest

from shoal.formats.flatten import columns, flatten, row
from shoal.model import types as t
from shoal.model.values import Value, int64, record, string

INNER = t.record([("b", t.INT64), ("c", t.STRING)])


def test_nested_fields_become_dotted_columns_in_order() -> None:
    value = record([("a", record([("b", int64(1)), ("c", string("x"))])), ("d", int64(2))])
    assert flatten(value) == (["a.b", "a.c", "d"], [t.INT64, t.STRING, t.INT64], [1, "x", 2])


def test_named_records_are_flattened_too() -> None:
    outer = t.named("outer", t.record([("a", t.named("inner", INNER))]))
    assert flatten(Value(outer, ((1, "x"),))) == (["a.b", "a.c"], [t.INT64, t.STRING], [1, "x"])


def test_a_null_nested_record_gives_null_for_each_of_its_leaves() -> None:
    typ = t.record([("a", INNER), ("d", t.INT64)])
    assert flatten(Value(typ, (None, 2)))[2] == [None, None, 2]


def test_a_null_record_gives_null_cells() -> None:
    assert flatten(Value(INNER, None)) == (["b", "c"], [t.INT64, t.STRING], [None, None])


def test_an_empty_nested_record_leaves_no_column() -> None:
    typ = t.record([("a", t.record([])), ("d", t.INT64)])
    assert flatten(Value(typ, ((), 2))) == (["d"], [t.INT64], [2])
    assert flatten(Value(typ, (None, 2))) == (["d"], [t.INT64], [2])


def test_unions_of_records_stay_whole() -> None:
    union = t.union([INNER, t.INT64])
    data = (union.tags[INNER], (1, "x"))
    assert flatten(Value(t.record([("u", union)]), (data,))) == (["u"], [union], [data])


def test_records_nest_as_deep_as_types_do() -> None:
    typ: t.Type = t.INT64
    data: object = 1
    for _ in range(100):
        typ, data = t.record([("a", typ)]), (data,)
    assert flatten(Value(typ, data)) == ([".".join("a" * 100)], [t.INT64], [1])


def test_the_columns_of_a_type_are_worked_out_once() -> None:
    assert columns(INNER) is columns(INNER)


def test_a_flat_record_gives_its_own_data_as_the_row() -> None:
    data = (1, "x")
    assert row(columns(INNER), data) is data


def test_flattening_anything_but_a_record_is_the_callers_mistake() -> None:
    with pytest.raises(TypeError):
        flatten(int64(1))
