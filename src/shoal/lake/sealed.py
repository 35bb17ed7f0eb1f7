"""Metadata objects: a ZNG stream and, as a control message at its end, a checksum of its name and all that is before.

Any reader of ZNG reads the values and skips the seal. Bytes that do not fit their seal are never believed, and neither
is an object that is in the place of another.
"""

from __future__ import annotations

import io
import zlib
from collections.abc import Iterable

from shoal.errors import CorruptData, InvalidInput
from shoal.formats.zng import stream as zng
from shoal.model.values import Value

_SEAL = b"shoal crc32 "
_TEXT = 3
_SEAL_SIZE = len(_SEAL) + 8
_TAIL = 3 + 2 + _SEAL_SIZE
"""The control frame: its code and length (2 bytes), encoding and size of the message (2 bytes), an end of stream."""


def seal(values: Iterable[Value], key: str) -> bytes:
    """The bytes of the metadata object of this name."""
    out = io.BytesIO()
    writer = zng.Writer(out)
    for value in values:
        writer.write(value)
    writer.end_stream()
    return out.getvalue() + _tail(_checksum(key, out.getvalue()))


def unseal(data: bytes, key: str) -> list[Value]:
    """The values of a metadata object; CorruptData if they are not those that were written."""
    body = data[:-_TAIL]
    if data[len(body) :] != _tail(_checksum(key, body)):
        raise CorruptData(f"{key}: checksum mismatch (restore this object from a backup)")
    try:
        return list(zng.read(io.BytesIO(body)))
    except InvalidInput as e:
        raise CorruptData(f"{key}: {e}") from e


def _checksum(key: str, body: bytes) -> int:
    return zlib.crc32(body, zlib.crc32(key.encode()))


def _tail(checksum: int) -> bytes:
    out = io.BytesIO()
    writer = zng.Writer(out)
    writer.control(zng.Control(_TEXT, _SEAL + b"%08x" % checksum))
    writer.end_stream()
    return out.getvalue()
