from __future__ import annotations

from collections.abc import Callable

import pytest

CASES = [
    ("grep", '"FOO" {s:"xfooy"}', "true"),
    ("grep", '"foo" {a:[{foo:1}]}', "true"),
    ("grep", '"a.b" {a:{b:1}}', "true"),
    ("grep", '"b.c" {a:{b:1}}', "false"),
    ("grep", '"10" {foo:10}', "false"),
    ("grep", '"foo" error({on:"foo"})', "true"),
    ("grep", '"É" "né"', "true"),
    ("grep", '"k" "\\u212a"', "false"),
    ("grep", '"" {a:1}', "true"),
    ("grep", '"a" null(string)', "false"),
    ("grep", '1 "x"', 'error({message:"grep(): pattern argument must be a string",on:1})'),
]


@pytest.mark.parametrize("name, args, expected", CASES)
def test_searches(call: Callable[[str, str], str], name: str, args: str, expected: str) -> None:
    assert call(name, args) == expected


REGEXP_CASES = [
    ("regexp", r'"foo(.?) (\\w+)" "seafood fool friend"', '["food fool","d","fool"]'),
    ("regexp", '"(a)|(b)" "b"', '["b",null(string),"b"]'),
    ("regexp", '"x" "abc"', "null([string])"),
    ("regexp", '"x" null(string)', "null([string])"),
    ("regexp", '"a("(=re) "a"', 'error("regexp: error parsing regexp: missing closing ): `a(`")'),
    ("regexp", '1 "a"', 'error({message:"regexp: string required for first arg",on:1})'),
    ("regexp", '"a" 1', 'error({message:"regexp: string required for second arg",on:1})'),
    ("regexp_replace", '"-ab-axxb-" "ax*b" "T"', '"-T-T-"'),
    ("regexp_replace", r'"option: value" "(?P<key>\\w+):\\s+(?P<value>\\w+)$" "$key=$value"', '"option=value"'),
    ("regexp_replace", 'null(string) "a" "b"', "null"),
    ("regexp_replace", '"foo" null(string) "b"', 'error("regexp_replace: 2nd and 3rd args cannot be null")'),
    (
        "regexp_replace",
        '"foo" "foo(.?" "b"',
        'error("regexp_replace: error parsing regexp: missing closing ): `foo(.?`")',
    ),
    ("regexp_replace", '4 5 ["foo"]', 'error({message:"regexp_replace: string arg required",on:4})'),
]


@pytest.mark.parametrize("name, args, expected", REGEXP_CASES)
def test_regular_expressions(call: Callable[[str, str], str], name: str, args: str, expected: str) -> None:
    assert call(name, args) == expected
