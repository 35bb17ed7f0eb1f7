from __future__ import annotations

from shoal import errors


def test_every_error_has_a_kind_of_its_own_and_stands_in_the_tree_of_the_docstring() -> None:
    kinds = {e.__name__: e.kind for e in errors.ShoalError.__subclasses__() if e.__module__ == errors.__name__}
    assert len(set(kinds.values())) == len(kinds) == 14
    assert errors.__doc__ is not None
    assert all(f"── {name} " in errors.__doc__ for name in kinds)


def test_a_long_text_keeps_its_head_and_its_tail() -> None:
    text = str(errors.NotFound(f"pool {'x' * 100_000}: not found (create it)"))
    assert len(text) < 4000
    assert text.startswith("pool xxx")
    assert text.endswith("xxx: not found (create it)")
    assert "(96528 characters)" in text
    assert str(errors.InvalidInput("short")) == "short"


def test_details_are_the_notes_of_an_error_and_of_those_that_it_was_raised_from() -> None:
    inner, outer = errors.InvalidInput("inner"), errors.InvalidInput("outer")
    inner.add_note("a\x1b\nb")
    outer.add_note("c")
    outer.__cause__ = inner
    assert errors.details_of(outer) == ["c", "a\\x1b\nb"]
    inner.__cause__ = inner
    assert errors.details_of(outer) == ["c", "a\\x1b\nb"]
    assert errors.details_of(errors.NotFound("x")) == []
