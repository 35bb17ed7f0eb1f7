"""Batches come back from bytes as they were; damaged bytes give a batch or InvalidInput."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.errors import InvalidInput
from shoal.formats.arrow import exact
from shoal.formats.columns.batches import Batch, batch_of
from shoal.model.parse import parse_value
from shoal.model.text import format_value
from shoal.model.values import Value
from shoal.testing import strategies


def texts(batch: Batch) -> list[str]:
    return [format_value(value) for value in batch.values()]


@given(st.lists(strategies.values(), max_size=20))
def test_values_of_any_type_come_back(values: list[Value]) -> None:
    batch = batch_of(values)
    found = exact.decode(exact.encode(batch))
    assert texts(found) == texts(batch)
    assert [value.type for value in found.values()] == [value.type for value in values]


@given(st.lists(strategies.values(), max_size=30), st.integers(1, 500))
def test_slices_are_the_batch_in_its_order(values: list[Value], size: int) -> None:
    batch = batch_of(values)
    runs = [exact.decode(exact.encode(run)) for run in exact.slices(batch, size)]
    assert [text for run in runs for text in texts(run)] == texts(batch)


def mixed() -> bytes:
    rows = ['{a:1,b:"x"}', "{a:2.5,c:[1,2]}", "7", 'error("bad")', '{a:10.0.0.1,b:"y"}'] * 20
    return exact.encode(batch_of([parse_value(row) for row in rows]))


def test_damaged_bytes_are_refused() -> None:
    good, dice = mixed(), random.Random(7)
    refused = 0
    for _ in range(400):
        bad = bytearray(good)
        bad[dice.randrange(len(bad))] = dice.randrange(256)
        try:
            exact.decode(bytes(bad[: dice.choice((len(bad), len(bad), dice.randrange(len(bad))))]))
        except InvalidInput:
            refused += 1
    assert refused > 100


@pytest.mark.parametrize("data", [b"", b"\0" * 7, b"\1\0\0\0\0\0\0\0", b"\0\0\0\0\1\0\0\0\5\0\0\0abcde"])
def test_what_is_not_a_batch_is_refused(data: bytes) -> None:
    with pytest.raises(InvalidInput):
        exact.decode(data)
