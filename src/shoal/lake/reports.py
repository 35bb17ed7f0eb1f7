"""What a commit adds to a branch, as far as the descriptions of its data objects tell: no data is read."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from shoal.ids import Id
from shoal.lake.objects import DataObject
from shoal.lake.pools import Pool
from shoal.model import types as t
from shoal.model.node import frozen

Path = tuple[str, ...]
Fields = Mapping[Path, set[t.Type]]


@frozen
class Addition:
    """The objects that a commit adds, and the fields with the types that none before it had."""

    objects: tuple[DataObject, ...]
    shapes: Mapping[t.Type, int] | None
    """How many values of which types; None if there are too many types to list."""
    fields: Mapping[Path, tuple[set[t.Type], set[t.Type]]] | None
    """The new types of fields, and those they had before; None if they cannot be compared."""


def addition_of(pool: Pool, ident: Id) -> Addition:
    """What a commit adds to its parent."""
    commit = pool.commits.read(ident)
    objects = tuple(commit.adds)
    shapes = _shapes(objects)
    before = _shapes(pool.snapshot(commit.parent).objects()) if shapes is not None else None
    if shapes is None or before is None:
        return Addition(objects, shapes, None)
    return Addition(objects, shapes, dict(_changes(_fields(shapes), _fields(before))))


def _changes(after: Fields, before: Fields) -> Iterator[tuple[Path, tuple[set[t.Type], set[t.Type]]]]:
    for path, types in after.items():
        known = before.get(path, set())
        if new := types - known:
            yield path, (new, known)


def _shapes(objects: Iterable[DataObject]) -> dict[t.Type, int] | None:
    shapes: dict[t.Type, int] = {}
    for o in objects:
        if o.shapes is None:
            return None
        for shape, count in o.shapes:
            if count:
                shapes[shape] = shapes.get(shape, 0) + count
    return shapes


def _fields(shapes: Iterable[t.Type]) -> Fields:
    """The types of each field. A field that only has records has none."""
    fields: dict[Path, set[t.Type]] = {}

    def visit(path: Path, typ: t.Type) -> None:
        if isinstance(typ.under, t.Record):
            for field in typ.under.fields:
                visit((*path, field.name), field.type)
        elif path and typ is not t.NULL:
            fields.setdefault(path, set()).add(typ)

    for shape in shapes:
        visit((), shape)
    return fields
