"""Data classes that are quick to define: every command defines a few hundred of them before it does anything.

`dataclass(frozen=True)` writes and compiles six methods for each class, which was a third of the time of a cold start.
Here all classes share the methods but `__init__`, which is compiled for the first object: a command creates objects of
a few classes only.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import MISSING, FrozenInstanceError, dataclass, field, fields
from operator import attrgetter
from typing import Any, TypeVar, dataclass_transform

C = TypeVar("C")


@dataclass_transform(frozen_default=True)
def node(*, kw_only: bool = False) -> Callable[[type[C]], type[C]]:
    """A class of tree nodes, compared by value. Queries create many: only the type checker keeps them from changing."""

    def define(cls: type[C]) -> type[C]:
        return _define(cls, "self.{0} = {1}", kw_only)

    return define


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def frozen(cls: type[C]) -> type[C]:
    """A class of values, compared by value, whose fields can be set once: that is, in `__init__`."""
    defined: Any = _define(cls, "_shoal_set(self, {0!r}, {1})")
    defined.__setattr__, defined.__delattr__ = _set_once, _refuse_to_delete
    return defined  # type: ignore[no-any-return]


def _define(cls: type[C], assignment: str, kw_only: bool = False) -> type[C]:
    """The class with slots, and with the methods that it does not define itself."""
    defined: Any = dataclass(init=False, repr=False, eq=False, slots=True, kw_only=kw_only)(cls)
    names = [each.name for each in fields(defined)]
    defined.__init__ = _Init(defined, assignment)
    if "__repr__" not in vars(defined):
        defined.__repr__ = _repr
    if "__eq__" not in vars(defined):
        defined.__eq__, defined.__hash__ = _comparison(attrgetter(*names) if names else _no_fields)
    return defined  # type: ignore[no-any-return]


class _Init:
    """The `__init__` of a class until something looks it up. Then a function takes its place."""

    __slots__ = ("_assignment", "_cls")

    def __init__(self, cls: type, assignment: str) -> None:
        self._cls = cls
        self._assignment = assignment

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        defined: Any = self._cls
        defined.__init__ = init = _compile_init(defined, self._assignment)
        return init.__get__(instance, owner)


def _compile_init(cls: Any, assignment: str) -> Any:
    """The function that `dataclass` would write, without its detours. All fields are parameters."""
    scope: dict[str, Any] = {"_shoal_set": object.__setattr__, "_shoal_missing": MISSING}
    by_position, by_name, body = ["self"], ["*"], []
    for each in fields(cls):
        name, default = each.name, f"_shoal_default_{each.name}"
        parameter = value = name
        if each.default_factory is not MISSING:
            scope[default] = each.default_factory
            parameter, value = f"{name}=_shoal_missing", f"{default}() if {name} is _shoal_missing else {name}"
        elif each.default is not MISSING:
            scope[default] = each.default
            parameter = f"{name}={default}"
        (by_name if each.kw_only else by_position).append(parameter)
        body.append(assignment.format(name, value))
    if hasattr(cls, "__post_init__"):
        body.append("self.__post_init__()")
    parameters = ", ".join(by_position + (by_name if len(by_name) > 1 else []))
    exec(f"def __init__({parameters}):\n  " + "\n  ".join(body or ["pass"]), scope)
    init = scope["__init__"]
    init.__qualname__, init.__module__ = f"{cls.__qualname__}.__init__", cls.__module__
    init.__annotations__ = {**{each.name: each.type for each in fields(cls)}, "return": None}
    return init


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
