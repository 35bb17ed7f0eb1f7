"""The binary form of a value's data, as ZNG carries it. It also defines equality and set order.

A body is tag-encoded inside its container: a varint of 0 for null, of length + 1 otherwise.
Decoders are compiled per type: on mixed logs, straight-line code for each record type takes 0.6 of
the time of a walk, and every read of ZNG goes through here.
"""

from __future__ import annotations

import math
import struct
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache, partial
from itertools import cycle, repeat
from typing import Any

from shoal.errors import InvalidInput
from shoal.model import types as t
from shoal.model.decimals import format_decimal, parse_exactly
from shoal.model.literals import format_date, parse_date

Data = Any
"""A value's data without its type; what it is for each type is listed in `shoal.model.values`."""

TYPE_RECORD, TYPE_ARRAY, TYPE_SET, TYPE_MAP, TYPE_UNION, TYPE_ENUM, TYPE_ERROR, NAME_DEF, NAME_REF = range(30, 39)

_MIN_INT64 = -(2**63)


def uvarint(n: int) -> bytes:
    """`n` as a base-128 varint, low digits first."""
    if n < 128:
        return _SMALL[n]
    out = bytearray()
    while n >= 128:
        out.append(n & 127 | 128)
        n >>= 7
    out.append(n)
    return bytes(out)


_SMALL = [bytes((i,)) for i in range(128)]


def read_uvarint(buf: bytes, pos: int) -> tuple[int, int]:
    """The varint at `pos` and the position after it."""
    n = shift = 0
    while True:
        if shift > 63:
            raise InvalidInput("varint longer than 64 bits")
        b = buf[pos]
        pos += 1
        n |= (b & 127) << shift
        if b < 128:
            return n, pos
        shift += 7


def tagged(body: bytes | None) -> bytes:
    """A body with its tag, as it stands inside a container."""
    if body is None:
        return b"\0"
    n = len(body) + 1
    return (_SMALL[n] if n < 128 else uvarint(n)) + body


def split(buf: bytes, pos: int, end: int, count: int | None = None) -> list[tuple[int, int] | None]:
    """Where the bodies in a container at `buf[pos:end]` begin and end; None for a null. `count` is checked."""
    out: list[tuple[int, int] | None] = []
    while pos < end:
        tag, pos = read_uvarint(buf, pos)
        out.append((pos, pos + tag - 1) if tag else None)
        pos += tag - 1 if tag else 0
    if pos != end or (count is not None and len(out) != count):
        raise InvalidInput("container does not fit its type")
    return out


def bodies(body: bytes) -> Iterator[bytes | None]:
    """The bodies in a container, in order."""
    return (None if bounds is None else body[slice(*bounds)] for bounds in split(body, 0, len(body)))


def encode_uint(n: int) -> bytes:
    """Little-endian without leading zeros; zero is empty."""
    return n.to_bytes((n.bit_length() + 7) >> 3, "little")


def encode_int(n: int) -> bytes:
    """Magnitude shifted left over the sign bit; the least int64 is a lone sign bit."""
    if n == _MIN_INT64:
        return b"\1"
    return encode_uint(n << 1 if n >= 0 else -n << 1 | 1)


def decode_int(body: bytes) -> int:
    """The inverse of `encode_int`."""
    u = int.from_bytes(body, "little")
    if not u & 1:
        return u >> 1
    return -(u >> 1) if u > 1 else _MIN_INT64


# ---- encoding


_ENCODER: t.MemoKey[Callable[[Data], bytes]] = t.MemoKey("encoder")


def encode(typ: t.Type, data: Data) -> bytes | None:
    """The body of `data` as a value of `typ`; None for null."""
    return None if data is None else encoder(typ)(data)


def encoder(typ: t.Type) -> Callable[[Data], bytes]:
    """What gives the body of data of a type that are not null."""
    cached = typ.memo.get(_ENCODER)
    if cached is None:
        cached = typ.memo[_ENCODER] = _encoder(typ)
    return cached


_FLOAT_FORMATS = {t.FLOAT16: "<e", t.FLOAT32: "<f", t.FLOAT64: "<d"}


def _encoder(typ: t.Type) -> Callable[[Data], bytes]:
    typ = typ.under
    match typ:
        case t.Primitive():
            return _primitive_encoder(typ)
        case t.Record():
            encoders = [encoder(kind) for kind in typ.children()]
            return lambda data: _tagged_bodies(zip(encoders, data, strict=True))
        case t.Array() | t.Set():
            of_element = encoder(typ.elem)
            return lambda data: _tagged_bodies(zip(repeat(of_element), data, strict=False))
        case t.Map():
            key, value = typ.key, typ.value
            return lambda data: b"".join(tagged(encode(key, k)) + tagged(encode(value, v)) for k, v in data)
        case t.Union():
            members = typ.types
            return lambda data: tagged(encode_int(data[0])) + tagged(encode(members[data[0]], data[1]))
        case t.Enum():
            return encode_uint
        case t.Error():
            return _encoder(typ.inner)
        case _:
            raise AssertionError(typ)


def _tagged_bodies(items: Iterable[tuple[Callable[[Data], bytes], Data]]) -> bytes:
    """Bodies end to end, each as `tagged` gives it. A call for each would take as long as all the rest."""
    out: list[bytes] = []
    for encode_item, data in items:
        if data is None:
            out.append(b"\0")
            continue
        body = encode_item(data)
        size = len(body) + 1
        out.append(_SMALL[size] if size < 128 else uvarint(size))
        out.append(body)
    return b"".join(out)


def _primitive_encoder(typ: t.Primitive) -> Callable[[Data], bytes]:
    if typ in t.UNSIGNED:
        return encode_uint
    if typ in t.INT_RANGES:
        return encode_int
    if typ in t.FLOATS:
        pack = struct.Struct(_FLOAT_FORMATS[typ]).pack
        nan = pack(math.nan)
        return lambda data: pack(data) if data == data else nan  # one NaN: its bits mean nothing
    if typ is t.BOOL:
        return lambda data: b"\1" if data else b"\0"
    if typ is t.STRING:
        return str.encode
    if typ is t.DATE:
        return lambda data: format_date(data).encode()
    if isinstance(typ, t.Decimal):
        return lambda data: format_decimal(data).encode()
    if typ is t.TYPE:
        return encode_type
    return bytes


# ---- decoding

Decoder = Callable[[bytes, int, int], Data]
"""Decodes the body at `buf[pos:end]`. What does not fit raises InvalidInput, IndexError or ValueError."""


_recently_compiled: deque[t.Type] = deque(maxlen=1024)
"""Keeps types alive for a while that nobody holds on to, as between two small files of the same kind: compiling a
decoder takes fifty times as long as using it once."""
_WALKED = 32
"""Values of a type that are decoded part by part before its decoder is compiled: few more than pay for that."""


_DECODER: t.MemoKey[Decoder] = t.MemoKey("decoder")
_COMPILED: t.MemoKey[Decoder] = t.MemoKey("compiled decoder")


def decoder(typ: t.Type) -> Decoder:
    """The decoder of a type's bodies. It is compiled once it has been used a few times."""
    decode = typ.memo.get(_DECODER)
    if decode is None:
        if isinstance(typ.under, (t.Primitive, t.Enum)):
            return _compiled(typ)
        decode = typ.memo[_DECODER] = _patient(typ)
    return decode


def _compiled(typ: t.Type) -> Decoder:
    decode = typ.memo.get(_COMPILED)
    if decode is None:
        decode = typ.memo[_COMPILED] = typ.memo[_DECODER] = _compile(typ.under)
        if typ.size <= t.CACHED_SIZE:
            _recently_compiled.append(typ)
    return decode


def _patient(typ: t.Type) -> Decoder:
    """A decoder that is compiled after some uses."""
    parts = typ.under.children()
    walk = walking_decoder(typ.under, parts, [decoder(part) for part in parts])
    uses = 0

    def decode(buf: bytes, pos: int, end: int) -> Data:
        nonlocal uses, walk
        uses += 1
        if uses == _WALKED:
            walk = _compiled(typ)
        return walk(buf, pos, end)

    return decode


def decode(typ: t.Type, body: bytes | None) -> Data:
    """The inverse of `encode`."""
    if body is None:
        return None
    try:
        return decoder(typ)(body, 0, len(body))
    except (IndexError, ValueError, struct.error) as e:
        raise InvalidInput(f"malformed value: {e}") from e


def _compile(typ: t.Type) -> Decoder:
    env: dict[str, Any] = {"bad": _bad, "uv": read_uvarint, "ib": int.from_bytes, "MIN": _MIN_INT64}
    match typ:
        case t.Record():
            lines = _record_source(typ, env)
        case t.Array() | t.Set():
            lines = _sequence_source(typ, env)
        case t.Map():
            lines = _map_source(typ, env)
        case t.Union():
            lines = _union_source(typ, env)
        case _:
            lines = [*_body_source(typ, "v", "pos", "end", env), "return v"]
    source = "def decode(buf, pos, end):\n" + "".join(f"    {line}\n" for line in lines)
    exec(source, env)
    return env["decode"]  # type: ignore[no-any-return]


def _bad(what: str) -> None:
    raise InvalidInput(what)


def _item_source(typ: t.Type, var: str, env: dict[str, Any]) -> list[str]:
    """Code that reads one tagged body at `pos` into `var` and leaves `pos` behind it."""
    inner = _body_source(typ.under, var, "pos", "e", env)
    return [
        "n = buf[pos]; pos += 1",
        "if n > 127: n, pos = uv(buf, pos - 1)",
        "if n:",
        "    e = pos + n - 1",
        *(f"    {line}" for line in inner),
        "    pos = e",
        f"else: {var} = None",
    ]


_MAX_UNROLLED = 256


def _record_source(typ: t.Record, env: dict[str, Any]) -> list[str]:
    if len(typ.fields) > _MAX_UNROLLED:
        env["walk"] = walking_decoder(typ, typ.children(), [decoder(f.type) for f in typ.fields])
        return ["return walk(buf, pos, end)"]
    lines = []
    for i, field in enumerate(typ.fields):
        lines += _item_source(field.type, f"v{i}", env)
    names = "".join(f"v{i}, " for i in range(len(typ.fields)))
    return [*lines, "if pos != end: bad('record does not fit its type')", f"return ({names})"]


def _sequence_source(typ: t.Array | t.Set, env: dict[str, Any]) -> list[str]:
    lines = ["out = []", "while pos < end:", *(f"    {line}" for line in _item_source(typ.elem, "v", env))]
    lines += ["    out.append(v)", "if pos != end: bad('elements run past their container')"]
    if isinstance(typ, t.Array):
        return [*lines, "return tuple(out)"]
    elem = typ.elem
    env["normal"] = lambda out: normal_set(elem, out)
    return [*lines, "return normal(out)"]


def _map_source(typ: t.Map, env: dict[str, Any]) -> list[str]:
    lines = ["out = []", "while pos < end:"]
    lines += [f"    {line}" for line in _item_source(typ.key, "k", env)]
    lines += [f"    {line}" for line in _item_source(typ.value, "v", env)]
    key = typ.key
    env["normal"] = lambda out: normal_map(key, out)
    return [*lines, "    out.append((k, v))", "if pos != end: bad('entries run past their map')", "return normal(out)"]


def _union_source(typ: t.Union, env: dict[str, Any]) -> list[str]:
    env["members"] = [_compiled(m) for m in typ.types]
    return [
        "n = buf[pos]; pos += 1",
        "if not 0 < n < 10: bad('bad union tag')",
        "e = pos + n - 1; u = ib(buf[pos:e], 'little'); tag = u >> 1",
        f"if u & 1 or tag >= {len(typ.types)}: bad('union tag out of range')",
        "n, pos = uv(buf, e)",
        "e = pos + n - 1 if n else pos",
        "if e != end: bad('union does not fit its type')",
        # A null of no type is the null of the union itself, so that there is one such value.
        *([f"if tag == {typ.tags[t.NULL]}: return None"] if t.NULL in typ.tags else []),
        "return (tag, members[tag](buf, pos, e) if n else None)",
    ]


def _body_source(typ: t.Type, var: str, pos: str, end: str, env: dict[str, Any]) -> list[str]:
    """Code that decodes the body at `buf[pos:end]` into `var`."""
    cut = f"buf[{pos}:{end}]"
    size = f"{end} - {pos}"
    if typ in t.UNSIGNED or isinstance(typ, t.Enum):
        top = len(typ.symbols) - 1 if isinstance(typ, t.Enum) else t.INT_RANGES[typ][1]
        return [f"{var} = ib({cut}, 'little')", f"if {var} > {top}: bad('integer out of range')"]
    if typ in t.INT_RANGES:
        low, high = t.INT_RANGES[typ]
        lines = [
            f"u = ib({cut}, 'little')",
            f"{var} = u >> 1 if not u & 1 else (-(u >> 1) if u > 1 else MIN)",
        ]
        check = f"{size} > 8" if high == 2**63 - 1 else f"not {low} <= {var} <= {high}"
        return [*lines, f"if {check}: bad('integer out of range')"]
    if typ in t.FLOATS:
        fmt = struct.Struct(_FLOAT_FORMATS[typ])
        env[f"unpack{fmt.size}"] = fmt.unpack_from
        return [f"if {size} != {fmt.size}: bad('bad length of float')", f"{var} = unpack{fmt.size}(buf, {pos})[0]"]
    if typ is t.STRING:
        return [f"{var} = {cut}.decode()"]
    if typ is t.DATE:
        env["date"] = parse_date
        return [f"{var} = date({cut}.decode())"]
    if isinstance(typ, t.Decimal):
        name = f"d{len(env)}"
        env[name] = partial(parse_exactly, typ=typ)
        return [f"{var} = {name}({cut}.decode())"]
    if typ is t.BOOL:
        return [f"if {size} != 1: bad('bad length of bool')", f"{var} = buf[{pos}] != 0"]
    if typ is t.BYTES:
        return [f"{var} = {cut}"]
    if typ is t.IP:
        return [f"{var} = {cut}", f"if {size} not in (4, 16): bad('bad length of ip')"]
    if typ is t.NET:
        env["net"] = valid_net
        return [f"{var} = net({cut})"]
    if typ is t.TYPE:
        env["typeval"] = decode_type
        return [f"{var} = typeval({cut})"]
    if typ is t.NULL:
        return [f"if {size}: bad('null with a body')", f"{var} = None"]
    name = f"d{len(env)}"
    env[name] = _compiled(typ.inner if isinstance(typ, t.Error) else typ)
    return [f"{var} = {name}(buf, {pos}, {end})"]


def valid_net(body: bytes) -> bytes:
    """The body of a net; InvalidInput if it is none."""
    half = len(body) // 2
    mask = int.from_bytes(body[half:], "big")
    low = (1 << 8 * half) - 1 - mask
    if len(body) not in (8, 32) or low & (low + 1):
        raise InvalidInput("bad net: not an address and a mask of leading ones")
    return body


def walking_decoder(typ: t.Type, kinds: Sequence[t.Type], parts: Sequence[Decoder]) -> Decoder:
    """Decodes bodies of a type part by part, given its parts and their decoders; a union may list them in any order."""
    match typ:
        case t.Union():
            return _walk_union([typ.tags[kind] for kind in kinds], typ.tags.get(t.NULL), parts)
        case t.Record():
            return _walk_record(parts)
        case t.Array():
            return lambda buf, pos, end: tuple(_walk_items(buf, pos, end, parts))
        case t.Set():
            elem = typ.elem
            return lambda buf, pos, end: normal_set(elem, _walk_items(buf, pos, end, parts))
        case t.Map():
            return _walk_map(typ.key, parts)
        case _:
            return parts[0]


def _walk_items(buf: bytes, pos: int, end: int, decoders: Sequence[Decoder]) -> list[Data]:
    """The items of a container, decoded by each decoder in turn."""
    items = zip(split(buf, pos, end), cycle(decoders), strict=False)
    return [None if bounds is None else decode(buf, *bounds) for bounds, decode in items]


def _walk_record(fields: Sequence[Decoder]) -> Decoder:
    def record(buf: bytes, pos: int, end: int) -> Data:
        out = []
        for field in fields:
            n, pos = read_uvarint(buf, pos)
            stop = pos + n - 1 if n else pos
            out.append(field(buf, pos, stop) if n else None)
            pos = stop
        if pos != end:
            raise InvalidInput("record does not fit its type")
        return tuple(out)

    return record


def _walk_map(key: t.Type, parts: Sequence[Decoder]) -> Decoder:
    def entries(buf: bytes, pos: int, end: int) -> Data:
        flat = _walk_items(buf, pos, end, parts)
        if len(flat) % 2:
            raise InvalidInput("entries run past their map")
        return normal_map(key, zip(flat[::2], flat[1::2], strict=True))

    return entries


def _walk_union(tags: list[int], null: int | None, members: Sequence[Decoder]) -> Decoder:
    """`tags` has the canonical tag of each member."""

    def union(buf: bytes, pos: int, end: int) -> Data:
        tag_at, body = split(buf, pos, end, 2)
        tag = decode_int(buf[slice(*tag_at)]) if tag_at is not None else 0
        if not 0 <= tag < len(tags):
            raise InvalidInput("union tag out of range")
        data = None if body is None else members[tag](buf, *body)
        # A null of no type is the null of the union itself, so that there is one such value.
        return None if tags[tag] == null else (tags[tag], data)

    return union


# ---- canonical order of sets and maps


def normal_set(elem: t.Type, data: Iterable[Data]) -> tuple[Data, ...]:
    """Distinct elements, ordered by their tagged binary form."""
    pairs = {tagged(encode(elem, d)): d for d in data}
    return tuple(pairs[k] for k in sorted(pairs))


def normal_map(key: t.Type, entries: Iterable[tuple[Data, Data]]) -> tuple[tuple[Data, Data], ...]:
    """Entries with distinct keys (the last one wins), ordered by the keys' tagged binary form."""
    pairs = {tagged(encode(key, k)): (k, v) for k, v in entries}
    return tuple(pairs[k] for k in sorted(pairs))


# ---- type values


_TYPE_VALUE: t.MemoKey[bytes] = t.MemoKey("type value")


def encode_type(typ: t.Type) -> bytes:
    """A type as the body of a type value: complete, independent of any stream."""
    code = typ.memo.get(_TYPE_VALUE)
    if code is None:
        out = bytearray()
        _append_type(out, typ, {})
        code = typ.memo[_TYPE_VALUE] = bytes(out)
    return code


def _append_name(out: bytearray, name: str) -> None:
    text = name.encode()
    out += uvarint(len(text))
    out += text


def _append_named(out: bytearray, name: str, inner: t.Type, defs: dict[str, t.Type]) -> None:
    is_defined = defs.get(name) is inner
    out.append(NAME_REF if is_defined else NAME_DEF)
    _append_name(out, name)
    if not is_defined:
        _append_type(out, inner, defs)
        defs[name] = inner


def _append_type(out: bytearray, typ: t.Type, defs: dict[str, t.Type]) -> None:
    match typ:
        case t.Primitive():
            wire_name = t.wire_name(typ)
            if wire_name is None:
                out.append(typ.id)
            else:
                _append_named(out, wire_name, t.STRING, defs)
        case t.Named():
            _append_named(out, typ.name, typ.inner, defs)
        case t.Record():
            out.append(TYPE_RECORD)
            out += uvarint(len(typ.fields))
            for field in typ.fields:
                _append_name(out, field.name)
                _append_type(out, field.type, defs)
        case t.Union():
            out.append(TYPE_UNION)
            out += uvarint(len(typ.types))
            for member in typ.types:
                _append_type(out, member, defs)
        case t.Enum():
            out.append(TYPE_ENUM)
            out += uvarint(len(typ.symbols))
            for symbol in typ.symbols:
                _append_name(out, symbol)
        case _:
            out.append({t.Array: TYPE_ARRAY, t.Set: TYPE_SET, t.Map: TYPE_MAP, t.Error: TYPE_ERROR}[type(typ)])
            for child in typ.children():
                _append_type(out, child, defs)


def decode_type(body: bytes) -> t.Type:
    """The inverse of `encode_type`. The shapes of data objects are the same ones over and over."""
    return _decode_small_type(body) if len(body) <= _SMALL_TYPE else _decode_type(body)


_SMALL_TYPE = 8192


@lru_cache(maxsize=2048)
def _decode_small_type(body: bytes) -> t.Type:
    return _decode_type(body)


def _decode_type(body: bytes) -> t.Type:
    try:
        typ, pos = _read_type(body, 0, {}, 0)
    except (IndexError, ValueError) as e:
        raise InvalidInput(f"malformed type value: {e}") from e
    if pos != len(body):
        raise InvalidInput("malformed type value: bytes after its end")
    return typ


def read_name(buf: bytes, pos: int) -> tuple[str, int]:
    """The counted string at `pos` and the position after it."""
    n, pos = read_uvarint(buf, pos)
    if pos + n > len(buf):
        raise InvalidInput("name runs past its end")
    return buf[pos : pos + n].decode(), pos + n


def _read_type(buf: bytes, pos: int, defs: dict[str, t.Type], depth: int) -> tuple[t.Type, int]:
    if depth > t.MAX_DEPTH:
        raise InvalidInput(f"type nests deeper than {t.MAX_DEPTH} levels")
    code, pos = read_uvarint(buf, pos)
    depth += 1
    if code in t.PRIMITIVES_BY_ID:
        return t.PRIMITIVES_BY_ID[code], pos
    if code in (TYPE_ARRAY, TYPE_SET, TYPE_ERROR):
        child, pos = _read_type(buf, pos, defs, depth)
        return {TYPE_ARRAY: t.array, TYPE_SET: t.set_of, TYPE_ERROR: t.error}[code](child), pos
    if code == TYPE_MAP:
        key, pos = _read_type(buf, pos, defs, depth)
        value, pos = _read_type(buf, pos, defs, depth)
        return t.map_of(key, value), pos
    if code == NAME_DEF:
        name, pos = read_name(buf, pos)
        inner, pos = _read_type(buf, pos, defs, depth)
        defs[name] = named = t.named(name, inner)
        return named, pos
    if code == NAME_REF:
        name, pos = read_name(buf, pos)
        if name not in defs:
            raise InvalidInput(f"type value refers to {name!r} before its definition")
        return defs[name], pos
    return _read_counted_type(code, buf, pos, defs, depth)


def _read_counted_type(code: int, buf: bytes, pos: int, defs: dict[str, t.Type], depth: int) -> tuple[t.Type, int]:
    if code not in (TYPE_RECORD, TYPE_UNION, TYPE_ENUM):
        raise InvalidInput(f"bad type code {code} in a type value")
    count, pos = read_uvarint(buf, pos)
    if count > len(buf) - pos:
        raise InvalidInput("type value declares more parts than it has bytes")
    names: list[str] = []
    kinds: list[t.Type] = []
    for _ in range(count):
        if code != TYPE_UNION:
            name, pos = read_name(buf, pos)
            names.append(name)
        if code != TYPE_ENUM:
            child, pos = _read_type(buf, pos, defs, depth)
            kinds.append(child)
    if code == TYPE_RECORD:
        return t.record(zip(names, kinds, strict=True)), pos
    return (t.union(kinds) if code == TYPE_UNION else t.enum(names)), pos
