"""Large results come from a service in columns, with the values and types that they have without one."""

from __future__ import annotations

import io

import pytest
import urllib3

import shoal
from shoal.api.lake import Lake
from shoal.formats.columns.batches import Batch
from shoal.formats.zng import stream as zng
from shoal.model.text import format_value
from shoal.testing.services import Served

ROWS = 4000
QUERIES = ("from p", "from p | n>100 | cut n,mixed", "from p | put twice:=n*2", "from p | count()", "from p | head 3")


@pytest.fixture
def lake(empty_service: Served) -> Lake:
    lake = shoal.open(empty_service.url)
    mixed = ('"x"', "1.5", "10.0.0.1", "null", "[1,2]")
    text = "".join(f'{{n:{i},mixed:{mixed[i // 1000]},host:"h{i % 7}"}}' for i in range(ROWS))
    lake.create("p", key="n").load(text.encode())
    return lake


@pytest.mark.parametrize("text", QUERIES)
def test_values_and_types_are_those_of_the_lake_itself(text: str, lake: Lake, empty_service: Served) -> None:
    own = shoal.open(empty_service.lake)
    expected = list(own.query(text, engine="duckdb"))
    found = list(lake.query(text, engine="duckdb"))
    assert [format_value(value) for value in found] == [format_value(value) for value in expected]
    assert lake.query(text, engine="duckdb").to_arrow() == own.query(text, engine="duckdb").to_arrow()


def test_large_results_are_columns_and_small_ones_values(lake: Lake) -> None:
    pieces = list(lake.query("from p", engine="duckdb").pieces())
    assert sum(piece.length for piece in pieces if isinstance(piece, Batch)) == ROWS
    assert not any(isinstance(piece, Batch) for piece in lake.query("from p | head 3", engine="duckdb").pieces())
    statement = lake.sql("select n, host from p")
    assert sum(piece.length for piece in statement.pieces() if isinstance(piece, Batch)) == ROWS


def test_one_by_one_and_in_columns_can_both_be_read_once(lake: Lake) -> None:
    results = lake.query("from p", engine="duckdb")
    assert sum(1 for _ in results) == ROWS
    with pytest.raises(shoal.errors.InvalidInput, match="have been read already"):
        results.to_arrow()


def test_clients_that_do_not_ask_get_values(lake: Lake, empty_service: Served) -> None:
    answer = urllib3.request(
        "POST",
        f"{empty_service.url}/query?ctrl=T",
        body=b'{"query":"from p"}',
        headers={"Content-Type": "application/json", "Accept": "application/x-zng"},
    )
    messages = list(zng.read_messages(io.BytesIO(answer.data)))
    assert sum(not isinstance(item, zng.Control) for item in messages) == ROWS
    assert {item.encoding for item in messages if isinstance(item, zng.Control)} == {2}
