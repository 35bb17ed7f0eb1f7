"""Sealed objects: read back, read by anyone, and never believed when damaged."""

from __future__ import annotations

import io
import zlib

import pytest

from shoal.errors import CorruptData
from shoal.formats.zng import stream as zng
from shoal.lake.sealed import seal, unseal
from shoal.model.values import int64, string

VALUES = [string("a"), int64(7)]


def test_values_come_back() -> None:
    assert unseal(seal(VALUES, "key"), "key") == VALUES
    assert unseal(seal([], "key"), "key") == []


def test_any_reader_of_zng_reads_the_values() -> None:
    assert list(zng.read(io.BytesIO(seal(VALUES, "key")))) == VALUES


def test_objects_that_version_0_1_0_sealed_are_read() -> None:
    old = _old_seal("key")
    assert unseal(old, "key") == VALUES
    with pytest.raises(CorruptData):
        unseal(old, "other")


def _old_seal(key: str) -> bytes:
    """A control message with its length, as the specification of ZNG has it."""
    out = io.BytesIO()
    writer = zng.Writer(out)
    for value in VALUES:
        writer.write(value)
    writer.close()
    message = b"shoal crc32 %08x" % zlib.crc32(key.encode() + out.getvalue())
    return out.getvalue() + bytes((0x26, 0x01, 3, len(message))) + message + b"\xff"


def test_every_flipped_bit_and_every_cut_is_noticed() -> None:
    data = seal(VALUES, "some/key")
    damaged = [data[:i] for i in range(len(data))]
    damaged += [data[:i] + bytes([data[i] ^ 1 << bit]) + data[i + 1 :] for i in range(len(data)) for bit in range(8)]
    for bad in damaged:
        with pytest.raises(CorruptData, match="some/key"):
            unseal(bad, "some/key")


def test_an_object_in_the_place_of_another_is_noticed() -> None:
    with pytest.raises(CorruptData, match="other/key"):
        unseal(seal(VALUES, "some/key"), "other/key")
