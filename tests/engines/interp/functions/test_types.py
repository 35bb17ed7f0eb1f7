from __future__ import annotations

from collections.abc import Callable

import pytest

from shoal.testing.queries import answer, parse_values

CASES = [
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


@pytest.mark.parametrize("name, args, expected", CASES)
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
