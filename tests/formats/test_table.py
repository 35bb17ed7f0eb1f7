"""Records as aligned tables."""

from __future__ import annotations

import io
from collections.abc import Iterable

import pytest

from shoal.errors import InvalidInput
from shoal.formats import table
from shoal.formats.streams import WriteOptions
from shoal.model import types as t
from shoal.model.literals import parse_time
from shoal.model.values import NULL, Value, array, int64, record, string
from shoal.testing.samples import written


def write(values: Iterable[Value]) -> str:
    return written(table.Writer, values).decode()


def test_columns_are_as_wide_as_their_widest_cell() -> None:
    typ = t.record([("word", t.STRING), ("digit", t.INT64), ("style", t.STRING)])
    values = [Value(typ, ("one", 1, None)), Value(typ, ("hello", None, "greeting"))]
    assert write(values) == "word  digit style\none   1     -\nhello -     greeting\n"


def test_the_last_column_is_not_padded() -> None:
    assert write([record([("a", string("x"))]), record([("a", string("long"))])]) == "a\nx\nlong\n"


def test_width_counts_characters_not_bytes() -> None:
    rows = [record([("a", string("éé")), ("b", int64(1))]), record([("a", string("abc")), ("b", int64(2))])]
    assert write(rows) == "a   b\néé  1\nabc 2\n"


def test_nested_records_become_dotted_columns() -> None:
    assert write([record([("a", Value(t.named("inner", t.record([("b", t.INT64)])), (1,)))])]) == "a.b\n1\n"


def test_another_type_starts_another_block() -> None:
    values = [record([("a", int64(1))]), record([("a", string("x")), ("b", int64(2))]), record([("a", int64(3))])]
    assert write(values) == "a\n1\na b\nx 2\na\n3\n"


def test_a_null_is_a_dash_but_a_null_time_is_empty() -> None:
    typ = t.record([("ts", t.TIME), ("n", t.INT64), ("z", t.TIME)])
    values = [Value(typ, (None, None, None)), Value(typ, (parse_time("2019-11-11T19:50:46Z"), 1, None))]
    assert write(values) == (
        "ts                   n z\n"
        "                     - \n"
        "2019-11-11T19:50:46Z 1 \n"
    )  # fmt: skip


def test_type_values_and_whole_floats_read_plainly() -> None:
    shape = t.record([("x", t.INT64), ("y", t.INT64)])
    value = record([("shape", Value(t.TYPE, shape)), ("avg", Value(t.FLOAT64, 472.0))])
    assert write([value]) == "shape               avg\n<{x:int64,y:int64}> 472\n"


def test_line_ends_and_tabs_in_strings_do_not_break_rows() -> None:
    assert write([record([("a\tb", string("x\ty\nz")), ("c", int64(1))])]) == "a\\x09b      c\nx\\x09y\\x0az 1\n"


def test_a_value_that_is_no_record_is_refused_and_the_rows_before_it_are_kept() -> None:
    out = io.BytesIO()
    writer = table.Writer(out, WriteOptions())
    writer.write(record([("a", int64(1))]))
    with pytest.raises(InvalidInput) as e:
        writer.write(array([int64(1), int64(2)]))
    writer.close()
    assert str(e.value) == "table output encountered non-record value: [1,2]"
    assert out.getvalue() == b"a\n1\n"


def test_a_thousand_rows_are_written_before_the_end() -> None:
    out = io.BytesIO()
    writer = table.Writer(out, WriteOptions())
    for n in range(1001):
        writer.write(record([("n", int64(n))]))
    assert out.getvalue().splitlines() == [b"n", *(str(n).encode() for n in range(1000))]
    writer.close()
    assert out.getvalue().splitlines()[1001:] == [b"n", b"1000"]


def test_types_with_the_same_columns_share_blocks_of_a_thousand_rows() -> None:
    out = io.BytesIO()
    writer = table.Writer(out, WriteOptions())
    plain = t.record([("n", t.INT64)])
    for n in range(2500):
        writer.write(Value(plain if n % 2 else t.named("row", plain), (n,)))
    assert out.getvalue().count(b"n\n") == 2
    writer.close()
    assert out.getvalue().count(b"n\n") == 3


def test_records_without_columns_are_blank_lines() -> None:
    assert write([Value(t.record([]), ()), Value(t.record([]), ())]) == "\n\n\n"


def test_no_values_write_nothing() -> None:
    assert write([]) == ""


def test_a_null_that_is_no_record_is_refused_too() -> None:
    with pytest.raises(InvalidInput, match="table output encountered non-record value: null"):
        write([NULL])
