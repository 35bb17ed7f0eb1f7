from __future__ import annotations

from collections.abc import Callable

import pytest

CASES = [
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


@pytest.mark.parametrize("name, args, expected", CASES)
def test_any_values(call: Callable[[str, str], str], name: str, args: str, expected: str) -> None:
    assert call(name, args) == expected
