"""A reader of any format, also of one that knows nothing of limits, takes only so much at once."""

from __future__ import annotations

import io
from collections.abc import Iterator

import pytest

from shoal.api.options import MIB, ReadOptions
from shoal.errors import InvalidInput
from shoal.formats import compression, registry
from shoal.formats.columns.batches import EMPTY, Batch, batch_of
from shoal.formats.detect import read_pieces, read_source
from shoal.formats.metering import Meter, give, grow
from shoal.formats.registry import Format
from shoal.formats.streams import Source
from shoal.model.values import Value, int64, string

SMALL = ReadOptions(max_memory=64 * MIB, max_ratio=10)


def slurp(source: Source, options: ReadOptions) -> Iterator[Value]:
    yield string(source.read().decode())


def collect(source: Source, options: ReadOptions) -> Iterator[Value]:
    parts = []
    while part := source.read(1000):
        parts.append(part)
    yield string(b"".join(parts).decode())


def multiply(source: Source, options: ReadOptions) -> Iterator[Value]:
    for number in range(int(source.read(20))):
        yield int64(number)


def lines(source: Source, options: ReadOptions) -> Iterator[Value]:
    while part := source.read(MIB):
        yield string(part[:10].decode())


@pytest.fixture
def new_format(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "_FORMATS", dict(registry._FORMATS))
    monkeypatch.setattr(compression, "FREE", MIB)
    for read in (slurp, collect, multiply, lines):
        registry.register(Format(read.__name__, reader=lambda read=read: read))  # type: ignore[misc]


@pytest.mark.usefixtures("new_format")
@pytest.mark.parametrize("name", ["slurp", "collect"])
def test_a_new_format_cannot_take_everything_at_once(name: str) -> None:
    refusal = r"more than 524288 bytes without a value \(raise -read.memory, or -limit.memory of a service\)"
    for read in (read_source, read_pieces):
        with pytest.raises(InvalidInput, match=refusal):
            list(read(io.BytesIO(b"x" * MIB), name, SMALL))
        assert len(list(read(io.BytesIO(b"x" * 500_000), name, SMALL))) == 1


@pytest.mark.usefixtures("new_format")
def test_a_new_format_cannot_give_far_more_than_it_took() -> None:
    for read in (read_source, read_pieces):
        with pytest.raises(InvalidInput, match=r"encoded data: expands more than 10 times, .* -read.ratio"):
            for _ in read(io.BytesIO(b"1000000"), "multiply", SMALL):
                pass
        assert sum(isinstance(v, Value) for v in read(io.BytesIO(b"10000"), "multiply", SMALL)) == 10_000


@pytest.mark.usefixtures("new_format")
def test_values_in_between_make_room_for_more() -> None:
    options = ReadOptions(max_memory=256 * MIB)
    assert sum(1 for _ in read_source(io.BytesIO(b"x" * (30 * MIB)), "lines", options)) == 30


@pytest.mark.usefixtures("new_format")
def test_single_values_come_with_pauses() -> None:
    """Whoever holds values is told to work on them after some bytes, whatever number of values that is."""
    pieces = list(read_pieces(io.BytesIO(b"x" * (30 * MIB)), "lines", ReadOptions(max_memory=256 * MIB)))
    assert sum(isinstance(piece, Value) for piece in pieces) == 30
    pauses = [i for i, piece in enumerate(pieces) if piece is EMPTY]
    assert 5 <= len(pauses) <= 7
    assert pauses[0] > 0


def test_what_a_reader_makes_of_bytes_counts() -> None:
    meter = Meter(io.BytesIO(b"x" * 100), SMALL)
    values = meter.values(int64(i) for i in range(10))
    meter.read(10)
    grow(meter, 31 * MIB)
    next(values)
    grow(meter, 31 * MIB)
    with pytest.raises(InvalidInput, match="more than 33554432 bytes without a value"):
        grow(meter, 2 * MIB)
    grow(io.BytesIO(), 100 * MIB)  # a source that nobody meters


def test_what_a_reader_gives_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compression, "FREE", 1000)
    meter = Meter(io.BytesIO(b"x" * 200), SMALL)
    meter.read(200)
    give(meter, 2000)
    with pytest.raises(InvalidInput, match="expands more than 10 times"):
        give(meter, 1)
    give(io.BytesIO(), 100 * MIB)


def test_columns_count_for_their_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compression, "FREE", 1000)
    meter = Meter(io.BytesIO(b"x" * 100), SMALL)
    meter.read(100)
    batch = batch_of([string("x" * 100)] * 9)

    def pieces() -> Iterator[Batch | Value]:
        yield int64(1)
        yield batch
        yield batch

    given = []
    with pytest.raises(InvalidInput, match="expands more than 10 times"):
        for piece in meter.pieces(pieces()):
            given.append(piece)
    assert given == [int64(1), batch]


def test_a_metered_source_reads_and_seeks_as_the_source_does() -> None:
    meter = Meter(io.BytesIO(b"0123456789"), ReadOptions())
    assert (meter.seekable(), meter.read(3), meter.tell(), meter.seek(8), meter.read()) == (True, b"012", 3, 8, b"89")


def test_every_reader_of_the_registry_is_metered(monkeypatch: pytest.MonkeyPatch) -> None:
    """All ways of reading go through one function each for values and for pieces."""
    sources: list[Source] = []

    def spy(source: Source, options: ReadOptions) -> Iterator[Value]:
        sources.append(source)
        yield int64(1)

    monkeypatch.setattr(registry, "_FORMATS", dict(registry._FORMATS))
    registry.register(Format("spy", reader=lambda: spy, column_reader=lambda: spy))
    list(read_source(io.BytesIO(b""), "spy"))
    list(read_pieces(io.BytesIO(b""), "spy"))
    assert [type(source) for source in sources] == [Meter, Meter]
