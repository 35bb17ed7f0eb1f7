"""Messages of Arrow streams: what compressed buffers claim is known before Arrow takes memory for it."""

from __future__ import annotations

import io

import numpy as np
import pyarrow as pa
import pytest

from shoal.api.options import MIB, ReadOptions
from shoal.errors import InvalidInput
from shoal.formats.arrow import stream
from shoal.testing.samples import damaged

SMALL = ReadOptions(max_memory=16 * MIB)
ZEROS = pa.array(np.zeros(2 * MIB, np.int64))
WORDS = pa.DictionaryArray.from_arrays(pa.array([0, 1, 0]), pa.array(["x" * 5 * MIB, "y" * 5 * MIB]))


def packed(table: pa.Table, compression: str | None) -> bytes:
    out = io.BytesIO()
    with pa.ipc.new_stream(out, table.schema, options=pa.ipc.IpcWriteOptions(compression=compression)) as writer:
        writer.write_table(table)
    return out.getvalue()


@pytest.mark.parametrize("compression", ["zstd", "lz4"])
@pytest.mark.parametrize("column", [ZEROS, WORDS], ids=["records", "a dictionary"])
def test_a_batch_that_unpacks_to_too_much_is_refused(compression: str, column: pa.Array) -> None:
    data = packed(pa.table({"a": column}), compression)
    assert len(data) < MIB
    refusal = r"arrows: a batch that claims \d{8} bytes would take more than 8 MiB of memory, .* -read.memory"
    with pytest.raises(InvalidInput, match=refusal):
        list(stream.read_columns(io.BytesIO(data), SMALL))
    assert sum(batch.length for batch in stream.read_columns(io.BytesIO(data), ReadOptions())) == len(column)


@pytest.mark.parametrize("compression", ["zstd", "lz4", None])
def test_batches_of_any_compression_are_read(compression: str | None) -> None:
    table = pa.table({"a": [1, None, 3], "s": ["x", "y" * 1000, None], "l": [[1], [], None], "d": WORDS.cast("string")})
    data = packed(table, compression)
    found = [value.data for value in stream.read(io.BytesIO(data), ReadOptions())]
    assert found == [tuple(tuple(x) if type(x) is list else x for x in row.values()) for row in table.to_pylist()]


def test_a_schema_that_would_take_too_much_memory_is_refused() -> None:
    data = packed(pa.table({f"c{i}": [1] for i in range(2000)}), None)
    with pytest.raises(InvalidInput, match=r"arrows: a schema of \d+ bytes would take more than 1 MiB of memory"):
        list(stream.read_columns(io.BytesIO(data), ReadOptions(max_memory=2 * MIB)))


def test_damaged_messages_give_values_or_a_refusal() -> None:
    good = packed(pa.table({"a": [1, 2, 3], "s": ["x", "y", "z"]}), "zstd")
    for bad in damaged(good, 300, 5):
        try:
            list(stream.read(io.BytesIO(bad), SMALL))
        except InvalidInput as e:
            assert str(e)
