from __future__ import annotations

from collections.abc import Callable

import pytest

CASES = [
    ("error", "{a:1}", "error({a:1})"),
    ("is_error", 'error("x")(=named)', "true"),
    ("is_error", '"x"', "false"),
    ("has_error", '{a:{b:"foo"}}', "false"),
    ("has_error", '{a:[1,error("x")]}', "true"),
    ("has_error", '|{1:error("x")}|', "true"),
    ("has_error", "null({a:error(string)})", "false"),
    ("has_error", "null(error(string))", "true"),
    ("quiet", 'error("missing")', 'error("quiet")'),
    ("quiet", 'error("missing")(=foo)', 'error("missing")(=foo)'),
    ("quiet", "1", "1"),
    ("has", "1 2", "true"),
    ("has", '1 error("missing")', "false"),
    ("has", 'error("quiet")', "false"),
    ("has", 'error("divide by zero") error("missing")', 'error("divide by zero")'),
    ("missing", '1 error("missing")', "true"),
    ("missing", "null", "false"),
    ("missing", 'error("x")', 'error("x")'),
]


@pytest.mark.parametrize("name, args, expected", CASES)
def test_errors_and_absence(call: Callable[[str, str], str], name: str, args: str, expected: str) -> None:
    assert call(name, args) == expected
