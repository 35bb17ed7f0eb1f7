"""Filters of `delete -where`."""

from __future__ import annotations

import pytest

from shoal.errors import InvalidInput
from shoal.planner.predicates import parse_predicate


@pytest.mark.parametrize(
    ("text", "term"),
    [("true", "true"), ("a", "a"), ("'x'", "'x'"), ("1", "1"), ("a.b", "a.b"), ("k == 3 or y", "y"), ("/x/", "/x/"),
     ("not true", "true"), ("k>3 foo", "foo"), ("a*b", "a*b"), ("search foo", "foo"), ("k==1 and (z or k==2)", "z")],
)  # fmt: skip
def test_a_search_term_is_refused(text: str, term: str) -> None:
    with pytest.raises(InvalidInput) as e:
        parse_predicate(text)
    assert str(e.value).startswith(f"{term} is a search for values that contain it, not a condition (")


@pytest.mark.parametrize(
    "text",
    ["k == 3", "where k == 3", "where true", "where a", "has(x)", "grep(/x/)", "grep('true')", "not (k == 3)",
     "k == true or k in [1, 2]", "is_error(this) and !(k < 3)", "where grep(foo)"],
)  # fmt: skip
def test_a_condition_is_a_filter(text: str) -> None:
    assert parse_predicate(text).condition is not None
