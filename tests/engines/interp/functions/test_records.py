from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given

from shoal.engines.interp.functions.records import flatten, nest_dotted, unflatten
from shoal.model import types as t
from shoal.model.values import NULL, Value, array, is_error, record, string
from shoal.testing.strategies import records

CASES = [
    ("fields", "{a:1,b:{c:2,d:{}}}", '[["a"],["b","c"]]'),
    ("fields", "null({a:int64})", '[["a"]]'),
    ("fields", "{a:1}((string,{a:int64}))", '[["a"]]'),
    ("fields", "<r={a:r2={b:int64}}>", '[["a","b"]]'),
    ("fields", "<int64>", 'error("missing")'),
    ("fields", "1", 'error("missing")'),
    ("flatten", "127.0.0.1", "127.0.0.1"),
    (
        "flatten",
        '{a:1,b:{c:"foo",d:[1]}}',
        '[{key:["a"],value:1},{key:["b","c"],value:"foo"},{key:["b","d"],value:[1]}]',
    ),
    ("flatten", "{a:1,b:{c:2}}", '[{key:["a"],value:1},{key:["b","c"],value:2}]'),
    ("flatten", "{foo:null({bar:int32})}", '[{key:["foo"],value:null({bar:int32})}]'),
    ("flatten", "null({a:int64})", '[{key:["a"],value:null(int64)}]'),
    ("flatten", "{}", "[]"),
    ("unflatten", '[{key:"a",value:1},{key:["b"],value:2}]', "{a:1,b:2}"),
    ("unflatten", '[{key:["a","b"],value:0},{key:["a","c"],value:"x"},{key:["d"],value:1}]', '{a:{b:0,c:"x"},d:1}'),
    ("unflatten", '[{key:["a","b"],value:0},{key:["a"],value:1}]', "{a:1}"),
    ("unflatten", '[{key:["a"],value:0},{key:["a","b"],value:1}]', "{a:{b:1}}"),
    ("unflatten", '[1,{value:2,key:"a"},{key:1}]', "{a:2}"),
    ("unflatten", "[]", "{}"),
    ("unflatten", "1", "1"),
    (
        "unflatten",
        "[{key:1,value:2}]",
        'error({message:"invalid key type int64: expected either string or [string]",on:{key:1,value:2}})',
    ),
    (
        "unflatten",
        '[{key:"a",value:1},{key:"b",value:1},{key:"a",value:1}]',
        'error({message:"duplicate field: \\"a\\"",on:[{key:"a",value:1},{key:"b",value:1},{key:"a",value:1}]})',
    ),
    ("nest_dotted", '{"a.b.c":"foo"}', '{a:{b:{c:"foo"}}}'),
    ("nest_dotted", '{a:1,"b.a":2,"b.b":3,"b.c.a":4,c:5}', "{a:1,b:{a:2,b:3,c:{a:4}},c:5}"),
    ("nest_dotted", "{a:1}(=foo)", "{a:1}(=foo)"),
    ("nest_dotted", "1", "1"),
    ("nest_dotted", 'null({"a.b":int64})', "null({a:{b:int64}})"),
    (
        "nest_dotted",
        '{"a.b":1,c:2,"a.d":3}',
        'error({message:"nest_dotted(): fields in record a must be adjacent",on:{"a.b":1,c:2,"a.d":3}})',
    ),
    ("nest_dotted", '{a:1,"a.b":2}', 'error({message:"nest_dotted(): duplicate field: \\"a.b\\"",on:{a:1,"a.b":2}})'),
    ("nest_dotted", '{"a.b":2,a:1}', 'error({message:"nest_dotted(): duplicate field: \\"a\\"",on:{"a.b":2,a:1}})'),
]


@pytest.mark.parametrize("name, args, expected", CASES)
def test_records(call: Callable[[str, str], str], name: str, args: str, expected: str) -> None:
    assert call(name, args) == expected


@given(records())
def test_unflatten_undoes_flatten(value: Value) -> None:
    flat = flatten(value)
    if value.type.has_float or any(not isinstance(f, t.Record) for f in _empty_records(value.type)):
        return
    assert unflatten(flat) == value


def _empty_records(typ: t.Type) -> list[t.Type | None]:
    """A None for each empty record in a type, which leaves nothing behind; names are lost, too."""
    if isinstance(typ, t.Named) and isinstance(typ.under, t.Record):
        return [None]
    if not isinstance(typ, t.Record):
        return []
    return [None] if not typ.fields else [x for c in typ.children() for x in _empty_records(c)]


def test_a_path_of_any_length_is_just_an_error() -> None:
    deep = string(".".join("a" * 10_000))
    assert is_error(nest_dotted(record([(deep.data, NULL)])))
    keys = array([string("a")] * 10_000)
    assert is_error(unflatten(array([record([("key", keys), ("value", NULL)])])))
