"""Page headers of Parquet: what they say is known before Arrow takes memory for it."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.api.options import MIB, ReadOptions
from shoal.errors import InvalidInput
from shoal.formats.arrow import pages, parquet
from shoal.formats.arrow.pages import PageWatch, SmallerBatches

ROWS = 5000
TEXTS = [f"text {i}" for i in range(100)] + ["x" * 9000]


def chunks(**how: Any) -> list[bytes]:
    """The column chunks of a file: numbers, and strings out of a dictionary."""
    table = pa.table({"n": range(ROWS), "s": pa.array(TEXTS).take(pa.array(np.arange(ROWS) % len(TEXTS)))})
    out = io.BytesIO()
    pq.write_table(table, out, **how)
    group = pq.ParquetFile(io.BytesIO(out.getvalue())).metadata.row_group(0)
    found = []
    for i in range(group.num_columns):
        column = group.column(i)
        start = column.dictionary_page_offset or column.data_page_offset
        found.append(out.getvalue()[start : start + column.total_compressed_size])
    return found


@pytest.mark.parametrize("compression", ["none", "snappy", "gzip", "zstd", "lz4", "brotli"])
@pytest.mark.parametrize("version", ["1.0", "2.0"])
@pytest.mark.parametrize("checksum", [False, True])
def test_all_pages_are_found_with_what_they_hold(compression: str, version: str, checksum: bool) -> None:
    numbers, texts = chunks(
        compression=compression, data_page_version=version, write_page_checksum=checksum, use_dictionary=["s"],
        data_page_size=4096,
    )  # fmt: skip
    found = list(pages._pages(numbers))
    assert len(found) > 2
    assert sum(page.values for page in found) == ROWS
    dictionary, *data = pages._pages(texts)
    assert (dictionary.is_dictionary, dictionary.values) == (True, len(TEXTS))
    assert sum(page.values for page in data) == ROWS
    assert pages._longest_entry(dictionary) == 9000
    assert all(page.size > 0 for page in (dictionary, *data))


def test_a_dictionary_of_numbers_has_no_longest_entry() -> None:
    dictionary, *_ = pages._pages(chunks(use_dictionary=["n"])[0])
    assert pages._longest_entry(dictionary) == 0


def test_pages_that_unpack_to_too_much_are_refused() -> None:
    watch = PageWatch(50_000, ROWS, 100, MIB)
    numbers, texts = chunks(use_dictionary=["s"])
    watch.look(numbers)
    with pytest.raises(InvalidInput, match=r"parquet: pages unpack to more than 50000 bytes \(raise -read.memory"):
        watch.look(texts)


def test_large_values_make_small_batches() -> None:
    watch = PageWatch(MIB, ROWS, ROWS, 900_000)
    with pytest.raises(SmallerBatches) as e:
        watch.look(chunks(use_dictionary=["s"])[1])
    assert 90 <= e.value.rows <= 100
    watch.settle()  # some rows were read already
    watch.look(chunks(use_dictionary=["s"])[1])


@given(st.binary(max_size=200))
def test_any_bytes_are_looked_at(data: bytes) -> None:
    assert len(list(pages._pages(data))) <= 200


def large_at_the_end() -> bytes:
    """Short values, and at the end a long one over and over, which few bytes of the file account for."""
    texts = pa.array([*map(str, range(1000)), "x" * MIB])
    rows = np.minimum(np.arange(1200), 1000)
    out = io.BytesIO()
    pq.write_table(pa.table({"a": pa.DictionaryArray.from_arrays(rows, texts)}), out, store_schema=False)
    return out.getvalue()


def test_rows_are_neither_lost_nor_repeated_where_batches_get_smaller(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parquet, "_BATCH_BYTES", 64 * MIB)
    sizes, texts = [], []
    for batch in parquet.read_columns(io.BytesIO(large_at_the_end()), ReadOptions()):
        sizes.append(batch.length)
        texts += [value.data[0][:10] for value in batch.values()]
    assert max(sizes) <= 64
    assert texts == [*map(str, range(1000)), *["x" * 10] * 200]


def test_metadata_that_would_take_too_much_memory_is_refused() -> None:
    out = io.BytesIO()
    pq.write_table(pa.table({f"c{i}": [1] for i in range(2000)}), out)
    with pytest.raises(InvalidInput, match=r"parquet: metadata of \d+ bytes would take more than 1 MiB of memory"):
        list(parquet.read_columns(out, ReadOptions(max_memory=2 * MIB)))
    assert len(list(parquet.read_columns(out, ReadOptions()))) == 1
