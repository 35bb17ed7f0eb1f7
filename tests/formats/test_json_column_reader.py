"""JSON into columns gives what the row reader gives, value by value."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from typing import Any

import pytest
from bench.logs import generate
from hypothesis import given, settings
from hypothesis import strategies as st

from shoal.api.options import ReadOptions
from shoal.errors import InvalidInput
from shoal.formats.columns.batches import Batch, Piece, batches, values_of
from shoal.formats.detect import open_source, read_source
from shoal.formats.json import column_reader as json_column_reader
from shoal.formats.json import reader as json_reader
from shoal.formats.json import text_columns
from shoal.formats.json.writer import to_json
from shoal.model.text import format_type
from shoal.model.values import Value
from shoal.testing.samples import damaged
from shoal.testing.strategies import json_line, json_records, json_values
from shoal.testing.tiers import examples


@pytest.fixture(autouse=True, scope="module")
def _small_input_in_columns() -> Iterator[None]:
    """Small inputs go the way of large ones."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(json_column_reader, "_FEW", 0)
        yield


@pytest.fixture(autouse=True)
def columnar_from_the_first_row(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text_columns, "FEW", 1)


def by_columns(text: bytes, **options: Any) -> list[Value]:
    return list(json_column_reader.values(io.BytesIO(text), ReadOptions(**options)))


def by_rows(text: bytes) -> list[Value]:
    return list(json_reader.read(io.BytesIO(text)))


@given(st.lists(st.one_of(json_records, json_records, json_values), max_size=8))
@settings(max_examples=examples(80))
def test_columns_and_rows_agree_and_canonical_json_comes_back_byte_for_byte(made: list[Any]) -> None:
    text = b"".join(json_line(value) + b"\n" for value in made)
    values = by_columns(text)
    assert values == by_rows(text)
    assert "".join(to_json(value) + "\n" for value in values).encode() == text


like_keys = st.fixed_dictionaries(
    {"a": json_values, "b": st.fixed_dictionaries({"c": json_values, "d": st.lists(json_values, max_size=3)})}
)


@given(st.lists(like_keys, max_size=6))
@settings(max_examples=examples(80))
def test_columns_and_rows_agree_on_rows_with_the_same_keys(made: list[Any]) -> None:
    text = b"".join(json_line(value) + b"\n" for value in made)
    assert by_columns(text) == by_rows(text)


numbers = st.sampled_from(["0", "-0", "1", "1.0", "-0.0", "2.5", "1e2", "9007199254740993", "null"])
scalars = st.one_of(numbers, st.sampled_from(["9223372036854775808", '"x"', '"2024-01-01"', "true", "null", "[]"]))


@st.composite
def objects(draw: st.DrawFn) -> str:
    """An object with a and b, mostly in this order."""
    keys = draw(st.sampled_from(["ab"] * 8 + ["ba", "a", "aab", "abc", ""]))
    values = draw(st.sampled_from([numbers, scalars]))
    return "{" + ",".join(f'"{key}":{draw(values)}' for key in keys) + "}"


def arrays(elements: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    lists = st.lists(elements, max_size=4).map(lambda items: f"[{','.join(items)}]")
    return st.one_of(lists, lists, lists, st.just("null"))


@given(
    st.sampled_from([numbers, scalars, objects(), st.one_of(objects(), st.just("null"))]).flatmap(
        lambda elements: st.lists(arrays(elements), max_size=8)
    )
)
@settings(max_examples=examples(150))
def test_columns_and_rows_agree_on_arrays_of_numbers_and_of_objects(made: list[str]) -> None:
    text = "".join(f'{{"a":1,"list":{array}}}\n' for array in made).encode()
    assert by_columns(text) == by_rows(text)


EXACT = [
    b'{"a":[1.5,2.5]}\n{"a":[]}\n{"a":null}\n{"a":[1,2.0,3.5]}\n{"a":[null,2]}\n',
    b'{"a":[{"x":1,"y":"t"}]}\n{"a":[]}\n{"a":[{"x":2,"y":null},null]}\n{"a":null}\n',
    b'{"a":[{"x":1,"y":2}]}\n{"a":[{"y":1,"x":2}]}\n',
    b'{"a":[{"x":1,"y":2}]}\n{"a":[{"x":1}]}\n',
    b'{"a":[{"x":1,"x":2}]}\n{"a":[{"x":1}]}\n',
    b'{"a":[{"x":1.5},{"x":2},{"x":2.0}]}\n{"a":[{"x":9007199254740993},{"x":0.5}]}\n',
    b'{"a":[{"x.y":1.5},{"x.y":2}]}\n{"a.b":[{"x":1.5}]}\n{"a[*]":[1.5,2]}\n{"*":[{"*":1.5}]}\n',
    b'{"a":[{"x":"2024-01-01"}]}\n{"a":[{"x":"2024-01-02"}]}\n',
    b'{"a":1,"n":{"v":1}}\n{"a":"x","n":{"v":1.5}}\n{"a":2,"n":{"v":1.5}}\n{"a":"y","n":{"v":2}}\n',
    b'{"t":"2024-01-01T00:00:00Z"}\n{"t":null}\n{"t":["2024-01-01"]}\n{"t":{"u":"2024-01-01"}}\n{"t":"2024-01-01"}\n',
    b'{"a":{"b":1}}\n{"a":{"b":1,"c":2}}\n{"a":{"c":2,"b":1}}\n{"a":{"b":null}}\n{"a":{}}\n{"a":null}\n',
    b'{"a":1}\n{"a":1.0}\n{"a":"1"}\n{"a":null}\n{}\n{"a":true}\n{"a":[]}\n{"a":{}}\n',
    b'{"a":1,"b":2}\n{"b":2,"a":1}\n',
    b'{"a":[null,1]}\n{"a":[2,null]}\n{"a":[null,null]}\n{"a":[]}\n',
    b'{"a":{"b":null}}\n{"a":{"b":[null,"x"]}}\n{"a":{"b":[null,"2024-01-01"]}}\n',
    b'{"a":[1,2]}\n{"a":[1,2.0]}\n{"a":[1,null]}\n{"a":[null]}\n{"a":["x",1,null]}\n{"a":[[1],["x"]]}\n',
    b'{"a":{"b":{"c":[{"d":1},{"d":"x"}]}}}\n{"a":{"b":{"c":[]}}}\n',
    b'{"a":9223372036854775807}\n{"a":9223372036854775808}\n{"a":-9223372036854775808}\n{"a":1e300}\n',
    b'{"a":1,"a":2}\n{"A":1,"a":2}\n{"":1}\n{"":{"":[]}}\n{}\n',
    b'{"a/b":1,"a~b":2,"*":3,"$":4,"\\"":5,"\\\\":6,"\\u001f":7,"\\u001e":8}\n',
    b'{"a":"\\ud800"}\n{"a":"\\u0000"}\n{"a":"\\ud83d\\ude00"}\n{"a":"\xf0\x9f\x98\x80"}\n',
    b'{"a": 1 , "b": [ 1 , 2 ] }\r\n  {"a":2}\n\n   \n[1, "x"]\n12\n"s"\nnull\ntrue\n',
    b'{"a":",}"}\n{"a":" ]"}\n',
    b"",
    b"\n\n",
    b'\xef\xbb\xbf{"a":1}\n',
    b'{"a":1}',
    b'{"a":1}{"b":2}\n{"c":3}\n',
    b'[{"a":1},\n{"a":2}]\n{"b":\n1}\n',
]


@pytest.mark.parametrize("text", EXACT)
def test_columns_and_rows_agree_on_what_is_easily_lost(text: bytes) -> None:
    assert by_columns(text) == by_rows(text)


def test_field_order_int_and_float_null_and_missing_make_different_shapes() -> None:
    text = b'{"a":1,"b":2}\n{"b":2,"a":1}\n{"a":1,"b":2.0}\n{"a":1,"b":null}\n{"a":1}\n' * 3
    (batch,) = json_column_reader.read(io.BytesIO(text))
    assert isinstance(batch, Batch)
    assert {format_type(p.shape): p.rows.tolist() for p in batch.parts} == {
        "{a:int64,b:int64}": [0, 5, 10],
        "{b:int64,a:int64}": [1, 6, 11],
        "{a:int64,b:float64}": [2, 7, 12],
        "{a:int64,b:null}": [3, 8, 13],
        "{a:int64}": [4, 9, 14],
    }


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_chunks_come_in_order_on_any_number_of_threads(threads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_column_reader, "_CHUNK", 50)
    text = b"".join(b'{"n":%d}\n' % i for i in range(200))
    assert [v.data[0] for v in by_columns(text, threads=threads)] == list(range(200))


def test_objects_that_first_come_late_are_learned(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_column_reader, "_CHUNK", 400)
    text = b'{"a":1}\n' * 100 + b'{"a":{"b":{"c":1},"d":2}}\n{"a":{"d":2,"b":{"c":1}}}\n' * 100
    assert by_columns(text) == by_rows(text)


BAD = [
    (b'{"a":1}\n{"a":2,}\n{"a":3}\n', 1, "line 2, column 8: "),
    (b'{"a":1}\n{"a":[1,2, ]}\n', 1, "line 2, column 12: "),
    (b'{"a":1}\n{"a":2}\n{"a":\n', 2, "line 3: unexpected end of JSON input"),
    (b'{"a":1}\n{"a":NaN}\n', 1, "line 2, column 1: NaN is not JSON"),
    (b'{"a":1}\n{"a":1e999}\n', 1, "line 2: number out of range of float64"),
    (b'{"a":1}\n\xff\n', None, "line 2, column 1: invalid UTF-8"),
    (b'{"a":1}\nhello\n', 1, "line 2, column 1: expecting value"),
    (b'{"a":1}{"a":2}\n{"a":3}\n[\n4]\n{"a":\n', 4, "line 5: unexpected end of JSON input"),
]


@pytest.mark.parametrize("text, before, error", BAD)
def test_what_stands_before_bad_json_is_read_and_the_error_says_where(
    text: bytes, before: int | None, error: str
) -> None:
    read: list[Value] = []
    with pytest.raises(InvalidInput) as caught:
        for value in json_column_reader.values(io.BytesIO(text)):
            read.append(value)
    assert str(caught.value).startswith(error)
    assert before is None or len(read) == before


@pytest.mark.parametrize("threads", [1, 3])
def test_what_is_before_a_line_that_is_too_long_is_read(threads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_column_reader, "_CHUNK", 64)
    text = b'{"a":1}\n' * 30 + b'{"a":"' + b"x" * 500
    options = ReadOptions(max_value_size=200, threads=threads)
    read, error = outcome(json_column_reader.values(io.BytesIO(text), options))
    assert (len(read), error) == (30, "line 31: longer than 200 bytes (raise -zng.readmax)")


def test_arrays_with_more_shapes_than_bits_are_read_row_by_row() -> None:
    text = b"[" + b",".join(b'{"k%d":%d}' % (i, i) for i in range(80)) + b"]\n"
    assert by_columns(text) == by_rows(text)


def read_columns(text: bytes) -> Iterator[Piece]:
    entry, source = open_source(io.BytesIO(text))
    reader = entry.load_columns()
    return batches(entry.load_reader()(source, ReadOptions())) if reader is None else reader(source, ReadOptions())


@pytest.mark.parametrize(
    "text", [b'{a:1}\n{a:"x"}\n1.2.3.4\n', b'{"a":1}\n{"a":"x"}\n', b"a,b\n1,\n2,x\n", b"#fields a\n#types int\n1\n"]
)
def test_any_format_gives_the_same_values_by_columns_and_by_rows(text: bytes) -> None:
    by_batch = list(values_of(read_columns(text)))
    assert by_batch == list(read_source(io.BytesIO(text)))
    assert by_batch


def outcome(values: Iterator[Value]) -> tuple[list[Value], str]:
    read: list[Value] = []
    try:
        for value in values:
            read.append(value)
    except InvalidInput as e:
        return read, str(e)
    return read, ""


@pytest.mark.parametrize("seed", range(6))
def test_columns_and_rows_agree_on_damaged_input_too(seed: int) -> None:
    lines = b"".join(json.dumps(record, separators=(",", ":")).encode() + b"\n" for record in generate(6, seed))
    for bad in damaged(lines, 100, seed):
        rows, columns = outcome(json_reader.read(io.BytesIO(bad))), outcome(json_column_reader.values(io.BytesIO(bad)))
        if "UTF-8" in rows[1]:
            # A line may be wrong in two ways, and a chunk is decoded before its lines are looked at.
            assert columns[1]
        else:
            assert columns == rows


@pytest.mark.parametrize(
    "line",
    [
        b'{"k":%d,"f%d":1}\n',  # another field in each
        b'{"k":%d,"o":{"f%d":1}}\n',  # further inside
        b'{"k":%d,"a":[{"f%d":1}]}\n',
        b'{"k":%d,"a":["%d",{"x":1}]}\n{"k":2,"a":[null,{"y":2}]}\n',
    ],
)
def test_input_of_very_many_shapes_means_the_same_as_in_rows(line: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text_columns, "FEW", 48)
    text = b"".join(line % (i, i) for i in range(1200)) + b'{"k":1}\n' * 200
    assert by_columns(text) == by_rows(text)


def test_input_of_very_many_combinations_of_types_means_the_same_as_in_rows() -> None:
    cells = ("1", "null", '"x"')
    lines = (",".join(f'"f{j}":{cells[i // 3**j % 3]}' for j in range(7)) for i in range(3**7))
    text = "".join(f"{{{line}}}\n" for line in lines).encode()
    assert by_columns(text) == by_rows(text)


def test_a_malformed_line_after_very_many_shapes_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text_columns, "FEW", 48)
    text = b"".join(b'{"f%d":1}\n' % i for i in range(1200)) + b'{"a":1}\n{"a":\n2}\n{"a":oops}\n'
    with pytest.raises(InvalidInput, match="line 1204, column 6"):
        by_columns(text)
    kept = []
    with pytest.raises(InvalidInput):
        for value in json_column_reader.values(io.BytesIO(text)):
            kept.append(value)
    assert len(kept) == 1202


DEEP = [
    b'{"a":' + b"[" * 50_000 + b"]" * 50_000 + b"}\n",
    b'{"a":' * 50_000 + b"1" + b"}" * 50_000 + b"\n",
    b'{"a":' * 1000 + b"1" + b"}" * 1000 + b"\n",
    b"[" * 1000 + b"]" * 1000 + b"\n",
    b'{"a":' + b"[" * 200 + b"]" * 200 + b"}\n",
]


@pytest.mark.parametrize("line", DEEP)
@pytest.mark.parametrize("before", [0, 100])
def test_lines_that_nest_very_deeply_are_refused_and_do_not_end_the_process(
    line: bytes, before: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(text_columns, "FEW", 48)
    text = b'{"a":1}\n' * before + line * 60
    read, error = outcome(json_column_reader.values(io.BytesIO(text)))
    assert error is not None
    assert error.startswith(f"line {before + 1}")
    assert error.endswith("value nests deeper than 128 levels")
    assert len(read) in (0, before)


def test_long_lines_with_many_brackets_that_do_not_nest_are_read() -> None:
    line = b'{"a":[' + b"[1]," * 1500 + b'[2]],"s":"' + b"[" * 2000 + b'"}\n'
    text = line * 60
    assert by_columns(text) == by_rows(text)
