"""Lines read as strings, and values written a line each."""

from __future__ import annotations

import io
import random

import pytest

from shoal.api.options import ReadOptions
from shoal.errors import InvalidInput
from shoal.formats import line
from shoal.formats.streams import NAME_ENCODING, WriteOptions
from shoal.model import types as t
from shoal.model.values import NULL, Value, array, int64, record, string


def read(data: bytes) -> list[str]:
    values = list(line.read(io.BytesIO(data), ReadOptions()))
    assert all(v.type is t.STRING for v in values)
    return [v.data for v in values]


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"", []),
        (b"\n", [""]),
        (b"{\n[1] = x,\n}\n", ["{", "[1] = x,", "}"]),
        (b"a\r\nb", ["a", "b"]),
        (b" a \n\n\tb", [" a ", "", "\tb"]),
        ("é\0\n".encode(), ["é\0"]),
    ],
)
def test_each_line_is_a_string(data: bytes, expected: list[str]) -> None:
    assert read(data) == expected


def test_bytes_that_are_no_text_are_reported_with_their_line() -> None:
    with pytest.raises(InvalidInput) as e:
        read(b"a\nb\xff\n")
    assert str(e.value) == f"line 2: invalid UTF-8 at byte 2 {NAME_ENCODING}"


def test_a_line_longer_than_the_limit_is_refused() -> None:
    with pytest.raises(InvalidInput, match="line 1: longer than 10 bytes"):
        list(line.read(io.BytesIO(b"x" * 11), ReadOptions(max_value_size=10)))


def test_random_bytes_give_strings_or_invalid_input() -> None:
    random_ = random.Random(5)
    for _ in range(1000):
        data = bytes(random_.choices(b"ab\n\r\xc3\xa9\xff\0", k=random_.randrange(30)))
        try:
            read(data)
        except InvalidInput as e:
            assert str(e).startswith("line ")


def test_strings_are_written_bare_and_all_else_as_zson() -> None:
    out = io.BytesIO()
    writer = line.Writer(out, WriteOptions())
    for value in (
        string('say "hi"'),
        Value(t.named("name", t.STRING), "x"),
        Value(t.STRING, None),
        int64(1),
        Value(t.UINT8, 1),
        record([("a", string("x"))]),
        array([string("x")]),
        NULL,
    ):
        writer.write(value)
    writer.close()
    assert out.getvalue().decode().split("\n") == [
        'say "hi"', "x", "null(string)", "1", "1(uint8)", '{a:"x"}', '["x"]', "null", "",
    ]  # fmt: skip
