from __future__ import annotations

import bz2
import gzip
import io
import lzma
import time
from collections.abc import Callable

import lz4.frame
import pyarrow as pa
import pyarrow.parquet as pq
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


def checked_lz4(data: bytes) -> bytes:
    out: bytes = lz4.frame.compress(data, content_checksum=True)
    return out


PACKERS: dict[str, Callable[[bytes], bytes]] = {
    "gzip": gzip.compress,
    "zstd": checked_zstd,
    "bzip2": bz2.compress,
    "xz": lzma.compress,
    "lz4": checked_lz4,
}
packers = pytest.mark.parametrize("name, pack", PACKERS.items())


def test_every_compression_is_tested() -> None:
    assert set(PACKERS) == {each.name for each in compression.COMPRESSIONS}


@packers
def test_compressed_input_is_unwrapped(name: str, pack: Callable[[bytes], bytes]) -> None:
    packed = pack(TEXT)
    assert everything(pack(b"")) == b""
    assert everything(packed) == TEXT
    assert everything(packed + packed) == TEXT + TEXT
    assert sum(1 for _ in read_source(Pipe(packed))) == 20_000
    assert format_value(next(read_source(io.BytesIO(packed)))) == "{n:0}"


@packers
def test_truncated_and_damaged_input_is_an_error_and_not_the_end(name: str, pack: Callable[[bytes], bytes]) -> None:
    packed = pack(TEXT)
    with pytest.raises(InvalidInput, match=f"{name}: expected more data"):
        everything(packed[:-20])
    with pytest.raises(InvalidInput, match=name):
        everything(packed[:100] + bytes(50) + packed[150:])


@packers
def test_a_bomb_is_refused_and_what_expands_less_is_not(
    name: str, pack: Callable[[bytes], bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compression, "FREE", 1 << 20)
    packed = pack(bytes(1 << 24))
    refusal = rf"{name}: expands more than 100 times, .* \(raise -read.ratio, or -limit.ratio of a service\)"
    with pytest.raises(InvalidInput, match=refusal):
        everything(packed, ratio=100)
    assert len(everything(packed, ratio=1_000_000)) == 1 << 24


def test_little_output_is_no_bomb() -> None:
    assert len(everything(zstandard.compress(bytes(1 << 24)), ratio=2)) == 1 << 24


def test_reading_in_small_steps_takes_no_longer_than_in_large_ones() -> None:
    """The step in which zstd unpacks may give tens of megabytes, which are not copied again for each read."""
    source = unwrap(Pipe(zstandard.compress(bytes(48 << 20))))
    began = time.process_time()
    assert sum(len(part) for part in iter(lambda: source.read(4096), b"")) == 48 << 20
    assert time.process_time() - began < 2


@packers
def test_what_is_compressed_twice_is_refused(name: str, pack: Callable[[bytes], bytes]) -> None:
    for other in PACKERS.values():
        with pytest.raises(InvalidInput, match=f"^{name}: holds compressed data, and only one layer of compression"):
            unwrap(Pipe(pack(other(TEXT))))


@packers
def test_a_compressed_file_of_a_format_that_seeks_is_unpacked_on_disk(
    name: str, pack: Callable[[bytes], bytes]
) -> None:
    out = io.BytesIO()
    pq.write_table(pa.table({"a": [1, 2]}), out)
    for format_name in ("auto", "parquet"):
        values = read_source(Pipe(pack(out.getvalue())), format_name)
        assert [format_value(value) for value in values] == ["{a:1}", "{a:2}"]


def test_a_window_that_would_take_too_much_memory_is_refused() -> None:
    filters = [{"id": lzma.FILTER_LZMA2, "dict_size": 1 << 29}]
    packed = lzma.compress(TEXT, filters=filters)
    with pytest.raises(InvalidInput, match="xz: Memory usage limit exceeded"):
        everything(packed)
    assert everything(lzma.compress(TEXT, preset=9)) == TEXT


def test_text_that_resembles_the_beginning_of_compressed_data_is_text() -> None:
    assert everything(b"BZh9,a\n1,2\n") == b"BZh9,a\n1,2\n"
    assert everything(b"PK,a\n1,2\n") == b"PK,a\n1,2\n"


def test_a_pipe_is_not_waited_for_longer_than_a_short_line() -> None:
    class Stalled(Pipe):
        def read(self, size: int | None = -1, /) -> bytes:
            data = super().read(size)
            assert data, "it would wait"
            return data

    assert next(read_source(Stalled(b"{a}\n"), "line")).data == "{a}"
    assert unwrap(Stalled(bz2.compress(TEXT))).read(10) == TEXT[:10]


def test_plain_input_is_left_alone() -> None:
    assert everything(TEXT) == TEXT
    assert everything(b"") == b""
    assert everything(b"\x1f") == b"\x1f"
