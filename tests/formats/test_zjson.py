from __future__ import annotations

import io
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.api.options import ReadOptions
from shoal.errors import InvalidInput
from shoal.formats.zjson.reader import read as read_values
from shoal.formats.zjson.writer import Writer
from shoal.model import types as t
from shoal.model.parse import parse_value
from shoal.model.text import format_value
from shoal.model.values import Value
from shoal.testing import strategies
from shoal.testing.samples import damaged, every_kind, every_kind_everywhere, written


def write(values: list[Value]) -> bytes:
    return written(Writer, values)


def read(data: bytes) -> list[Value]:
    return list(read_values(io.BytesIO(data), ReadOptions()))


def lines(*texts: str) -> list[str]:
    return write([parse_value(text) for text in texts]).decode().splitlines()


INT64 = '{"kind":"primitive","name":"int64"}'
STRING = '{"kind":"primitive","name":"string"}'
TYPE = '{"kind":"primitive","name":"type"}'
INNER = f'{{"kind":"record","id":30,"fields":[{{"name":"a","type":{INT64}}},{{"name":"b","type":{INT64}}}]}}'


def test_a_type_nests_and_its_parts_have_the_lower_ids() -> None:
    fields = f'[{{"name":"s","type":{STRING}}},{{"name":"r","type":{INNER}}}]'
    assert lines('{s:"hello",r:{a:1,b:2}}', '{s:"world",r:{a:3,b:4}}', "{a:1,b:2}") == [
        f'{{"type":{{"kind":"record","id":31,"fields":{fields}}},"value":["hello",["1","2"]]}}',
        '{"type":{"kind":"ref","id":31},"value":["world",["3","4"]]}',
        '{"type":{"kind":"ref","id":30},"value":["1","2"]}',
    ]


def test_a_null_is_a_json_null() -> None:
    field = '{"name":"ja3s","type":{"kind":"primitive","name":"int32"}}'
    assert lines("{ja3s:null(int32)}") == [f'{{"type":{{"kind":"record","id":30,"fields":[{field}]}},"value":[null]}}']


def test_a_type_value_shares_the_ids_of_its_stream() -> None:
    fields = f'[{{"name":"typeof","type":{TYPE}}},{{"name":"count","type":{{"kind":"primitive","name":"uint64"}}}}]'
    inner = f'{{"kind":"record","id":31,"fields":[{{"name":"a","type":{INT64}}}]}}'
    named = f'{{"kind":"named","id":32,"name":"myrecord","type":{inner}}}'
    assert lines("{typeof:<myrecord={a:int64}>,count:1(uint64)}", "<myrecord={a:int64}>") == [
        f'{{"type":{{"kind":"record","id":30,"fields":{fields}}},"value":[{named},"1"]}}',
        f'{{"type":{TYPE},"value":{{"kind":"ref","id":32}}}}',
    ]


@pytest.mark.parametrize(
    ("text", "typ", "value"),
    [
        ("{}", '{"kind":"record","id":30,"fields":[]}', "[]"),
        ("[1]", f'{{"kind":"array","id":30,"type":{INT64}}}', '["1"]'),
        ("|[1]|", f'{{"kind":"set","id":30,"type":{INT64}}}', '["1"]'),
        ('|{"a":1}|', f'{{"kind":"map","id":30,"key_type":{STRING},"val_type":{INT64}}}', '[["a","1"]]'),
        ('"foo"((string,int64))', f'{{"kind":"union","id":30,"types":[{INT64},{STRING}]}}', '["1","foo"]'),
        ("%b(enum(a,b))", '{"kind":"enum","id":30,"symbols":["a","b"]}', '"1"'),
        ('error("x")', f'{{"kind":"error","id":30,"type":{STRING}}}', '"x"'),
        ("1(n=int64)", f'{{"kind":"named","id":30,"name":"n","type":{INT64}}}', '"1"'),
        ("0x00ff", '{"kind":"primitive","name":"bytes"}', '"0x00ff"'),
        ("64.", '{"kind":"primitive","name":"float64"}', '"64."'),
        ("1h", '{"kind":"primitive","name":"duration"}', '"1h"'),
        ('"é\\n\\"<"', STRING, '"é\\n\\"<"'),
        ("null", '{"kind":"primitive","name":"null"}', "null"),
    ],
)
def test_each_kind_of_type_has_its_spelling(text: str, typ: str, value: str) -> None:
    assert lines(text) == [f'{{"type":{typ},"value":{value}}}']


def test_values_of_every_kind_round_trip_in_one_stream() -> None:
    values = every_kind_everywhere()
    assert list(map(format_value, read(write(values)))) == list(map(format_value, values))
    assert read(write(values)) == values


@given(st.lists(strategies.values(), max_size=4))
def test_any_values_round_trip(values: list[Value]) -> None:
    assert read(write(values)) == values


@pytest.mark.parametrize(
    "make", [t.array, t.error, lambda typ: t.map_of(t.INT64, typ), lambda typ: t.record([("f", typ)])]
)
def test_types_as_deep_as_any_round_trip(make: object) -> None:
    typ: t.Type = t.INT64
    while typ.depth < t.MAX_DEPTH:
        typ = make(typ)  # type: ignore[operator]
    values = [Value(typ, None), Value(t.TYPE, typ)]
    assert read(write(values)) == values


def test_a_value_as_deep_as_any_round_trips() -> None:
    typ: t.Type = t.INT64
    data: object = 1
    while typ.depth < t.MAX_DEPTH:
        typ, data = t.map_of(t.INT64, typ), ((1, data),)
    assert read(write([Value(typ, data)])) == [Value(typ, data)]


def test_a_type_nested_too_deep_is_refused() -> None:
    typ = INT64
    for i in range(30, 30 + t.MAX_DEPTH):
        typ = f'{{"kind":"array","id":{i},"type":{typ}}}'
    with pytest.raises(InvalidInput, match="line 1: type nests deeper than 128 levels"):
        read(f'{{"type":{typ},"value":null}}'.encode())


def test_union_tags_count_in_the_order_of_their_definition() -> None:
    backward = f'{{"kind":"union","id":30,"types":[{STRING},{INT64}]}}'
    forward = f'{{"kind":"union","id":31,"types":[{INT64},{STRING}]}}'
    stream = (
        f'{{"type":{backward},"value":["0","x"]}}\n'
        f'{{"type":{forward},"value":["0","1"]}}\n'
        '{"type":{"kind":"ref","id":30},"value":["1","1"]}\n'
        f'{{"type":{{"kind":"array","id":32,"type":{{"kind":"ref","id":30}}}},"value":[["0","y"],null]}}\n'
    )
    assert list(map(format_value, read(stream.encode()))) == [
        '"x"((int64,string))',
        "1((int64,string))",
        "1((int64,string))",
        '["y",null]([(int64,string)])',
    ]


def test_sets_and_maps_are_put_in_canonical_order() -> None:
    stream = (
        f'{{"type":{{"kind":"set","id":30,"type":{INT64}}},"value":["2","1","2"]}}\n'
        f'{{"type":{{"kind":"map","id":31,"key_type":{INT64},"val_type":{INT64}}},"value":[["2","0"],["1","1"],["2","2"]]}}'
    )
    assert list(map(format_value, read(stream.encode()))) == ["|[1,2]|", "|{1:1,2:2}|"]


def test_two_streams_may_follow_each_other() -> None:
    first, second = [parse_value("{a:1}")], [parse_value('["x"]')]
    assert read(write(first) + write(second)) == first + second


def test_windows_line_ends_and_a_missing_last_one_are_fine() -> None:
    assert read(write(every_kind()).replace(b"\n", b"\r\n").rstrip()) == every_kind()


def of_type(typ: str, value: str) -> str:
    return f'{{"type":{typ},"value":{value}}}'


def primitive(name: str, value: str) -> str:
    return of_type(f'{{"kind":"primitive","name":"{name}"}}', value)


RECORD = f'{{"kind":"record","id":30,"fields":[{{"name":"a","type":{INT64}}}]}}'
UNION = f'{{"kind":"union","id":30,"types":[{INT64},{STRING}]}}'
MALFORMED = [
    ("", 'malformed ZJSON: bad type object: ""'),
    ("{", "malformed ZJSON"),
    ("1", 'expected an object of "type" and "value"'),
    ('{"type":1}', 'expected an object of "type" and "value"'),
    ('{"type":"x","value":1,"more":2}', 'expected an object of "type" and "value"'),
    (of_type('"int64"', '"1"'), "expected a type, an object with a kind, got 'int64'"),
    (of_type("{}", '"1"'), "expected a kind of type, got null"),
    (of_type('{"kind":["record"]}', '"1"'), "expected a kind of type, got an array"),
    (of_type('{"kind":"ref","id":30}', "[]"), "type id 30 is used before its definition"),
    (of_type('{"kind":"ref","id":"30"}', "[]"), "expected a type id"),
    (of_type('{"kind":"ref","id":true}', "[]"), "expected a type id"),
    (of_type('{"kind":"array","id":9,"type":null}', "[]"), "expected a type id, an integer from 30 up, got 9"),
    (of_type('{"kind":"array","id":30}', "[]"), "expected a type"),
    (of_type('{"kind":"record","id":30}', "[]"), "expected an array as 'fields'"),
    (of_type('{"kind":"record","id":30,"fields":[1]}', "[]"), "expected a field"),
    (of_type(f'{{"kind":"record","id":30,"fields":[{{"name":1,"type":{INT64}}}]}}', "[]"), "string as 'name'"),
    (of_type('{"kind":"union","id":30,"types":[]}', "null"), "a union needs at least one type"),
    (of_type('{"kind":"enum","id":30,"symbols":[1]}', '"0"'), "symbols of an enum to be strings"),
    (of_type('{"kind":"enum","id":30,"symbols":["a"]}', '"1"'), "position of an enum's symbol"),
    (of_type('{"kind":"enum","id":30,"symbols":["a"]}', "0"), "position of an enum's symbol"),
    (of_type(f'{{"kind":"named","id":30,"name":"int64","type":{INT64}}}', '"1"'), "bad type name"),
    (of_type(RECORD, "[]"), "expected 1 values for a record, got 0"),
    (of_type(RECORD, '["1","2"]'), "expected 1 values for a record, got 2"),
    (of_type(RECORD, '{"a":"1"}'), "expected a JSON array for a record, got an object"),
    (of_type(UNION, '["2","1"]'), "the tag of a union, a string of a number below 2"),
    (of_type(UNION, '["-1","1"]'), "the tag of a union"),
    (of_type(UNION, '["0"]'), "a pair of tag and value"),
    (of_type(f'{{"kind":"map","id":30,"key_type":{INT64},"val_type":{INT64}}}', '[["1"]]'), "pairs of key and value"),
    (primitive("int65", '"1"'), "name of a primitive type, got 'int65'"),
    (primitive("int64", "1"), "expected a string of type int64, got 1"),
    (primitive("int64", '"1.5"'), "not a decimal number"),
    (primitive("int64", '"١"'), "not a decimal number"),
    (primitive("uint8", '"256"'), "out of range"),
    (primitive("int8", '"-129"'), "out of range"),
    (primitive("int64", '"' + "9" * 10000 + '"'), "expected a string of type int64"),
    (primitive("float64", '"1e999"'), "out of range"),
    (primitive("float64", '"x"'), "expected a string of type float64, got 'x'"),
    (primitive("float64", '"' + "1" * 1000000 + 'x"'), "expected a string of type float64"),
    (primitive("bool", '"yes"'), "neither true nor false"),
    (primitive("bytes", '"0x0"'), "expected a string of 0x and hexadecimal digits"),
    (primitive("bytes", '"00"'), "expected a string of 0x and hexadecimal digits"),
    (primitive("string", "1"), "expected a JSON string for a string"),
    (primitive("ip", '"1.2.3"'), "expected a string of type ip"),
    (primitive("net", '"1.2.3.4/33"'), "expected a string of type net"),
    (primitive("time", '"2022-13-01T00:00:00Z"'), "expected a string of type time"),
    (primitive("duration", '"1"'), "expected a string of type duration"),
    (primitive("type", '"int64"'), "expected a type"),
    (primitive("null", '"x"'), "expected null"),
]


@pytest.mark.parametrize(("line", "message"), MALFORMED)
def test_a_malformed_line_is_named_with_what_was_expected(line: str, message: str) -> None:
    good = of_type(INT64, '"1"')
    values = read_values(io.BytesIO(f"{good}\n{line}\n".encode()), ReadOptions())
    assert next(values) == parse_value("1")
    with pytest.raises(InvalidInput) as caught:
        next(values)
    assert str(caught.value).startswith("line 2: ")
    assert message in str(caught.value)


def test_damaged_files_give_values_or_a_typed_error() -> None:
    messages, survivors = [], 0
    for bad in damaged(write(every_kind()), 1000, seed=1):
        try:
            values = read(bad)
        except InvalidInput as e:
            messages.append(str(e))
        else:
            assert read(write(values)) == values
            survivors += 1
    assert all(message.startswith("line ") for message in messages)
    assert messages
    assert survivors


def test_every_line_is_json() -> None:
    for line in write(every_kind_everywhere()).splitlines():
        assert list(json.loads(line)) == ["type", "value"]
