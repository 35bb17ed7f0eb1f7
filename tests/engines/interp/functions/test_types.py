from __future__ import annotations

from collections.abc import Callable

import pytest

from shoal.testing.queries import answer, parse_values

TYPE_CASES = [
    ("typeof", "80(port=int16)", "<port=int16>"),
    ("typeof", 'error("missing")', "<error(string)>"),
    ("typeof", "<int64>", "<type>"),
    ("typeunder", "80(port=int16)", "<int16>"),
    ("typeunder", "1((int64,string))", "<(int64,string)>"),
    ("under", "80(port=int16)", "80(int16)"),
    ("under", 'error("foo")', '"foo"'),
    ("under", '"foo"((int64,string))', '"foo"'),
    ("under", "null((int64,string))", "null((int64,string))"),
    ("under", "<port=int16>", "<int16>"),
    ("under", "{a:1}", "{a:1}"),
    ("under", "null(type)", 'error("bad type value encoding")'),
    ("nameof", "80(port=int16)", '"port"'),
    ("nameof", "<foo={x:int64}>", '"foo"'),
    ("nameof", "<{x:int64}>(=bar)", '"bar"'),
    ("nameof", "<{x:int64}>", 'error("missing")'),
    ("nameof", "null(type)", 'error("missing")'),
    ("kind", "10.0.0.1", '"primitive"'),
    ("kind", "80(port=int16)", '"primitive"'),
    ("kind", "1((int64,string))", '"union"'),
    ("kind", "<{s:string}>", '"record"'),
    ("kind", "%heads(enum(heads,tails))", '"enum"'),
    ("kind", "null(error(null))", '"error"'),
    ("is", "1. <float64>", "true"),
    ("is", "1. <int64>", "false"),
    ("is", '"b" "string"', "true"),
    ("is", '1 "no type"', "false"),
    ("is", "1(uint32) 1", "false"),
    ("is", "null null(type)", "false"),
    ("is", '{s:"hello"}(=foo) <{s:string}>', "false"),
    ("typename", '"x" <int64>', "<int64>"),
    ("typename", '"x" 1', 'error({message:"typename: second argument not a type value",on:1})'),
    ("typename", '"x" null(type)', 'error("bad type value encoding")'),
    ("typename", "1", 'error({message:"typename: first argument not a string",on:1})'),
    ("typename", '"a name that no type has"', 'error("missing")'),
]


@pytest.mark.parametrize("name, args, expected", TYPE_CASES)
def test_types_and_names(call: Callable[[str, str], str], name: str, args: str, expected: str) -> None:
    assert call(name, args) == expected


def test_a_name_stands_for_the_type_of_this_name_that_came_last() -> None:
    text = '1(foo=int64) "x"(foo=string) 2'
    assert answer('yield typename("foo")', text) == "<foo=int64>\n<foo=string>\n<foo=string>"
    assert answer('yield is(this, "foo")', text) == "true\ntrue\nfalse"


def test_a_name_of_another_query_is_not_known() -> None:
    held = parse_values("1(elsewhere=int64)")
    assert answer('yield typename("elsewhere")', "1") == 'error("missing")'
    assert held


SHAPING_CASES = [
    ("cast", '"10.0.0.1" <ip>', "10.0.0.1"),
    ("cast", "1 <ip>", 'error({message:"cannot cast to ip",on:1})'),
    ("cast", '{a:1} "foo"', "{a:1}(=foo)"),
    ("cast", '1 "uint64"', 'error("bad type name \\"uint64\\": primitive type name")'),
    ("cast", "1 2", 'error({message:"shaper type argument is not a type",on:2})'),
    ("cast", 'error("x") <ip>', 'error("x")'),
    ("cast", "1 null(type)", 'error("bad type value encoding")'),
    ("crop", "{a:1,b:2} <{a:int64}>", "{a:1}"),
    ("crop", '{a:1} "foo"', 'error({message:"shaper type argument is not a type",on:"foo"})'),
    ("fill", "{a:1} <{a:int64,b:string}>", "{a:1,b:null(string)}"),
    ("fit", "{a:1,b:2} <{a:int64,c:ip}>", "{a:1,c:null(ip)}"),
    ("order", '{c:0,a:1,b:"foo"} <{}>', '{a:1,b:"foo",c:0}'),
    ("shape", '{b:"1"} <{a:ip,b:int64}>', "{a:null(ip),b:1}"),
]


@pytest.mark.parametrize("name, args, expected", SHAPING_CASES)
def test_shapes(call: Callable[[str, str], str], name: str, args: str, expected: str) -> None:
    assert call(name, args) == expected


PARSING_CASES = [
    ("parse_zson", '"{a:1,b:80(port=uint16)}"', "{a:1,b:80(port=uint16)}"),
    ("parse_zson", "null(string)", "null"),
    ("parse_zson", '" "', "null"),
    ("parse_zson", '"1 2"', "1"),
    ("parse_zson", "{}", 'error({message:"parse_zson: string arg required",on:{}})'),
    ("parse_zson", '"!"', 'error({message:"parse_zson: ZSON syntax error",on:"!"})'),
]


@pytest.mark.parametrize("name, args, expected", PARSING_CASES)
def test_texts(call: Callable[[str, str], str], name: str, args: str, expected: str) -> None:
    assert call(name, args) == expected


VALUE_CASES = [
    ("coalesce", 'null error("missing") error("quiet") 1', "1"),
    ("coalesce", 'null(string) "foo"((uint64,string))', '"foo"((uint64,string))'),
    ("coalesce", 'error("missing")(=missing) 2020(=port)', "2020(=port)"),
    ("coalesce", "null(int64)", "null"),
    ("compare", "2 1", "1"),
    ("compare", '2 "1"', "-1"),
    ("compare", "0 0.", "0"),
    ("compare", "null 2", "1"),
    ("compare", "null 2 false", "-1"),
    ("compare", "null 2 null(bool)", "-1"),
    ("compare", 'null 2 "error"', 'error({message:"compare: nullsMax arg is not bool",on:"error"})'),
    ("len", "[1,2,3]", "3"),
    ("len", "|{1:1,2:2}|", "2"),
    ("len", "null({a:int64})", "1"),
    ("len", "null([int64])", "0"),
    ("len", "null", "0"),
    ("len", '"é"', "2"),
    ("len", "0x0123((bytes,string))", "2"),
    ("len", "1::/8", "32"),
    ("len", "<{x:int64,y:int64}>", "2"),
    ("len", "<[any=(int64,string)]>", "2"),
    ("len", "<|{string:{a:ip}}|>", "1"),
    ("len", "<enum(a,b,c)>", "3"),
    ("len", "null(type)", 'error("bad type value encoding")'),
    ("len", 'error("x")', 'error({message:"len()",on:error("x")})'),
    ("len", "1(=port)", 'error({message:"len: bad type",on:1})'),
    (
        "len",
        "null((int64,string))",
        'error({message:"len: bad type",on:null((int64,string))})(error({message:string,on:(int64,string)}))',
    ),
]


@pytest.mark.parametrize("name, args, expected", VALUE_CASES)
def test_any_values(call: Callable[[str, str], str], name: str, args: str, expected: str) -> None:
    assert call(name, args) == expected
