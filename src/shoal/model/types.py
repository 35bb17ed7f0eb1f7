"""Zed types. A type is interned: two equal types are one object, so `is` compares types.

Interning is process-wide and weak: a type lives as long as something uses it, and values
from different files, threads or queries compare without any translation.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Iterable
from functools import cmp_to_key
from typing import TYPE_CHECKING, Any, ClassVar, Generic, NamedTuple, Protocol, TypeVar, cast
from weakref import WeakValueDictionary

from shoal.errors import InvalidInput
from shoal.lazy import lazy

if TYPE_CHECKING:
    from shoal.model import text as zson
else:
    zson = lazy("shoal.model.text")

MAX_DEPTH = 128
"""How deep types and values may nest. Every recursive walk in Shoal relies on this cap."""

MAX_SIZE = 250_000
"""How many parts a type may have when it is written out. Without this cap a type that uses one part
twice at each level would take time exponential in its depth."""

FIRST_COMPLEX_ID = 30
"""In ZNG, identifiers below this one are primitive types; the others are typedefs of the stream."""


_V = TypeVar("_V")


class MemoKey(Generic[_V]):
    """What a module works out about types, such as their decoders: the key of it, and the type of its values.

    Each module has keys of its own. A type refers to what was worked out, and not the other way round, so that both
    go when nothing uses the type any more.
    """

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return f"<memo of {self.name}>"


class Memo(Protocol):
    """What has been worked out about a type: a dictionary in which the key decides the type of the value."""

    def get(self, key: MemoKey[_V], /) -> _V | None:
        """What was worked out; None if it was not."""

    def setdefault(self, key: MemoKey[_V], default: _V, /) -> _V:
        """What was worked out, or the default, which is kept."""

    def __setitem__(self, key: MemoKey[_V], value: _V, /) -> None:
        """Keep what was worked out."""


class Type:
    """A Zed type. Never call a constructor: use `record`, `array`, ... so that equal means identical."""

    __slots__ = ("__weakref__", "depth", "has_float", "memo", "size", "under")
    kind: ClassVar[str] = ""
    kind_rank: ClassVar[int] = 0
    under: Type
    """The type below any names: `under` of `port=uint16` is `uint16`."""
    depth: int
    size: int
    has_float: bool
    """Whether a value may hold a float: those need care in equality (NaN, -0.)."""
    memo: Memo
    """What has been worked out about this type, kept as long as the type."""

    def children(self) -> tuple[Type, ...]:
        """The types this one is made of."""
        return ()

    def __repr__(self) -> str:
        """The type in ZSON, as a value."""
        return f"<{zson.format_type(self)}>"

    def __copy__(self) -> Type:
        return self

    def __deepcopy__(self, memo: object) -> Type:
        return self


class Primitive(Type):
    """A type without parts, such as `int64` or `ip`."""

    __slots__ = ("id", "name")
    kind = "primitive"

    def __init__(self, name: str, ident: int) -> None:
        self.name = name
        self.id = ident
        self.under = self
        self.memo = cast("Memo", {})
        self.depth = 1
        self.size = 1
        self.has_float = name.startswith("float")

    def __repr__(self) -> str:
        return f"<{self.name}>"

    def __reduce__(self) -> tuple[Any, ...]:
        return (primitive, (self.name,))


MAX_DIGITS = 38
"""Digits of a decimal: as many as Parquet, Spark and DuckDB have."""


class Decimal(Primitive):
    """Decimal numbers of at most `precision` digits, `scale` of them after the point."""

    __slots__ = ("precision", "scale")

    def __init__(self, precision: int, scale: int) -> None:
        super().__init__(f"decimal({precision},{scale})", _DECIMAL_RANK)
        self.precision = precision
        self.scale = scale

    def __reduce__(self) -> tuple[Any, ...]:
        return (decimal, (self.precision, self.scale))


_DECIMAL_RANK, _DATE_RANK = 17, 22
"""Where these types stand among the primitive ones. They have no identifiers in ZNG: see `wire_name`."""


class Field(NamedTuple):
    """One field of a record type."""

    name: str
    type: Type


class Record(Type):
    """A record; the order of its fields is part of the type."""

    __slots__ = ("fields", "index")
    kind = "record"
    kind_rank = 1

    def __init__(self, fields: tuple[Field, ...]) -> None:
        self.fields = fields
        self.index = {f.name: i for i, f in enumerate(fields)}

    def children(self) -> tuple[Type, ...]:
        return tuple(f.type for f in self.fields)

    def __reduce__(self) -> tuple[Any, ...]:
        return (record, (self.fields,))


class Array(Type):
    """An array of one element type."""

    __slots__ = ("elem",)
    kind = "array"
    kind_rank = 2

    def __init__(self, elem: Type) -> None:
        self.elem = elem

    def children(self) -> tuple[Type, ...]:
        return (self.elem,)

    def __reduce__(self) -> tuple[Any, ...]:
        return (array, (self.elem,))


class Set(Type):
    """A set: its elements are distinct and in canonical order."""

    __slots__ = ("elem",)
    kind = "set"
    kind_rank = 3

    def __init__(self, elem: Type) -> None:
        self.elem = elem

    def children(self) -> tuple[Type, ...]:
        return (self.elem,)

    def __reduce__(self) -> tuple[Any, ...]:
        return (set_of, (self.elem,))


class Map(Type):
    """A map from keys of one type to values of another; keys are in canonical order."""

    __slots__ = ("key", "value")
    kind = "map"
    kind_rank = 4

    def __init__(self, key: Type, value: Type) -> None:
        self.key = key
        self.value = value

    def children(self) -> tuple[Type, ...]:
        return (self.key, self.value)

    def __reduce__(self) -> tuple[Any, ...]:
        return (map_of, (self.key, self.value))


class Union(Type):
    """A union; its members are distinct and in canonical order."""

    __slots__ = ("tags", "types")
    kind = "union"
    kind_rank = 5

    def __init__(self, types: tuple[Type, ...]) -> None:
        self.types = types
        self.tags = {t: i for i, t in enumerate(types)}

    def children(self) -> tuple[Type, ...]:
        return self.types

    def __reduce__(self) -> tuple[Any, ...]:
        return (union, (self.types,))


class Enum(Type):
    """An enumeration of symbols; a value is the position of its symbol."""

    __slots__ = ("symbols",)
    kind = "enum"
    kind_rank = 6

    def __init__(self, symbols: tuple[str, ...]) -> None:
        self.symbols = symbols

    def __reduce__(self) -> tuple[Any, ...]:
        return (enum, (self.symbols,))


class Error(Type):
    """An error that wraps a value of any type."""

    __slots__ = ("inner",)
    kind = "error"
    kind_rank = 7

    def __init__(self, inner: Type) -> None:
        self.inner = inner

    def children(self) -> tuple[Type, ...]:
        return (self.inner,)

    def __reduce__(self) -> tuple[Any, ...]:
        return (error, (self.inner,))


class Named(Type):
    """A type with a name. The name is part of the type; one name may stand for several types."""

    __slots__ = ("inner", "name")
    kind = "named"

    def __init__(self, name: str, inner: Type) -> None:
        self.name = name
        self.inner = inner

    def children(self) -> tuple[Type, ...]:
        return (self.inner,)

    def __reduce__(self) -> tuple[Any, ...]:
        return (named, (self.name, self.inner))


_PRIMITIVE_IDS = {
    "uint8": 0, "uint16": 1, "uint32": 2, "uint64": 3,
    "int8": 6, "int16": 7, "int32": 8, "int64": 9,
    "duration": 12, "time": 13,
    "float16": 14, "float32": 15, "float64": 16,
    "bool": 23, "bytes": 24, "string": 25, "ip": 26, "net": 27, "type": 28, "null": 29,
}  # fmt: skip

DATE = Primitive("date", _DATE_RANK)
"""Days of the calendar. Zed has no such type, and its data may give the name to another one: see `wire_name`."""

PRIMITIVES: dict[str, Primitive] = {name: Primitive(name, i) for name, i in _PRIMITIVE_IDS.items()}
PRIMITIVES_BY_ID: dict[int, Primitive] = {t.id: t for t in PRIMITIVES.values()}

UINT8, UINT16, UINT32, UINT64 = (PRIMITIVES[f"uint{n}"] for n in (8, 16, 32, 64))
INT8, INT16, INT32, INT64 = (PRIMITIVES[f"int{n}"] for n in (8, 16, 32, 64))
FLOAT16, FLOAT32, FLOAT64 = (PRIMITIVES[f"float{n}"] for n in (16, 32, 64))
DURATION, TIME, BOOL, BYTES = (PRIMITIVES[n] for n in ("duration", "time", "bool", "bytes"))
STRING, IP, NET, TYPE, NULL = (PRIMITIVES[n] for n in ("string", "ip", "net", "type", "null"))

UNSIGNED = frozenset((UINT8, UINT16, UINT32, UINT64))
SIGNED = frozenset((INT8, INT16, INT32, INT64))
"""The signed integers proper; a duration or a time counts as a number too, see `is_number`."""
FLOATS = frozenset((FLOAT16, FLOAT32, FLOAT64))
INT_RANGES = {
    **{t: (0, 2**b - 1) for t, b in ((UINT8, 8), (UINT16, 16), (UINT32, 32), (UINT64, 64))},
    **{t: (-(2 ** (b - 1)), 2 ** (b - 1) - 1) for t, b in ((INT8, 8), (INT16, 16), (INT32, 32), (INT64, 64))},
    DURATION: (-(2**63), 2**63 - 1),
    TIME: (-(2**63), 2**63 - 1),
}

_interned: WeakValueDictionary[object, Type] = WeakValueDictionary()
_lock = threading.Lock()
_T = TypeVar("_T", bound=Type)


def _intern(key: object, typ: _T) -> _T:
    """Keep `typ` under `key`, or return what another thread kept there first."""
    children = typ.children()
    typ.memo = cast("Memo", {})
    typ.depth = 1 + max((c.depth for c in children), default=0)
    typ.size = 1 + sum(c.size for c in children)
    if typ.depth > MAX_DEPTH:
        raise InvalidInput(f"type nests deeper than {MAX_DEPTH} levels")
    if typ.size > MAX_SIZE:
        raise InvalidInput(f"type has more than {MAX_SIZE} parts")
    typ.has_float = any(c.has_float for c in children)
    typ.under = typ.inner.under if isinstance(typ, Named) else typ
    with _lock:
        return _interned.setdefault(key, typ)  # type: ignore[return-value]


def primitive(name: str) -> Primitive:
    """The primitive type of this name, such as `int64` or `decimal(10,2)`."""
    if name in PRIMITIVES:
        return PRIMITIVES[name]
    match = _DECIMAL_NAME.fullmatch(name)
    return DATE if match is None else decimal(int(match[1]), int(match[2]))


_DECIMAL_NAME = re.compile(r"decimal\((\d+),(\d+)\)")


def decimal(precision: int, scale: int) -> Decimal:
    """The type of decimals with this many digits, and this many of them after the point."""
    key = (Decimal, precision, scale)
    typ = _interned.get(key)
    if typ is None:
        if not 1 <= precision <= MAX_DIGITS or not 0 <= scale <= precision:
            raise InvalidInput(
                f"invalid type decimal({precision},{scale}): a decimal has 1 to {MAX_DIGITS} digits, "
                "and no more than that after the point"
            )
        with _lock:
            typ = _interned.setdefault(key, Decimal(precision, scale))
    return typ  # type: ignore[return-value]


# ---- types that Zed lacks
#
# Formats of Zed carry them as named strings, `"2024-01-05"(=shoal_date)`, which any of its readers can show. Here the
# name leads back to the type.

_WIRE_DATE = "shoal_date"
_WIRE_DECIMAL = re.compile(r"shoal_decimal_([1-9]\d?)_(0|[1-9]\d?)")


def wire_name(typ: Type) -> str | None:
    """The name under which formats of Zed have a type that Zed lacks; None for any other type."""
    if typ is DATE:
        return _WIRE_DATE
    return f"shoal_decimal_{typ.precision}_{typ.scale}" if isinstance(typ, Decimal) else None


def _from_wire_name(name: str) -> Primitive | None:
    if name == _WIRE_DATE:
        return DATE
    match = _WIRE_DECIMAL.fullmatch(name)
    if match is None or int(match[2]) > int(match[1]) or int(match[1]) > MAX_DIGITS:
        return None
    return decimal(int(match[1]), int(match[2]))


def record(fields: Iterable[tuple[str, Type]]) -> Record:
    """The record type with these fields, in this order."""
    members = tuple(Field(n, t) for n, t in fields)
    key = (Record, members)
    interned = _interned.get(key)
    if interned is None:
        candidate = Record(members)
        if len(candidate.index) != len(members):
            seen: set[str] = set()
            twice = next(f.name for f in members if f.name in seen or seen.add(f.name))  # type: ignore[func-returns-value]
            raise InvalidInput(f"duplicate field {twice!r} in record type")
        interned = _intern(key, candidate)
    return interned  # type: ignore[return-value]


_recent_records: dict[tuple[Any, ...], Record] = {}
_MAX_RECENT = 10_000
CACHED_SIZE = 1000
"""Types with more parts are not kept alive by caches: a few of them would take all memory."""


def record_of(names: tuple[str, ...], types: tuple[Type, ...]) -> Record:
    """Like `record`, for readers that make one type over and over: the latest ones are cached."""
    key = (*names, *types)
    typ = _recent_records.get(key)
    if typ is None:
        typ = record(zip(names, types, strict=True))
        if len(_recent_records) >= _MAX_RECENT:
            _recent_records.clear()
        if typ.size <= CACHED_SIZE:
            _recent_records[key] = typ
    return typ


def array(elem: Type) -> Array:
    """The type of arrays of `elem`."""
    return _interned.get((Array, elem)) or _intern((Array, elem), Array(elem))  # type: ignore[return-value]


def set_of(elem: Type) -> Set:
    """The type of sets of `elem`."""
    return _interned.get((Set, elem)) or _intern((Set, elem), Set(elem))  # type: ignore[return-value]


def map_of(key: Type, value: Type) -> Map:
    """The type of maps from `key` to `value`."""
    return _interned.get((Map, key, value)) or _intern((Map, key, value), Map(key, value))  # type: ignore[return-value]


def union(types: Iterable[Type]) -> Union:
    """The union of these types; order and repetition do not matter."""
    members = tuple(unique_types(types))
    if not members:
        raise InvalidInput("a union needs at least one type")
    return _interned.get((Union, members)) or _intern((Union, members), Union(members))  # type: ignore[return-value]


def enum(symbols: Iterable[str]) -> Enum:
    """The enum with these symbols, in this order."""
    names = tuple(symbols)
    if len(set(names)) != len(names):
        raise InvalidInput("duplicate symbol in enum type")
    return _interned.get((Enum, names)) or _intern((Enum, names), Enum(names))  # type: ignore[return-value]


def error(inner: Type) -> Error:
    """The type of errors that wrap `inner`."""
    return _interned.get((Error, inner)) or _intern((Error, inner), Error(inner))  # type: ignore[return-value]


def named(name: str, inner: Type) -> Type:
    """`inner` under a name of its own; the type itself, if this is how formats of Zed have a type that Zed lacks."""
    key = (Named, name, inner)
    typ = _interned.get(key)
    if typ is None:
        if name in PRIMITIVES:
            raise InvalidInput(f"bad type name {name!r}: primitive type name")
        extension = _from_wire_name(name) if inner is STRING else None
        if extension is not None:
            return extension
        typ = _intern(key, Named(name, inner))
    return typ


def inner_of(typ: Type) -> Type | None:
    """The element type of an array or set, below any names; None for other types."""
    under = typ.under
    return under.elem if isinstance(under, (Array, Set)) else None


def is_number(typ: Type) -> bool:
    """Whether values order and compute as numbers: integers, floats, decimals, durations and times."""
    return isinstance(typ.under, Primitive) and typ.under.id <= _DECIMAL_RANK


def compare_types(a: Type, b: Type) -> int:
    """Order types by kind, then by shape, ignoring names: -1, 0 or 1."""
    a, b = a.under, b.under
    if a is b:
        return 0
    if a.kind_rank != b.kind_rank:
        return -1 if a.kind_rank < b.kind_rank else 1
    match a, b:
        case Decimal(), Decimal():
            return _cmp((a.precision, a.scale), (b.precision, b.scale))
        case Primitive(), Primitive():
            return _cmp(a.id, b.id)
        case Record(), Record():
            return (
                _cmp(len(a.fields), len(b.fields))
                or _cmp([f.name for f in a.fields], [f.name for f in b.fields])
                or _compare_all(a.children(), b.children())
            )
        case Union(), Union():
            return _cmp(len(a.types), len(b.types)) or _compare_all(a.types, b.types)
        case Enum(), Enum():
            return _cmp(len(a.symbols), len(b.symbols)) or _cmp(a.symbols, b.symbols)
        case _:
            return _compare_all(a.children(), b.children())


def _compare_all(a: tuple[Type, ...], b: tuple[Type, ...]) -> int:
    return next((c for x, y in zip(a, b, strict=True) if (c := compare_types(x, y))), 0)


def _cmp(a: Any, b: Any) -> int:
    return int(a > b) - int(a < b)


def compare_types_totally(a: Type, b: Type) -> int:
    """Like `compare_types`, but only a type itself compares equal: names break ties."""
    return 0 if a is b else compare_types(a, b) or _cmp(_name_key(a), _name_key(b))


def _name_key(typ: Type) -> tuple[Any, ...]:
    """Types that differ in names only differ by where the names stand."""
    own = (1, typ.name) if isinstance(typ, Named) else (0, "")
    return (own, *(_name_key(c) for c in typ.children()))


def unique_types(types: Iterable[Type]) -> list[Type]:
    """The distinct types in canonical order, which is also the order of union members."""
    return sorted(dict.fromkeys(types), key=cmp_to_key(compare_types_totally))
