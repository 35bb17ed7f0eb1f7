"""The header that serializers of a schema registry put before a record: a zero byte, and the id of a schema.

    00 00000001 0204041a        schema 1, then four bytes of Avro
    00 00000003 {"a":1}         schema 3, then JSON
    00 00000005 00 08011a0161   schema 5, the indexes of a message type, then Protobuf

The indexes say which message of the Protobuf file it is: [2, 0] is the first message inside the third one. They are
zigzag varints with their number in front, and a lone 0 stands for the first message, [0].
"""

from __future__ import annotations

import struct

from shoal.errors import InvalidInput

HEADER = struct.Struct(">bi")
_MOST_INDEXES = 100


def schema_id(data: bytes, instead: str) -> int:
    """The id of the schema of a record; its body follows after `HEADER.size` bytes. `instead` is the way out."""
    if len(data) < HEADER.size:
        raise InvalidInput(f"a record of {len(data)} bytes has no schema id before it ({instead})")
    magic, ident = HEADER.unpack_from(data)
    if magic:
        raise InvalidInput(f"a record with a schema id begins with a byte 0, not 0x{data[0]:02x} ({instead})")
    if ident < 0:
        raise InvalidInput(f"schema id {ident} is negative")
    return int(ident)


def with_header(ident: int, body: bytes) -> bytes:
    """A body with the id of its schema."""
    return HEADER.pack(0, ident) + body


def message_indexes(data: bytes, pos: int) -> tuple[tuple[int, ...], int]:
    """The indexes of the message type at a position, and the position after them."""
    count, pos = _number(data, pos)
    if not 0 <= count <= _MOST_INDEXES:
        raise InvalidInput(f"a record with {count} message indexes")
    indexes = []
    for _ in range(count):
        index, pos = _number(data, pos)
        indexes.append(index)
    return tuple(indexes) or (0,), pos


def _number(data: bytes, pos: int) -> tuple[int, int]:
    """A zigzag varint of 32 bits, and the position after it."""
    number = shift = 0
    while True:
        if pos == len(data) or shift > 28:
            raise InvalidInput("the message indexes of a record end too early, or are too large")
        byte = data[pos]
        number |= (byte & 0x7F) << shift
        pos, shift = pos + 1, shift + 7
        if byte < 0x80:
            break
    number = number >> 1 ^ -(number & 1)
    if not -(1 << 31) <= number < 1 << 31:
        raise InvalidInput("the message indexes of a record are too large")
    return number, pos
