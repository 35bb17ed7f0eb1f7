"""ZSON text: what is printed is exact, and what is written by hand is understood."""

from __future__ import annotations

import pytest

from shoal.errors import InvalidInput
from shoal.model import types as t
from shoal.model.parse import Parser, parse_value
from shoal.model.text import Formatter, format_value
from shoal.model.values import Value

SAME = """
1
1(uint8)
null(ip)
{x:1}(=foo)
{a:80(port=uint16),b:81(port)}
{a:{b:1(=inner)}(=outer)}
1((int64,string))
1.(float32)((float32,float64))
[1,"a",null]
[null,"foo",3]([(int64,string,null)])
|[null,null(int64),null(string)]|
|{1:"a",2:"b"}|
|{::1 :1}|
{m:|{"a":null(int64)}|}
{e:%HEADS(enum(HEADS,TAILS))}
error({message:"x",on:1})
<{a:port=uint16,b:port}>
{"a b":1,"":2}
[]([string])
"é\\n\\u0000\\""
{a:1}(="github.com/acme/foo.Bar")
null(union_named=(int64,string_named=string))
[{a:1},{a:"x"}]
{a:null,b:null(int64)}
0x00ff
"""


@pytest.mark.parametrize("text", SAME.split("\n")[1:-1])
def test_canonical_text_is_printed_as_it_was_read(text: str) -> None:
    assert format_value(parse_value(text)) == text


@pytest.mark.parametrize(
    "text, canonical",
    [
        ('{"a":1,\n// comment\n b: /* another */ 2,}', "{a:1,b:2}"),
        ("`raw \\ text`", '"raw \\\\ text"'),
        ("|[3,1,2,1]|", "|[1,2,3]|"),
        ("[1,2]([uint8])", "[1(uint8),2(uint8)]"),
        ("1 (int8) (=tiny)", "1(tiny=int8)"),
        ('"\\u{1F600}\\/"', '"😀/"'),
        ("{a:1}({a:(int64,string)})", "{a:1((int64,string))}"),
        ("18446744073709551615(uint64)", "18446744073709551615(uint64)"),
        ("{x:3(uint8)}(=0)", "{x:3(uint8)}"),
        ("Inf", "+Inf"),
    ],
)
def test_other_spellings_are_understood(text: str, canonical: str) -> None:
    assert format_value(parse_value(text)) == canonical


@pytest.mark.parametrize(
    "text, error",
    [
        ("", "expected a value"),
        ("1 2", "expected one value"),
        ("{a:1", "expected ',' or '}' in a record, found the end"),
        ("{a 1}", "expected ':' after a field name, found '1}'"),
        ("300(uint8)", "300 is out of range of 'uint8'"),
        ("1.5(int64)", "type mismatch: 'float64' cannot be used as 'int64'"),
        ("true((int64,string))", "type 'bool' is not in union type '(int64,string)'"),
        ("%a", "enum symbols and integers beyond int64 need a decorator"),
        ("18446744073709551616", "need a decorator"),
        ("%c(enum(a,b))", "symbol 'c' not a member"),
        ("1(foo)", "no such type name: 'foo'"),
        ("{a:1,a:2}", "duplicate field 'a'"),
        ('"a\nb"', "expected a value"),
        ("0x0", "even number"),
        ("/* never ends", "the end of a comment"),
        ("1(string=uint8)", "primitive type name"),
        ("2262-12-01T00:00:00Z", "time out of range"),
    ],
)
def test_errors_say_what_was_expected(text: str, error: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        parse_value(text)
    assert error in str(caught.value)


def test_persistent_names_are_defined_once() -> None:
    formatter = Formatter(persist=lambda name: name == "port")
    value = parse_value("{a:80(port=uint16),b:1(other=uint8)}")
    assert formatter.format(value) == "{a:80(port=uint16),b:1(other=uint8)}"
    assert formatter.format(value) == "{a:80(port),b:1(other=uint8)}"


def test_a_name_in_a_type_value_holds_from_there_on() -> None:
    as_type, as_number = t.named("port", t.TYPE), t.named("port", t.UINT8)
    record = t.record([("x", t.array(as_type)), ("y", t.array(as_type))])
    values = [
        Value(record, ((), (as_number,))),
        Value(t.array(as_type), (as_number, t.INT64)),
        Value(t.record([("x", t.TYPE), ("y", t.named("port", t.INT64))]), (as_number, 3)),
        Value(t.record([("x", as_number), ("y", t.TYPE), ("z", as_number)]), (1, t.named("port", t.IP), 2)),
    ]
    for value in values:
        assert parse_value(format_value(value)) == value
    formatter, names = Formatter(persist=lambda name: True), dict[str, t.Type]()
    texts = [formatter.format(value) for value in values * 2]
    parsed = [Parser(text, names=names).value() for text in texts]
    assert parsed == values * 2
