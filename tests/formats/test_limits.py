"""What a value may take: estimated before it is decoded, and refused with the position, the limit and the way out."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

import pytest

from shoal.api.options import MIB, ReadOptions
from shoal.errors import InvalidInput
from shoal.formats.columns.batches import values_of
from shoal.formats.detect import read_pieces, read_source
from shoal.formats.limits import (
    LIGHT,
    check_bytes,
    check_cells,
    check_fields,
    check_lines,
    check_memory,
    check_text,
    check_types,
    chunk_size,
)
from shoal.model import types as t

SMALL = ReadOptions(max_memory=64 * MIB)
REFUSAL = (
    r"would take more than 32 MiB of memory, half of the limit \(raise -read.memory, or -limit.memory of a service\)"
)


@pytest.mark.parametrize(
    "check",
    [
        lambda: check_memory(33 * MIB, SMALL),
        lambda: check_text("1," * MIB, SMALL, "line 7"),
        lambda: check_text(b"{}" * MIB, SMALL, "line 7"),
        lambda: check_text("x" * (9 * MIB), SMALL, "line 7"),
        lambda: check_lines(MIB, 300_000, SMALL, "line 7"),
        lambda: check_bytes(t.array(t.INT64), 2 * MIB, SMALL),
        lambda: check_bytes(t.STRING, 9 * MIB, SMALL),
        lambda: check_cells(300_000, SMALL),
        lambda: check_types(70_000, SMALL),
    ],
)
def test_too_much_is_refused(check: Callable[[], Any]) -> None:
    with pytest.raises(InvalidInput, match=REFUSAL):
        check()


def test_a_refusal_names_the_position() -> None:
    with pytest.raises(InvalidInput, match=r"^line 7: one value would take"):
        check_text("1," * MIB, SMALL, "line 7")
    with pytest.raises(InvalidInput, match=r"^line 7: longer than 10 bytes \(raise -zng.readmax\)$"):
        check_text("12345678901", ReadOptions(max_value_size=10), "line 7")
    with pytest.raises(InvalidInput, match=r"^line 7: 250000 fields, more than the 250000 parts that a type may have$"):
        check_fields(t.MAX_SIZE, "line 7")


def test_what_is_light_or_plain_is_not_refused() -> None:
    check_text("," * LIGHT, SMALL, "line 1")
    check_text("x" * (7 * MIB), SMALL, "line 1")
    check_bytes(t.array(t.INT64), LIGHT, SMALL)
    check_bytes(t.record((("a", t.STRING),)), 7 * MIB, SMALL)
    check_fields(t.MAX_SIZE - 1, "line 1")


def test_threads_share_the_memory() -> None:
    assert chunk_size(ReadOptions(max_memory=4096 * MIB, threads=2), 16 * MIB) == 16 * MIB
    assert chunk_size(ReadOptions(max_memory=4096 * MIB, threads=16), 16 * MIB) == 4 * MIB
    assert chunk_size(ReadOptions(max_memory=1, threads=16), 16 * MIB) == LIGHT


MANY = 600_000
VALUES = {
    "json": (b"[" + b"1," * MANY + b"1]", "line 1: one value"),
    "zson": (b"[" + b"1," * MANY + b"1]", "line 1, column 1: one value"),
    "zjson": (b'{"type":{},"value":[' + b"1," * MANY + b"1]}", "line 1: one value"),
    "csv": (b"a,b\n" + b"1," * MANY, "line 2: one value"),
    "line": (b"x" * (9 * MIB), "line 1: one value"),
}


@pytest.mark.parametrize("name", sorted(VALUES))
@pytest.mark.parametrize("in_columns", [False, True])
def test_the_limit_is_that_of_the_options(name: str, in_columns: bool) -> None:
    data, where = VALUES[name]

    def read(options: ReadOptions) -> int:
        source = io.BytesIO(data)
        values = values_of(read_pieces(source, name, options)) if in_columns else read_source(source, name, options)
        return sum(1 for _ in values)

    with pytest.raises(InvalidInput, match=f"^{where} would take more than 32 MiB"):
        read(SMALL)
    large = ReadOptions(max_memory=1024 * MIB)
    if name in ("zjson", "csv"):  # they are not valid, which is not found out before they are read
        with pytest.raises(InvalidInput, match=r"line [12]: (?!one value)"):
            read(large)
    else:
        assert read(large) == 1
