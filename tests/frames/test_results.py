from __future__ import annotations

import ipaddress
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import shoal
from shoal.errors import InvalidInput, Unsupported
from shoal.frames.python_values import Error, from_python, to_python
from shoal.frames.results import Results
from shoal.model import types as t
from shoal.model.parse import parse_value
from shoal.model.text import format_value
from shoal.model.values import Value
from shoal.testing import strategies
from shoal.testing.samples import every_kind, every_kind_everywhere

MIXED = """
{host:"a",load:0.5,at:{x:1}}
{host:"b",load:1}
{host:null,load:"high",at:{y:2}}
"""
FORMS: dict[str, Callable[[Results], Any]] = {
    "arrow": lambda results: results.to_arrow(exact=True),
    "pandas": lambda results: results.to_pandas(exact=True),
    "polars": lambda results: results.to_polars(exact=True),
}

_one_shape = strategies.record_types(min_size=1).flatmap(
    lambda typ: st.lists(strategies.data_of(typ).map(lambda data: Value(typ, data)), max_size=4)
)
_any_values = st.one_of(
    st.lists(strategies.values(), max_size=4), st.lists(strategies.records(), max_size=4), _one_shape
)


def results(*values: Value) -> Results:
    return shoal.query("pass", values)


def of(text: str) -> Results:
    return shoal.query("pass", text.encode(), format="zson")


def back(made: Any) -> list[Value]:
    return list(shoal.query("pass", made))


def check_round_trips(values: Sequence[Value]) -> None:
    assert list(map(from_python, results(*values).to_list())) == list(values)
    for form in FORMS.values():
        assert back(form(results(*values))) == list(values)


# ---- nothing is lost


@given(_any_values)
def test_tables_and_frames_give_back_the_very_same_values(values: list[Value]) -> None:
    check_round_trips(values)


def test_values_of_every_kind_come_back_alone_and_together() -> None:
    check_round_trips(every_kind_everywhere())
    for value in every_kind():
        check_round_trips([value])
        check_round_trips([Value(t.record((("a", value.type),)), (value.data,))] * 2)


@pytest.mark.parametrize(
    "text",
    [
        "{a:1,b:2} {b:1,a:2}",
        "{a:{b:1}} {a:{b:1,c:{d:1}}} {a:{c:{e:1}}} {a:null({b:int64})} {a:null}",
        "{a:{}} {a:{b:1}} {a:{}}",
        "{a:1}(=x) {a:1}(=y) {a:1}",
        "null({a:int64}) {a:null(int64)} null",
        "1 2 3",
        "1 {a:1}",
        '{"$value":1}',
        '{"$value":1} 1 "a"',
        '{"$shape":"x"}',
        '{"$shape":"{a:int64}"} {"$$shape":1} {"$$value":2} 3',
        "{a:-9223372036854775808} {a:NaN} {a:-0.}",
        "{a:NaN} {a:null(float64)}",
        '{a:NaN} {a:"x"}',
        '{"a\\u0000b":{"c\\u0000d":1}}',
        "{d:2024-01-02T00:00:00Z(=arrow_date32)}",
        "{d:2024-01-02T00:00:01Z(=arrow_date32)}",
        '{s:"x"(=arrow_large_string),l:["y"](=arrow_large_list),t:1s(=arrow_duration_us)}',
        "{d:{high:0,low:123(uint64)}(=arrow_decimal128_10_2),e:[1(uint64),0(uint64),0(uint64),0(uint64)](=arrow_decimal256)}",
        "{x:{d:2024-01-02T00:00:00Z(=arrow_date32),e:{}}}",
        "{d:[1](=arrow_fixed_size_list_2),m:1(arrow_month_interval=int32)}",
    ],
)
def test_hard_cases_come_back(text: str) -> None:
    check_round_trips(list(of(text)))


def test_times_at_the_ends_of_their_range_come_back() -> None:
    for typ in (t.TIME, t.DURATION):
        record = t.record((("a", typ),))
        check_round_trips([Value(record, (d,)) for d in (-(2**63), 2**63 - 1, None, 0)])


@pytest.mark.parametrize("depth", [59, 63, 64, 125])
def test_values_that_nest_deep_come_back(depth: int) -> None:
    arrays, maps = parse_value("[2024-01-01T00:00:00Z]"), parse_value("|{1:2}|")
    for _ in range(depth):
        arrays = Value(t.array(arrays.type), (arrays.data,))
        maps = Value(t.map_of(t.INT64, maps.type), ((1, maps.data),))
    for value in (arrays, maps):
        check_round_trips([Value(t.record((("a", value.type),)), (value.data,))])


def test_many_rows_come_back_in_order() -> None:
    values = list(shoal.query("pass", [{"a": i, "b": str(i)} if i % 3 else {"b": None} for i in range(60_000)]))
    table = results(*values).to_arrow(exact=True)
    assert table.column("a").num_chunks == 2
    assert back(table) == values


# ---- what tables look like


def test_records_of_one_shape_make_a_plain_table() -> None:
    table = of('{a:1,b:"x",c:{d:[1.5]},t:2024-01-01T00:00:00Z,took:1s,u:1(uint8)}').to_arrow(exact=True)
    expected = {
        "a": pa.int64(),
        "b": pa.string(),
        "c": pa.struct([("d", pa.list_(pa.float64()))]),
        "t": pa.timestamp("ns", "UTC"),
        "took": pa.duration("ns"),
        "u": pa.uint8(),
    }
    assert table.schema.equals(pa.schema(expected), check_metadata=True)


def test_types_that_arrow_lacks_are_readable_and_told_in_the_metadata_of_their_field() -> None:
    table = of("{a:10.0.0.1,e:%b(enum(a,b)),u:1((int64,string)),m:|{1:2}|,p:80(port=uint16)}").to_arrow(exact=True)
    assert table.to_pylist() == [
        {"a": "10.0.0.1", "e": "b", "u": {"tag": 0, "0": 1, "1": None}, "m": [{"key": 1, "value": 2}], "p": 80}
    ]
    told = {field.name: field.metadata[b"zed"].decode() for field in table.schema}
    assert told == {
        "a": "ip",
        "e": "enum(a,b)",
        "u": "(int64,string)",
        "m": "|{int64:int64}|",
        "p": "port=uint16",
    }


def test_records_of_several_shapes_share_columns_and_have_their_shape_beside_them() -> None:
    table = of(MIXED).to_arrow(exact=True)
    assert table.column_names == ["host", "load", "at", "$shape"]
    assert table.column("at").type == pa.struct([("x", pa.int64()), ("y", pa.int64())])
    assert table.column("$shape").to_pylist() == [
        "{host:string,load:float64,at:{x:int64}}",
        "{host:string,load:int64}",
        "{host:null,load:string,at:{y:int64}}",
    ]


def test_values_that_are_no_records_are_in_a_column_of_their_own() -> None:
    assert of("1 2").to_arrow(exact=True).to_pydict() == {"$value": [1, 2]}
    assert of('1 "a"').to_arrow(exact=True).column_names == ["$value", "$shape"]


def test_what_came_from_arrow_goes_back_as_it_was() -> None:
    table = pa.table(
        {
            "day": pa.array([1, None], pa.int32()).cast(pa.date32()),
            "at": pa.array([1, None], pa.timestamp("s", "UTC")),
            "text": pa.array(["x", None], pa.large_string()),
            "money": pa.array([1, None]).cast(pa.decimal128(25, 2)),
        }
    )
    plain = table.set_column(1, "at", table["at"].cast(pa.timestamp("ns", "UTC")))
    plain = plain.set_column(2, "text", table["text"].cast(pa.string()))
    for exact in (True, False):
        assert shoal.query("pass", table).to_arrow(exact=exact).equals(plain, check_metadata=True)
    polars = shoal.query("pass", table).to_polars(exact=True)
    assert polars.schema["day"] == pl.Date
    assert shoal.query("pass", table).to_pandas(exact=True)["money"].dtype == pd.ArrowDtype(pa.decimal128(25, 2))


def test_nothing_makes_an_empty_table() -> None:
    assert results().to_arrow(exact=True).shape == (0, 0)
    assert results().to_pandas(exact=True).empty
    assert results().to_polars(exact=True).is_empty()
    check_round_trips([])


# ---- tables that were changed on the way


def test_a_table_may_be_cut_and_filtered() -> None:
    table = of("{a:10.0.0.1,b:1} {a:10.0.0.2,b:2}").to_arrow(exact=True)
    assert list(map(format_value, back(table.slice(1).select(["a"])))) == ["{a:10.0.0.2}"]


def test_a_told_type_that_a_column_no_longer_has_is_passed_over() -> None:
    table = of("{a:10.0.0.1}").to_arrow(exact=True)
    field = table.schema.field("a").with_type(pa.int64())
    changed = pa.table([pa.array([1])], schema=pa.schema([field]))
    assert list(map(format_value, back(changed))) == ["{a:1}"]
    broken = pa.table([pa.array([1])], schema=pa.schema([field.with_metadata({"zed": "no type"})]))
    assert list(map(format_value, back(broken))) == ["{a:1}"]


@pytest.mark.parametrize(
    "zson, changed, error",
    [
        ("{a:10.0.0.1}", ["x"], "column 'a', declared as ip: invalid IP address: 'x'"),
        ("{a:%b(enum(a,b))}", ["x"], "no symbol 'x' in enum"),
        ("{a:1((int64,string))}", [{"tag": 9, "0": None, "1": None}], "no member 9 in a union of 2"),
    ],
)
def test_data_that_is_not_of_the_told_type_is_an_error(zson: str, changed: list[Any], error: str) -> None:
    schema = of(zson).to_arrow(exact=True).schema
    with pytest.raises(InvalidInput, match=error):
        back(pa.table([pa.array(changed, schema.field("a").type)], schema=schema))


def test_columns_that_came_or_went_do_not_get_lost_in_silence() -> None:
    frame = of("{a:1} {b:2}").to_pandas(exact=True)
    with pytest.raises(InvalidInput, match="'\\$shape' names a field 'b', but there is no such column"):
        back(frame.drop(columns="b"))
    with pytest.raises(InvalidInput, match="column 'c' has values in rows without such a field"):
        back(frame.assign(c=1))
    with pytest.raises(InvalidInput, match="column 'a' has type string, not int64"):
        back(frame.assign(a=["x", None]))
    assert list(map(format_value, back(frame.drop(columns="$shape").assign(c=1)))) == [
        "{a:1,b:null(int64),c:1}",
        "{a:null(int64),b:2,c:1}",
    ]


def test_a_column_of_that_name_from_elsewhere_is_a_column() -> None:
    table = pa.table({"$shape": ["round", None], "a": [1, 2]})
    assert list(map(format_value, back(table))) == ['{$shape:"round",a:1}', "{$shape:null(string),a:2}"]


# ---- frames


def test_pandas_gets_types_that_hold_the_values_exactly() -> None:
    frame = of(
        '{i:1,n:1,s:"x",t:2024-01-01T00:00:00Z,d:1s,f:NaN,ip:10.0.0.1,e:error("no"),u:1((int64,string))}'
        '{i:2,n:null(int64),s:null(string),t:null(time),d:null(duration),f:1.,ip:null(ip),e:error("yes"),'
        'u:"x"((int64,string))}'
    ).to_pandas(exact=True)
    kinds = {name: str(dtype) for name, dtype in frame.dtypes.items()}
    assert kinds == {
        "i": "int64",
        "n": "int64[pyarrow]",
        "s": "str",
        "t": "datetime64[ns, UTC]",
        "d": "timedelta64[ns]",
        "f": "double[pyarrow]",
        "ip": "object",
        "e": "object",
        "u": "object",
    }
    assert frame["ip"].tolist() == [ipaddress.ip_address("10.0.0.1"), None]
    assert frame["e"].tolist() == [Error("no"), Error("yes")]
    assert frame["u"].tolist() == [1, "x"]


def test_polars_gets_its_own_types_and_objects() -> None:
    frame = of("{n:18446744073709551615(uint64),t:2024-01-01T00:00:00.000000001Z,ip:10.0.0.1}").to_polars(exact=True)
    assert frame.schema == {"n": pl.UInt64, "t": pl.Datetime("ns", "UTC"), "ip": pl.Object}
    assert frame["ip"].to_list() == [ipaddress.ip_address("10.0.0.1")]


def test_frames_whose_objects_do_not_tell_their_type_have_shapes() -> None:
    for text in ("{a:null(ip)}", "{a:1((int64,string))}"):
        assert list(of(text).to_pandas(exact=True).columns) == ["a", "$shape"]
        assert of(text).to_polars(exact=True).columns == ["a", "$shape"]


@pytest.mark.parametrize("name", ["pandas", "polars"])
def test_a_missing_library_is_named_with_the_way_to_install_it(name: str) -> None:
    with patch.dict(sys.modules, {name: None}), pytest.raises(Unsupported, match=f"pip install 'shoal\\[{name}\\]'"):
        FORMS[name](of("{a:1}"))


# ---- reading them


def test_results_are_read_once_unless_they_are_held() -> None:
    made = of("1 2")
    assert repr(made) == "<Results of 'pass': not read yet>"
    assert made.to_list() == [1, 2]
    assert repr(made) == "<Results of 'pass': read>"
    with pytest.raises(InvalidInput, match="hold"):
        made.to_list()
    held = of("1 2").hold()
    assert repr(held.hold()) == "<Results of 'pass': 2 held>"
    assert held.to_list() == held.to_python() == [to_python(value) for value in held]


def test_results_are_computed_as_they_are_read() -> None:
    def endless() -> Any:
        n = 0
        while True:
            n += 1
            yield {"n": n}

    made = shoal.query("put m:=n*2", endless(), statistics=True)
    first = iter(made)
    assert [format_value(next(first)) for _ in range(2)] == ["{n:1,m:2}", "{n:2,m:4}"]
    assert made.statistics.records_read == 2
    made.close()
    assert list(first) == []


def test_results_close_with_their_context() -> None:
    with of("1 2") as made:
        next(iter(made))
    with pytest.raises(InvalidInput):
        list(made)


def test_one_is_the_only_value() -> None:
    assert of("1").one() == parse_value("1")
    held = of("1").hold()
    assert held.one() == held.one()
    with pytest.raises(InvalidInput, match="'pass' should return one value but returned no value"):
        of("").one()
    with pytest.raises(InvalidInput, match=r"returned more than one value \(the first: 1\)"):
        of("1 2").one()


def test_texts_are_a_line_a_value() -> None:
    held = of("{a:10.0.0.1} {b:1.}").hold()
    assert held.to_json() == '{"a":"10.0.0.1"}\n{"b":1}'
    assert held.to_zson() == "{a:10.0.0.1}\n{b:1.}"


def test_what_was_read_is_counted() -> None:
    made = shoal.query("a==2", b"{a:1} {a:2}", statistics=True).hold()
    assert (made.statistics.records_read, made.statistics.bytes_read) == (2, 4)
    assert (made.statistics.records_matched, made.statistics.bytes_matched) == (1, 2)


def test_parquet_written_by_pyarrow_keeps_what_the_table_told(tmp_path: Path) -> None:
    values = list(of("{a:10.0.0.1,e:%b(enum(a,b))} {a:null(ip),s:|[1]|}"))
    pq.write_table(results(*values).to_arrow(exact=True), tmp_path / "a.parquet")
    assert back(pq.read_table(tmp_path / "a.parquet")) == values
