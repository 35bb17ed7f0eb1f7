"""Metadata objects: a ZNG stream, and a seal: a checksum of the name of the object and of all bytes before the seal.

The seal is the name of a type that no value has, so any reader of ZNG reads the values and skips it. A reader refuses
an object whose seal does not match, and so one that is stored under the name of another.
"""

from __future__ import annotations

import io
import zlib
from collections.abc import Iterable

from shoal.errors import CorruptData, InvalidInput
from shoal.formats.zng import stream as zng
from shoal.model.values import Value

_SEAL = "shoal crc32 "
_SEAL_SIZE = len(_SEAL) + 8
_TAIL = 3 + 3 + _SEAL_SIZE
"""The types frame: its code and length (2 bytes), a typedef (3 bytes and the name), an end of stream."""
_OLD_TAIL = 3 + 2 + _SEAL_SIZE
"""Version 0.1.0 sealed with a control message, which `zq` refuses in a file."""


def seal(values: Iterable[Value], key: str) -> bytes:
    """The bytes of the metadata object of this name."""
    out = io.BytesIO()
    writer = zng.Writer(out)
    for value in values:
        writer.write(value)
    writer.end_stream()
    body = out.getvalue()
    writer.note(_text(_checksum(key, body)))
    return out.getvalue()


def unseal(data: bytes, key: str) -> list[Value]:
    """The values of a metadata object; CorruptData if they are not those that were written."""
    body = data[:-_TAIL]
    if data[len(body) :] != _tail(_checksum(key, body)):
        body = data[:-_OLD_TAIL]
        if data[len(body) :] != _old_tail(_checksum(key, body)):
            raise CorruptData(f"{key}: checksum mismatch (restore this object from a backup)")
    try:
        return list(zng.read(io.BytesIO(body)))
    except InvalidInput as e:
        raise CorruptData(f"{key}: {e}") from e


def _checksum(key: str, body: bytes) -> int:
    return zlib.crc32(body, zlib.crc32(key.encode()))


def _text(checksum: int) -> str:
    return f"{_SEAL}{checksum:08x}"


def _tail(checksum: int) -> bytes:
    out = io.BytesIO()
    zng.Writer(out).note(_text(checksum))
    return out.getvalue()


def _old_tail(checksum: int) -> bytes:
    message = _text(checksum).encode()
    return bytes((0x26, 0x01, 0x03, len(message))) + message + b"\xff"
