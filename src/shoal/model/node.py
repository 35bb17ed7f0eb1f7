"""Data classes that are quick to define: every command defines a few hundred of them before it does anything.

`dataclass(frozen=True)` writes and compiles six methods for each class, which was a third of the time of a cold start.
Here only `__init__` is compiled; the other methods are shared by all classes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import FrozenInstanceError, dataclass, field, fields
from operator import attrgetter
from typing import Any, TypeVar, dataclass_transform

C = TypeVar("C")


@dataclass_transform(frozen_default=True)
def node(*, kw_only: bool = False) -> Callable[[type[C]], type[C]]:
    """A class of tree nodes, compared by value. Queries create many: only the type checker keeps them from changing."""

    def define(cls: type[C]) -> type[C]:
        return _with_shared_methods(dataclass(repr=False, eq=False, slots=True, kw_only=kw_only)(cls))

    return define


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def frozen(cls: type[C]) -> type[C]:
    """A class of values, compared by value, whose fields can be set once: that is, in `__init__`."""
    defined: Any = _with_shared_methods(dataclass(repr=False, eq=False, slots=True)(cls))
    defined.__setattr__, defined.__delattr__ = _set_once, _refuse_to_delete
    return defined  # type: ignore[no-any-return]


def _with_shared_methods(cls: type[C]) -> type[C]:
    """The class with the methods that it does not define itself."""
    defined: Any = cls
    names = [each.name for each in fields(defined)]
    if "__repr__" not in vars(cls):
        defined.__repr__ = _repr
    if "__eq__" not in vars(cls):
        defined.__eq__, defined.__hash__ = _comparison(attrgetter(*names) if names else _no_fields)
    return cls


def _no_fields(value: object) -> None:
    """Stands for the fields of an object that has none."""


def _comparison(values: Callable[[Any], Any]) -> tuple[Callable[[Any, object], Any], Callable[[Any], int]]:
    def is_equal(self: Any, other: object) -> Any:
        return values(self) == values(other) if other.__class__ is self.__class__ else NotImplemented

    def hash_fields(self: Any) -> int:
        return hash(values(self))

    return is_equal, hash_fields


def _repr(self: Any) -> str:
    shown = ", ".join(f"{each.name}={getattr(self, each.name)!r}" for each in fields(self) if each.repr)
    return f"{self.__class__.__qualname__}({shown})"


def _set_once(self: Any, name: str, value: Any) -> None:
    if hasattr(self, name):
        raise FrozenInstanceError(f"cannot assign to field {name!r}")
    object.__setattr__(self, name, value)


def _refuse_to_delete(self: Any, name: str) -> None:
    raise FrozenInstanceError(f"cannot delete field {name!r}")
