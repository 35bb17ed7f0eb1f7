"""Functions that take records apart and put them together."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from shoal.engines.interp.functions.arguments import failure, quoted
from shoal.engines.interp.functions.strings import STRINGS
from shoal.errors import InvalidInput
from shoal.model import types as t
from shoal.model.text import format_type
from shoal.model.values import MISSING, Value, array, text_error
from shoal.model.zcode import Data

PATHS = t.array(STRINGS)
Path = tuple[str, ...]


def fields(value: Value) -> Value:
    """The paths of a record's fields, or of a record type's: `fields({a:1,b:{c:2}})` is `[["a"],["b","c"]]`."""
    value = value.under()
    typ = value.data.under if value.type is t.TYPE and value.data is not None else value.type
    return Value(PATHS, tuple(_paths(typ, ()))) if isinstance(typ, t.Record) else MISSING


def _paths(typ: t.Record, prefix: Path) -> Iterator[Path]:
    for field in typ.fields:
        under = field.type.under
        path = (*prefix, field.name)
        if isinstance(under, t.Record):
            yield from _paths(under, path)
        else:
            yield path


def flatten(value: Value) -> Value:
    """A record as an array of its fields: `flatten({a:{b:1}})` is `[{key:["a","b"],value:1}]`."""
    typ = value.type.under
    if not isinstance(typ, t.Record):
        return value
    try:
        return array(_entries(typ, value.data or (None,) * len(typ.fields), ()))
    except InvalidInput as e:  # the entries may nest too deep
        return text_error(str(e))


def _entries(typ: t.Record, data: Data, prefix: Path) -> Iterator[Value]:
    for field, item in zip(typ.fields, data, strict=True):
        under = field.type.under
        path = (*prefix, field.name)
        if isinstance(under, t.Record) and item is not None:
            yield from _entries(under, item, path)
        else:
            yield Value(t.record((("key", STRINGS), ("value", field.type))), (path, item))


# ---- records from paths

Leaf = tuple[t.Type, Data]
Tree = list[tuple[str, "Leaf | Tree"]]


def unflatten(value: Value) -> Value:
    """The inverse of `flatten`; a key may be a string, too, and elements of another shape are left out."""
    typ = value.type.under
    if not isinstance(typ, t.Array):
        return value
    tree: Tree = []
    for data in value.data or ():
        entry = _parse_entry(typ.elem, data)
        if isinstance(entry, Value):
            return entry
        if entry is not None and entry[0]:
            _put(tree, *entry)
    try:
        return _build(tree, 1)
    except InvalidInput as e:
        return failure(str(e), value)


def _parse_entry(elem: t.Type, data: Data) -> tuple[Path, Leaf] | Value | None:
    """The path and the leaf of an element; an error for a key that is not a path, None for another shape."""
    typ, row = elem.under, data
    if isinstance(typ, t.Union) and data is not None:
        typ, row = typ.types[data[0]].under, data[1]
    if not isinstance(typ, t.Record) or set(typ.index) != {"key", "value"}:
        return None
    i, j = typ.index["key"], typ.index["value"]
    key, item = (row[i], row[j]) if row is not None else (None, None)
    leaf = (typ.fields[j].type, item)
    key_type = typ.fields[i].type
    if key_type.under is t.STRING:
        return (key or "",), leaf
    inner = t.inner_of(key_type)
    if isinstance(key_type.under, t.Array) and inner is not None and inner.under is t.STRING:
        return tuple(name or "" for name in key or ()), leaf
    message = f"invalid key type {format_type(key_type)}: expected either string or [string]"
    return failure(message, Value(elem, data))


def _put(tree: Tree, path: Path, leaf: Leaf) -> None:
    """Add a leaf. A path goes on where the one before it ended; what it meets at its own end is replaced."""
    for name in path[:-1]:
        if tree and tree[-1][0] == name and isinstance(tree[-1][1], list):
            tree = tree[-1][1]
        else:
            deeper: Tree = []
            _set_last(tree, name, deeper)
            tree = deeper
    _set_last(tree, path[-1], leaf)


def _set_last(tree: Tree, name: str, item: Leaf | Tree) -> None:
    if tree and tree[-1][0] == name:
        tree.pop()
    tree.append((name, item))


def _build(tree: Tree, depth: int) -> Value:
    if depth > t.MAX_DEPTH:
        raise InvalidInput(f"type nests deeper than {t.MAX_DEPTH} levels")
    names = [name for name, _ in tree]
    if len(set(names)) < len(names):
        twice = next(name for i, name in enumerate(names) if name in names[:i])
        raise InvalidInput(f"duplicate field: {quoted(twice)}")
    items = [_build(item, depth + 1) if isinstance(item, list) else Value(*item) for _, item in tree]
    typ = t.record(zip(names, (item.type for item in items), strict=True))
    return Value(typ, tuple(item.data for item in items))


def nest_dotted(value: Value) -> Value:
    """Fields with dots in their names become nested records: `{"a.b":1}` becomes `{a:{b:1}}`."""
    typ = value.type.under
    if not isinstance(typ, t.Record) or not any("." in name for name in typ.index):
        return value
    paths = [tuple(name.split(".")) for name in typ.index]
    tree: Tree = []
    try:
        _check_nesting(paths)
        for path, field, item in zip(paths, typ.fields, value.data or (None,) * len(paths), strict=True):
            _put(tree, path, (field.type, item))
        nested = _build(tree, 1)
    except InvalidInput as e:
        return failure(f"nest_dotted(): {e}", value)
    return nested if value.data is not None else Value(nested.type, None)


def _check_nesting(paths: Iterable[Path]) -> None:
    """Fields of one record must be neighbours, and no field may be a record, too."""
    ended: set[Path] = set()
    leaves: set[Path] = set()
    before: Path = ()
    for path in paths:
        if len(path) > t.MAX_DEPTH:
            raise InvalidInput(f"type nests deeper than {t.MAX_DEPTH} levels")
        above = {path[:i] for i in range(1, len(path))}
        open_records = {before[:i] for i in range(1, len(before) + 1)}
        for i in range(1, len(path)):
            if path[:i] not in open_records and path[:i] in ended:
                raise InvalidInput(f"fields in record {'.'.join(path[:i])} must be adjacent")
        if path in leaves or path in ended or above & leaves:
            raise InvalidInput(f"duplicate field: {quoted('.'.join(path))}")
        leaves.add(path)
        ended |= above
        before = path[:-1]
