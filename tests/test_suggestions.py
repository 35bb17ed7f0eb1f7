"""Hints for words that are nearly right."""

from __future__ import annotations

import pytest

from shoal.engines.tables.statements import Statement
from shoal.errors import InvalidInput
from shoal.lang.functions import signature
from shoal.suggestions import did_you_mean


def test_a_word_that_is_close_is_named() -> None:
    assert did_you_mean("qurey", ["query", "load"]) == " (did you mean query?)"
    assert did_you_mean("elephant", ["query", "load"]) == ""
    assert did_you_mean("p1", ["p2"]) == ""
    assert did_you_mean("LOGS", ["logs"]) == " (did you mean logs?)"
    assert did_you_mean("query", ["query"]) == ""


def test_long_words_and_many_names_take_no_time() -> None:
    names = [f"{number}{'x' * 10_000}" for number in range(10_000)]
    assert did_you_mean("y" * 10_000_000, names) == did_you_mean("x" * 50, names) == ""


def test_functions_are_suggested() -> None:
    with pytest.raises(InvalidInput, match=r"^no such function \(did you mean lower\?\)$"):
        signature("lowwer")
    with pytest.raises(InvalidInput, match=r"^no such function$"):
        signature("zebra")


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("selec *", "syntax error at line 1, column 7, near '*' (did you mean select?)"),
        ("select * frm a", "syntax error at line 1, column 14, near 'a'"),
        ("select (1", "Expecting ) at line 1, column 9, near '1'"),
        ("select *\nfrom a where", "syntax error at line 2, column 8, near 'where'"),
        ("select from", "Expected table name but got the end of the statement at line 1, column 8, near 'from'"),
    ],
)
def test_syntax_errors_of_sql_name_the_place_and_no_class(text: str, why: str) -> None:
    with pytest.raises(InvalidInput) as e:
        Statement(text)
    assert str(e.value) == f"sql: {why}"
