from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.engines.interp.functions.strings import ksuid, levenshtein
from shoal.model import types as t
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


BINARY_CASES = [
    ("base64", "0x010203", '"AQID"'),
    ("base64", '"aGVsbG8gd29ybGQ="', "0x68656c6c6f20776f726c64"),
    ("base64", '"aGVs\\nbG8="', "0x68656c6c6f"),
    ("base64", '"AQID"((string,int64))', "0x010203"),
    ("base64", '""', "0x"),
    ("base64", '"foo"', 'error({message:"base64: string argument is not base64",on:"foo"})'),
    ("base64", '"="', 'error({message:"base64: string argument is not base64",on:"="})'),
    ("base64", "null(string)", "null(bytes)"),
    ("base64", "null(bytes)", 'error("base64: illegal null argument")'),
    ("base64", "1", 'error({message:"base64: argument must a bytes or string type",on:1})'),
    ("hex", "0x0102ff", '"0102ff"'),
    ("hex", '"0102FF"', "0x0102ff"),
    ("hex", '"01 02"', 'error({message:"hex: string argument is not hexidecimal",on:"01 02"})'),
    ("hex", "null(bytes)", 'error("hex: illegal null argument")'),
    ("hex", "1", 'error({message:"base64: argument must a bytes or string type",on:1})'),
    ("ksuid", '"24eT188EIisOiwVWwmej1h9t4Ms"', "0x0e8afd4a5a0a2372e218818aa996ad96f5739dd2"),
    ("ksuid", "0x0e8afd4a5a0a2372e218818aa996ad96f5739dd2", '"24eT188EIisOiwVWwmej1h9t4Ms"'),
    ("ksuid", "null(bytes)", 'error("ksuid: illegal null argument")'),
    ("ksuid", "0x00", 'error({message:"ksuid: Valid KSUIDs are 20 bytes",on:0x00})'),
    ("ksuid", "null(string)", 'error({message:"ksuid: Valid encoded KSUIDs are 27 characters",on:null(string)})'),
    (
        "ksuid",
        '"zzzzzzzzzzzzzzzzzzzzzzzzzzz"',
        (
            'error({message:"ksuid: Valid encoded KSUIDs are bounded by 000000000000000000000000000'
            ' and aWgEPTl1tmebfsQzFP4bxwgy80V",on:"zzzzzzzzzzzzzzzzzzzzzzzzzzz"})'
        ),
    ),
    ("ksuid", "null", 'error({message:"ksuid: argument must a bytes or string type",on:null})'),
]


@pytest.mark.parametrize("name, args, expected", BINARY_CASES)
def test_texts_of_bytes(call: Callable[[str, str], str], name: str, args: str, expected: str) -> None:
    assert call(name, args) == expected


def test_a_new_ksuid_has_20_bytes() -> None:
    made = ksuid()
    assert made.type is t.BYTES
    assert len(made.data) == 20
