from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.engines.interp.functions.strings import levenshtein
from shoal.model.values import string

CASES = [
    ("lower", '"fOo"', '"foo"'),
    ("lower", '"BAz"(=s)', '"baz"'),
    ("lower", '"BaR"((string,int64))', '"bar"'),
    ("lower", "null(string)", "null(string)"),
    ("lower", "null(int64)", 'error({message:"lower: string arg required",on:null(int64)})'),
    ("lower", "1((string,int64))", 'error({message:"lower: string arg required",on:1})'),
    ("lower", '"İΑΣ"', '"iασ"'),
    ("upper", '"zed"', '"ZED"'),
    ("upper", '"ßéᾳ"', '"ßÉᾼ"'),
    ("upper", "1.", 'error({message:"upper: string arg required",on:1.})'),
    ("trim", '"  a b\\n "', '"a b"'),
    ("trim", '"foo   "((string,int64))', '"foo"'),
    ("trim", '"\\u0085a\\u001f"', '"a\\u001f"'),
    ("trim", "1.", 'error({message:"trim: string arg required",on:1.})'),
    ("rune_len", '"😎"((int64,string))', "1"),
    ("rune_len", "null(string)", "0"),
    ("rune_len", "1.", 'error({message:"rune_len: string arg required",on:1.})'),
    ("replace", '"bann" "n" "na"', '"banana"'),
    ("replace", '"oink oink" "oink"((string,int64)) "moo"', '"moo moo"'),
    ("replace", '"ab" "" "-"', '"-a-b-"'),
    ("replace", 'null(string) "a" "b"', "null"),
    ("replace", '"a" null(string) "b"', 'error("replace: an input arg is null")'),
    ("replace", '"a" "b" 5', 'error({message:"replace: string arg required",on:5})'),
    ("split", '"a,b,c" ","((int64,string))', '["a","b","c"]'),
    ("split", '"aé" ""', '["a","é"]'),
    ("split", '"" ","', '[""]'),
    ("split", 'null(string) ","', "null([string])"),
    ("split", '1. ""', 'error({message:"split: string arg required",on:1.})'),
    ("split", 'error("missing") ""', 'error({message:"split: string arg required",on:error("missing")})'),
    ("join", '["a","b"] ", "', '"a, b"'),
    ("join", '["a","b"]', '"ab"'),
    ("join", '["a",null(string),"c"] "-"((int64,string))', '"a--c"'),
    ("join", 'null([string]) "-"', '""'),
    ("join", '"join" ","', 'error({message:"join: array of string arg required",on:"join"})'),
    ("join", '|["a"]| ","', 'error({message:"join: array of string arg required",on:|["a"]|})'),
    ("join", '["a"] ["b"]', 'error({message:"join: separator must be string",on:["b"]})'),
    ("levenshtein", '"kitten" "sitting"', "3"),
    ("levenshtein", '"kitten" null(string)', "6"),
    ("levenshtein", '"" "abc"', "3"),
    ("levenshtein", '"é" "e"', "1"),
    ("levenshtein", '1 "kitten"', 'error({message:"levenshtein: string args required",on:1})'),
]


@pytest.mark.parametrize("name, args, expected", CASES)
def test_strings(call: Callable[[str, str], str], name: str, args: str, expected: str) -> None:
    assert call(name, args) == expected


def plain_distance(a: str, b: str) -> int:
    row = list(range(len(b) + 1))
    for i, x in enumerate(a):
        before, row = row, [i + 1]
        for j, y in enumerate(b):
            row.append(min(before[j] + (x != y), before[j + 1] + 1, row[j] + 1))
    return row[-1]


_letters = st.text("abc", max_size=12)


@given(_letters, _letters)
def test_the_distance_is_that_of_the_table(a: str, b: str) -> None:
    assert levenshtein(string(a), string(b)).data == plain_distance(a, b)


def test_the_distance_of_long_strings_takes_no_time() -> None:
    assert levenshtein(string("ab" * 10_000), string("ba" * 10_000)).data == 2
