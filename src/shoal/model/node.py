"""Nodes of trees: data classes that are made fast, since every command makes all of them before it does anything.

`dataclass` writes and compiles six methods for a frozen class; for the many classes of our trees that was a third of
the time of a cold command. Here one is compiled, and the others are the same for all. That nobody changes a node is
left to the type checker.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from operator import attrgetter
from typing import Any, TypeVar, dataclass_transform

C = TypeVar("C")


@dataclass_transform(frozen_default=True)
def node(*, kw_only: bool = False) -> Callable[[type[C]], type[C]]:
    """A class whose objects are equal if they are of it and their fields are equal."""

    def make(cls: type[C]) -> type[C]:
        plain: Any = dataclass(repr=False, eq=False, slots=True, kw_only=kw_only)(cls)
        names = [field.name for field in fields(plain)]
        plain.__repr__ = _repr
        plain.__eq__, plain.__hash__ = _comparison(attrgetter(*names) if names else _nothing)
        return plain  # type: ignore[no-any-return]

    return make


def _nothing(one: object) -> None:
    """The fields of a node that has none."""


def _comparison(values: Callable[[Any], Any]) -> tuple[Callable[[Any, object], Any], Callable[[Any], int]]:
    def is_equal(self: Any, other: object) -> Any:
        return values(self) == values(other) if other.__class__ is self.__class__ else NotImplemented

    def hashed(self: Any) -> int:
        return hash(values(self))

    return is_equal, hashed


def _repr(self: Any) -> str:
    shown = ", ".join(f"{field.name}={getattr(self, field.name)!r}" for field in fields(self))
    return f"{self.__class__.__qualname__}({shown})"
