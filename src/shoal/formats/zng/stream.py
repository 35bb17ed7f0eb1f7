"""ZNG: frames of types, values and control messages. Declared sizes are never believed.

A frame starts with a code byte (compressed flag, kind, low bits of the length) and a varint with
the rest of its length. 0xff ends a stream and forgets its types; streams may follow each other.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

import lz4.block

from shoal.api.options import MAX_VALUE_SIZE, ReadOptions
from shoal.errors import InvalidInput
from shoal.formats.compression import unpack_lz4
from shoal.formats.limits import at
from shoal.formats.metering import grow
from shoal.formats.streams import CHUNK, Sink, Source, WriteOptions
from shoal.formats.zng.types import ARRAY, ENUM, ERROR, MAP, NAMED, RECORD, SET, UNION, EndlessValue, TypeTable
from shoal.model import types as t
from shoal.model.node import frozen
from shoal.model.values import Value
from shoal.model.zcode import encode, read_name, read_uvarint, tagged, uvarint

TYPES, VALUES, CONTROL = 0, 1, 2
END_OF_STREAM = 0xFF
ZSON_MESSAGE, BINARY_MESSAGE = 2, 4
"""Encodings of control messages. A service writes messages about a query in ZSON, and columns of results in binary."""
_VERSION_BIT, _COMPRESSED_BIT = 0x80, 0x40
_LZ4 = 0
MAX_FRAME = 256 * 1024 * 1024
MALFORMED = (InvalidInput, IndexError, UnicodeDecodeError, struct.error)
"""What decoding a malformed frame raises."""


@frozen
class Control:
    """An application-defined message: 0 ZNG, 1 JSON, 2 ZSON, 3 text, 4 bytes.

    The body fills the rest of its frame. The specification has a length before it; the real tools neither write nor
    read one, and version 0.1.0 did.
    """

    encoding: int
    body: bytes


# ---- reading


def read(source: Source, options: ReadOptions = ReadOptions()) -> Iterator[Value]:
    """The values of all streams in `source`; control messages are skipped."""
    for item in read_messages(source, options):
        if isinstance(item, Value):
            yield item


def read_messages(source: Source, options: ReadOptions = ReadOptions()) -> Iterator[Value | Control]:
    """Values and control messages in their order."""
    frames = Frames(source, frame_limit(options))
    stream = TypeTable(options)
    is_open = has_values = False
    while True:
        start = frames.position
        try:
            frame = frames.next()
            if frame is None:
                if is_open:
                    raise InvalidInput("expected the end-of-stream marker, found the end of the input")
                return
            is_open = frame[0] != END_OF_STREAM
            kind, payload = frame
            if kind == END_OF_STREAM:
                stream = TypeTable(options)
            elif kind == TYPES:
                stream.read_typedefs(payload)
            elif kind == VALUES:
                yield from stream.read_values(payload)
                has_values = True
            else:
                yield Control(payload[0], payload[1:])
        except MALFORMED as e:
            raise describe(e, start, has_values) from None


def describe(error: Exception, start: int, has_values: bool) -> InvalidInput:
    """What is wrong with the frame that starts at a byte, given what decoding it raised."""
    if isinstance(error, EndlessValue) and not has_values:
        # The very first value has no end: this is not ZNG, and an offset in it would say nothing.
        return InvalidInput("malformed zng record")
    if isinstance(error, InvalidInput):
        return at(f"zng: frame at byte {start}", error)
    what = "something in it ends too early" if isinstance(error, IndexError) else str(error)
    return InvalidInput(f"zng: frame at byte {start}: malformed: {what}")


def frames(source: Source, limit: int = MAX_FRAME) -> Iterator[tuple[int, bytes]]:
    """The kind and the payload of each frame, without decoding it."""
    cut = Frames(source, limit)
    while (frame := cut.next()) is not None:
        yield frame


def parse_note(payload: bytes) -> str:
    """The text of a types frame that `Writer.note` wrote."""
    if payload[:1] != bytes((NAMED,)):
        raise InvalidInput("expected a note")
    return read_name(payload, 1)[0]


def frame_limit(options: ReadOptions) -> int:
    """The longest frame to accept: a frame holds many values, so the default is above that of a value."""
    return MAX_FRAME if options.max_value_size == MAX_VALUE_SIZE else options.max_value_size


def _too_large(size: int, limit: int) -> InvalidInput:
    return InvalidInput(f"frame length ({size}) exceeds maximum allowed ({limit})")


class Frames:
    """Cuts a source into frames."""

    def __init__(self, source: Source, limit: int) -> None:
        self._source = source
        self._limit = limit
        self._buf = b""
        self._pos = 0
        self._dropped = 0

    @property
    def position(self) -> int:
        """Where the next frame starts."""
        return self._dropped + self._pos

    def next(self) -> tuple[int, bytes] | None:
        """The next frame's kind and plain payload; None at the end of the input."""
        if not self._has(1):
            return None
        code = self._buf[self._pos]
        self._pos += 1
        if code == END_OF_STREAM:
            return END_OF_STREAM, b""
        kind = (code >> 4) & 3
        size = code & 15 | self._uvarint() << 4
        if size > self._limit:
            raise _too_large(size, self._limit)
        payload = self._take(size)
        if code & _VERSION_BIT:
            raise InvalidInput(f"frame code 0x{code:02x} has an unknown version")
        if kind == 3:
            raise InvalidInput(f"unknown frame code 0x{code:02x}")
        if code & _COMPRESSED_BIT:
            payload = self._unpack(payload)
        return kind, payload

    def _unpack(self, payload: bytes) -> bytes:
        """The plain payload of a compressed frame. What it is going to take counts before it is unpacked."""
        if payload[0] != _LZ4:
            raise InvalidInput(f"unknown compression format 0x{payload[0]:02x}")
        size, pos = read_uvarint(payload, 1)
        if size > self._limit:
            raise _too_large(size, self._limit)
        grow(self._source, size)
        return unpack_lz4(payload[pos:], size, "frame")

    def _has(self, count: int) -> bool:
        """Make `count` bytes available if the source has them."""
        if len(self._buf) - self._pos >= count:
            return True
        parts = [self._buf[self._pos :]]
        self._dropped += self._pos
        self._pos = 0
        have = len(parts[0])
        while have < count and (part := self._source.read(CHUNK)):
            parts.append(part)
            have += len(part)
        self._buf = b"".join(parts)
        return have >= count

    def _take(self, count: int) -> bytes:
        if not self._has(count):
            raise InvalidInput(f"expected {count} more bytes, found the end of the input")
        self._pos += count
        return self._buf[self._pos - count : self._pos]

    def _uvarint(self) -> int:
        self._has(10)
        value, self._pos = read_uvarint(self._buf, self._pos)
        return value


# ---- writing


class Writer:
    """Writes one stream. Values are buffered until a frame is full."""

    def __init__(self, out: Sink, options: WriteOptions = WriteOptions()) -> None:
        self._out = out
        self._compress = options.zng_compress
        self._frame_size = max(1, options.zng_frame_size)
        self._ids: dict[t.Type, int] = {}
        self._id_bytes: dict[t.Type, bytes] = {}
        self._typedefs: list[bytes] = []
        self._values: list[bytes] = []
        self._size = 0
        self._wrote = False

    def write(self, value: Value) -> None:
        """Add a value."""
        self.write_encoded(value.type, encode(value.type, value.data))

    def write_encoded(self, typ: t.Type, body: bytes | None) -> None:
        """Add a value that is in its binary form already."""
        ident = self._id_bytes.get(typ)
        if ident is None:
            ident = self._id_bytes[typ] = uvarint(self._id_of(typ))
        item = ident + tagged(body)
        self._values.append(item)
        self._size += len(item)
        if self._size >= self._frame_size:
            self.flush()

    def control(self, message: Control) -> None:
        """Add a control message after the values so far."""
        self.flush()
        self._frame(CONTROL, bytes((message.encoding,)) + message.body)

    def note(self, text: str) -> None:
        """Add text that every reader skips, as a stream of its own: the name of a type that no value has.

        A control message would not do: `zq` reads them from a service, and refuses them in a file.
        """
        self.end_stream()
        typedef = bytes((NAMED,)) + _counted(text) + uvarint(t.NULL.id)
        self._put(TYPES << 4, typedef)
        self.end_stream()

    def flush(self) -> None:
        """Write what is buffered."""
        if self._typedefs:
            self._frame(TYPES, b"".join(self._typedefs))
            self._typedefs = []
        if self._values:
            self._frame(VALUES, b"".join(self._values))
            self._values = []
            self._size = 0

    def end_stream(self) -> None:
        """End the stream here; what follows is a new one with its own types."""
        self.flush()
        if self._wrote:
            self._out.write(bytes((END_OF_STREAM,)))
            self._wrote = False
        self._ids.clear()
        self._id_bytes.clear()

    def close(self) -> None:
        """End the last stream."""
        self.end_stream()

    def _frame(self, kind: int, payload: bytes) -> None:
        code = kind << 4
        if self._compress and kind != CONTROL:
            packed: bytes = lz4.block.compress(payload, store_size=False)
            head = bytes((_LZ4,)) + uvarint(len(payload))
            if len(head) + len(packed) < len(payload):
                code |= _COMPRESSED_BIT
                payload = head + packed
        self._put(code, payload)

    def _put(self, code: int, payload: bytes) -> None:
        size = len(payload)
        self._out.write(bytes((code | size & 15,)) + uvarint(size >> 4) + payload)
        self._wrote = True

    def _id_of(self, typ: t.Type) -> int:
        """The identifier of a type in this stream; defines it, parts first, when it is new."""
        if isinstance(typ, t.Primitive) and t.wire_name(typ) is None:
            return typ.id
        ident = self._ids.get(typ)
        if ident is None:
            self._typedefs.append(self._typedef(typ))
            ident = self._ids[typ] = t.FIRST_COMPLEX_ID + len(self._ids)
        return ident

    def _typedef(self, typ: t.Type) -> bytes:
        match typ:
            case t.Record():
                fields = b"".join(_counted(f.name) + uvarint(self._id_of(f.type)) for f in typ.fields)
                return bytes((RECORD,)) + uvarint(len(typ.fields)) + fields
            case t.Union():
                return bytes((UNION,)) + uvarint(len(typ.types)) + self._id_list(typ)
            case t.Enum():
                return bytes((ENUM,)) + uvarint(len(typ.symbols)) + b"".join(_counted(s) for s in typ.symbols)
            case t.Named():
                return bytes((NAMED,)) + _counted(typ.name) + self._id_list(typ)
            case t.Primitive():
                return bytes((NAMED,)) + _counted(t.wire_name(typ) or "") + uvarint(t.STRING.id)
            case t.Array() | t.Set() | t.Map() | t.Error():
                code = {t.Array: ARRAY, t.Set: SET, t.Map: MAP, t.Error: ERROR}[type(typ)]
                return bytes((code,)) + self._id_list(typ)
            case _:
                raise AssertionError(typ)

    def _id_list(self, typ: t.Type) -> bytes:
        return b"".join(uvarint(self._id_of(c)) for c in typ.children())


def _counted(name: str) -> bytes:
    text = name.encode()
    return uvarint(len(text)) + text
