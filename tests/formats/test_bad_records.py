"""Records that cannot be read: which line they are on, and what becomes of them, in every format that reads on."""

from __future__ import annotations

import io
import json
import time
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shoal.api.options import ReadOptions
from shoal.errors import InvalidInput
from shoal.formats import registry
from shoal.formats.bad_records import BAD_RECORD, LONGEST_TEXT
from shoal.formats.columns.batches import Batch, Piece, values_of
from shoal.formats.detect import detect, read_pieces, read_source
from shoal.formats.json import arrays, column_reader
from shoal.formats.json import reader as json_reader
from shoal.formats.streams import NAME_ENCODING, Place
from shoal.model.text import format_value
from shoal.model.values import Value
from shoal.testing.tiers import examples

ZEEK = b"#separator \\x09\n#fields\tn\ts\n#types\tcount\tstring\n"
LOADED: dict[str, Any] = {"csv_infer": "columns", "json_array": "records"}


def pieces(data: bytes, name: str, bad: str, **options: Any) -> list[Piece]:
    chosen = ReadOptions(bad=bad, **{**LOADED, **options})
    return list(read_pieces(io.BytesIO(data), name, chosen, Place("f.txt")))


def texts(data: bytes, name: str, bad: str, **options: Any) -> list[str]:
    """What a load and a query read, which has to be the same."""
    by_columns = [format_value(value) for value in values_of(pieces(data, name, bad, **options))]
    if not options and name != "json":
        chosen = ReadOptions(bad=bad, **LOADED)
        by_rows = [format_value(v) for v in read_source(io.BytesIO(data), name, chosen, Place("f.txt"))]
        assert by_rows == by_columns
    return by_columns


def skipped(data: bytes, name: str) -> int:
    return sum(piece.skipped for piece in pieces(data, name, "skip") if isinstance(piece, Batch))


def error(line: int, text: str, message: str) -> str:
    return f'error({{file:"f.txt",line:{line},text:{json.dumps(text)},message:{json.dumps(message)}}})'


CASES = [
    (
        "ndjson",
        b'{"a":1}\n\n{"a":2\n{"a":3}\n',
        ["{a:1}", error(3, '{"a":2', "unexpected end of JSON input"), "{a:3}"],
    ),
    (
        "ndjson",
        b'\xef\xbb\xbf{"a":1}\r\nx\r\n{"a":3}',
        ["{a:1}", error(2, "x", "column 1: expecting value"), "{a:3}"],
    ),
    (
        "ndjson",
        b'{"a":"\xff"}\n1 2\n',
        [error(1, '{"a":"\\xff"}', f"invalid UTF-8 at byte 7 {NAME_ENCODING}"), "1", "2"],
    ),
    (
        "ndjson",
        b'{"a":[1,2\n{"a":2}\n{"a":\n{"b":1}\n{"c":1}\n',
        [
            error(1, '{"a":[1,2', "unexpected end of JSON input"),
            "{a:2}",
            error(3, '{"a":', "unexpected end of JSON input"),
            "{b:1}",
            "{c:1}",
        ],
    ),
    (
        "csv",
        b"a,b\n1,2\n\n3\n4,5,6\n7,8\n",
        [
            "{a:1,b:2}",
            error(4, "3", "expected 2 fields, found 1"),
            error(5, "4,5,6", "expected 2 fields, found 3"),
            "{a:7,b:8}",
        ],
    ),
    (
        "csv",
        b'\xef\xbb\xbfa,b\r\n"x\r\ny",2\r\n"z\r\n",1,1\r\n\xff,1\r\n7,8\r\n',
        [
            '{a:"x\\r\\ny",b:2}',
            error(4, '"z\r\n",1,1', "expected 2 fields, found 3"),
            error(6, "\\xff,1", f"invalid UTF-8 at byte 1 {NAME_ENCODING}"),
            '{a:"7",b:8}',
        ],
    ),
    ("csv", b'a,b\n1,"x\n2,3\n', [error(2, '1,"x', "quote is not closed"), "{a:2,b:3}"]),
    (
        "csv",
        b'a,b\n"x,1\n"y",2\n',
        [error(2, '"x,1', "a quoted field over several lines has text after its closing quote"), '{a:"y",b:2}'],
    ),
    ("tsv", b"a\tb\n1\n2\t3\n", [error(2, "1", "expected 2 fields, found 1"), "{a:2,b:3}"]),
    (
        "zson",
        b'{a:1}\n\n{a:\n{a:3} oops {a:4}\n{\n  a: x y\n  b: [\n    1\n  ]\n}\n"\xff"\n{a:5}\n',
        [
            "{a:1}",
            error(3, "{a:", "line 4, column 7: expected ',' or '}' in a record, found 'oops {a:4}'"),
            "{a:3}",
            error(4, "oops {a:4}", "column 7: expected a value, found 'oops {a:4}'"),
            error(5, "{\n  a: x y\n  b: [\n    1\n  ]\n}", "line 6, column 6: expected a value, found 'x y'"),
            error(11, '"\\xff"', "column 2: invalid UTF-8"),
            "{a:5}",
        ],
    ),
    (
        "zeek",
        ZEEK + b"1\tx\nx\ty\n\n3\n4\tz\n",
        [
            '{n:1(uint64),s:"x"}',
            error(5, "x\ty", "field 'n': invalid uint64: 'x'"),
            error(7, "3", "too few values"),
            '{n:4(uint64),s:"z"}',
        ],
    ),
    (
        "line",
        b"one\ntw\xffo\nthree\n",
        ['"one"', error(2, "tw\\xffo", f"invalid UTF-8 at byte 3 {NAME_ENCODING}"), '"three"'],
    ),
]


@pytest.mark.parametrize(("name", "data", "expected"), CASES)
def test_bad_records_are_kept_with_their_line_and_text(name: str, data: bytes, expected: list[str]) -> None:
    assert texts(data, name, "keep") == expected


@pytest.mark.parametrize(("name", "data", "expected"), CASES)
def test_bad_records_are_skipped_and_counted(name: str, data: bytes, expected: list[str]) -> None:
    good = [text for text in expected if not text.startswith("error")]
    assert texts(data, name, "skip") == good
    assert skipped(data, name) == len(expected) - len(good)


@pytest.mark.parametrize(("name", "data", "expected"), CASES)
def test_the_first_bad_record_fails_the_input_by_default(name: str, data: bytes, expected: list[str]) -> None:
    first = next(text for text in expected if text.startswith("error"))
    line = int(first.partition("line:")[2].partition(",")[0])
    if name == "zson":
        data = data.replace(b"\xff", b"")
        line += 1  # a value may go over lines, so the place where it goes wrong is told
    with pytest.raises(InvalidInput) as e:
        texts(data, name, "fail")
    assert str(e.value).startswith(f"line {line}")


def test_every_format_that_reads_on_has_a_case() -> None:
    assert {name for name, _, _ in CASES} == set(registry.resumable()) - {"json"}


@pytest.mark.parametrize("name", ["zng", "vng", "parquet", "arrows", "zjson", "avro", "orc"])
@pytest.mark.parametrize("bad", ["skip", "keep"])
def test_a_format_that_cannot_read_on_refuses_to(name: str, bad: str) -> None:
    with pytest.raises(InvalidInput) as e:
        pieces(b"x", name, bad)
    assert str(e.value) == (
        f"{name} cannot be read past a bad record (-bad {bad} is for csv, json, line, ndjson, tsv, zeek, zson)"
    )


def test_a_long_text_is_cut() -> None:
    (value,) = values_of(pieces(b"x" * 5000, "ndjson", "keep"))
    assert value.type is BAD_RECORD
    assert value.data[2] == "x" * LONGEST_TEXT + "..."
    (value,) = values_of(pieces("é".encode() * 5000, "ndjson", "keep"))
    assert value.data[2] == "é" * LONGEST_TEXT + "..."


def test_limits_are_no_bad_records() -> None:
    with pytest.raises(InvalidInput, match="line 2: longer than 100 bytes"):
        pieces(b"1\n" + b"x" * 300_000, "ndjson", "keep", max_value_size=100)
    with pytest.raises(InvalidInput, match="longer than 100 bytes"):
        pieces(b"a\n" + b"x" * 300_000, "csv", "keep", max_value_size=100)


# ---- lines of JSON


def lines_of(count: int, broken: dict[int, bytes], end: bytes = b"\n") -> bytes:
    """Numbered lines of JSON, some of which are replaced."""
    return b"".join(broken.get(i, b'{"n":%d,"s":"x"}' % i) + end for i in range(1, count + 1))


BROKEN = [
    b'{"n":',
    b'{"n":1',
    b'{"n":1,',
    b'{"n":[1',
    b'{"n":"x',
    b"{n:1}",
    b"}",
    b"[",
    b"x",
    b'{"n":1}}',
    b'{"n":1e999}',
    b'{"n":"\xff"}',
]


@pytest.mark.parametrize("broken", BROKEN)
@pytest.mark.parametrize("count", [720, 720 * 40])
@pytest.mark.parametrize("columns", [True, False])
def test_the_line_of_an_error_is_that_of_the_bad_record(broken: bytes, count: int, columns: bool) -> None:
    data = lines_of(count, {701: broken})
    with pytest.raises(InvalidInput) as e:
        if columns:
            list(read_pieces(io.BytesIO(data), "json", ReadOptions(json_array="records")))
        else:
            list(read_source(io.BytesIO(data), "json", ReadOptions()))
    assert str(e.value).startswith(("line 701:", "line 701,"))


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\n\n"])
@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"])
def test_blank_lines_and_marks_do_not_shift_the_count(end: bytes, mark: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    data = mark + lines_of(3000, dict.fromkeys((1, 2, 701, 1500, 3000), b"bad"), end)
    monkeypatch.setattr(column_reader, "_CHUNK", 5000)
    monkeypatch.setattr(column_reader, "_FEW", 100)
    step = end.count(b"\n")
    errors = [value.data[1] for value in values_of(pieces(data, "json", "keep")) if value.type is BAD_RECORD]
    assert errors == [(n - 1) * step + 1 for n in (1, 2, 701, 1500, 3000)]
    values = read_source(io.BytesIO(data), "json", ReadOptions(bad="keep"))
    assert [value.data[1] for value in values if value.type is BAD_RECORD] == errors


@settings(max_examples=examples(60))
@given(st.lists(st.sampled_from([*BROKEN, b"1", b'{"a":1}', b'{"a":[{"b":"x"}]}', b"", b"  ", b"null 1"]), max_size=30))
def test_lines_are_the_same_in_columns_and_in_rows(lines: list[bytes]) -> None:
    data = b"\n".join(lines)
    options = ReadOptions(bad="keep")

    def outcome(values: Any) -> list[str]:
        try:
            return [format_value(value) for value in values]
        except InvalidInput as e:
            return [str(e)]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(column_reader, "_FEW", 10)
        by_columns = outcome(values_of(read_pieces(io.BytesIO(data), "ndjson", options)))
    assert by_columns == outcome(read_source(io.BytesIO(data), "ndjson", options))


def test_a_value_over_several_lines_is_no_bad_record() -> None:
    data = b'{"a":1}\n{\n "a": 2\n}\n{"a":3}\n'
    for read in (read_pieces, read_source):
        with pytest.raises(InvalidInput) as e:
            list(read(io.BytesIO(data), "ndjson", ReadOptions(bad="keep")))
        assert str(e.value) == "line 2: a value goes over several lines (-bad skip and keep need lines of whole values)"


def test_one_bad_line_leaves_the_rest_in_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    decoded = 0
    decode = json_reader.decode_line

    def counted(text: str) -> Value:
        nonlocal decoded
        decoded += 1
        return decode(text)

    monkeypatch.setattr(json_reader, "decode_line", counted)
    monkeypatch.setattr(column_reader, "_CHUNK", 100_000)
    rows = 50_000
    found = pieces(lines_of(rows, {20_000: b"{"}), "ndjson", "keep")
    assert all(isinstance(piece, Batch) for piece in found)
    assert sum(piece.length for piece in found if isinstance(piece, Batch)) == rows
    assert decoded < rows / 4


def test_a_thousand_bad_lines_take_no_time() -> None:
    started = time.monotonic()
    found = pieces(lines_of(100_000, dict.fromkeys(range(0, 100_000, 100), b'{"n":')), "ndjson", "keep")
    assert sum(value.type is BAD_RECORD for value in values_of(found)) == 999
    assert time.monotonic() - started < 60


# ---- arrays of records


@pytest.mark.parametrize("size", [7, 1 << 22])
def test_elements_of_an_array_are_told_with_their_line(size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arrays, "_CHUNK", size)
    data = b'\xef\xbb\xbf[\n {"a":1},\n\n {"a":tru,\n  "b":2}, {"a":3},\n {"a":"x"\n },{"c":}\n]\n'
    assert texts(data, "json", "keep") == [
        "{a:1}",
        error(4, ' {"a":tru,   "b":2}'.strip(), "column 6: expecting value"),
        "{a:3}",
        '{a:"x"}',
        error(7, '{"c":}', "column 6: expecting value"),
    ]
    assert skipped(data, "json") == 2
    with pytest.raises(InvalidInput, match="line 4: element 2 of the array: expecting value"):
        pieces(data, "json", "fail")
    with pytest.raises(InvalidInput, match="line 2: element 2 of the array: expected a value"):
        pieces(b'[{"a":1},\n,{"a":2}]', "json", "fail")


# ---- detection


def test_input_with_some_bad_records_is_recognised_if_they_are_kept() -> None:
    keep = ReadOptions(bad="keep")
    assert detect(io.BytesIO(lines_of(20, {1: b"#", 5: b"{"})), keep)[0].name == "json"
    assert detect(io.BytesIO(b"a,b\n1\n2,3\n4,5\n"), keep)[0].name == "csv"
    assert detect(io.BytesIO(b"{a:1}\n{b:}\n{c:10.0.0.1}\n"), keep)[0].name == "zson"
    with pytest.raises(InvalidInput, match="format detection error"):
        detect(io.BytesIO(b"just\nsome\nlines\n"), keep)
