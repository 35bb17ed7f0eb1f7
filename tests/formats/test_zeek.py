"""Zeek logs, read and written."""

from __future__ import annotations

import io
import random
from collections.abc import Iterable

import pytest

from shoal.api.options import ReadOptions
from shoal.errors import InvalidInput
from shoal.formats.streams import NAME_ENCODING
from shoal.formats.zeek import reader, writer
from shoal.formats.zeek.cells import PORT, ZENUM
from shoal.model import types as t
from shoal.model.literals import SECOND, parse_ip, parse_net
from shoal.model.text import format_value
from shoal.model.values import MISSING, Value, array, int64, map_of, record, set_of, string
from shoal.testing.samples import written

PREAMBLE = "#separator \\x09\n#set_separator\t,\n#empty_field\t(empty)\n#unset_field\t-\n"


def read(data: bytes | str) -> list[str]:
    raw = data.encode() if isinstance(data, str) else data
    return [format_value(v) for v in reader.read(io.BytesIO(raw), ReadOptions())]


def write(values: Iterable[Value]) -> str:
    return written(writer.Writer, values).decode()


# ---- reading

CELLS = [
    ("string", "a b", '"a b"'),
    ("string", "", '""'),
    ("string", "(empty)", '"(empty)"'),
    ("string", "-", "null(string)"),
    ("string", r"\x2d", '"-"'),
    ("string", r"a\\x2d", '"a\\\\x2d"'),
    ("string", r"\b\f\n\r\t\x00\x15", '"\\b\\f\\n\\r\\t\\u0000\\u0015"'),
    ("string", r"\xc3\xb1", '"ñ"'),
    ("string", r"ñ\x82", '"ñ\\\\x82"'),
    ("string", r"\xc3\x28", '"\\\\xc3("'),
    ("string", r"\xf4\x80\x8c", '"\\\\xf4\\\\x80\\\\x8c"'),
    ("string", r"\q\x1", '"\\\\q\\\\x1"'),
    ("enum", "tcp", '"tcp"(=zenum)'),
    ("port", "80", "80(port=uint16)"),
    ("port", "-", "null(port=uint16)"),
    ("count", "18446744073709551615", "18446744073709551615(uint64)"),
    ("int", "-9223372036854775808", "-9223372036854775808"),
    ("double", "1", "1."),
    ("double", "1e-5", "1e-05"),
    ("bool", "T", "true"),
    ("bool", "F", "false"),
    ("time", "10.000000", "1970-01-01T00:00:10Z"),
    ("time", "1425565514.4199391", "2015-03-05T14:25:14.4199391Z"),
    ("time", "-1.5", "1969-12-31T23:59:58.5Z"),
    ("time", "1.", "1970-01-01T00:00:01Z"),
    ("interval", "0.0000000109", "10ns"),
    ("addr", "fe80::1", "fe80::1"),
    ("subnet", "10.1.2.3/8", "10.0.0.0/8"),
    ("vector[int]", "3,-,1", "[3,null(int64),1]"),
    ("vector[string]", "", '[""]'),
    ("vector[string]", r"a\x2cb,c", '["a,b","c"]'),
    ("vector[port]", "1,2", "[1(port=uint16),2(port)]"),
    ("vector[string]", "-", "null([string])"),
    ("set[string]", "(empty)", "|[]|(|[string]|)"),
    ("set[string]", "-,z,a,,dup,dup", '|[null(string),"","a","z","dup"]|'),
    ("set[ addr ]", "10.0.0.2,10.0.0.1", "|[10.0.0.1,10.0.0.2]|"),
]


@pytest.mark.parametrize(("typ", "cell", "expected"), CELLS)
def test_a_cell_is_read_as_its_column_says(typ: str, cell: str, expected: str) -> None:
    text = f"{PREAMBLE}#fields\tk\tx\n#types\tint\t{typ}\n1\t{cell}\n"
    assert read(text) == [f"{{k:1,x:{expected}}}"]


LOGS = [
    ("", []),
    (PREAMBLE, []),
    (f"{PREAMBLE}#path\ta\n#fields\td\n#types\tint\n#close  2019-10-10-08-30-35", []),
    (f"{PREAMBLE}#path\ta\n#fields\td\n#types\tint\n1\n#close\n", ['{_path:"a",d:1}']),
    (f"{PREAMBLE}#path\ta\n#fields\td\n#types\tint\n\n1", ['{_path:"a",d:1}']),
    (f"\n\n{PREAMBLE}#fields\td\r\n#types\tint\r\n1\r\n", ["{d:1}"]),
    (f"{PREAMBLE}#path\tconn\n#fields\t_path\tx\n#types\tstring\tint\nother\t1\n", ['{_path:"other",x:1}']),
    ("#fields x\n#types string\nñ\n#path magic\nñ\n#path -\nñ\n", ['{x:"ñ"}', '{_path:"magic",x:"ñ"}', '{x:"ñ"}']),
    ("#fields x y\n#types string int\na b\t1\n", ['{x:"a b",y:1}']),
    ("#separator |\n#fields|x|y\n#types|int|int\n1|2\n", ["{x:1,y:2}"]),
    (f"{PREAMBLE}#set_separator\t;\n#fields\tx\n#types\tvector[int]\n1;2\n", ["{x:[1,2]}"]),
    (f"{PREAMBLE}#unset_field\tNA\n#empty_field\tNIL\n#fields\tx\n#types\tset[int]\nNA\nNIL\n",
     ["{x:null(|[int64]|)}", "{x:|[]|(|[int64]|)}"]),
    (f"{PREAMBLE}#fields\tx\n#types\tint\n1\n{PREAMBLE}#fields\ty\n#types\tbool\nT\n", ["{x:1}", "{y:true}"]),
    (f"{PREAMBLE}#fields\tid.a\tn\tid.b.c\tid.b.d\n#types\tint\tint\tint\tint\n1\t2\t3\t-\n",
     ["{id:{a:1,b:{c:3,d:null(int64)}},n:2}"]),
    (f"{PREAMBLE}#fields\tid\tide.a\n#types\tint\tint\n1\t2\n", ["{id:1,ide:{a:2}}"]),
    (f"{PREAMBLE}#path\tp\n#fields\trec.a\trec.b\n#types\tint\tint\n-\t-\n",
     ['{_path:"p",rec:{a:null(int64),b:null(int64)}}']),
]  # fmt: skip


@pytest.mark.parametrize(("text", "expected"), LOGS)
def test_directives_hold_until_they_are_given_anew(text: str, expected: list[str]) -> None:
    assert read(text) == expected


def test_raw_bytes_that_are_no_text_stay_as_escapes() -> None:
    assert read(b"#fields x\n#types string\n\\\x82\xc3\\xa9\n") == ['{x:"\\\\\\\\x82é"}']


HEADER = f"{PREAMBLE}#fields\ta\tb\n#types\tint\tint\n"
ERRORS = [
    ("a,b\n1,2\n", "line 1: not a zeek log: the first line does not begin with '#'"),
    ("\n{}\n", "line 2: not a zeek log: the first line does not begin with '#'"),
    ("#\tYear\n1\t2019\n", "line 2: bad types/fields definition in zeek header"),
    (f"{HEADER}1\n", "line 7: too few values"),
    (f"{HEADER}1\t2\n1\t2\t3\n", "line 8: too many values"),
    (f"{HEADER}1\tx\n", "line 7: field 'b': invalid int64: 'x'"),
    (f"{HEADER}1\t9223372036854775808\n", "line 7: field 'b': invalid int64: '9223372036854775808'"),
    (f"{HEADER}1\t1_0\n", "line 7: field 'b': invalid int64: '1_0'"),
    (f"{HEADER}#fields\ta\n1\n", "line 8: bad types/fields definition in zeek header"),
    (f"{PREAMBLE}#fields\ta\ta\n#types\tint\tint\n1\t2\n", "line 7: duplicate field 'a'"),
    (f"{PREAMBLE}#fields\ta\ta.b\n#types\tint\tint\n1\t2\n",
     "line 7: field 'a.b' is inside a field that is not a record"),
    (f"{PREAMBLE}#fields\ta.b\ta\n#types\tint\tint\n1\t2\n", "line 7: duplicate field 'a'"),
    (f"{PREAMBLE}#types\tfoo\n", "line 5: unknown zeek type: foo"),
    (f"{PREAMBLE}#types\tset[set[int]]\n", "line 5: unknown zeek type: set[set[int]]"),
    ("#separator ab\n", "line 1: bad zeek header: #separator must be one character, found 'ab'"),
    ("#separator \n", "line 1: bad zeek header: #separator must be one character, found ''"),
    ("#path\n", "line 1: bad zeek header: #path takes one value, found 0"),
    ("#fields\n", "line 1: bad zeek header: #fields is empty"),
    (f"{PREAMBLE}#fields\tx\n#types\tport\n65536\n", "line 7: field 'x': invalid uint16: '65536'"),
    (
        f"{PREAMBLE}#fields\tx\n#types\ttime\n9999999999.0\n",
        "line 7: field 'x': number of seconds out of range: '9999999999.0'",
    ),
    (f"{PREAMBLE}#fields\tx\n#types\tinterval\n1s\n", "line 7: field 'x': invalid number of seconds: '1s'"),
    (f"{PREAMBLE}#fields\tx\n#types\tdouble\nx\n", "line 7: field 'x': invalid double: 'x'"),
    (f"{PREAMBLE}#fields\tx\n#types\tbool\nyes\n", "line 7: field 'x': invalid bool: 'yes'"),
    (f"{PREAMBLE}#fields\tx\n#types\taddr\n1.2.3\n", "line 7: field 'x': invalid IP address: '1.2.3'"),
    (f"{PREAMBLE}#fields\tx\n#types\tsubnet\n1.2.3.4/33\n", "line 7: field 'x': invalid CIDR address: 1.2.3.4/33"),
    (f"{PREAMBLE}#fields\t{'a.' * 200}b\n#types\tint\n1\n", "line 7: type nests deeper than 128 levels"),
    (b"#path \xff\n", f"line 1: directive: invalid UTF-8 at byte 7 {NAME_ENCODING}"),
]  # fmt: skip


@pytest.mark.parametrize(("data", "message"), ERRORS)
def test_malformed_logs_are_reported_with_their_line(data: bytes | str, message: str) -> None:
    with pytest.raises(InvalidInput) as e:
        read(data)
    assert str(e.value) == message


def test_random_damage_gives_values_or_invalid_input() -> None:
    random_ = random.Random(11)
    base = (
        f"{PREAMBLE}#path\tp\n#fields\tts\ta.s\tn\ta.v\td\ti\tnet\n"
        "#types\ttime\tstring\tport\tset[string]\tdouble\taddr\tsubnet\n"
        "1.5\tx\\x82\t80\ta,b\t1e5\t10.0.0.1\t10.0.0.0/8\n-\t-\t-\t(empty)\t-\t::1\t-\n#close\tx\n"
    ).encode()
    pieces = (b"\t", b"\n", b"#", b"\\x", b"\xff", b".", b",", b"", b"-", b"[", b"9" * 25, b"\0")
    for _ in range(1000):
        data = bytearray(base)
        for _ in range(random_.randrange(1, 6)):
            at = random_.randrange(len(data))
            data[at : at + random_.randrange(3)] = random_.choice(pieces)
        try:
            for value in reader.read(io.BytesIO(bytes(data)), ReadOptions()):
                format_value(value)
        except InvalidInput as e:
            assert str(e).startswith("line ")


# ---- writing

WRITTEN = [
    (t.INT64, "int", (-1, None), ["-1", "-"]),
    (t.UINT8, "int", (255,), ["255"]),
    (t.UINT64, "count", (1,), ["1"]),
    (PORT, "port", (80,), ["80"]),
    (ZENUM, "enum", ("tcp",), ["tcp"]),
    (t.named("name", t.STRING), "string", ("x",), ["x"]),
    (t.enum(["up", "a,b"]), "enum", (0, 1), ["up", "a,b"]),
    (t.NULL, "string", (None,), ["-"]),
    (t.BOOL, "bool", (True, False), ["T", "F"]),
    (t.FLOAT64, "double", (1.0, -0.5, 1e21, 1e-7, 0.0), ["1", "-0.5", "1000000000000000000000", "0.0000001", "0"]),
    (t.FLOAT64, "double", (float("inf"), float("nan")), ["+Inf", "NaN"]),
    (t.FLOAT32, "double", (0.10000000149011612,), ["0.1"]),
    (t.TIME, "time", (1425565514419939000, 1425565514419939100, -1425565514419939000, None),
     ["1425565514.419939", "1425565514.419939100", "-1425565514.419939", "-"]),
    (t.DURATION, "interval", (-SECOND, 10, 1000 * SECOND), ["-1.000000", "0.000000010", "1000.000000"]),
    (t.IP, "addr", (parse_ip("10.1.2.3"),), ["10.1.2.3"]),
    (t.NET, "subnet", (parse_net("10.0.0.0/8"),), ["10.0.0.0/8"]),
    (t.STRING, "string", ("-", "(empty)", "a\tb\\c\n", "\x07ñ😁", "\x85", "-x", "a,b"),
     [r"\x2d", r"\x28empty)", r"a\x09b\\c\x0a", r"\x07ñ😁", r"\xc2\x85", "-x", "a,b"]),
    (t.array(t.STRING), "vector[string]", ((), ("a,b", None, "-"), None), ["(empty)", r"a\x2cb,-,\x2d", "-"]),
    (t.set_of(PORT), "set[port]", ((1, 2),), ["1,2"]),
    (t.named("list", t.array(t.TIME)), "vector[time]", ((SECOND,),), ["1.000000"]),
]  # fmt: skip


@pytest.mark.parametrize(("typ", "name", "data", "expected"), WRITTEN)
def test_cells_are_written_as_zeek_writes_them(
    typ: t.Type, name: str, data: tuple[object, ...], expected: list[str]
) -> None:
    row_type = t.record([("k", t.INT64), ("x", typ)])
    lines = "".join(f"1\t{cell}\n" for cell in expected)
    assert write(Value(row_type, (1, d)) for d in data) == f"{PREAMBLE}#fields\tk\tx\n#types\tint\t{name}\n{lines}"


def test_a_header_starts_where_columns_or_path_change() -> None:
    values = [
        record([("_path", string("a")), ("d", Value(t.FLOAT64, 1.0))]),
        record([("_path", string("a")), ("d", Value(t.FLOAT64, 2.0))]),
        record([("_path", string("b")), ("d", Value(t.FLOAT64, 3.0))]),
        record([("_path", string("b")), ("d", int64(4))]),
        record([("d", int64(5))]),
    ]
    assert write(values) == (
        f"{PREAMBLE}#path\ta\n#fields\td\n#types\tdouble\n1\n2\n#path\tb\n3\n#fields\td\n#types\tint\n4\n"
        "#path\t-\n#fields\td\n#types\tint\n5\n"
    )


def test_nested_records_become_dotted_columns() -> None:
    inner = t.named("inner", t.record([("b", t.INT64), ("c", t.STRING)]))
    typ = t.record([("a", inner), ("d", t.INT64)])
    assert write([Value(typ, ((1, "x"), 2)), Value(typ, (None, 3))]) == (
        f"{PREAMBLE}#fields\ta.b\ta.c\td\n#types\tint\tstring\tint\n1\tx\t2\n-\t-\t3\n"
    )


def test_a_path_that_is_no_string_is_a_column_like_any_other() -> None:
    assert write([record([("_path", int64(1))])]) == f"{PREAMBLE}#fields\t_path\n#types\tint\n1\n"


def test_a_line_never_begins_like_a_directive() -> None:
    text = write([record([("a", string("#close")), ("b", int64(1))])])
    assert text.endswith("\\x23close\t1\n")
    assert read(text) == ['{a:"#close",b:1}']


REFUSED = [
    (array([record([("s", string("x"))])]), "[{s:string}]"),
    (array([array([int64(1)])]), "[[int64]]"),
    (set_of([array([int64(1)])]), "|[[int64]]|"),
    (map_of([(string("k"), int64(1))]), "|{string:int64}|"),
    (Value(t.union([t.INT64, t.STRING]), (0, 1)), "(int64,string)"),
    (array([int64(1), string("x")]), "[(int64,string)]"),
    (Value(t.BYTES, b""), "bytes"),
    (Value(t.TYPE, t.INT64), "type"),
    (MISSING, "error(string)"),
]


@pytest.mark.parametrize(("value", "typ"), REFUSED)
def test_types_that_zeek_does_not_have_are_refused(value: Value, typ: str) -> None:
    with pytest.raises(InvalidInput) as e:
        write([record([("a", value)])])
    assert str(e.value) == f"type {typ}: type cannot be represented in zeek format"


@pytest.mark.parametrize("value", [int64(1), array([int64(1)])])
def test_only_records_are_written(value: Value) -> None:
    with pytest.raises(InvalidInput) as e:
        write([value])
    assert str(e.value) == f"zeek output encountered non-record value: {format_value(value)}"


@pytest.mark.parametrize("value", [record([("a\tb", int64(1))]), record([("_path", string("a\nb")), ("x", int64(1))])])
def test_names_that_would_break_a_header_are_refused(value: Value) -> None:
    with pytest.raises(InvalidInput, match="cannot be represented in zeek format"):
        write([value])


def test_strings_come_back_as_they_were_written() -> None:
    random_ = random.Random(2)
    texts = ["".join(random_.choices("ab-,\\x2d#(\t\nñ\x85\u2028😁 ", k=random_.randrange(8))) for _ in range(500)]
    values = [record([("k", int64(1)), ("s", string(x)), ("v", array([string(x), string("z")]))]) for x in texts]
    assert read(write(values)) == [format_value(v) for v in values]


def test_no_values_write_nothing() -> None:
    assert write([]) == ""
