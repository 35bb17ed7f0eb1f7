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


def test_values_that_are_not_records_are_in_a_column_value() -> None:
    assert write([int64(3)]) == "value\n3\n"
    assert write([string("x"), NULL, array([int64(1), int64(2)])]) == "value\nx\n-\n1,2\n"


def test_records_and_other_values_are_in_blocks_of_their_own() -> None:
    assert write([record([("a", int64(1))]), int64(2), record([("a", int64(3))])]) == "a\n1\nvalue\n2\na\n3\n"


def test_other_values_after_records_are_refused_for_zq_and_the_rows_before_them_are_kept() -> None:
    out = io.BytesIO()
    writer = table.Writer(out, WriteOptions(refuses_mixtures=True))
    writer.write(record([("a", int64(1))]))
    with pytest.raises(InvalidInput) as e:
        writer.write(array([int64(1), int64(2)]))
    writer.close()
    assert str(e.value) == "table output encountered non-record value: [1,2]"
    assert out.getvalue() == b"a\n1\n"
    assert written(table.Writer, [int64(3)], WriteOptions(refuses_mixtures=True)) == b"value\n3\n"


def test_a_null_does_not_repeat_the_header() -> None:
    rows = [record([("a", int64(1)), ("b", value)]) for value in (int64(2), NULL, string("x"), NULL)]
    assert write(rows) == "a b\n1 2\n1 -\n1 x\n1 -\n"


def test_a_null_stands_for_a_record_before_and_after_it() -> None:
    nested = record([("b", int64(1)), ("c", record([("d", int64(2))]))])
    rows = [record([("a", value), ("z", int64(9))]) for value in (NULL, nested, NULL)]
    expected = "a.b a.c.d z\n-   -     9\n1   2     9\n-   -     9\n"
    assert write(rows) == expected
    partly = record([("a", record([("b", int64(1)), ("c", NULL)])), ("z", int64(9))])
    assert write([partly, *rows]) == expected.replace("z\n", "z\n1   -     9\n", 1)


def test_a_null_among_records_is_a_row_of_nulls() -> None:
    assert write([NULL, record([("a", int64(1)), ("b", int64(2))]), NULL]) == "a b\n- -\n1 2\n- -\n"


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


# ---- width


@pytest.mark.parametrize(
    ("text", "width"),
    [
        ("日本語", 6),
        ("e\u0301te\u0301", 3),
        ("👍", 2),
        ("❤\ufe0f", 2),
        ("ﾊﾝ", 2),
        ("Ｆ", 2),
        ("é", 1),
        ("x", 1),
        ("", 0),
    ],
)
def test_width_is_that_on_a_terminal(text: str, width: int) -> None:
    assert table.width(text) == width
    rows = [record([("a", string(text or "-")), ("b", int64(1))]), record([("a", string("abcdefg")), ("b", int64(2))])]
    first, second = write(rows).splitlines()[1:]
    assert second == "abcdefg 2"
    assert table.width(first) == len(second)


def fitted(values: Iterable[Value], width: int) -> list[str]:
    return written(table.Writer, values, WriteOptions(width=width)).decode().splitlines()


def test_the_widest_columns_are_cut_to_the_width_of_the_terminal() -> None:
    row = record([("id", int64(12345)), ("text", string("the quick brown fox jumps")), ("more", string("y" * 15))])
    assert fitted([row], 33) == ["id    text          more", "12345 the quick br… yyyyyyyyyyyy…"]
    assert fitted([row], 47) == ["id    text                      more", f"12345 the quick brown fox jumps {'y' * 15}"]


@pytest.mark.parametrize("width", range(3, 60))
def test_no_line_is_wider_than_the_terminal(width: int) -> None:
    texts = ["日本語のテキスト", "e\u0301" * 9, "plain words in a row", "👍" * 7]
    rows = [record([(f"column{i}", string(text)) for i, text in enumerate([*texts[n:], *texts[:n]])]) for n in range(4)]
    assert max(map(table.width, fitted(rows, width))) <= width


def test_columns_that_do_not_fit_are_left_out_and_counted() -> None:
    out = io.BytesIO()
    writer = table.Writer(out, WriteOptions(width=20))
    writer.write(record([(f"field{i}", int64(10**9)) for i in range(9)]))
    writer.close()
    assert out.getvalue().decode() == "field0   field1   …\n1000000… 1000000… …\n"
    assert (writer.rows, writer.columns_left_out) == (1, 7)
