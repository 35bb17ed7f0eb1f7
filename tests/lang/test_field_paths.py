"""Paths of fields that one record cannot have, and those that it can."""

from __future__ import annotations

import pytest

from shoal.errors import InvalidInput
from shoal.lang.field_paths import check_assignments, check_record, check_rename, path_text
from shoal.lang.plan import Path


def paths(text: str) -> list[Path]:
    return [tuple(path.split(".")) if path != "this" else () for path in text.split()]


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ((), "this"),
        (("a",), "a"),
        (("a", "b"), "a.b"),
        (("a b",), 'this["a b"]'),
        (("a", "b c", "d"), 'a["b c"].d'),
    ],
)
def test_a_path_is_shown_as_it_is_written(path: Path, text: str) -> None:
    assert path_text(path) == text


@pytest.mark.parametrize("text", ["a b", "a.b a.c", "a.b.c a.b.d a.e f", "a.x b.x"])
def test_fields_that_one_record_can_have_are_accepted(text: str) -> None:
    check_record(paths(text))
    check_assignments(paths(text))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a a", 'duplicate field: "a"'),
        ("a.b a.b", 'duplicate field: "a.b"'),
        ("a a.b", 'duplicate field: "a"'),
        ("a.b a", 'duplicate field: "a"'),
        ("a.b c a.d", "fields in record a must be adjacent"),
        ("a.b.c a.d a.b.e", "fields in record a.b must be adjacent"),
    ],
)
def test_fields_that_one_record_cannot_have_are_refused(text: str, message: str) -> None:
    with pytest.raises(InvalidInput) as e:
        check_record(paths(text))
    assert str(e.value) == message


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("this", "left-hand side cannot be 'this' (use 'yield' operator)"),
        ("a b a", "multiple assignments to a"),
        ("a a.b", "conflicting nested assignments to a and a.b"),
        ("a.b.c a", "conflicting nested assignments to a and a.b.c"),
    ],
)
def test_assignments_of_which_one_overwrites_another_are_refused(text: str, message: str) -> None:
    with pytest.raises(InvalidInput) as e:
        check_assignments(paths(text))
    assert str(e.value) == message


def test_assignments_to_one_record_need_not_be_adjacent() -> None:
    check_assignments(paths("a.b c a.d"))


@pytest.mark.parametrize(
    ("target", "source", "message"),
    [
        ("a", "b.c", "left-hand side and right-hand side must have the same depth (a vs b.c)"),
        ("a.b", "c.b", "cannot rename a.b to c.b (differ in a vs c)"),
    ],
)
def test_a_rename_that_moves_a_field_is_refused(target: str, source: str, message: str) -> None:
    with pytest.raises(InvalidInput) as e:
        check_rename(*paths(f"{target} {source}"))
    assert str(e.value) == message


def test_a_rename_inside_one_record_is_accepted() -> None:
    check_rename(*paths("a.b.c a.b.d"))
    check_rename(*paths("a b"))
