"""Partitions by an expression: columns give what the interpreter gives, and filters skip only what cannot match."""

from __future__ import annotations

import pickle

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import shoal
from shoal.api.lake import Lake
from shoal.errors import InvalidInput
from shoal.formats.columns import kernels
from shoal.formats.columns.batches import batch_of
from shoal.lake.pool_partitions import Indivisible
from shoal.model.parse import parse_value
from shoal.model.text import format_value
from shoal.model.values import MISSING, NULL
from shoal.planner.pool_partitions import ExpressionDivider, compile_partition, parse_partition_value
from shoal.testing.tiers import examples

EXPRESSIONS = [
    "f", "f.g", "bucket(f,1h)", "bucket(f,90s)", "bucket(f.g,1d)", "every(1h)", "upper(s)", "{f,s}", "len(s)", "f=='a'",
    "bucket(f,3600)", "coalesce(f,s)", "this", "f[0]", "f+1", "has(f) ? 'with' : 'without'",
]  # fmt: skip
FIELDS = [
    "1", "2", "-7", "1.5", "-0.", "0.", "NaN", "null", "null(int64)", "null(time)", '"a"', '"b"', "true", "false",
    "80(port=uint16)", "2024-01-01T10:30:00Z", "2024-01-01T23:59:59.999999999Z", "1969-12-31T23:30:00Z", "5400s", "-1s",
    "1970-01-01T00:00:00Z", "2024-01-01T00:00:00Z(=when)", '1((int64,string))', '"a"((int64,string))', "2024-01-02",
    "2262-04-11T23:47:16.854775807Z", "1677-09-21T00:12:43.145224192Z", '{g:2024-01-01T10:30:00Z}', '{g:"a"}', "{g:1}",
    "null({g:time})", "{g:null(time)}", '["a","b"]', "10.0.0.1", "0x0aff", 'error("missing")', 'error("bad")',
    "18446744073709551615(uint64)", "1e300",
]  # fmt: skip
RECORDS = st.one_of(
    st.sampled_from(["{}", '{s:"x"}', "null({f:int64})", "1", '"a"', "{ts:2024-01-01T10:30:00Z}", "null({s:string})"]),
    st.builds(lambda f, s: f"{{f:{f}{s}}}", st.sampled_from(FIELDS), st.sampled_from(["", ',s:"x"', ',s:"y"', ",s:1"])),
)


@settings(max_examples=examples(150))
@given(st.sampled_from(EXPRESSIONS), st.lists(RECORDS, min_size=1, max_size=12))
@example("bucket(f,1h)", ["{f:null(time)}", "{f:2024-01-01T10:30:00Z}", "{f:1970-01-01T00:00:00Z}", "{f:null(time)}"])
def test_columns_give_the_partitions_that_the_interpreter_gives(text: str, records: list[str]) -> None:
    values, divider = [parse_value(record) for record in records], pickle.loads(pickle.dumps(ExpressionDivider(text)))
    for part in batch_of(values).parts:
        rows = [values[row] for row in part.rows.tolist()]
        try:
            expected: list[object] = [divider.partition_of(value) for value in rows]
        except Indivisible as e:
            with pytest.raises(Indivisible) as other:
                divider.divide(part)
            assert str(other.value) == str(e)
            continue
        partitions, indexes = divider.divide(part)
        assert [partitions[index] for index in indexes] == expected


@pytest.mark.parametrize("field", [f for f in FIELDS if "error" not in f])
def test_long_columns_give_the_same_as_short_ones(field: str, monkeypatch: pytest.MonkeyPatch) -> None:
    values = [parse_value(f"{{f:{each}}}") for each in (field, "null(string)", "5", '"z"')] * 3
    for goes_without in (True, False):
        monkeypatch.setattr(kernels, "goes_without", lambda rows, answer=goes_without: answer)
        for part in batch_of(values).parts:
            divider = ExpressionDivider("f")
            partitions, indexes = divider.divide(part)
            expected = [divider.partition_of(values[row]) for row in part.rows.tolist()]
            assert [partitions[index] for index in indexes] == expected


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("nosuch(ts)", "no such function"),
        ("count()", "count is an aggregate"),
        ("ts + sum(x)", "sum is an aggregate"),
        ("now()", "now is another value each time"),
        ("bucket(now(),1d)", "now is another value"),
        ("ksuid()", "ksuid is another value"),
        ("typename('x')", "depends on the types of other records"),
        ("ts | sort", "has to be one expression"),
        ("ts, host", "has to be one expression"),
        ("(over a | count())", "has a query inside"),
        ("1 + 1", "names no field"),
        ("bucket(ts", "error parsing"),
        ("random()", "no such function"),
        ("bucket(ts)", "too few arguments"),
    ],
)
def test_an_expression_that_cannot_divide_a_pool_is_refused_when_it_is_created(text: str, why: str) -> None:
    lake = shoal.create("memory://")
    with pytest.raises(InvalidInput, match=why) as e:
        lake.create("p", key="k", partition=text)
    assert str(e.value).startswith(f"invalid partition expression {text!r}: ")
    assert "\n" not in str(e.value)
    assert lake.pools() == []


@pytest.mark.parametrize(
    ("text", "value"),
    [("1", "1"), ("'a'", '"a"'), ("bucket(2024-01-01T10:00:00Z,1d)", "2024-01-01T00:00:00Z"), ("{a:1}", "{a:1}")],
)
def test_a_partition_is_named_by_a_constant(text: str, value: str) -> None:
    assert format_value(parse_partition_value(text)) == value


def test_null_and_missing_are_partitions() -> None:
    assert parse_partition_value("null") == parse_partition_value("null(time)") == NULL
    assert parse_partition_value("missing") == parse_partition_value('error("missing")') == MISSING
    divider = ExpressionDivider("bucket(ts,1d)")
    assert divider.partition_of(parse_value("{ts:null(time)}")) == NULL
    assert divider.partition_of(parse_value("{x:1}")) == MISSING


@pytest.mark.parametrize("text", ["a", "web", "this", "count()", "1 | sort", "1,2", "("])
def test_what_is_not_a_constant_names_no_partition(text: str) -> None:
    with pytest.raises(InvalidInput, match="invalid partition"):
        parse_partition_value(text)


def test_the_expression_is_compiled_once() -> None:
    assert compile_partition("bucket(ts,1d)") is compile_partition("bucket(ts,1d)")


# ---- filters


DIVIDED_BY = [
    "f",
    "{f,d:bucket(f,1h)}",
    "{s,d:bucket(f.g,1d)}",
    "bucket(f,1h)",
    "bucket(f,1d)",
    "{f,s}",
    "upper(s)",
    "bucket(f.g,1d)",
    "f.g",
]
BOUNDS = [
    "1", "2", "1.5", '"a"', "null", "2024-01-01T10:30:00Z", "2024-01-01T00:00:00Z", "2024-01-02T00:00:00Z", "0s",
    "3600s", "2024-01-01T10:00:00Z", "2024-01-01T11:00:00Z", "1969-12-31T23:00:00Z", "1970-01-01T00:00:00Z",
    '"X"', "{f:1}", "NaN",
]  # fmt: skip
SAFE = [f for f in FIELDS if "error" not in f]


def conditions(expr: str) -> st.SearchStrategy[str]:
    """Filters over an expression, its fields and others."""
    operands = st.sampled_from([expr, expr, "f", "s", "f.g", "bucket(f,1d)"])
    compared = st.builds(
        lambda a, op, b, flipped: f"{b} {op} {a}" if flipped else f"{a} {op} {b}",
        operands,
        st.sampled_from(["==", "<", "<=", ">", ">=", "!="]),
        st.sampled_from(BOUNDS),
        st.booleans(),
    )
    others = st.builds(
        lambda a, form: form.format(a),
        operands,
        st.sampled_from([
            "{} in [1,2024-01-01T00:00:00Z,'a']", "{0} == null", "is_error({})", "has({})", "missing({})",
            "typeof({}) == <time>", "kind({}) == 'primitive'", "!({} == 1)", "{0} == {0}", "s == 'x'", "len({}) == 1",
            "quiet({}) == 1",
        ]),
    )  # fmt: skip
    return st.recursive(
        compared | others,
        lambda inner: st.builds(lambda a, op, b: f"({a} {op} {b})", inner, st.sampled_from(["and", "or"]), inner),
        max_leaves=4,
    )


SAFE_RECORDS = st.builds(
    lambda f, s, n: f"{{k:{n},f:{f}{s}}}", st.sampled_from(SAFE), st.sampled_from(["", ',s:"x"', ',s:"y"']),
    st.integers(0, 3),
) | st.sampled_from(['{k:1,s:"x"}', "{k:2}"])  # fmt: skip


def created(text: str, loads: list[list[str]]) -> Lake | None:
    """A lake with a pool that is divided and one that is not; None if the expression fails for a record."""
    lake = shoal.create("memory://")
    pools = [lake.create("divided", key="k", partition=text), lake.create("whole", key="k")]
    for records in loads:
        try:
            for pool in pools:
                pool.load(" ".join(records).encode(), format="zson")
        except InvalidInput:
            return None
    return lake


def texts(lake: Lake, program: str) -> list[str]:
    return sorted(map(format_value, lake.query(program)))


@settings(max_examples=examples(150))
@given(st.data())
def test_filters_find_in_partitions_what_they_find_elsewhere(data: st.DataObject) -> None:
    expr = data.draw(st.sampled_from(DIVIDED_BY))
    lake = created(expr, data.draw(st.lists(st.lists(SAFE_RECORDS, min_size=1, max_size=6), min_size=1, max_size=3)))
    if lake is None:
        return
    condition = data.draw(conditions(expr))
    assert texts(lake, f"from divided | where {condition}") == texts(lake, f"from whole | where {condition}")
    for name in ("divided", "whole"):
        try:
            lake.pool(name).delete(where=f"where {condition}")
        except InvalidInput as e:
            assert "empty transaction" in str(e)  # nothing matched
    assert texts(lake, "from divided") == texts(lake, "from whole")


@pytest.mark.parametrize(
    ("expr", "condition", "counts"),
    [
        ("bucket(ts,1d)", "ts >= 2024-01-03T00:00:00Z", (7, 2)),
        ("bucket(ts,1d)", "ts == 2024-01-03T12:00:00Z", (1, 8)),
        ("bucket(ts,1d)", "bucket(ts,1d) == 2024-01-03T00:00:00Z", (1, 8)),
        ("bucket(ts,1d)", "bucket(ts,1d) in [2024-01-03T00:00:00Z,2024-01-04T00:00:00Z]", (2, 7)),
        ("bucket(ts,1d)", "ts < 2024-01-04T00:00:00Z or bucket(ts,1d) == 2024-01-09T00:00:00Z", (4, 5)),
        ("host", "host == 'h1' or host == 'h2'", (2, 1)),
        ("host", "host in ['h1','x']", (1, 2)),
        ("upper(host)", "upper(host) == 'H1' and ts > 2000-01-01T00:00:00Z", (1, 2)),
        ("{host,d:bucket(ts,1d)}", "{host,d:bucket(ts,1d)} == {host:'h2',d:2024-01-05T00:00:00Z}", (1, 8)),
        ("{host,d:bucket(ts,1d)}", "host == 'h1' and ts > 2024-01-05T00:00:00Z", (1, 8)),
    ],
)  # fmt: skip
def test_filters_skip_partitions(expr: str, condition: str, counts: tuple[int, int]) -> None:
    lake = shoal.create("memory://")
    # One load for each host, as far as they are divided by it: zone maps and keys would do the same.
    rows = " ".join(f'{{k:{n},ts:2024-01-0{n}T12:00:00Z,host:"h{n % 3}"}}' for n in range(1, 10))
    lake.create("p", key="k", partition=expr).load(rows.encode(), format="zson")
    (plan,) = lake.explain(f"from p | where {condition}")
    assert (plan.objects, plan.pruned_by_partition) == counts
