from __future__ import annotations

import gzip
import io
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import shoal
from shoal.errors import InvalidInput, NotFound, ShoalError
from shoal.lang.source import ProgramError
from shoal.model.parse import parse_value
from shoal.model.text import format_value

TABLE = pa.table({"a": [1, None], "b": ["x", "y"]})
ROWS = ['{a:1,b:"x"}', '{a:null(int64),b:"y"}']


def texts(inputs: Any, **options: Any) -> list[str]:
    return shoal.query("pass", inputs, **options).to_zson().splitlines()


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "log.json"
    path.write_text('{"a":1}\n{"a":2}\n')
    return path


# ---- inputs


def test_files_are_named_by_str_or_path(log: Path) -> None:
    assert texts(str(log)) == texts(log) == ["{a:1}", "{a:2}"]
    assert texts([str(log), log]) == ["{a:1}", "{a:2}"] * 2


def test_bytes_are_data(log: Path) -> None:
    data = log.read_bytes()
    for given in (data, bytearray(data), memoryview(data), gzip.compress(data)):
        assert texts(given) == ["{a:1}", "{a:2}"]
    assert texts(b"") == []


def test_binary_files_are_read_from_where_they_are_and_stay_open(log: Path) -> None:
    with log.open("rb") as file:
        file.readline()
        assert texts(file) == ["{a:2}"]
        assert not file.closed

    class Bare:
        def __init__(self) -> None:
            self.read = io.BytesIO(b"{a:1}").read

        def close(self) -> None: ...

    assert texts(Bare()) == ["{a:1}"]


def test_a_text_file_is_refused(log: Path) -> None:
    with log.open() as file, pytest.raises(InvalidInput, match="mode 'rb'"):
        shoal.query("pass", file)


def test_the_name_of_a_file_object_is_in_its_errors(tmp_path: Path) -> None:
    path = tmp_path / "bad.zson"
    path.write_text("{a:}")
    with path.open("rb") as file, pytest.raises(InvalidInput, match=r"bad\.zson: line 1, column 4: expected a value"):
        texts(file, format="zson")


@pytest.mark.parametrize(
    "table",
    [
        TABLE,
        TABLE.to_batches()[0],
        TABLE.to_reader(),
        TABLE.to_pandas(types_mapper=pd.ArrowDtype),
        pl.from_arrow(TABLE),
        pl.from_arrow(TABLE).lazy(),
    ],
    ids=lambda table: f"{type(table).__module__}.{type(table).__name__}",
)
def test_tables_and_frames_are_read(table: Any) -> None:
    assert texts(table) == ROWS


def test_what_hands_out_arrow_is_read() -> None:
    with duckdb.connect() as connection:
        assert texts(connection.sql("select 1 as a, 'x' as b")) == ['{a:1(int32),b:"x"}']
    with pytest.raises(InvalidInput, match="arrow: "):
        texts(pl.Series([1]))


def test_a_frame_of_pandas_is_read_as_pandas_means_it() -> None:
    frame = pd.DataFrame(
        {
            "f": [1.5, float("nan")],
            "o": [{"a": 1}, float("nan")],
            1: [pd.NaT, "x"],
            "c": pd.Categorical(["u", None]),
            "t": pd.to_datetime(["2024-01-01", None]).as_unit("ns"),
        },
        index=["i", "j"],
    )
    assert texts(frame) == [
        '{f:1.5,o:{a:1},"1":null(string),c:"u",t:2024-01-01T00:00:00Z}',
        '{f:null(float64),o:null({a:int64}),"1":"x",c:null(string),t:null(time)}',
    ]
    assert texts(pd.concat([frame[["f"]], frame[["f"]]], axis=1)) == [
        "{f:1.5,f1:1.5}",
        "{f:null(float64),f1:null(float64)}",
    ]


def test_values_and_plain_objects_are_data() -> None:
    assert texts([parse_value("10.0.0.1"), {"a": 1}, 2, None, [3]]) == ["10.0.0.1", "{a:1}", "2", "null", "[3]"]
    assert texts(iter({"a": n} for n in range(2))) == ["{a:0}", "{a:1}"]
    assert texts({"a": 1}) == ["{a:1}"]
    assert texts(parse_value("1")) == ["1"]
    assert texts([]) == []


def test_inputs_of_all_sorts_may_stand_in_a_list(log: Path) -> None:
    assert texts([log, b'"x"', TABLE, {"a": 3}, io.BytesIO(b"4")]) == ["{a:1}", "{a:2}", '"x"', *ROWS, "{a:3}", "4"]


@pytest.mark.parametrize("wrap", [lambda path: path, lambda path: [{"a": 1}, path], lambda path: (path,)])
def test_a_str_is_a_path_and_never_data(wrap: Any) -> None:
    with pytest.raises(NotFound) as e:
        shoal.query("pass", wrap('{"a":1}'))
    assert str(e.value) == '{"a":1}: file does not exist (data is given as bytes, or as a list of values)'
    with pytest.raises(NotFound, match=r"\{a:1\}\\n.*'\.\.\.: file does not exist"):
        shoal.query("pass", wrap("{a:1}\n" * 1000))


def test_what_cannot_be_read_is_refused() -> None:
    with pytest.raises(InvalidInput, match="cannot read from an object of type int"):
        shoal.query("pass", 1)
    with pytest.raises(InvalidInput, match="no Zed value for a Python object of type object"):
        texts([object()])
    with pytest.raises(InvalidInput, match="no format named 'yaml'"):
        shoal.query("pass", b"", format="yaml")


def test_inputs_are_read_only_as_far_as_needed() -> None:
    def rows() -> Iterator[dict[str, int]]:
        yield {"a": 1}
        raise AssertionError

    assert shoal.query("head 1", rows()).to_list() == [{"a": 1}]


# ---- programs without inputs


def test_a_program_may_need_no_inputs(log: Path) -> None:
    assert shoal.query("yield 1+2").to_list() == [3]
    assert shoal.query("const x = 1 yield x, x+1").to_list() == [1, 2]
    assert shoal.query(f"file {log} | count()").to_list() == [2]


def test_a_program_that_reads_inputs_has_to_get_them() -> None:
    for program in ("count()", "*", "where a==1", "put a:=1"):
        with pytest.raises(InvalidInput, match="the program has no inputs"):
            shoal.query(program)


def test_a_program_with_a_source_takes_no_inputs(log: Path) -> None:
    with pytest.raises(InvalidInput, match="brings its own source"):
        shoal.query(f"file {log}", b"")


# ---- options


def test_the_format_and_the_delimiter_may_be_given() -> None:
    assert texts(b"a;b\n1;2\n", format="csv", csv_delimiter=";") == ["{a:1.,b:2.}"]
    assert texts(b"1", format="line") == ['"1"']


def test_the_encoding_of_text_may_be_given() -> None:
    assert texts('{"a":"é"}'.encode("latin-1"), encoding="latin-1") == ['{a:"é"}']
    assert texts('{"a":"é"}'.encode("utf-16")) == ['{a:"é"}']
    with pytest.raises(InvalidInput, match="encoding: 'klingon' is not known"):
        texts(b"1", encoding="klingon")


def test_program_text_may_come_from_files(tmp_path: Path) -> None:
    library = tmp_path / "lib.zed"
    library.write_text("func double(x): (x*2)")
    assert shoal.query("yield double(21)", includes=[library]).to_list() == [42]
    with pytest.raises(NotFound, match=r"nowhere\.zed: file does not exist"):
        shoal.query("yield 1", includes=["nowhere.zed"])
    library.write_text("func ) (")
    with pytest.raises(ProgramError, match=r"lib\.zed"):
        shoal.query("yield 1", includes=[str(library)])


def test_what_debug_sees_goes_to_the_callback() -> None:
    seen: list[shoal.Value] = []
    made = shoal.query("debug a | count()", [{"a": 1}, {"a": 2}], on_debug=seen.append)
    assert seen == []
    assert made.to_list() == [2]
    assert list(map(format_value, seen)) == ["1", "2"]
    assert shoal.query("debug a | count()", [{"a": 1}]).to_list() == [1]


def test_memory_may_be_limited() -> None:
    rows = [{"a": n % 97, "b": "x" * 50} for n in range(2000)]
    made = shoal.query("sort a | head 1", rows, memory=shoal.Memory(sort=10_000))
    assert made.to_list() == [{"a": 0, "b": "x" * 50}]


def test_a_bad_program_is_told_at_once() -> None:
    with pytest.raises(shoal.ShoalError, match="error parsing Zed at line 1"):
        shoal.query("count(", [{"a": 1}])


# ---- the package


def test_public_names_are_listed_and_found() -> None:
    assert set(shoal.__all__) <= set(dir(shoal))
    assert all(getattr(shoal, name) is not None for name in shoal.__all__)
    assert shoal.ShoalError is ShoalError
    with pytest.raises(AttributeError, match="module 'shoal' has no attribute 'nothing'"):
        shoal.nothing  # noqa: B018


@pytest.mark.parametrize(
    "code",
    [
        "shoal.query",
        "shoal.query('sum(a) by b', [{'a': 1, 'b': 'x'}]).to_list()",
        "shoal.query('*', b'{a:1}').to_json()",
    ],
)
def test_a_query_loads_no_heavy_library_it_does_not_need(code: str) -> None:
    heavy = ("pyspark", "duckdb", "pyarrow", "numpy", "pandas", "polars")
    script = f"import sys, shoal; {code}; print([m for m in {heavy} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("[]\n", "")
