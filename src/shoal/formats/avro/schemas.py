"""Avro schemas as Zed types, and what fastavro reads as the data of these types.

fastavro reads by a plainer schema of the same encoding. It has no logical types, whose Python objects hold less than
the numbers do. The members of a union are records of one field each: they take the same bytes, and fastavro tells
which of several records it has read, but not which of several numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from operator import itemgetter
from typing import Any

import fastavro
from fastavro.schema import SchemaParseException, UnknownType

from shoal.errors import InvalidInput
from shoal.formats.avro import logical_types, zed_types
from shoal.formats.limits import at, check_fields
from shoal.model import types as t
from shoal.model.node import frozen
from shoal.model.values import Value
from shoal.model.zcode import Data, normal_map, normal_set

Convert = Callable[[Any], Data]
MEMBER = "member"
"""The field of a record that stands for a member of a union."""
_POINTER, _OBJECT, _DICT, _ENTRY = 8, 56, 240, 120
"""Bytes of memory, about: of an element of a list, a small value, a record, and an entry of a record or map."""


@frozen
class Node:
    """A part of a schema."""

    plain: Any
    """The schema that fastavro reads by."""
    type: t.Type
    convert: Convert | None
    """Makes data of what fastavro reads, unless it is null; None if they are the same."""
    least: int
    """How many bytes a value takes at least."""
    memory: int
    """How many bytes of memory such a value takes, about."""
    growth: int
    """How many times its bytes a value, or any part of it, may take in memory."""

    form: str = "leaf"
    """How it is made of parts: record, wrapper, array, entries, map or union; leaf if it is not."""
    parts: tuple[Part, ...] = ()
    write: Callable[[Data], Any] | None = None
    """For a leaf: the inverse of `convert`, exact or InvalidInput; None if both are the same."""

    def data(self, read: Any) -> Data:
        """The data of a value that fastavro has read."""
        return read if self.convert is None or read is None else self.convert(read)

    def value(self, read: Any) -> Value:
        """The value of what fastavro has read as a whole: one of a union has the type of its member."""
        data = self.data(read)
        if self.form != "union" or not isinstance(self.type, t.Union):
            return Value(self.type, data)
        return Value(t.NULL, None) if data is None else Value(self.type.types[data[0]], data[1])


@frozen
class Part:
    """A part of a node."""

    name: str
    """That of a field in Avro; in a union, that by which fastavro chooses this member."""
    label: str
    """The name of a field in Zed; in a union, that of the field of the record that stands for the member, if any."""
    node: Node


Extension = Callable[[str, Any], logical_types.Logical | None]
"""Takes a type of Avro and the properties beside it: what it stands for, if some convention says so."""


def compile_schema(schema: Any, others: Iterable[Any] = (), extension: Extension = logical_types.of) -> Node:
    """A schema, its type, and how to make data of that type. InvalidInput if it is malformed or has no Zed type.

    `others` are schemas that define what it refers to, each after those that it refers to itself.
    """
    names: dict[str, Any] = {}
    try:
        for other in others:
            fastavro.parse_schema(other, names, _write_hint=False)
        parsed = fastavro.parse_schema(schema, dict(names))
        return _Compiler(names, extension).node(parsed)
    except InvalidInput as e:
        raise at("schema", e) from None
    except UnknownType as e:
        name = e.name.get("type") if isinstance(e.name, dict) else e.name
        raise InvalidInput(f"schema: unknown type {name!r}") from None
    except (SchemaParseException, LookupError, TypeError, ValueError, AttributeError, RecursionError) as e:
        raise InvalidInput(f"schema: {' '.join(str(e).split())}") from None


def compile_part(part: Any, names: Mapping[str, Any]) -> Node:
    """A part of a schema that fastavro has parsed, given the definitions of all its names."""
    try:
        return _Compiler(names, logical_types.of).node(part)
    except InvalidInput as e:
        raise at("schema", e) from None


class _Compiler:
    """Walks a schema whose names are full and known to be defined."""

    def __init__(self, outside: Mapping[str, Any], extension: Extension) -> None:
        self._outside = outside
        """Definitions of other schemas, which become part of this one where they are first used."""
        self._extension = extension
        self._named: dict[str, Node | None] = {}
        """None while a type is being defined."""
        self._count = 0

    def node(self, schema: Any) -> Node:
        """A schema or a part of it."""
        if isinstance(schema, list):
            return self._union(schema)
        if isinstance(schema, str):
            if schema in self._named:
                return self._reference(schema)
            return self.node(self._outside[schema]) if schema in self._outside else self._primitive(schema, {})
        kind = schema["type"]
        return _COMPLEX[kind](self, schema) if kind in _COMPLEX else self._primitive(kind, schema)

    def _primitive(self, name: str, schema: Any) -> Node:
        if name not in _PRIMITIVES:
            raise InvalidInput(f"unknown type {name!r}")
        typ, convert, least = _PRIMITIVES[name]
        node = _sized(name, typ, convert, least, _OBJECT)
        return self._meant(node, name, schema) if schema else node

    def _meant(self, node: Node, base: str, schema: Any) -> Node:
        """A leaf with the type that its properties say."""
        logical = zed_types.of(base, schema) or self._extension(base, schema)
        if logical is not None:
            node = replace(node, type=logical.type, convert=logical.convert, write=logical.write or _refuse)
        return replace(node, type=zed_types.named(node.type, schema))

    def _reference(self, name: str) -> Node:
        node = self._named[name]
        if node is None:
            raise InvalidInput(f"type {name!r} contains itself, which no Zed type does")
        return replace(node, plain=node.plain["name"])

    def _new_name(self) -> str:
        """A name for the schema that fastavro reads by. Names without points mean the same wherever they stand."""
        self._count += 1
        return f"shoal{self._count}"

    def _define(self, name: str, make: Callable[[], Node]) -> Node:
        self._named[name] = None
        node = self._named[name] = make()
        return node

    def record(self, schema: Any) -> Node:
        """A record, or what it stands for."""
        name, fields = schema["name"], schema["fields"]
        check_fields(len(fields), f"record {name!r}")
        kind = schema.get(zed_types.TYPE)
        if kind in zed_types.WRAPPERS and len(fields) == 1:
            return self._define(name, lambda: self._wrapper(kind, schema))

        def make() -> Node:
            nodes = [self.node(field["type"]) for field in fields]
            plain_fields = [{"name": f["name"], "type": node.plain} for f, node in zip(fields, nodes, strict=True)]
            parts = [Part(f["name"], zed_types.field_name(f), node) for f, node in zip(fields, nodes, strict=True)]
            typ = t.record((part.label, part.node.type) for part in parts)
            return _sized(
                {"type": "record", "name": self._new_name(), "fields": plain_fields},
                zed_types.named(typ, schema),
                _record_converter([part.name for part in parts], nodes),
                sum(node.least for node in nodes),
                _DICT + sum(_ENTRY + node.memory for node in nodes),
                "record",
                tuple(parts),
            )

        return self._define(name, make)

    def _wrapper(self, kind: str, schema: Any) -> Node:
        """A record of one field that stands for what it holds."""
        (field,) = schema["fields"]
        name, members = field["name"], field["type"]
        is_union = kind == zed_types.UNION and isinstance(members, list)
        inner = self._union_of([self.node(each) for each in members], True) if is_union else self.node(members)
        typ = t.error(inner.type) if kind == zed_types.ERROR else inner.type
        plain = {"type": "record", "name": self._new_name(), "fields": [{"name": name, "type": inner.plain}]}
        data, memory = inner.data, _DICT + inner.memory
        return _sized(
            plain,
            zed_types.named(typ, schema),
            lambda fields: data(fields[name]),
            inner.least,
            memory,
            "wrapper",
            (Part(name, name, inner),),
        )

    def enum(self, schema: Any) -> Node:
        """An enum."""
        name, symbols = schema["name"], schema["symbols"]
        places = {symbol: i for i, symbol in enumerate(symbols)}
        plain = {"type": "enum", "name": self._new_name(), "symbols": symbols}
        typ = zed_types.named(t.enum(zed_types.symbols(schema)), schema)
        node = replace(_sized(plain, typ, places.__getitem__, 1, _POINTER), write=symbols.__getitem__)
        return self._define(name, lambda: node)

    def fixed(self, schema: Any) -> Node:
        """Bytes of a fixed number."""
        name, size = schema["name"], schema["size"]
        if not isinstance(size, int) or size < 0:
            raise InvalidInput(f"type {name!r} has a size of {size!r}")
        plain = {"type": "fixed", "name": self._new_name(), "size": size}
        node = _sized(plain, t.BYTES, None, size, _OBJECT)
        sized = replace(node, write=_of_size(size))
        return self._define(name, lambda: self._meant(sized, "fixed", schema))

    def array(self, schema: Any) -> Node:
        """An array, or a set or a map that is written as one."""
        item = self.node(schema["items"])
        if not item.least:
            raise InvalidInput("an array whose elements take no bytes could have any number of them")
        data, elem = item.data, item.type
        kind = schema.get(zed_types.TYPE)
        form = "array"
        typ: t.Type = t.array(elem)
        convert: Convert = tuple if item.convert is None else lambda items: tuple(map(data, items))
        if kind == zed_types.SET:
            typ, convert = t.set_of(elem), lambda items: normal_set(elem, map(data, items))
        elif kind == zed_types.MAP and item.form == "record" and len(item.parts) == 2:
            key, value = (part.node.type for part in item.parts)
            form, typ, convert = "entries", t.map_of(key, value), lambda items: normal_map(key, map(data, items))
        plain = {"type": "array", "items": item.plain}
        return _sized(plain, zed_types.named(typ, schema), convert, 1, _OBJECT, form, (Part("", "", item),))

    def map(self, schema: Any) -> Node:
        """A map, whose keys are strings."""
        item = self.node(schema["values"])
        data = item.data
        entry = Node(None, t.NULL, None, 1 + item.least, 4 * _ENTRY + item.memory, 1)
        growth = max(item.growth, entry.memory // entry.least)

        def convert(entries: dict[str, Any]) -> Data:
            return normal_map(t.STRING, ((key, data(value)) for key, value in entries.items()))

        plain, typ = {"type": "map", "values": item.plain}, zed_types.named(t.map_of(t.STRING, item.type), schema)
        return Node(plain, typ, convert, 1, _DICT, max(_DICT, growth), "map", (Part("", "", item),))

    def _union(self, schema: list[Any]) -> Node:
        nodes = [self.node(each) for each in schema]
        values = [node for node in nodes if node.plain != "null"]
        if len(values) > 1:
            return self._union_of(nodes)
        least, memory = 1 + min((node.least for node in nodes), default=0), max((n.memory for n in nodes), default=0)
        (node,) = values or [_NULL]
        parts = tuple(Part(_plain_name(each.plain), "", each) for each in nodes)
        plain = [each.plain for each in nodes]
        return _sized(plain, node.type, node.convert, least, memory, "union", parts)

    def _union_of(self, nodes: list[Node], is_exact: bool = False) -> Node:
        """A union of which fastavro tells which member it has read. If all members are of one type, it is that type.

        An exact one is a union whatever its members are, and null may be one of them.
        """
        members: dict[str, Node] = {}
        parts, plain = [], []
        for node in nodes:
            if node.plain == "null":
                parts.append(Part("null", "", node))
                plain.append(node.plain)
                continue
            name = self._new_name()
            members[name] = node
            parts.append(Part(name, MEMBER, node))
            plain.append({"type": "record", "name": name, "fields": [{"name": MEMBER, "type": node.plain}]})
        least, memory = 1 + min((node.least for node in nodes), default=0), max((n.memory for n in nodes), default=0)
        types = t.unique_types(node.type for node in (nodes if is_exact else members.values()))
        if len(types) == 1 and not is_exact:
            return _sized(plain, types[0], _picked(members), least, memory + _DICT, "union", tuple(parts))
        union = t.union(types)
        return _sized(plain, union, _tagged(members, union), least, memory + 2 * _DICT, "union", tuple(parts))


_COMPLEX: dict[str, Callable[[_Compiler, Any], Node]] = {
    "record": _Compiler.record,
    "error": _Compiler.record,
    "enum": _Compiler.enum,
    "fixed": _Compiler.fixed,
    "array": _Compiler.array,
    "map": _Compiler.map,
}


def _sized(
    plain: Any,
    typ: t.Type,
    convert: Convert | None,
    least: int,
    memory: int,
    form: str = "leaf",
    parts: tuple[Part, ...] = (),
) -> Node:
    growth = max([memory // max(1, least), *(part.node.growth for part in parts)])
    return Node(plain, typ, convert, least, memory, growth, form, parts)


def _plain_name(plain: Any) -> str:
    """What fastavro calls a member of a union."""
    return plain if isinstance(plain, str) else str(plain.get("name") or plain["type"])


def _refuse(data: Data) -> Any:
    raise InvalidInput("values of this type are read, and not written")


def _of_size(size: int) -> Callable[[Data], Any]:
    def write(data: bytes) -> bytes:
        if len(data) != size:
            raise InvalidInput(f"{len(data)} bytes where there have to be {size}")
        return data

    return write


def _int32(number: int) -> int:
    if not -(1 << 31) <= number < 1 << 31:
        raise InvalidInput(f"{number} is not an int, which has 32 bits")
    return number


_PRIMITIVES: dict[str, tuple[t.Type, Convert | None, int]] = {
    "null": (t.NULL, None, 0),
    "boolean": (t.BOOL, None, 1),
    "int": (t.INT32, _int32, 1),
    "long": (t.INT64, None, 1),
    "float": (t.FLOAT32, None, 4),
    "double": (t.FLOAT64, None, 8),
    "bytes": (t.BYTES, None, 1),
    "string": (t.STRING, None, 1),
}
"""The type of each, what to do with its values, and the bytes that one takes at least."""


_NULL = _sized("null", t.NULL, None, 0, _OBJECT)


def _record_converter(names: list[str], nodes: list[Node]) -> Convert:
    if not names:
        return lambda fields: ()
    values = itemgetter(*names) if len(names) > 1 else lambda fields: (fields[names[0]],)
    if all(node.convert is None for node in nodes):
        return values
    converters = [node.convert for node in nodes]

    def convert(fields: dict[str, Any]) -> Data:
        return tuple(
            [
                item if item is None or converter is None else converter(item)
                for converter, item in zip(converters, values(fields), strict=True)
            ]
        )

    return convert


def _picked(members: dict[str, Node]) -> Convert:
    """Data of a union whose members are all of one type."""

    def convert(read: tuple[str, dict[str, Any]]) -> Data:
        name, fields = read
        return members[name].data(fields[MEMBER])

    return convert


def _tagged(members: dict[str, Node], union: t.Union) -> Convert:
    """Data of a union, with its tag. fastavro does not name the only record of a union."""
    if len(members) == 1:
        (only,) = members.values()
        return lambda fields: (union.tags[only.type], only.data(fields[MEMBER]))

    def convert(read: tuple[str, dict[str, Any]]) -> Data:
        name, fields = read
        member = members[name]
        return (union.tags[member.type], member.data(fields[MEMBER]))

    return convert
