"""The named types in data, for programs that refer to types by names that only the data defines."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from shoal.engines.interp.functions.table import NEED_NAMES
from shoal.lang import plan
from shoal.lang.walk import nodes
from shoal.model import types as t
from shoal.model.values import Value


def needs_names(program: plan.Program) -> bool:
    """Whether a program asks for types by name."""
    return any(isinstance(node, plan.Call) and node.name in NEED_NAMES for node in nodes(program))


def observed(values: Iterable[Value], names: dict[str, t.Type]) -> Iterator[Value]:
    """Values, with the names of their types noted; the last type of a name counts."""
    seen: set[t.Type] = set()
    for value in values:
        if value.type not in seen:
            note(value.type, names, seen)
        if value.type is t.TYPE and value.data is not None:
            note(value.data, names, seen)
        yield value


def note(typ: t.Type, names: dict[str, t.Type], seen: set[t.Type]) -> None:
    """Note the names in a type that was not seen before."""
    if typ in seen:
        return
    seen.add(typ)
    for child in typ.children():
        note(child, names, seen)
    if isinstance(typ, t.Named):
        names[typ.name] = typ
