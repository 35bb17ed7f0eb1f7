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
from shoal.formats.avro import logical_types
from shoal.formats.limits import at, check_fields
from shoal.model import types as t
from shoal.model.node import frozen
from shoal.model.values import Value
from shoal.model.zcode import Data, normal_map

Convert = Callable[[Any], Data]
_MEMBER = "member"
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

    def data(self, read: Any) -> Data:
        """The data of a value that fastavro has read."""
        return read if self.convert is None or read is None else self.convert(read)

    def value(self, read: Any) -> Value:
        """The value of what fastavro has read as a whole: one of a union has the type of its member."""
        data = self.data(read)
        if not isinstance(self.type, t.Union):
            return Value(self.type, data)
        return Value(t.NULL, None) if data is None else Value(self.type.types[data[0]], data[1])


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
        if kind in _COMPLEX:
            return _COMPLEX[kind](self, schema)
        return self._primitive(kind, schema)

    def _primitive(self, name: str, schema: Any) -> Node:
        if name not in _PRIMITIVES:
            raise InvalidInput(f"unknown type {name!r}")
        typ, convert, least = _PRIMITIVES[name]
        typ, convert = self._extension(name, schema) or (typ, convert)
        return _sized(name, typ, convert, least, _OBJECT)

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
        """A record."""
        name, fields = schema["name"], schema["fields"]
        check_fields(len(fields), f"record {name!r}")

        def make() -> Node:
            names = [field["name"] for field in fields]
            nodes = [self.node(field["type"]) for field in fields]
            parts = [{"name": n, "type": node.plain} for n, node in zip(names, nodes, strict=True)]
            return _sized(
                {"type": "record", "name": self._new_name(), "fields": parts},
                t.record(zip(names, (node.type for node in nodes), strict=True)),
                _record_converter(names, nodes),
                sum(node.least for node in nodes),
                _DICT + sum(_ENTRY + node.memory for node in nodes),
                nodes,
            )

        return self._define(name, make)

    def enum(self, schema: Any) -> Node:
        """An enum."""
        name, symbols = schema["name"], schema["symbols"]
        places = {symbol: i for i, symbol in enumerate(symbols)}
        plain = {"type": "enum", "name": self._new_name(), "symbols": symbols}
        return self._define(name, lambda: _sized(plain, t.enum(symbols), places.__getitem__, 1, _POINTER))

    def fixed(self, schema: Any) -> Node:
        """Bytes of a fixed number."""
        name, size = schema["name"], schema["size"]
        if not isinstance(size, int) or size < 0:
            raise InvalidInput(f"type {name!r} has a size of {size!r}")
        typ, convert = self._extension("fixed", schema) or (t.BYTES, None)
        plain = {"type": "fixed", "name": self._new_name(), "size": size}
        return self._define(name, lambda: _sized(plain, typ, convert, size, _OBJECT))

    def array(self, schema: Any) -> Node:
        """An array."""
        item = self.node(schema["items"])
        if not item.least:
            raise InvalidInput("an array whose elements take no bytes could have any number of them")
        data = item.data
        convert: Convert = tuple if item.convert is None else lambda items: tuple(map(data, items))
        return _sized({"type": "array", "items": item.plain}, t.array(item.type), convert, 1, _OBJECT, [item])

    def map(self, schema: Any) -> Node:
        """A map, whose keys are strings."""
        item = self.node(schema["values"])
        data = item.data
        entry = Node(None, t.NULL, None, 1 + item.least, 4 * _ENTRY + item.memory, 1)
        growth = max(item.growth, entry.memory // entry.least)

        def convert(entries: dict[str, Any]) -> Data:
            return normal_map(t.STRING, ((key, data(value)) for key, value in entries.items()))

        plain, typ = {"type": "map", "values": item.plain}, t.map_of(t.STRING, item.type)
        return Node(plain, typ, convert, 1, _DICT, max(_DICT, growth))

    def _union(self, schema: list[Any]) -> Node:
        nodes = [self.node(each) for each in schema]
        values = [node for node in nodes if node.type is not t.NULL]
        least, memory = 1 + min((node.least for node in nodes), default=0), max((n.memory for n in nodes), default=0)
        if len(values) < 2:
            (node,) = values or [_NULL]
            plain: Any = [each.plain for each in nodes]
            return _sized(plain, node.type, node.convert, least, memory, nodes)
        wrapped, members = [], {}
        for node in nodes:
            if node.type is t.NULL:
                wrapped.append(node.plain)
                continue
            name = self._new_name()
            members[name] = node
            wrapped.append({"type": "record", "name": name, "fields": [{"name": _MEMBER, "type": node.plain}]})
        types = t.unique_types(node.type for node in values)
        if len(types) == 1:
            return _sized(wrapped, types[0], _picked(members), least, memory + _DICT, nodes)
        union = t.union(types)
        return _sized(wrapped, union, _tagged(members, union), least, memory + 2 * _DICT, nodes)


_COMPLEX: dict[str, Callable[[_Compiler, Any], Node]] = {
    "record": _Compiler.record,
    "error": _Compiler.record,
    "enum": _Compiler.enum,
    "fixed": _Compiler.fixed,
    "array": _Compiler.array,
    "map": _Compiler.map,
}


def _sized(
    plain: Any, typ: t.Type, convert: Convert | None, least: int, memory: int, parts: list[Node] | None = None
) -> Node:
    growth = max([memory // max(1, least), *(part.growth for part in parts or ())])
    return Node(plain, typ, convert, least, memory, growth)


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
        return members[name].data(fields[_MEMBER])

    return convert


def _tagged(members: dict[str, Node], union: t.Union) -> Convert:
    """Data of a union, with its tag."""

    def convert(read: tuple[str, dict[str, Any]]) -> Data:
        name, fields = read
        member = members[name]
        return (union.tags[member.type], member.data(fields[_MEMBER]))

    return convert
