from __future__ import annotations

from collections.abc import Callable

import pytest

CASES = [
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


@pytest.mark.parametrize("name, args, expected", CASES)
def test_shapes(call: Callable[[str, str], str], name: str, args: str, expected: str) -> None:
    assert call(name, args) == expected
