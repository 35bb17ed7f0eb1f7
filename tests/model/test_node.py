"""Data classes that are quick to define behave like frozen data classes."""

from __future__ import annotations

import copy
import pickle
from dataclasses import FrozenInstanceError, field, replace

import pytest

from shoal.model.node import frozen, node


@frozen
class Point:
    """A point."""

    x: int
    y: int = 0
    secret: str = field(default="", repr=False)


@frozen
class Nothing:
    """No fields."""


@node()
class Leaf:
    """A node."""

    name: str


@node()
class Twig:
    """A node of another class with the same fields."""

    name: str


def test_values_are_equal_by_class_and_fields() -> None:
    assert Point(1) == Point(1, 0)
    assert hash(Point(1)) == hash(Point(1, 0))
    assert Point(1) != Point(2)
    assert Leaf("a") == Leaf("a")
    assert Leaf("a") != Twig("a")  # type: ignore[comparison-overlap]
    assert Nothing() == Nothing()


def test_a_field_is_set_once() -> None:
    point = Point(1)
    with pytest.raises(FrozenInstanceError, match="cannot assign to field 'x'"):
        point.x = 2  # type: ignore[misc]
    with pytest.raises(FrozenInstanceError, match="cannot delete field 'x'"):
        del point.x
    with pytest.raises(AttributeError):
        point.z = 2  # type: ignore[attr-defined]
    assert point == Point(1)


def test_copies_are_equal() -> None:
    point = Point(1, 2, "s")
    assert pickle.loads(pickle.dumps(point)) == copy.copy(point) == copy.deepcopy(point) == point
    assert replace(point, x=3) == Point(3, 2, "s")


def test_fields_are_shown_unless_they_are_secret() -> None:
    assert repr(Point(1, 2, "s")) == "Point(x=1, y=2)"
    assert repr(Leaf("a")) == "Leaf(name='a')"


def test_methods_that_a_class_defines_stay() -> None:
    @frozen
    class Shown:
        name: str

        def __repr__(self) -> str:
            return f"<{self.name}>"

        def __eq__(self, other: object) -> bool:
            return True

        def __hash__(self) -> int:
            return 7

    assert repr(Shown("a")) == "<a>"
    assert Shown("a") == Shown("b")
    assert hash(Shown("a")) == 7
