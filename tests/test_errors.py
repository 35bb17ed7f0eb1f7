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
