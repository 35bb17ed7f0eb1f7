"""Expressions over columns give what the interpreter gives, for values at the edges of every type."""

from __future__ import annotations

import pytest

import shoal
from shoal.local.lake import LocalLake
from shoal.model.parse import parse_value
from shoal.model.text import format_value
from shoal.model.values import record
from shoal.testing.samples import ODD_TEXTS
from shoal.testing.tiers import IS_LONG

CASTS = (
    "uint8", "uint16", "uint32", "uint64", "int8", "int16", "int32", "int64", "float16", "float32", "float64", "bool",
    "string", "bytes", "time", "duration", "ip", "net", "type",
)  # fmt: skip
FORMS = (
    *(f"{name}(v)" for name in CASTS),
    *(f"{name}(int64(v))" for name in ("uint8", "string", "float64", "bool", "time")),
    "upper(v)", "lower(v)", "trim(v)", "len(v)", "rune_len(v)", "abs(v)", "ceil(v)", "floor(v)", "round(v)", "log(v)",
    "sqrt(v)", "pow(v, 2)", "hex(v)", "base64(v)", "parse_uri(v)", "network_of(v)", "network_of(v, 20)", "ksuid(v)",
    "cidr_match(10.0.0.0/8, v)", "cidr_match(::/0, v)", "strftime('%Y-%m-%d %H:%M', v)", "bucket(v, 1h)",
    "bucket(time(v), 1h)", "split(v, ',')", "join(v, '-')", "replace(v, 'foo', 'x')", "regexp('(o+) b', v)",
    "regexp_replace(v, '[0-9]', '<$0>')", "levenshtein(v, 'foo')", "grep('foo', v)", "has_error(v)", "fields(v)",
    "coalesce(v, 5)", "coalesce(w, v)", "compare(v, 1)", "min(v, 3)", "max(3, v)", "v in [1,2,3,'x',null]",
    "v in ['12','x']", "v in 10.0.0.1", "1 in v", "v in v", "v[0]", "v[-1]", "v['a']", "v[3]", "v[1:]", "v[:-1]",
    "v.a", "v == 1", "v < 10", "v != 'x'", "v > v", "v + 1", "v * 2.5", "v % 3", "-v", "!v", "v and true", "v ? 1 : 2",
    "{x:v,...v}", "[v,1]", "|[v]|", "|{'k':v}|", "{y:int64(v),z:upper(v)}", "upper(trim(string(v)))", 'f"<{v}>"',
)  # fmt: skip


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> LocalLake:
    made = shoal.create(tmp_path_factory.mktemp("lake"))
    assert isinstance(made, LocalLake)
    rows = [record((("n", parse_value(str(n))), ("v", parse_value(text)))) for n, text in enumerate(ODD_TEXTS)]
    made.create("odd", key="n").load(rows)
    made.create("plain", key="n").load(
        [{"n": n, "s": f"Name{n % 7}", "x": str(n), "t": f"2024-01-01T0{n % 10}:00:00Z", "l": [n]} for n in range(3000)]
    )
    return made


@pytest.mark.parametrize("form", FORMS)
def test_engines_agree(lake: LocalLake, form: str) -> None:
    program = f"from odd | yield {{n,x:{form}}}"
    right = [format_value(v) for v in lake.query(program, engine="interp")]
    assert [format_value(v) for v in lake.query(program, engine="duckdb")] == right


@pytest.mark.parametrize("form", FORMS if IS_LONG else FORMS[::10])
def test_engines_agree_on_groups(lake: LocalLake, form: str) -> None:
    program = f"from odd | where ({form}) == ({form}) | count() by k:={form}"
    right = sorted(format_value(v) for v in lake.query(program, engine="interp"))
    assert sorted(format_value(v) for v in lake.query(program, engine="duckdb")) == right


@pytest.mark.parametrize(
    "program",
    [
        "put y:=upper(s) | count() by y",
        "where int64(x) > 5 | count()",
        "where int64(x) > 5 | put y:=split(s, 'a')[1] | count() by y",
        "yield {t:bucket(time(t),1h)} | count() by t",
        "where s in ['Name1','Name2'] | sum(float64(x))",
        "count() by k:=strftime('%H', time(t))",
        "cidr_match(10.0.0.0/8, ip(s)) | count()",
        "max(l[0]) by s",
        "count() by k:=loud(s)",
        "where twice(int64(x)) < 100 | count()",
    ],
)
def test_nothing_is_left_to_the_interpreter(lake: LocalLake, program: str) -> None:
    program = f"func twice(p): (p + p) func loud(p): (twice(upper(p))) from plain | {program}"
    (plan,) = lake.explain(program, engine="duckdb")
    assert set(plan.interpreted) <= {"yield"}
    assert plan.engine == "duckdb"
    right = sorted(map(format_value, lake.query(program, engine="interp")))
    assert sorted(map(format_value, lake.query(program, engine="duckdb"))) == right


def test_a_formula_is_computed_once_however_often_it_is_used(lake: LocalLake) -> None:
    (plan,) = lake.explain(
        "from plain | put y:=replace(s, 'a', 'b') | where y != 'x' | count() by y, z:=is_error(y)", engine="duckdb"
    )
    (query,) = plan.queries
    assert query.count("ZED_REPLACE") == 1
