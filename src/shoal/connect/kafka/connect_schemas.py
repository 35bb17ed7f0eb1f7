"""Schemas of Kafka Connect in JSON, as Zed types, and their payloads as data of these types.

    {"type":"struct","fields":[{"field":"id","type":"int32"},{"field":"at","type":"int64","name":"io.debezium..."}]}

A payload does not say what it means: the text "BBo=" is bytes or a decimal, and 1794814367254 a number or a time.
A null is a null of the type of its field, whether or not the schema allows it.
"""

from __future__ import annotations

from base64 import b64decode
from binascii import Error as BadBase64
from collections.abc import Callable
from decimal import Decimal
from typing import Any

from shoal.connect.kafka.connect_types import DECIMAL, Meaning, Unfit, meaning
from shoal.errors import InvalidInput
from shoal.formats.json.reader import typed
from shoal.formats.limits import at, check_fields
from shoal.model import types as t
from shoal.model.literals import round_float
from shoal.model.node import frozen
from shoal.model.values import Value
from shoal.model.zcode import Data, normal_map

Convert = Callable[[Any], Data]
"""Makes data of JSON that is not null."""
Path = tuple[str, ...]
_ROOT = "payload"


class Inexact(Exception):
    """A decimal that is a JSON number has to be read from its text again: it is not the float that was made of it."""


@frozen
class Converter:
    """A schema, or a part of it."""

    type: t.Type
    convert: Convert

    def data(self, decoded: Any) -> Data:
        """The data of decoded JSON."""
        return None if decoded is None else self.convert(decoded)


class UnfitAt(Exception):
    """A value that the type of its field cannot hold."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.path = path


class ConnectSchema:
    """A schema with its converters: one for most payloads, and others for those with values that do not fit."""

    def __init__(self, schema: Any) -> None:
        self._schema = schema
        self._converter = _compiled(schema, frozenset())
        self._others: dict[frozenset[Path], Converter] = {}

    def value(self, decoded: Any) -> Value:
        """The value of a payload. InvalidInput if it is not of this schema; Inexact if its numbers have to be exact."""
        converter, unfit = self._converter, frozenset[Path]()
        while True:
            try:
                return Value(converter.type, converter.data(decoded))
            except UnfitAt as e:
                unfit |= {e.path}
            if unfit not in self._others:
                self._others[unfit] = _compiled(self._schema, unfit)
            converter = self._others[unfit]


def _compiled(schema: Any, unfit: frozenset[Path]) -> Converter:
    try:
        return _Compiler(unfit).converter(schema, ())
    except RecursionError:
        raise InvalidInput(f"schema: nests deeper than {t.MAX_DEPTH} levels") from None
    except InvalidInput as e:
        raise at("schema", e) from None


class _Compiler:
    """Walks a schema. Values at the paths in `unfit` are known not to fit the types of their names."""

    def __init__(self, unfit: frozenset[Path]) -> None:
        self._unfit = unfit

    def converter(self, schema: Any, path: Path) -> Converter:
        """A schema or a part of it."""
        if not isinstance(schema, dict):
            raise InvalidInput(f"{_place(path)}: {type(schema).__name__}, not an object")
        if len(path) > t.MAX_DEPTH:
            raise InvalidInput(f"nests deeper than {t.MAX_DEPTH} levels")
        kind = schema.get("type")
        if kind in _CONTAINERS:
            base = _CONTAINERS[kind](self, schema, path)
        elif isinstance(kind, str) and kind in _PRIMITIVES:
            typ, convert = _PRIMITIVES[kind]
            base = Converter(typ, _placed(convert, path))
        else:
            raise InvalidInput(f"{_place(path)}: unknown type {kind!r}")
        name, parameters = schema.get("name"), schema.get("parameters")
        if not isinstance(name, str):
            return base
        meant = meaning(str(kind), name, parameters if isinstance(parameters, dict) else {})
        return base if meant is None else self._named(base, meant, name, path)

    def _named(self, base: Converter, meant: Meaning, name: str, path: Path) -> Converter:
        if base.type.kind == "record":
            base = _plain_fields(base)
        raw = _digits(path) if name == DECIMAL else base.convert
        if path in self._unfit:
            return Converter(meant.unfit_type, _chained(raw, meant.convert_unfit, path))
        return Converter(meant.type, _chained(raw, meant.convert, path))

    def struct(self, schema: Any, path: Path) -> Converter:
        """A record."""
        fields = schema.get("fields")
        if not isinstance(fields, list) or not all(isinstance(each, dict) for each in fields):
            raise InvalidInput(f"{_place(path)}: a struct without fields")
        check_fields(len(fields), _place(path))
        names, parts, may_lack = [], [], set()
        for each in fields:
            name = each.get("field")
            if not isinstance(name, str):
                raise InvalidInput(f"{_place(path)}: a field without a name")
            names.append(name)
            parts.append(self.converter(each, (*path, name)))
            if each.get("optional") is True:
                may_lack.add(name)
        typ = t.record(zip(names, (part.type for part in parts), strict=True))
        return Converter(typ, _record_converter(names, [part.convert for part in parts], may_lack, path))

    def array(self, schema: Any, path: Path) -> Converter:
        """An array."""
        item = self.converter(schema.get("items"), (*path, "[]"))
        data = item.data

        def convert(decoded: Any) -> Data:
            if type(decoded) is not list:
                raise _mismatch(decoded, "an array", path)
            return tuple(map(data, decoded))

        return Converter(t.array(item.type), convert)

    def map(self, schema: Any, path: Path) -> Converter:
        """A map: an object if its keys are strings, else an array of pairs."""
        key = self.converter(schema.get("keys"), (*path, "key"))
        item = self.converter(schema.get("values"), (*path, "value"))

        def convert(decoded: Any) -> Data:
            if type(decoded) is dict and key.type is t.STRING:
                pairs = list(decoded.items())
            elif type(decoded) is list and all(type(pair) is list and len(pair) == 2 for pair in decoded):
                pairs = decoded
            else:
                raise _mismatch(decoded, "a map", path)
            return normal_map(key.type, [(key.data(k), item.data(v)) for k, v in pairs])

        return Converter(t.map_of(key.type, item.type), convert)


_CONTAINERS: dict[Any, Callable[[_Compiler, Any, Path], Converter]] = {
    "struct": _Compiler.struct,
    "array": _Compiler.array,
    "map": _Compiler.map,
}


def _record_converter(names: list[str], converters: list[Convert], may_lack: set[str], path: Path) -> Convert:
    plan = list(zip(names, converters, strict=True))
    count, known = len(names), set(names)

    def convert(fields: Any) -> Data:
        if type(fields) is not dict:
            raise _mismatch(fields, "an object", path)
        if len(fields) != count or not fields.keys() <= known:
            fields = completed(fields)
        return tuple([None if (item := fields[name]) is None else make(item) for name, make in plan])

    def completed(fields: dict[str, Any]) -> dict[str, Any]:
        if unknown := sorted(fields.keys() - known):
            raise InvalidInput(f"{_place((*path, unknown[0]))}: a field that the schema does not have")
        if lost := sorted(known - fields.keys() - may_lack):
            raise InvalidInput(f"{_place((*path, lost[0]))}: the field is missing")
        return dict.fromkeys(names) | fields

    return convert


def _plain_fields(base: Converter) -> Converter:
    """A record by the names of its fields, for meanings that are made of several of them."""
    names = tuple(base.type.index)  # type: ignore[attr-defined]
    return Converter(base.type, lambda decoded: dict(zip(names, base.convert(decoded), strict=True)))


# ---- plain values


def _placed(convert: Convert | None, path: Path) -> Convert:
    """A conversion whose errors name the field."""
    assert convert is not None

    def placed(decoded: Any) -> Data:
        try:
            return convert(decoded)
        except InvalidInput as e:
            raise at(_place(path), e) from None

    return placed


def _chained(raw: Convert, convert: Convert, path: Path) -> Convert:
    """A conversion of what another one gives."""

    def chained(decoded: Any) -> Data:
        try:
            return convert(raw(decoded))
        except Unfit:
            raise UnfitAt(path) from None
        except (TypeError, KeyError):  # a null within, where it cannot be
            raise InvalidInput(f"{_place(path)}: malformed") from None

    return chained


def _place(path: Path) -> str:
    return ".".join(path) or _ROOT


def _mismatch(decoded: Any, expected: str, path: Path = ()) -> InvalidInput:
    kinds = {dict: "an object", list: "an array", str: "a string", bool: "a boolean", int: "a number"}
    message = f"expected {expected}, found {kinds.get(type(decoded), 'a number')}"
    return InvalidInput(f"{_place(path)}: {message}" if path else message)


def _integer(typ: t.Primitive) -> Convert:
    least, most = t.INT_RANGES[typ]

    def convert(decoded: Any) -> Data:
        if type(decoded) is not int:
            raise _mismatch(decoded, f"an {typ.name}")
        if not least <= decoded <= most:
            raise InvalidInput(f"{decoded} is not an {typ.name}")
        return decoded

    return convert


_ODD_FLOATS = {"NaN": float("nan"), "Infinity": float("inf"), "-Infinity": float("-inf")}


def _float(size: int) -> Convert:
    def convert(decoded: Any) -> Data:
        if type(decoded) is float:
            number = decoded
        elif type(decoded) is int or type(decoded) is Decimal:
            number = _as_float(decoded)
        elif type(decoded) is str and decoded in _ODD_FLOATS:
            return _ODD_FLOATS[decoded]
        else:
            raise _mismatch(decoded, "a float")
        rounded = number if size == 8 else round_float(number, size)
        if rounded - rounded != 0:
            raise InvalidInput(f"number out of range of float{8 * size}")
        return rounded

    return convert


def _as_float(number: int | Decimal) -> float:
    try:
        return float(number)
    except OverflowError:
        return float("inf")


def _boolean(decoded: Any) -> Data:
    if type(decoded) is not bool:
        raise _mismatch(decoded, "a boolean")
    return decoded


def _string(decoded: Any) -> Data:
    if type(decoded) is not str:
        raise _mismatch(decoded, "a string")
    return decoded if decoded.isascii() else typed(decoded)[1]


def _bytes(decoded: Any) -> Data:
    if type(decoded) is not str:
        raise _mismatch(decoded, "bytes as text in base64")
    try:
        return b64decode(decoded, validate=True)
    except (BadBase64, ValueError):
        raise InvalidInput("expected bytes as text in base64") from None


def _digits(path: Path) -> Convert:
    """The digits of a decimal, or the number itself: converters can be told to write it so."""

    def convert(decoded: Any) -> Any:
        if type(decoded) is float:
            raise Inexact
        if type(decoded) is int or type(decoded) is Decimal:
            return Decimal(decoded)
        return _placed(_bytes, path)(decoded)

    return convert


_PRIMITIVES: dict[str, tuple[t.Type, Convert]] = {
    "int8": (t.INT8, _integer(t.INT8)),
    "int16": (t.INT16, _integer(t.INT16)),
    "int32": (t.INT32, _integer(t.INT32)),
    "int64": (t.INT64, _integer(t.INT64)),
    "float": (t.FLOAT32, _float(4)),
    "float32": (t.FLOAT32, _float(4)),
    "double": (t.FLOAT64, _float(8)),
    "float64": (t.FLOAT64, _float(8)),
    "boolean": (t.BOOL, _boolean),
    "string": (t.STRING, _string),
    "bytes": (t.BYTES, _bytes),
}
"""The base types. JSON has `float` and `double` for what Connect calls float32 and float64."""
