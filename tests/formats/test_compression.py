from __future__ import annotations

import gzip
import io

import pytest
import zstandard

from shoal.errors import InvalidInput
from shoal.formats import compression
from shoal.formats.compression import unwrap
from shoal.formats.detect import read_source
from shoal.model.text import format_value

TEXT = b"".join(b'{"n":%d}\n' % i for i in range(20_000))


class Pipe(io.BytesIO):
    def seekable(self) -> bool:
        return False


def everything(data: bytes) -> bytes:
    source = unwrap(Pipe(data))
    return b"".join(iter(lambda: source.read(7000), b""))


def checked_zstd(data: bytes) -> bytes:
    return zstandard.ZstdCompressor(write_checksum=True).compress(data)


@pytest.mark.parametrize("pack", [gzip.compress, zstandard.compress])
def test_compressed_input_is_unwrapped(pack: object) -> None:
    packed = pack(TEXT)  # type: ignore[operator]
    assert everything(packed) == TEXT
    assert everything(packed + packed) == TEXT + TEXT
    assert sum(1 for _ in read_source(Pipe(packed))) == 20_000
    assert format_value(next(read_source(io.BytesIO(packed)))) == "{n:0}"


@pytest.mark.parametrize("pack, name", [(gzip.compress, "gzip"), (checked_zstd, "zstd")])
def test_truncated_and_damaged_input_is_an_error_and_not_the_end(pack: object, name: str) -> None:
    packed = pack(TEXT)  # type: ignore[operator]
    with pytest.raises(InvalidInput, match=f"{name}: expected more data"):
        everything(packed[:-20])
    with pytest.raises(InvalidInput, match=name):
        everything(packed[:100] + bytes(50) + packed[150:])


@pytest.mark.parametrize("pack", [gzip.compress, zstandard.compress])
def test_a_bomb_is_refused(pack: object, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compression, "_FREE", 1 << 20)
    monkeypatch.setattr(compression, "_MAX_RATIO", 100)
    with pytest.raises(InvalidInput, match="bomb"):
        everything(pack(bytes(1 << 26)))  # type: ignore[operator]


def test_plain_input_is_left_alone() -> None:
    assert everything(TEXT) == TEXT
    assert everything(b"") == b""
    assert everything(b"\x1f") == b"\x1f"
