from __future__ import annotations

from collections.abc import Callable

import pytest

CASES = [
    ("parse_zson", '"{a:1,b:80(port=uint16)}"', "{a:1,b:80(port=uint16)}"),
    ("parse_zson", "null(string)", "null"),
    ("parse_zson", '" "', "null"),
    ("parse_zson", '"1 2"', "1"),
    ("parse_zson", "{}", 'error({message:"parse_zson: string arg required",on:{}})'),
    ("parse_zson", '"!"', 'error({message:"parse_zson: ZSON syntax error",on:"!"})'),
]


@pytest.mark.parametrize("name, args, expected", CASES)
def test_texts(call: Callable[[str, str], str], name: str, args: str, expected: str) -> None:
    assert call(name, args) == expected
