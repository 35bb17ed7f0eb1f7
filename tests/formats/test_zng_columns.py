"""ZNG in columns has the values, and the errors, of ZNG value by value."""

from __future__ import annotations

import io
import random
import re
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.api.options import ReadOptions
from shoal.errors import InvalidInput
from shoal.formats.columns.batches import Batch, batch_of, values_of
from shoal.formats.columns.projection import Paths, project_column, project_shape
from shoal.formats.detect import read_pieces
from shoal.formats.streams import WriteOptions
from shoal.formats.zng import bodies, columns
from shoal.formats.zng import stream as zng
from shoal.formats.zng.stream import Control
from shoal.model import types as t
from shoal.model.parse import parse_type, parse_value
from shoal.model.text import format_value
from shoal.model.values import Value
from shoal.model.zcode import uvarint
from shoal.testing import strategies

TYPES, VALUES, END = 0, 1, b"\xff"
MANY = 2 * columns._FEW


def frame(kind: int, payload: bytes) -> bytes:
    size = len(payload)
    return bytes((kind << 4 | size & 15,)) + uvarint(size >> 4) + payload


def encoded(values: Sequence[Value], **options: int | bool) -> bytes:
    out = io.BytesIO()
    writer = zng.Writer(out, WriteOptions(**options))  # type: ignore[arg-type]
    for value in values:
        writer.write(value)
    writer.close()
    return out.getvalue()


def outcome(values: object) -> tuple[list[Value], str]:
    """The values, and what the input is refused with after them."""
    taken: list[Value] = []
    try:
        for value in values:  # type: ignore[attr-defined]
            taken.append(value)
    except InvalidInput as e:
        return taken, str(e)
    return taken, ""


def place(message: str) -> str:
    """Where an error is. The value decoder has two ways to decode a value, which may say different things of it."""
    return found[0] if (found := re.match(r"zng: frame at byte \d+", message)) else message


def assert_same(data: bytes) -> None:
    """By columns there come the same values, and then an error at the same place."""
    values, message = outcome(zng.read(io.BytesIO(data)))
    others, other_message = outcome(values_of(columns.read(io.BytesIO(data))))
    assert others == values
    assert place(other_message) == place(message)


def batches(data: bytes, fields: Paths | None = None) -> list[Batch]:
    pieces = list(columns.read(io.BytesIO(data), fields=fields))
    assert all(isinstance(piece, Batch) for piece in pieces)
    return [piece for piece in pieces if isinstance(piece, Batch)]


columns_of_a_type = strategies.types(8).flatmap(
    lambda typ: st.lists(strategies.data_of(typ).map(lambda data: Value(typ, data)), min_size=1, max_size=6)
)


@given(st.lists(columns_of_a_type, min_size=1, max_size=4), st.randoms(use_true_random=False), st.booleans())
def test_values_of_every_type_come_back(runs: list[list[Value]], dice: random.Random, compress: bool) -> None:
    values = [value for run in runs for value in run * (MANY // len(run) + 1)]
    dice.shuffle(values)
    data = encoded(values, zng_compress=compress, zng_frame_size=2000)
    pieces = list(columns.read(io.BytesIO(data)))
    assert list(values_of(pieces)) == values
    assert all(isinstance(piece, Batch) for piece in pieces)


@given(st.lists(columns_of_a_type, min_size=1, max_size=4), st.data())
def test_fields_at_some_paths_are_those_of_whole_columns(runs: list[list[Value]], draw: st.DataObject) -> None:
    values = [value for run in runs for value in run * (MANY // len(run) + 1)]
    paths = draw.draw(
        st.lists(st.lists(st.sampled_from(_names(values)), min_size=1, max_size=2).map(tuple), max_size=3)
    )
    (batch,) = batches(encoded(values), paths)
    for part in batch.parts:
        whole = batch_of([values[row] for row in part.rows.tolist()])
        assert {project_shape(own.shape, paths) for own in whole.parts} == {part.shape}
        for own in whole.parts:
            projected = project_column(own.shape, own.column, paths)
            assert part.column.take(own.rows).to_pylist() == projected.to_pylist() or own.shape.has_float


def _names(values: list[Value]) -> list[str]:
    records = [value.type.under for value in values if isinstance(value.type.under, t.Record)]
    return sorted({f.name for record in records for f in record.fields} | {"a"})


@given(st.lists(columns_of_a_type, min_size=1, max_size=3), st.data())
def test_damage_is_reported_as_without_columns(runs: list[list[Value]], draw: st.DataObject) -> None:
    values = [value for run in runs for value in run * (MANY // len(run) + 1)]
    data = bytearray(encoded(values, zng_compress=False, zng_frame_size=1000))
    for _ in range(draw.draw(st.integers(1, 3))):
        data[draw.draw(st.integers(0, len(data) - 1))] = draw.draw(st.integers(0, 255))
    end = draw.draw(st.one_of(st.just(len(data)), st.integers(0, len(data))))
    assert_same(bytes(data[:end]))


RECORD = b"\x00\x02\x01a\x09\x01b\x19"  # {a:int64,b:string} is type 30
GOOD = b"\x1e\x05\x02\x02\x02x"


@pytest.mark.parametrize(
    "bad",
    [
        pytest.param(b"\x1f\x05\x02\x02\x02x", id="a type that is not defined"),
        pytest.param(b"\x1e\x05\x02\x02\x03x", id="a field beyond its record"),
        pytest.param(b"\x1e\x04\x02\x02\x02x", id="a record that is too short"),
        pytest.param(b"\x1e\x7f\x02\x02\x02x", id="a value without an end"),
        pytest.param(b"\x1e\x05\x02\x02\x02\xff", id="text that is not UTF-8"),
        pytest.param(b"\x1e\x0d\x0a\x02\x02\x02\x02\x02\x02\x02\x02\x02\x02x", id="a number of too many bytes"),
        pytest.param(b"\x1e", id="a value that is cut off"),
        pytest.param(b"\x1e\x84", id="a size that is cut off"),
    ],
)
@pytest.mark.parametrize("fields", [None, (), (("a",),), (("b",),)])
def test_a_malformed_value_is_refused_after_those_before_it(bad: bytes, fields: Paths | None) -> None:
    data = frame(TYPES, RECORD) + frame(VALUES, GOOD * MANY) + frame(VALUES, GOOD * MANY + bad) + END
    values, message = outcome(zng.read(io.BytesIO(data)))
    assert message
    pieces = columns.read(io.BytesIO(data), fields=fields)
    assert outcome(values_of(pieces)) == (values, message)


def test_a_note_and_control_messages_are_skipped() -> None:
    out = io.BytesIO()
    writer = zng.Writer(out)
    for _ in range(MANY):
        writer.write(parse_value("{a:1}"))
    writer.control(Control(2, b"{progress:1}"))
    writer.note("some text")
    writer.write(parse_value("{a:2}"))
    writer.close()
    assert_same(out.getvalue())
    assert_same(out.getvalue()[:-1] + b"\x20" + END)
    assert sum(batch.length for batch in batches(out.getvalue())) == MANY + 1


def test_members_of_a_union_may_be_listed_in_any_order() -> None:
    union = b"\x04\x02\x19\x09" + b"\x00\x01\x01u\x1e"  # (string,int64) is type 30, {u:(string,int64)} is type 31
    data = frame(TYPES, union) + frame(VALUES, b"\x1f\x05\x04\x01\x02x" * MANY) + END
    (batch,) = batches(data)
    assert [format_value(value) for value in batch.values()] == ['{u:"x"((int64,string))}'] * MANY


def test_a_type_that_is_defined_twice_is_one_part() -> None:
    data = frame(TYPES, RECORD + RECORD) + frame(VALUES, (GOOD + b"\x1f" + GOOD[1:]) * MANY) + END
    (batch,) = batches(data)
    assert [part.shape for part in batch.parts] == [parse_type("{a:int64,b:string}")]
    assert list(batch.values()) == [parse_value('{a:1,b:"x"}')] * (2 * MANY)


def test_long_arrays_beside_short_ones_come_back() -> None:
    lengths = (0, 1, bodies._LONG - 1, bodies._LONG, bodies._LONG + 1, 3 * bodies._LONG)
    typ = t.array(t.INT64)
    values = [Value(typ, tuple(range(length))) for length in lengths] + [Value(typ, None)]
    values += [Value(typ, (None, 1, None) * bodies._LONG)]
    values *= columns._FEW
    (batch,) = batches(encoded(values))
    assert list(batch.values()) == values


def test_a_large_frame_is_decoded_in_slices() -> None:
    values = [parse_value(f'{{a:{i},b:"text number {i}"}}') for i in range(100_000)]
    data = encoded(values, zng_frame_size=1 << 30)
    options = ReadOptions(max_memory=64 << 20)
    pieces = list(columns.read(io.BytesIO(data), options))
    assert len(pieces) > 1
    assert list(values_of(pieces)) == values


def test_values_of_many_shapes_come_one_by_one() -> None:
    values = [Value(t.record(((f"f{i}", t.INT64),)), (i,)) for i in range(400)]
    assert list(columns.read(io.BytesIO(encoded(values)))) == values


def test_a_value_that_is_too_large_for_the_memory_is_refused_as_without_columns() -> None:
    data = encoded([Value(t.array(t.INT64), (1,) * 3_000_000)])
    options = ReadOptions(max_memory=64 << 20)
    expected = outcome(zng.read(io.BytesIO(data), options))
    assert "would take more than" in expected[1]
    assert outcome(values_of(columns.read(io.BytesIO(data), options))) == expected


def test_what_is_unpacked_counts_before_there_are_columns_of_it() -> None:
    data = encoded([Value(t.STRING, "x" * 1000)] * 100_000)
    options = ReadOptions(max_ratio=2)
    with pytest.raises(InvalidInput, match="expand"):
        list(read_pieces(io.BytesIO(data), "zng", options))
