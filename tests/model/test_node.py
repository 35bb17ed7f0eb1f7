"""Data classes that are quick to define behave like frozen data classes."""

from __future__ import annotations

import copy
import pickle
from dataclasses import FrozenInstanceError, field, replace
from inspect import signature

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


@frozen
class Counted:
    """A class whose names are those that an `__init__` might use itself."""

    set: int
    items: list[int] = field(default_factory=list)
    total: int = 0

    def __post_init__(self) -> None:
        object.__setattr__(self, "total", len(self.items))


@node(kw_only=True)
class Named:
    """A node whose fields are named by its caller."""

    size: int
    name: str = ""


def test_defaults_are_made_anew_for_each_object() -> None:
    one, other = Counted(1), Counted(1)
    assert one.items is not other.items
    assert Counted(1, [4, 5]).total == 2


def test_arguments_that_do_not_fit_are_refused() -> None:
    with pytest.raises(TypeError, match=r"Point.__init__\(\) missing 1 required positional argument: 'x'"):
        Point()  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="unexpected keyword argument 'z'"):
        Point(1, z=2)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="takes 1 positional argument but 2 were given"):
        Named(1)  # type: ignore[call-arg]
    assert Named(size=1) == Named(name="", size=1)


def test_a_signature_is_known_before_the_first_object() -> None:
    @frozen
    class Fresh:
        x: int
        y: str = "a"

    assert str(signature(Fresh)) == "(x: 'int', y: 'str' = 'a') -> None"
    assert Fresh.__match_args__ == ("x", "y")


def test_a_subclass_has_the_fields_of_its_base() -> None:
    class Plain(Leaf):
        """Not a data class itself."""

    @node()
    class Wider(Leaf):
        width: int

    assert Plain("a").name == "a"
    assert Wider("a", 2) == Wider(name="a", width=2)
    assert Leaf("a") == Leaf("a")
