"""CSV and TSV, read and written."""

from __future__ import annotations

import io
import math
import random
from collections.abc import Iterable

import pytest

from shoal.api.options import ReadOptions
from shoal.errors import InvalidInput
from shoal.formats.columns.batches import values_of
from shoal.formats.csv import column_reader as csv_column_reader
from shoal.formats.csv import reader as csv_reader
from shoal.formats.csv import writer as csv_writer
from shoal.formats.csv.names import unique_names
from shoal.formats.go_floats import parse_go_float
from shoal.formats.streams import NAME_ENCODING, WriteOptions
from shoal.model import types as t
from shoal.model.literals import parse_ip, parse_net, parse_time
from shoal.model.text import format_value
from shoal.model.values import NULL, Value, array, error, int64, map_of, record, set_of, string, text_error
from shoal.testing.samples import written


def read(data: bytes | str, delimiter: str | None = None) -> list[str]:
    raw = data.encode() if isinstance(data, str) else data
    return [format_value(v) for v in csv_reader.read(io.BytesIO(raw), ReadOptions(csv_delimiter=delimiter))]


def write(values: Iterable[Value], delimiter: str | None = None) -> str:
    return written(csv_writer.Writer, values, WriteOptions(csv_delimiter=delimiter)).decode()


def column(typ: t.Type, *data: object) -> list[Value]:
    """Records of one field `x` that holds each of the data in turn."""
    return [Value(t.record([("x", typ)]), (d,)) for d in data]


# ---- reading

CELLS = {
    "": "null",
    '""': "null",
    "1": "1.",
    "-0": "-0.",
    "+1.5e3": "1500.",
    ".5": "0.5",
    "5.": "5.",
    "1_000": "1000.",
    "0x1p-2": "0.25",
    "0x_1.8P+1": "3.",
    "inf": "+Inf",
    "-Infinity": "-Inf",
    "NaN": "NaN",
    '"1"': "1.",
    " 1": "1.",
    "true": "true",
    "T": "true",
    "False": "false",
    "f": "false",
    "tRUE": '"tRUE"',
    "1e999": '"1e999"',
    "0x10": '"0x10"',
    "0x1p99999": '"0x1p99999"',
    "+nan": '"+nan"',
    "1_": '"1_"',
    "1__0": '"1__0"',
    "1 ": '"1 "',
    '" 1"': '" 1"',
    "１": '"１"',
    "infinite": '"infinite"',
    ".": '"."',
    "a b": '"a b"',
    " a ": '"a "',
    "\ta": '"a"',
    "\xa0a": '"a"',
    '"a ""b"""': '"a \\"b\\""',
    '"a,b"': '"a,b"',
    '"b" x': '"b x"',
    'x "b" y "c" z': '"x b y c z"',
    "a\0b": '"a\\u0000b"',
    "é": '"é"',
}


@pytest.mark.parametrize(("cell", "expected"), CELLS.items())
def test_a_cell_decides_its_own_type(cell: str, expected: str) -> None:
    assert read(f"x,y\n{cell},z\n") == [f'{{x:{expected},y:"z"}}']
    assert read(f"x,y\nz,{cell}") == [f'{{x:"z",y:{expected}}}']


RECORDS = [
    ("", []),
    ("\n\n", []),
    ("a,b\n", []),
    ("a,b", []),
    ("a\n\n1\n\n", ["{a:1.}"]),
    ("a,b\r\n1,x\r\n2,y", ['{a:1.,b:"x"}', '{a:2.,b:"y"}']),
    ("a,b\n1,2\r", ["{a:1.,b:2.}"]),
    ("\ufeffa,b\n1,2\n", ["{a:1.,b:2.}"]),
    ('\ufeff"a",b\n1,2\n', ["{a:1.,b:2.}"]),
    ("a,b\n,\n", ["{a:null,b:null}"]),
    ('a,b\n"x","y"\n', ['{a:"x",b:"y"}']),
    ('a,b\n"x",\n', ['{a:"x",b:null}']),
    ('a,b\n"x,",\n', ['{a:"x,",b:null}']),
    ('a,b\n,"x"\n', ['{a:null,b:"x"}']),
    ('a,b\n"one\ntwo",3\n4,5\n', ['{a:"one\\ntwo",b:3.}', "{a:4.,b:5.}"]),
    ('a,b\n"one\r\n\r\ntwo",3\r\n', ['{a:"one\\n\\ntwo",b:3.}']),
    ('a\n"one\ntwo" x "three\nfour"\n', ['{a:"one\\ntwo x three\\nfour"}']),
    ("a,a,b,a\n1,2,3,4\n", ["{a:1.,a1:2.,b:3.,a2:4.}"]),
    ("a,a,a1\n1,2,3\n", ["{a:1.,a2:2.,a1:3.}"]),
    (",\n1,2\n", ['{"":1.,"1":2.}']),
    ("a.b,c\n1,2\n", ['{"a.b":1.,c:2.}']),
    ("#,a\n#,1\n", ['{"#":"#",a:1.}']),
    (
        'field1,field2,field"3"\nvalue1,"value"2,value"3" my friend\n',
        ['{field1:"value1",field2:"value2",field3:"value3 my friend"}'],
    ),
]


@pytest.mark.parametrize(("text", "expected"), RECORDS)
def test_lines_become_records_named_by_the_header(text: str, expected: list[str]) -> None:
    assert read(text) == expected


ERRORS = [
    ("a,b\n1\n", "line 2: expected 2 fields, found 1"),
    ("a,b\n1,2\n\n1,2,3\n", "line 4: expected 2 fields, found 3"),
    ('a\n"x\ny"\n1,2\n', "line 4: expected 1 fields, found 2"),
    ('a,b\n1,"x\n\n', "line 2: quote is not closed"),
    ('a\n"x\ny" "z\n', "line 2: quote is not closed"),
    ('"', "line 1: quote is not closed"),
    (b"a\nok\nb\xffd\n", f"line 3: invalid UTF-8 at byte 2 {NAME_ENCODING}"),
]


@pytest.mark.parametrize(("data", "message"), ERRORS)
def test_malformed_text_is_reported_with_its_line(data: bytes | str, message: str) -> None:
    with pytest.raises(InvalidInput) as e:
        read(data)
    assert str(e.value) == message


def test_rows_before_an_error_are_given_first() -> None:
    values = csv_reader.read(io.BytesIO(b"a\n1\n2,3\n"), ReadOptions())
    assert format_value(next(values)) == "{a:1.}"
    with pytest.raises(InvalidInput):
        next(values)


@pytest.mark.parametrize("delimiter", [";", "|", ".", "^", "]", "\\", "-", "é", "\t", " "])
def test_any_single_character_may_delimit(delimiter: str) -> None:
    assert read(f'a{delimiter}b\nx{delimiter}"{delimiter}"\n', delimiter) == [
        format_value(record([("a", string("x")), ("b", string(delimiter))]))
    ]


def test_a_blank_delimiter_keeps_blanks_before_fields() -> None:
    assert read("a b\n\tx y\n", " ") == ['{a:"\\tx",b:"y"}']


@pytest.mark.parametrize("delimiter", ["", "ab", '"', "\n", "\r", "\ufffd"])
def test_what_cannot_delimit_is_refused_by_reader_and_writer(delimiter: str) -> None:
    with pytest.raises(InvalidInput, match="invalid CSV delimiter"):
        read("a\n1\n", delimiter)
    with pytest.raises(InvalidInput, match="invalid CSV delimiter"):
        write([], delimiter)


def test_tsv_is_the_same_with_tabs() -> None:
    text = b'#\tYear\n1\t2019\n2\t\n3\t"[""baz""]"\n'
    values = list(csv_reader.read_tsv(io.BytesIO(text), ReadOptions()))
    assert [format_value(v) for v in values] == [
        '{"#":1.,Year:2019.}',
        '{"#":2.,Year:null}',
        '{"#":3.,Year:"[\\"baz\\"]"}',
    ]
    out = io.BytesIO()
    writer = csv_writer.TsvWriter(out, WriteOptions())
    for value in values:
        writer.write(value)
    assert out.getvalue() == text


def test_rows_of_equal_kinds_share_one_type() -> None:
    first, second, other = csv_reader.read(io.BytesIO(b"a,b\n1,x\n2,y\nz,\n"), ReadOptions())
    assert first.type is second.type
    assert other.type is t.record([("a", t.STRING), ("b", t.NULL)])


def test_more_row_types_than_are_remembered_still_read_right() -> None:
    names = ",".join(f"c{i}" for i in range(13))
    rows = [",".join("x" if n >> i & 1 else "1" for i in range(13)) for n in range(8192)]
    values = list(csv_reader.read(io.BytesIO("\n".join([names, *rows, rows[0]]).encode()), ReadOptions()))
    assert len({v.type for v in values}) == 8192
    assert values[-1].type is values[0].type


def test_a_field_larger_than_the_csv_module_takes_is_read() -> None:
    long = "x" * 300_000
    assert read(f'a\n"{long}"\n{long}\n') == [f'{{a:"{long}"}}'] * 2


def test_a_quoted_field_may_not_outgrow_the_limit() -> None:
    data = b'a\n"' + b"x\n" * 1000
    with pytest.raises(InvalidInput, match="line 2: longer than 100 bytes"):
        list(csv_reader.read(io.BytesIO(data), ReadOptions(max_value_size=100)))


class Endless(io.RawIOBase):
    """Rows without end, which counts what was taken from it."""

    taken = 0

    def read(self, size: int = -1, /) -> bytes:
        self.taken += size
        return (b"a,b\n" * (size // 4))[:size]


def test_reading_takes_no_more_of_the_source_than_it_needs() -> None:
    source = Endless()
    values = csv_reader.read(source, ReadOptions())
    assert format_value(next(values)) == '{a:"a",b:"b"}'
    assert source.taken <= 1 << 20


def test_many_repeated_names_are_numbered_quickly() -> None:
    assert unique_names(["a"] * 50_000)[-1] == "a49999"


def test_only_go_spellings_are_floats() -> None:
    assert parse_go_float("1e-400") == 0.0
    assert math.isnan(parse_go_float("nan") or 0.0)
    for text in ("", "+", "e5", "1e", "0x", "0x1", "0xp1", "--1", "1 2", "infi", "١"):
        assert parse_go_float(text) is None


def test_random_damage_gives_values_or_invalid_input() -> None:
    random_ = random.Random(7)
    base = b'\xef\xbb\xbfa,b,"c ""d"""\r\n1,true,"x\ny"\n,-1e5,\xc3\xa9 "q" z\n0x1p3,inf,""\n'
    for _ in range(1000):
        data = bytearray(base)
        for _ in range(random_.randrange(1, 6)):
            at = random_.randrange(len(data))
            data[at : at + random_.randrange(3)] = random_.choice(
                (b'"', b",", b"\n", b"\0", b"\xff", b"\r", b"", b'""')
            )
        try:
            for value in csv_reader.read(io.BytesIO(bytes(data)), ReadOptions()):
                format_value(value)
        except InvalidInput as e:
            assert str(e).startswith("line ")


# ---- writing


WRITTEN = [
    (t.BOOL, (None, False, True), ["", "false", "true"]),
    (
        t.DURATION,
        (None, 0, -(2**63), 2**63 - 1),
        ["", "0s", "-292y171d23h47m16.854775808s", "292y171d23h47m16.854775807s"],
    ),
    (t.TIME, (parse_time("2020-01-01T00:00:00.5Z"),), ["2020-01-01T00:00:00.5Z"]),
    (t.FLOAT64, (1.0, -0.0, 1.5, 1e30, math.inf), ["1", "-0", "1.5", "1e+30", "+Inf"]),
    (t.FLOAT32, (0.10000000149011612,), ["0.1"]),
    (t.UINT64, (0, 2**64 - 1), ["0", "18446744073709551615"]),
    (t.named("port", t.UINT16), (80,), ["80"]),
    (t.IP, (parse_ip("10.0.0.1"), parse_ip("fe80::1")), ["10.0.0.1", "fe80::1"]),
    (t.NET, (parse_net("10.0.0.0/8"),), ["10.0.0.0/8"]),
    (t.BYTES, (b"", b"\x01\xff"), ["0x", "0x01ff"]),
    (t.TYPE, (t.record([("a", t.INT64), ("b", t.STRING)]),), ['"<{a:int64,b:string}>"']),
    (t.NULL, (None, None), ["", ""]),
    (t.enum(["up", "down"]), (1, 0), ["down", "up"]),
    (t.union([t.INT64, t.STRING]), ((0, 1), (1, "one"), (1, None), None), ["1", "one", "", ""]),
    (
        t.error(t.STRING),
        (None, "", '"', ",", "\\u002d"),
        ["", '"error("""")"', '"error(""\\"""")"', '"error("","")"', '"error(""\\\\u002d"")"'],
    ),
    (
        t.STRING,
        (None, "", '"', ",", "-", "\\", "\\.", " a", "a ", "\xa0a", "a\nb", "a\rb", "\t", "é", "a b"),
        ["", "", '""""', '","', "-", "\\", '"\\."', '" a"', "a ", '"\xa0a"', '"a\nb"', '"a\rb"', '"\t"', "é", "a b"],
    ),
]


@pytest.mark.parametrize(("typ", "data", "expected"), WRITTEN)
def test_cells_are_bare_and_quoted_only_where_they_must_be(
    typ: t.Type, data: tuple[object, ...], expected: list[str]
) -> None:
    assert write(column(typ, *data)) == "".join(f"{line}\n" for line in ["x", *expected])


def test_containers_are_written_as_zson() -> None:
    value = record(
        [
            ("a", array([int64(1), int64(2)])),
            ("s", set_of([string("x")])),
            ("m", map_of([(string("k"), int64(1))])),
            ("e", error(record([("message", string("no"))]))),
        ]
    )
    assert write([value]) == 'a,s,m,e\n"[1,2]","|[""x""]|","|{""k"":1}|","error({message:""no""})"\n'


def test_nested_records_become_dotted_columns() -> None:
    inner = t.named("inner", t.record([("b", t.named("my_int64", t.INT64)), ("c", t.STRING)]))
    outer = t.named("outer", t.record([("a", inner), ("d", t.INT64)]))
    values = [Value(outer, ((1, "x"), 2)), Value(outer, (None, 3)), Value(outer, None)]
    assert write(values) == "a.b,a.c,d\n1,x,2\n,,3\n,,\n"


def test_rows_of_other_types_are_written_while_the_names_are_the_same() -> None:
    assert write([record([("a", int64(1))]), record([("a", string("x"))]), record([("a", int64(2))])]) == "a\n1\nx\n2\n"


def test_nested_and_dotted_names_count_as_the_same() -> None:
    nested = record([("a", record([("b", int64(1))]))])
    assert write([nested, record([("a.b", int64(2))])]) == "a.b\n1\n2\n"


def test_other_names_are_refused_with_a_way_out() -> None:
    with pytest.raises(InvalidInput) as e:
        write([record([("a", int64(1))]), record([("b", int64(1))])])
    assert str(e.value) == "CSV output requires uniform records but multiple types encountered (consider 'fuse')"


def test_values_that_are_not_records_are_in_a_column_value() -> None:
    assert write([int64(1), NULL, string("x,y"), array([int64(1), int64(2)])]) == 'value\n1\n\n"x,y"\n"[1,2]"\n'
    assert write([text_error("no")]) == 'value\n"error(""no"")"\n'


def test_other_values_among_records_are_refused() -> None:
    with pytest.raises(InvalidInput, match=r"^CSV output encountered non-record value: \[1,2\]$"):
        write([record([("a", int64(1))]), array([int64(1), int64(2)])])
    with pytest.raises(InvalidInput, match=r"^CSV output requires uniform records"):
        write([int64(1), record([("a", int64(1))])])


def test_a_null_stands_for_a_record_of_nulls() -> None:
    nested = record([("a", record([("b", int64(1)), ("c", int64(2))])), ("z", int64(3))])
    assert write([nested, record([("a", NULL), ("z", int64(4))]), NULL]) == "a.b,a.c,z\n1,2,3\n,,4\n,,\n"


def test_the_delimiter_decides_what_is_quoted() -> None:
    assert write([record([("a", string("x,y")), ("b;", string("1;2"))])], ";") == 'a;"b;"\nx,y;"1;2"\n'


def test_no_values_write_nothing() -> None:
    assert write([]) == ""


def test_strings_come_back_as_they_were_written() -> None:
    random_ = random.Random(3)
    texts = ["x" + "".join(random_.choices('ab ,"\n;é', k=random_.randrange(8))) for _ in range(500)]
    values = [record([("a", string(x)), ("b", string(" " + x))]) for x in texts]
    assert read(write(values)) == [format_value(v) for v in values]


@pytest.mark.parametrize(
    "cell, text",
    [
        ("9007199254740993", '"9007199254740993"'),
        ("9007199254740992", "9007199254740992."),
        ("18446744073709551615", '"18446744073709551615"'),
        ("007", '"007"'),
        ("-012", '"-012"'),
        ("0", "0."),
        ("0.50", "0.5"),
        ("00.5", "0.5"),
    ],
)
def test_digits_that_a_float_would_change_stay_text(cell: str, text: str) -> None:
    data = f"a,b\n{cell},x\n".encode()
    by_rows = list(csv_reader.read(io.BytesIO(data), ReadOptions()))
    assert [format_value(v) for v in by_rows] == [f'{{a:{text},b:"x"}}']
    assert list(values_of(csv_column_reader.read(io.BytesIO(data), ReadOptions()))) == by_rows
