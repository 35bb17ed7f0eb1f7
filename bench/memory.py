"""Peak memory while a long input is read: it must not grow with the input.

The input repeats a block of records, so that it needs no disk.
"""

from __future__ import annotations

import argparse
import io
import itertools
import time
from collections.abc import Iterator

from bench import logs, peak
from shoal.api.options import ReadOptions
from shoal.formats import registry
from shoal.formats.columns.batches import Batch
from shoal.formats.streams import WriteOptions
from shoal.model.parse import parse_value
from shoal.model.values import Value

FORMATS = ("ndjson", "ndjson-columns", "zson", "zng", "csv", "csv-columns")


class Repeated(io.RawIOBase):
    """A head, followed by a block that repeats up to `size` bytes."""

    def __init__(self, head: bytes, block: bytes, size: int) -> None:
        self._left = size - size % len(block)
        self._pieces = itertools.chain([head] if head else [], itertools.repeat(block))
        self._rest = memoryview(b"")

    def read(self, size: int = -1, /) -> bytes:
        if not self._rest:
            if self._left <= 0:
                return b""
            piece = next(self._pieces)
            self._left -= len(piece)
            self._rest = memoryview(piece)
        out, self._rest = self._rest[:size], self._rest[size:]
        return bytes(out)

    def seekable(self) -> bool:
        return False


def block_of(name: str) -> tuple[bytes, bytes]:
    """A head and a block of about 10 MB, or a stream of ZNG."""
    if name.startswith("csv"):
        head = b"a,b,c,d\n"
        return head, b"".join(b"%d,word %d,%f,true\n" % (i, i, i / 7) for i in range(200_000))
    with logs.path(40_000).open("rb") as file:
        lines = file.readlines()
    if name.startswith("ndjson"):
        return b"", b"".join(lines)
    out = io.BytesIO()
    writer = registry.by_name(name).load_writer()(out, WriteOptions(zng_compress=False))
    for line in lines:
        writer.write(parse_value(line.decode()))
    writer.close()
    return b"", out.getvalue()


def read(name: str, source: Repeated) -> Iterator[Value | Batch]:
    """The values, or batches, of an input."""
    if name.endswith("-columns"):
        reader = registry.by_name(name.removesuffix("-columns")).load_columns()
        assert reader is not None
        return reader(source, ReadOptions())
    return registry.by_name(name).load_reader()(source, ReadOptions())


def main() -> None:
    """Read one input; print its size, the seconds it took and the peak memory in MiB."""
    parser = argparse.ArgumentParser()
    parser.add_argument("format", choices=FORMATS)
    parser.add_argument("gigabytes", type=float)
    args = parser.parse_args()
    head, block = block_of(args.format)
    before = peak.mebibytes()
    start = time.perf_counter()
    count = sum(1 for _ in read(args.format, Repeated(head, block, int(args.gigabytes * 1e9))))
    seconds = time.perf_counter() - start
    size = f"{args.gigabytes} GB, {count:,} items, {seconds:.0f} s"
    print(f"{args.format}: {size}, peak {peak.mebibytes()} MiB ({before} MiB before)")


if __name__ == "__main__":
    main()
