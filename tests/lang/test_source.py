"""Errors point into the text of a program, in the file that it came from."""

from __future__ import annotations

import pytest

from shoal.lang.source import Part, Source, joined


def test_a_span_is_underlined_and_an_offset_gets_a_caret() -> None:
    source = Source([Part("", "yield x\n| cut yy")])
    assert str(source.error("bad", (10, 13))) == "bad at line 2, column 3:\n| cut yy\n  ~~~"
    assert str(source.error("bad", 10)) == "bad at line 2, column 3:\n| cut yy\n= ^ ==="


def test_a_span_over_several_lines_is_underlined_to_the_end_of_the_first() -> None:
    source = Source([Part("", "ab\ncd")])
    assert str(source.error("bad", (1, 5))) == "bad at line 1, column 2:\nab\n ~"


def test_an_error_at_the_very_end_has_a_mark() -> None:
    assert str(Source([Part("", "ab")]).error("bad", (2, 2))) == "bad at line 1, column 3:\nab\n  ~"


@pytest.mark.parametrize(
    ("position", "where"),
    [(0, "in a.zed at line 1, column 1"), (4, "in a.zed at line 2, column 2"), (6, "at line 1, column 1")],
)
def test_lines_are_counted_in_the_part_that_an_error_is_in(position: int, where: str) -> None:
    source = Source([Part("a.zed", "ab\ncd"), Part("", "yield 1")])
    assert source.text == "ab\ncd\nyield 1"
    error = source.error("bad", (position, position + 1))
    assert str(error).startswith(f"bad {where}:\n")
    assert (error.begin, error.end) == (position, position + 1)


def test_several_errors_are_one_that_points_at_the_first() -> None:
    source = Source([Part("", "ab")])
    both = joined([source.error("first", (0, 1)), source.error("second", (1, 2))])
    assert both.message == "first"
    assert (both.begin, both.end) == (0, 1)
    assert [line for line in str(both).splitlines() if "at line" in line] == [
        "first at line 1, column 1:",
        "second at line 1, column 2:",
    ]
