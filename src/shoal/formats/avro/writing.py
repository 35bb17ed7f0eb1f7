"""Values as what fastavro writes by a schema, exactly or not at all.

The type of a value need not be that of the schema: fields may be missing where null is allowed, and numbers may be of
another type that holds them. What would lose something is InvalidInput with the path of the field: a number that does
not fit, a time between two microseconds, a field that the schema does not have.

fastavro is told which member of a union a value is of; else it would look for one that takes it, which costs time.
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import Any

from shoal.errors import InvalidInput
from shoal.formats.avro.schemas import MEMBER, Node, Part
from shoal.formats.limits import at
from shoal.model import types as t
from shoal.model.literals import round_float
from shoal.model.text import format_type
from shoal.model.zcode import Data

Write = Callable[[Data], Any]
"""Makes what fastavro writes of data, or of None for a null."""
_LONGEST_TYPE = 200
_INTEGERS = t.SIGNED | t.UNSIGNED
_SIZES = {t.FLOAT16: 2, t.FLOAT32: 4, t.FLOAT64: 8}


def writer(node: Node, typ: t.Type, path: str = "") -> Write:
    """What writes values of a type by a schema. InvalidInput if no value of the type could be written."""
    if node.form == "union":
        return _by_member(node, typ, path)
    if node.form == "wrapper":
        return _wrapped(node, typ, path)
    under = typ.under
    if under is t.NULL:
        if node.type.under is not t.NULL:
            raise _null(path)
        return lambda data: None
    if isinstance(under, t.Union):
        return _of_union(node, under, path)
    return _FORMS[node.form](node, under, path)


def _null(path: str) -> InvalidInput:
    return _refusal(path, "null, which the schema does not allow")


def _refusal(path: str, reason: str) -> InvalidInput:
    return InvalidInput(f"{path}: {reason}" if path else reason)


def _misfit(node: Node, typ: t.Type, path: str) -> InvalidInput:
    return _refusal(path, f"{_shown(typ)} does not fit into a schema for {_shown(node.type)}")


def _shown(typ: t.Type) -> str:
    text = format_type(typ)
    return text if len(text) <= _LONGEST_TYPE else f"{text[:_LONGEST_TYPE]}..."


def _inside(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


# ---- unions


def _of_union(node: Node, union: t.Union, path: str) -> Write:
    """Values of a union, each by its own type."""
    writers = [None if member is t.NULL else writer(node, member, path) for member in union.types]
    null = _null_writer(node, path)

    def write(data: Data) -> Any:
        if data is None:
            return null(None)
        tag, inner = data
        of_member = writers[tag]
        if inner is None or of_member is None:
            raise _refusal(path, f"a null of type {_shown(union.types[tag])} in a union, which Avro takes for any null")
        return of_member(inner)

    return write


def _null_writer(node: Node, path: str) -> Write:
    try:
        return writer(node, t.NULL, path)
    except InvalidInput as e:
        error = str(e)

    def refuse(data: Data) -> Any:
        raise InvalidInput(error)

    return refuse


def _by_member(node: Node, typ: t.Type, path: str) -> Write:
    """A value as one of the members of the schema: that of its own type, or else the first that takes it."""
    allows_null = any(part.name == "null" for part in node.parts)
    if typ.under is t.NULL:
        if not allows_null:
            raise _null(path)
        return lambda data: None
    parts = [part for part in node.parts if part.name != "null"]
    exact = [part for part in parts if part.node.type is typ]
    if not exact and isinstance(typ.under, t.Union):
        return _of_union(node, typ.under, path)
    choices = _choices(exact[:1] or sorted(parts, key=lambda part: _distance(part.node.type, typ)), node, typ, path)

    def write(data: Data) -> Any:
        if data is None:
            if not allows_null:
                raise _null(path)
            return None
        for name, label, of_member in choices[:-1]:
            try:
                written = of_member(data)
            except InvalidInput:
                continue
            return (name, {label: written} if label else written)
        name, label, of_member = choices[-1]
        written = of_member(data)
        return (name, {label: written} if label else written)

    return write


def _choices(parts: list[Part], node: Node, typ: t.Type, path: str) -> list[tuple[str, str, Write]]:
    """The members that may take values of a type."""
    choices = []
    for part in parts:
        try:
            choices.append((part.name, part.label and MEMBER, writer(part.node, typ, path)))
        except InvalidInput:
            if len(parts) == 1:
                raise
    if not choices:
        raise _misfit(node, typ, path)
    return choices


def _distance(to: t.Type, typ: t.Type) -> int:
    """How far a type is from another one: an integer is written as an integer before it is written as a float."""
    if to.under is typ.under:
        return 0
    return 1 if family(to.under) == family(typ.under) else 2


def family(typ: t.Type) -> str:
    """What types have in common between which numbers do not change their meaning."""
    if typ in _INTEGERS:
        return "integer"
    if typ in t.FLOATS:
        return "float"
    if isinstance(typ, t.Decimal):
        return "decimal"
    return typ.name if isinstance(typ, t.Primitive) else typ.kind


def _wrapped(node: Node, typ: t.Type, path: str) -> Write:
    """A value inside the record that stands for it."""
    (part,) = node.parts
    if isinstance(node.type.under, t.Error):
        if not isinstance(typ.under, t.Error):
            raise _misfit(node, typ, path)
        typ = typ.under.inner
    name, inner = part.name, writer(part.node, typ, path)
    return lambda data: {name: inner(data)}


# ---- records, arrays and maps


def _record(node: Node, typ: t.Type, path: str) -> Write:
    if not isinstance(typ, t.Record):
        raise _misfit(node, typ, path)
    known = {part.label for part in node.parts}
    for field in typ.fields:
        if field.name not in known:
            raise _refusal(_inside(path, field.name), "the schema has no such field")
    plan = []
    for part in node.parts:
        place, inside = typ.index.get(part.label), _inside(path, part.label)
        if place is None:
            plan.append((part.name, -1, _missing(part.node, inside)))
        else:
            plan.append((part.name, place, writer(part.node, typ.fields[place].type, inside)))

    def write(data: Data) -> Any:
        if data is None:
            raise _null(path)
        return {name: of_field(data[place] if place >= 0 else None) for name, place, of_field in plan}

    return write


def _missing(node: Node, path: str) -> Write:
    """A field that values do not have is null."""
    try:
        return writer(node, t.NULL, path)
    except InvalidInput:
        raise _refusal(path, "the field is missing, and the schema does not allow null") from None


def _element(node: Node, typ: t.Type, path: str) -> Write:
    """Elements of an array; those of no type are hardly nulls, but none at all."""
    return _null_writer(node, path) if typ.under is t.NULL else writer(node, typ, path)


def _array(node: Node, typ: t.Type, path: str) -> Write:
    is_order_lost = isinstance(node.type.under, t.Set) and isinstance(typ, t.Array)
    if not isinstance(typ, t.Array | t.Set) or is_order_lost:
        raise _misfit(node, typ, path)
    of_item = _element(node.parts[0].node, typ.elem, f"{path}[]")

    def write(data: Data) -> Any:
        if data is None:
            raise _null(path)
        return [of_item(item) for item in data]

    return write


def _entries(node: Node, typ: t.Type, path: str) -> Write:
    """A map as an array of records."""
    if not isinstance(typ, t.Map):
        raise _misfit(node, typ, path)
    key, value = node.parts[0].node.parts
    of_key, of_value = _element(key.node, typ.key, f"{path}{{key}}"), _element(value.node, typ.value, f"{path}{{}}")

    def write(data: Data) -> Any:
        if data is None:
            raise _null(path)
        return [{key.name: of_key(k), value.name: of_value(v)} for k, v in data]

    return write


def _map(node: Node, typ: t.Type, path: str) -> Write:
    if not isinstance(typ, t.Map) or typ.key.under not in (t.STRING, t.NULL):
        raise _misfit(node, typ, path)
    of_value = _element(node.parts[0].node, typ.value, f"{path}{{}}")

    def write(data: Data) -> Any:
        if data is None:
            raise _null(path)
        if any(key is None for key, _ in data):
            raise _refusal(path, "a key of a map is null, which Avro does not have")
        return {key: of_value(value) for key, value in data}

    return write


# ---- leaves


def _leaf(node: Node, typ: t.Type, path: str) -> Write:
    fitted, write_leaf = _fitted(node.type.under, typ), node.write
    if fitted is None:
        raise _misfit(node, typ, path)
    fit = fitted

    def write(data: Data) -> Any:
        if data is None:
            raise _null(path)
        try:
            return fit(data) if write_leaf is None else write_leaf(fit(data))
        except InvalidInput as e:
            raise (at(path, e) if path else e) from None

    return write


def _same(data: Data) -> Data:
    return data


def _fitted(to: t.Type, typ: t.Type) -> Callable[[Data], Data] | None:
    """Makes data of one type data of another one, exact or InvalidInput; None if there is no exact way."""
    if to is typ:
        return _same
    if typ in _INTEGERS:
        if to in _INTEGERS:
            return _integer(to)
        if to in t.FLOATS:
            return _whole_float(_SIZES[to])
        return Decimal if isinstance(to, t.Decimal) else None
    if typ in t.FLOATS and to in t.FLOATS:
        return _float(_SIZES[to])
    if isinstance(typ, t.Decimal) and isinstance(to, t.Decimal):
        return _same
    if isinstance(to, t.Enum) and (typ is t.STRING or isinstance(typ, t.Enum)):
        return _symbol(to, typ)
    return None


def _integer(to: t.Type) -> Callable[[Data], Data]:
    least, most = t.INT_RANGES[to]  # type: ignore[index]

    def fit(number: int) -> Data:
        if not least <= number <= most:
            raise InvalidInput(f"{number} does not fit into {_shown(to)}")
        return number

    return fit


def _whole_float(size: int) -> Callable[[Data], Data]:
    def fit(number: int) -> Data:
        rounded = round_float(float(number), size)
        if rounded != number:
            raise InvalidInput(f"{number} is not exact as a float of {8 * size} bits")
        return rounded

    return fit


def _float(size: int) -> Callable[[Data], Data]:
    def fit(number: float) -> Data:
        rounded = round_float(number, size)
        if rounded != number and number == number:
            raise InvalidInput(f"{number} is not exact as a float of {8 * size} bits")
        return rounded

    return fit


def _symbol(to: t.Enum, typ: t.Type) -> Callable[[Data], Data]:
    places = {symbol: i for i, symbol in enumerate(to.symbols)}
    names = typ.symbols if isinstance(typ, t.Enum) else None

    def fit(data: Data) -> Data:
        symbol = data if names is None else names[data]
        if symbol not in places:
            raise InvalidInput(f"{symbol[:_LONGEST_TYPE]!r} is not a symbol of {_shown(to)}")
        return places[symbol]

    return fit


_FORMS: dict[str, Callable[[Node, t.Type, str], Write]] = {
    "leaf": _leaf,
    "record": _record,
    "array": _array,
    "entries": _entries,
    "map": _map,
}
