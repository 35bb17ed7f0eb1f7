from __future__ import annotations

import gzip
import io
import time

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


def everything(data: bytes, ratio: int = 1000) -> bytes:
    source = unwrap(Pipe(data), ratio)
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


@pytest.mark.parametrize("pack, name", [(gzip.compress, "gzip"), (zstandard.compress, "zstd")])
def test_a_bomb_is_refused_and_what_expands_less_is_not(
    pack: object, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compression, "FREE", 1 << 20)
    packed = pack(bytes(1 << 24))  # type: ignore[operator]
    refusal = rf"{name}: expands more than 100 times, .* \(raise -read.ratio, or -limit.ratio of a service\)"
    with pytest.raises(InvalidInput, match=refusal):
        everything(packed, ratio=100)
    assert len(everything(packed, ratio=100_000)) == 1 << 24


def test_little_output_is_no_bomb() -> None:
    assert len(everything(zstandard.compress(bytes(1 << 24)), ratio=2)) == 1 << 24


def test_reading_in_small_steps_takes_no_longer_than_in_large_ones() -> None:
    """The step in which zstd unpacks may give tens of megabytes, which are not copied again for each read."""
    source = unwrap(Pipe(zstandard.compress(bytes(48 << 20))))
    began = time.process_time()
    assert sum(len(part) for part in iter(lambda: source.read(4096), b"")) == 48 << 20
    assert time.process_time() - began < 2


def test_plain_input_is_left_alone() -> None:
    assert everything(TEXT) == TEXT
    assert everything(b"") == b""
    assert everything(b"\x1f") == b"\x1f"
