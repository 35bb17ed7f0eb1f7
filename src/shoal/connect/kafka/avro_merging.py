"""Widens an Avro schema so that it takes values of one more shape, and still reads all that was written before.

    {"name":"a","type":"int"}                 with {a:int64}       long
                                              with {a:null}        ["null","int"]
                                              with {}              ["null","int"]: values without it have null
                                              with {a:float64}     ["int","double"]: no number is rounded
                                              with {a:int32,b:ip}  and a field b, which is null in older data

What a value is does not change, but its type may: an int32 in a long is an int64, and a type whose name differs from
that of the schema loses the name. The records of a topic stay records; a shape of another kind is refused.
"""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import fastavro

from shoal.connect.kafka.avro_schemas import (
    KEY,
    VALUE,
    Namer,
    avro_names,
    branch_of,
    field_of,
    nullable,
    primitive_schema,
)
from shoal.errors import InvalidInput
from shoal.formats.avro import zed_types
from shoal.formats.avro.schemas import compile_part, compile_schema
from shoal.formats.avro.writing import family
from shoal.model import types as t
from shoal.model.common import common_type
from shoal.model.decimals import common_decimal, decimal_of
from shoal.model.node import frozen
from shoal.model.text import format_type

_INTEGERS = t.SIGNED | t.UNSIGNED
_FLOATS = (t.FLOAT16, t.FLOAT32, t.FLOAT64)
_LONGEST_TYPE = 200


def merged(schema: Any, shape: t.Type) -> Any:
    """A schema that takes values of a shape as well; the schema itself if it takes them already.

    InvalidInput with the path of the field if there is none that could read what was written by the schema.
    """
    compile_schema(schema)  # complains of anything that is wrong with it
    names: dict[str, Any] = {}
    parsed = fastavro.parse_schema(deepcopy(schema), names, _write_hint=False)
    before = deepcopy(parsed)
    widened = _Merger(names).root(parsed, shape)
    if widened == before:
        return schema
    compile_schema(widened)
    return _tidied(widened)


_ORDER = ("type", "name", "doc", "fields", "symbols", "items", "values", "size", "logicalType", "precision", "scale")


def _tidied(part: Any) -> Any:
    """A schema with its properties in the order in which people read them."""
    if isinstance(part, list):
        return [_tidied(member) for member in part]
    if not isinstance(part, dict):
        return part
    out = {key: part[key] for key in (*(key for key in _ORDER if key in part), *part)}
    for key in ("items", "values"):
        if key in out:
            out[key] = _tidied(out[key])
    if "fields" in out:
        out["fields"] = [
            {"name": field["name"], "type": _tidied(field["type"])}
            | {key: item for key, item in field.items() if key not in ("name", "type")}
            for field in out["fields"]
        ]
    return out


@frozen
class _Place:
    """Where a part stands."""

    path: str
    """For messages; empty at the top."""
    name: str
    """For types that are defined there."""

    def field(self, label: str, plain: str) -> _Place:
        """A field of a record at this place."""
        return _Place(f"{self.path}.{label}" if self.path else label, f"{self.name}_{plain}")


class _Merger:
    """Widens parts of a schema whose names are full. Types with names change in place, wherever they are used."""

    def __init__(self, names: dict[str, Any]) -> None:
        self._names = names
        self._namer = Namer(names)

    def root(self, schema: Any, shape: t.Type) -> Any:
        """A whole schema."""
        place = _Place("", "root" if isinstance(schema, list) else branch_of(schema))
        if self._type(schema) is shape:
            return schema
        if isinstance(schema, list):
            return self._union(schema, shape, place)
        widened = self._widened(schema, shape, place)
        if widened is None:
            raise InvalidInput(
                f"{_shown(shape)} is of another kind than the records of the topic, {_shown(self._type(schema))} "
                "(leave it out, or send it to another topic)"
            )
        return widened

    def _type(self, part: Any) -> t.Type:
        return compile_part(part, self._names).type

    def _part(self, part: Any, typ: t.Type, place: _Place) -> Any:
        """A part where a union is allowed."""
        if self._type(part) is typ:
            return part
        if typ.under is t.NULL:
            return nullable(part)
        if isinstance(typ.under, t.Union):
            for member in typ.under.types:
                part = self._part(part, member, place)
            return part
        if isinstance(part, list):
            return self._union(part, typ, place)
        widened = self._widened(part, typ, place)
        return self._union([part], typ, place) if widened is None else widened

    def _union(self, members: list[Any], typ: t.Type, place: _Place) -> Any:
        """A union with a member that takes a type: one that does already, one that can be widened, or a new one."""
        if typ.under is t.NULL:
            return nullable(members)
        if isinstance(typ.under, t.Union):
            for each in typ.under.types:
                members = self._union(members, each, place)
            return members
        types = [self._type(member) for member in members]
        if typ in types:
            return members
        for i in sorted(range(len(members)), key=lambda i: family(types[i].under) != family(typ.under)):
            others = [branch_of(other) for other in members if other is not members[i]]
            widened = None if members[i] == "null" else self._widened(members[i], typ, place, others)
            if widened is not None:
                return [*members[:i], widened, *members[i + 1 :]]
        return [*members, self._namer.member(typ, place.name, [branch_of(member) for member in members])]

    def _widened(self, part: Any, typ: t.Type, place: _Place, others: list[str] | None = None) -> Any | None:
        """A part that takes a type as well; None if it is of another kind. `others` are beside it in a union."""
        if isinstance(part, str) and part in self._names:
            return None if self._widened(self._names[part], typ, place) is None else part
        kind = part["type"] if isinstance(part, dict) else part
        under = typ.under
        special = part.get(zed_types.TYPE) if isinstance(part, dict) else None
        if kind == "record" and special in zed_types.WRAPPERS:
            widened = self._wrapper(part, special, typ, place)
        elif kind == "record":
            widened = self._record(part, under, place) if isinstance(under, t.Record) else None
        elif kind == "array":
            widened = self._array(part, special, under, place)
        elif kind == "map":
            widened = None
            if isinstance(under, t.Map) and under.key.under in (t.STRING, t.NULL):
                part["values"] = self._part(
                    part["values"], under.value, _Place(f"{place.path}{{}}", f"{place.name}_{VALUE}")
                )
                widened = part
        elif kind == "enum":
            widened = _enum(part, under) if isinstance(under, t.Enum) else None
        else:
            widened = _leaf(part, self._type(part).under, under)
            if widened is not None and branch_of(widened) != branch_of(part) and branch_of(widened) in (others or ()):
                return None
        if isinstance(widened, dict) and widened.get(zed_types.NAME) != (
            typ.name if isinstance(typ, t.Named) else None
        ):
            widened.pop(zed_types.NAME, None)
        return widened

    def _wrapper(self, part: Any, kind: str, typ: t.Type, place: _Place) -> Any | None:
        (field,) = part["fields"]
        if kind == zed_types.ERROR:
            if not isinstance(typ.under, t.Error):
                return None
            field["type"] = self._part(field["type"], typ.under.inner, place.field("error", "error"))
        elif kind == zed_types.UNION and isinstance(field["type"], list):
            field["type"] = self._union(field["type"], typ, place.field("value", "value"))
        else:
            widened = self._widened(field["type"], typ, place)
            if widened is None:
                return None
            field["type"] = widened
        return part

    def _record(self, part: Any, typ: t.Record, place: _Place) -> Any:
        labels = {zed_types.field_name(field): field for field in part["fields"]}
        for label, field in labels.items():
            inside = place.field(label, field["name"])
            wanted = typ.fields[typ.index[label]].type if label in typ.index else t.NULL
            _set_type(field, self._part(field["type"], wanted, inside))
        new = [field for field in typ.fields if field.name not in labels]
        plain = avro_names([field.name for field in new], [field["name"] for field in part["fields"]])
        for field in new:
            inside = place.field(field.name, plain[field.name])
            part["fields"].append(field_of(field.name, plain[field.name], self._namer.part(field.type, inside.name)))
        return part

    def _array(self, part: Any, special: Any, typ: t.Type, place: _Place) -> Any | None:
        inside = _Place(f"{place.path}[]", f"{place.name}_item")
        if special == zed_types.MAP and isinstance(typ, t.Map):
            entry = self._names[part["items"]] if isinstance(part["items"], str) else part["items"]
            self._record(entry, t.record(((KEY, typ.key), (VALUE, typ.value))), inside)
            return part
        is_set = special == zed_types.SET
        if special == zed_types.MAP or not isinstance(typ, t.Set if is_set else t.Array):
            return None
        assert isinstance(typ, t.Array | t.Set)
        part["items"] = self._part(part["items"], typ.elem, inside)
        return part


def _set_type(field: Any, typ: Any) -> None:
    """Give a field a wider type. A default value has to be of the first member of a union."""
    if typ == field["type"]:
        return
    if isinstance(typ, list) and "null" in typ and field.get("default") is not None:
        typ = [*(member for member in typ if member != "null"), "null"]
    elif isinstance(typ, list) and typ[0] == "null":
        field["default"] = None
    field["type"] = typ


def _enum(part: Any, typ: t.Enum) -> Any:
    """An enum with the symbols of another one behind its own."""
    known = zed_types.symbols(part)
    new = [symbol for symbol in typ.symbols if symbol not in known]
    if new:
        plain = [*part["symbols"], *avro_names(new, part["symbols"]).values()]
        names = [*known, *new]
        part["symbols"] = plain
        if plain != names:
            part[zed_types.SYMBOLS] = names
    return part


# ---- leaves


def _takes(to: t.Type, typ: t.Type) -> bool:
    """Whether a type without parts holds all values of another one."""
    to, typ = to.under, typ.under
    if to is typ:
        return True
    if typ in _INTEGERS and to in _INTEGERS:
        return common_type([to, typ]) is to
    if typ in _FLOATS and to in _FLOATS:
        return _FLOATS.index(typ) <= _FLOATS.index(to)
    if isinstance(to, t.Decimal):
        digits = decimal_of(typ)
        return digits is not None and common_decimal([to, digits]) is to
    return False


def _leaf(part: Any, to: t.Type, typ: t.Type) -> Any | None:
    """A schema without parts that takes a type as well; None if there is none that reads what this one wrote."""
    if _takes(to, typ):
        return part
    if to in _INTEGERS and typ in _INTEGERS:
        wide = common_type([to, typ])
        return primitive_schema(wide) if wide in _INTEGERS and wide is not t.UINT64 else None
    if to in _FLOATS and typ in _FLOATS:
        return primitive_schema(typ)
    digits = decimal_of(typ)
    if isinstance(to, t.Decimal) and digits is not None and part["type"] == "bytes" and digits.scale <= to.scale:
        decimal = common_decimal([to, digits])
        return None if decimal is None else {**part, "precision": decimal.precision}
    return None


def _shown(typ: t.Type) -> str:
    text = format_type(typ)
    return text if len(text) <= _LONGEST_TYPE else f"{text[:_LONGEST_TYPE]}..."
