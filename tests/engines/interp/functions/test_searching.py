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
