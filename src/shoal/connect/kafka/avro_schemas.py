"""Avro schemas for shapes, from which a decoder makes the very same values again.

    {id:int64,at:time,tags:|[string]|}     {"type":"record","name":"orders","fields":[
                                              {"name":"id","type":["null","long"],"default":null},
                                              {"name":"at","type":["null",{"type":"long",
                                                "logicalType":"timestamp-nanos"}],"default":null},
                                              {"name":"tags","type":["null",{"type":"array","zed_type":"set",
                                                "items":["null","string"]}],"default":null}]}

Any part of a value may be null, so any part of a schema is nullable. What Avro has no word for is said by properties
that other readers pass over, see `shoal.formats.avro.zed_types`. A time is one in nanoseconds: all of ours fit, and a
reader that does not know the logical type yet reads the number.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from shoal.errors import InvalidInput
from shoal.formats.avro import zed_types
from shoal.model import types as t

_ODD = re.compile(r"[^A-Za-z0-9_]")
_BEGINNING = re.compile(r"[A-Za-z_]")
_LONGEST_NAME = 100
KEY, VALUE = "key", "value"
"""The fields of an entry of a map."""


def schema_of(typ: t.Type, name: str) -> Any:
    """The schema of a type. Records are called by the name, such as `shop.Order`, and by their fields below it."""
    return Namer().schema(typ, full_name(name))


def full_name(name: str) -> str:
    """A name as Avro allows it; points separate the namespaces."""
    plain = ".".join(avro_name(part) for part in name.split("."))
    return f"_{plain}" if plain in _PRIMITIVE_NAMES else plain


def avro_name(name: str) -> str:
    """A name with other characters in place of those that Avro does not allow; it need not be unique."""
    plain = _ODD.sub("_", name)[:_LONGEST_NAME]
    return plain if _BEGINNING.match(plain) else f"_{plain}"


def unique_name(name: str, taken: Iterable[str]) -> str:
    """A name with a number after it, if it is taken."""
    others = set(taken)
    candidates = (f"{name}_{i}" for i in range(2, len(others) + 3))
    return name if name not in others else next(each for each in candidates if each not in others)


def avro_names(names: Iterable[str], taken: Iterable[str] = ()) -> dict[str, str]:
    """Names as Avro allows them, each another one. Those that are allowed already stay, wherever they stand."""
    wanted = list(names)
    out = {name: name for name in wanted if avro_name(name) == name and name not in set(taken)}
    for name in wanted:
        if name not in out:
            out[name] = unique_name(avro_name(name), (*taken, *out.values()))
    return {name: out[name] for name in wanted}


def nullable(schema: Any) -> Any:
    """A schema that allows null as well."""
    if isinstance(schema, list):
        return schema if "null" in schema else ["null", *schema]
    return schema if schema == "null" else ["null", schema]


def field_of(name: str, plain: str, schema: Any) -> dict[str, Any]:
    """A field of a record. Data that was written before the field was there has null in it."""
    field = {"name": plain, "type": nullable(schema), "default": None}
    return field if name == plain else {**field, zed_types.NAME: name}


def branch_of(schema: Any) -> str:
    """What distinguishes a member of a union: its name, or its type if it has no name."""
    return schema if isinstance(schema, str) else str(schema.get("name") or schema["type"])


class Namer:
    """Makes schemas whose types have names of their own: that of the place where they stand, with a number if need be.

    Fields are renamed rather than refused; a property has the name that Avro does not allow.
    """

    def __init__(self, taken: Iterable[str] = ()) -> None:
        self._taken = set(taken)

    def _new(self, place: str) -> str:
        name = unique_name(place, self._taken)
        self._taken.add(name)
        return name

    def schema(self, typ: t.Type, place: str) -> Any:
        """The schema of a type, which is not a union of Avro: these cannot have properties, or be in each other."""
        match typ:
            case t.Named():
                return self._named(typ, place)
            case t.Record():
                return self._record(typ, place)
            case t.Array() | t.Set():
                is_set = {zed_types.TYPE: zed_types.SET} if isinstance(typ, t.Set) else {}
                return {"type": "array", "items": self._item(typ.elem, f"{place}_item"), **is_set}
            case t.Map():
                return self._map(typ, place)
            case t.Enum():
                return self._enum(typ, place)
            case t.Error():
                name = self._new(place)
                return wrapper(zed_types.ERROR, self.part(typ.inner, f"{name}_error"), name)
            case t.Union():
                name = self._new(place)
                return wrapper(zed_types.UNION, self._members(typ, f"{name}_value"), name)
            case _:
                return primitive_schema(typ)

    def part(self, typ: t.Type, place: str) -> Any:
        """The schema of a type where it may be a union of Avro. One of those has two members or more beside null."""
        is_plain = isinstance(typ, t.Union) and len(typ.types) > 1 and t.NULL not in typ.types
        return self._members(typ, place) if is_plain and isinstance(typ, t.Union) else self.schema(typ, place)

    def member(self, typ: t.Type, place: str, others: Iterable[str]) -> Any:
        """The schema of a type beside others in a union, which may have one member of each type without a name."""
        schema = self.schema(typ, place)
        return wrapper(zed_types.VALUE, schema, self._new(place)) if branch_of(schema) in others else schema

    def _members(self, union: t.Union, place: str) -> list[Any]:
        members: list[Any] = ["null"] if t.NULL in union.types else []
        for typ in union.types:
            if typ is not t.NULL:
                members.append(self.member(typ, place, ["null", *map(branch_of, members)]))
        return members

    def _named(self, typ: t.Named, place: str) -> Any:
        schema = self.schema(typ.inner, place)
        if isinstance(schema, str) and schema != "null":
            schema = {"type": schema}
        if isinstance(schema, str) or zed_types.NAME in schema:
            schema = wrapper(zed_types.VALUE, schema, self._new(place))
        return {**schema, zed_types.NAME: typ.name}

    def _record(self, typ: t.Record, place: str) -> Any:
        name, plain = self._new(place), avro_names(typ.index)
        fields = [field_of(f.name, plain[f.name], self.part(f.type, f"{name}_{plain[f.name]}")) for f in typ.fields]
        return {"type": "record", "name": name, "fields": fields}

    def _item(self, typ: t.Type, place: str) -> Any:
        """The schema of an element. One of no type takes a byte, or there could be any number of them."""
        return ["null"] if typ is t.NULL else nullable(self.part(typ, place))

    def _map(self, typ: t.Map, place: str) -> Any:
        """A map; an array of records if its keys are not just strings."""
        if typ.key is t.STRING:
            return {"type": "map", "values": nullable(self.part(typ.value, f"{place}_{VALUE}"))}
        entry = self._record(t.record(((KEY, typ.key), (VALUE, typ.value))), f"{place}_entry")
        if all(field["type"] == "null" for field in entry["fields"]):
            entry["fields"][0]["type"] = ["null"]  # which takes a byte
        return {"type": "array", "items": entry, zed_types.TYPE: zed_types.MAP}

    def _enum(self, typ: t.Enum, place: str) -> Any:
        if not typ.symbols:
            raise InvalidInput("an enum without symbols, which Avro does not have")
        plain = list(avro_names(typ.symbols).values())
        schema = {"type": "enum", "name": self._new(place), "symbols": plain}
        return schema if plain == list(typ.symbols) else {**schema, zed_types.SYMBOLS: list(typ.symbols)}


def wrapper(kind: str, schema: Any, name: str) -> dict[str, Any]:
    """A record that stands for what it holds."""
    field = {"name": zed_types.ERROR if kind == zed_types.ERROR else zed_types.VALUE, "type": schema}
    return {"type": "record", "name": name, "fields": [field], zed_types.TYPE: kind}


_PRIMITIVE_NAMES = ("null", "boolean", "int", "long", "float", "double", "bytes", "string")
_PLAIN: dict[t.Type, Any] = {
    t.NULL: "null",
    t.BOOL: "boolean",
    t.INT32: "int",
    t.INT64: "long",
    t.FLOAT32: "float",
    t.FLOAT64: "double",
    t.BYTES: "bytes",
    t.STRING: "string",
    t.DATE: {"type": "int", "logicalType": "date"},
    t.TIME: {"type": "long", "logicalType": "timestamp-nanos"},
    t.UINT64: {"type": "bytes", "logicalType": "decimal", "precision": 20, "scale": 0, zed_types.TYPE: "uint64"},
    **{typ: {"type": "int", zed_types.TYPE: typ.name} for typ in (t.INT8, t.INT16, t.UINT8, t.UINT16)},
    **{typ: {"type": "long", zed_types.TYPE: typ.name} for typ in (t.UINT32, t.DURATION)},
    t.FLOAT16: {"type": "float", zed_types.TYPE: "float16"},
    **{typ: {"type": "string", zed_types.TYPE: typ.name} for typ in (t.IP, t.NET, t.TYPE)},
}


def primitive_schema(typ: t.Type) -> Any:
    """The schema of a type without parts."""
    if isinstance(typ, t.Decimal):
        return {"type": "bytes", "logicalType": "decimal", "precision": typ.precision, "scale": typ.scale}
    schema = _PLAIN[typ]
    return dict(schema) if isinstance(schema, dict) else schema
