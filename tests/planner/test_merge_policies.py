"""Merge policies: what a pool gives is the same before, during and after compaction, on every engine."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from itertools import count

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import shoal
from shoal.api.pool import Pool
from shoal.errors import InvalidInput
from shoal.lake.objects import DataObject
from shoal.local.lake import LocalLake, stored
from shoal.model import types as t
from shoal.model.text import format_value
from shoal.model.values import Value, int64, record
from shoal.testing.agreement import Rows
from shoal.testing.queries import parse_values
from shoal.testing.tiers import examples

ENGINES = ("interp", "duckdb")
_numbers = count()


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> LocalLake:
    made = shoal.create(tmp_path_factory.mktemp("lake"))
    assert isinstance(made, LocalLake)
    return made


def pool_of(lake: LocalLake, policy: str, key: str = "k", loads: Sequence[str] = (), **how: int) -> Pool:
    pool = lake.create(f"p{next(_numbers)}", key=key, policy=policy, **how)  # type: ignore[arg-type]
    for text in loads:
        pool.load(parse_values(text))
    return pool


def lake_of(pool: Pool) -> LocalLake:
    assert isinstance(pool.lake, LocalLake)
    return pool.lake


def bag(pool: Pool, program: str = "pass", engine: str = "interp", at: str = "") -> Counter[str]:
    return Counter(map(format_value, lake_of(pool).query(f"from {pool.name}{at} | {program}", engine=engine)))


def rows(pool: Pool, text: str = "select * from {}") -> Counter[str]:
    table = lake_of(pool).sql(text.format(pool.name)).to_arrow()
    return Counter(str(sorted((k, v) for k, v in row.items() if v is not None)) for row in table.to_pylist())


def compact_all(pool: Pool) -> None:
    for _ in range(5):
        if not [done for done in pool.branch("main").compact_all() if not done.error]:
            return
    pytest.fail("compaction never comes to rest")


def ids(pool: Pool) -> list[str]:
    return [o.id for o in pool.branch("main").objects()]


# ---- by hand

LOADS = (
    '{k:1,ts:1,v:"a"}{k:2,ts:5,v:"b"}{k:1,ts:1,v:"a"}{x:1}{x:1}',
    '{k:1,ts:3,v:"c"}{k:2,ts:4}{k:null(int64),ts:2}{k:"s",ts:"x"}{k:null(int64),ts:9}',
)
RESULTS = {
    "dedupe": '{k:1,ts:1,v:"a"}{k:1,ts:3,v:"c"}{k:2,ts:5,v:"b"}{k:2,ts:4}{k:"s",ts:"x"}'
    "{k:null(int64),ts:2}{k:null(int64),ts:9}{x:1}",
    "replace by ts": '{k:1,ts:3,v:"c"}{k:2,ts:5,v:"b"}{k:"s",ts:"x"}{k:null(int64),ts:9}{x:1}{x:1}',
    "aggregate max(ts)": '{k:1,ts:3}{k:2,ts:5}{k:"s",ts:"x"}{k:null(int64),ts:9}{x:1}{x:1}',
    "aggregate sum(ts) by k": '{k:1,ts:5}{k:2,ts:9}{k:"s",ts:"x"}{k:null(int64),ts:11}{x:1}{x:1}',
    "program sort ts | tail 1": '{k:1,ts:3,v:"c"}{k:2,ts:5,v:"b"}{k:"s",ts:"x"}{k:null(int64),ts:9}{x:1}{x:1}',
}


@pytest.mark.parametrize("policy", RESULTS)
def test_records_of_several_shapes_without_the_key_and_with_nulls(lake: LocalLake, policy: str) -> None:
    pool = pool_of(lake, policy, loads=LOADS)
    wanted = Counter(map(format_value, parse_values(RESULTS[policy])))
    for _ in range(2):
        assert all(bag(pool, engine=engine) == wanted for engine in ENGINES)
        assert sum(rows(pool).values()) == wanted.total()
        assert rows(pool, "select count(*) as n from {}") == Counter([str([("n", wanted.total())])])
        compact_all(pool)
    assert all(stored_object.merged is not None for stored_object in _objects(pool))


def _objects(pool: Pool) -> list[DataObject]:
    inner = stored(pool.branch("main"))
    return list(inner.snapshot(inner.resolve()).objects())


def test_one_object_that_overlaps_nothing_is_merged_and_then_left_alone(lake: LocalLake) -> None:
    pool = pool_of(lake, "dedupe", loads=["{k:1}{k:1}"])
    assert bag(pool) == Counter({"{k:1}": 1})
    compact_all(pool)
    before = ids(pool)
    assert [o.count for o in pool.branch("main").objects()] == [1]
    compact_all(pool)
    assert ids(pool) == before


def test_the_fields_of_groups_may_be_more_than_the_key(lake: LocalLake) -> None:
    policy = "aggregate sum(n), max(meta.ts) by k, at.host"
    loads = [
        '{k:1,at:{host:"a"},n:1,meta:{ts:5}}{k:1,at:{host:"b"},n:2}',
        '{k:1,at:{host:"a"},n:10.5,meta:{ts:3}}{k:1.,at:{host:"a"},n:1}',
    ]
    pool = pool_of(lake, policy, loads=loads)
    wanted = Counter(
        [
            '{k:1,at:{host:"a"},n:11.5,meta:{ts:5}}',
            '{k:1,at:{host:"b"},n:2,meta:{ts:null}}',
            '{k:1.,at:{host:"a"},n:1,meta:{ts:null}}',
        ]
    )
    assert bag(pool) == wanted
    compact_all(pool)
    assert bag(pool) == wanted == bag(pool, engine="duckdb")


def test_dates_and_numbers_are_not_mixed(lake: LocalLake) -> None:
    pool = pool_of(lake, "aggregate max(d)")
    one = int64(1)
    pool.load([record([("k", one), ("d", Value(t.DATE, 19000))]), record([("k", one), ("d", int64(5))])])
    pool.load([record([("k", one), ("d", Value(t.DATE, 20000))])])
    before = bag(pool)
    assert before.total() == 2
    compact_all(pool)
    assert bag(pool) == before


def test_a_filter_on_another_field_does_not_hide_the_newest(lake: LocalLake) -> None:
    pool = pool_of(lake, "replace by ts", loads=["{k:1,ts:1,v:1}", "{k:1,ts:2,v:100}"], inline=0)
    for engine in ENGINES:
        assert bag(pool, "v < 10", engine) == Counter()
        assert bag(pool, "k == 1", engine) == bag(pool, "v >= 10", engine) == Counter({"{k:1,ts:2,v:100}": 1})
    assert rows(pool, "select * from {} where v < 10") == Counter()
    assert rows(pool, "select v from {} where k = 1").total() == 1


def test_a_descending_pool_stays_in_order(lake: LocalLake) -> None:
    pool = pool_of(lake, "dedupe", "k:desc", ["{k:1}{k:3}{k:2}{x:0}", "{k:3}{k:5}{k:null(int64)}", "{k:4}{x:0}"])
    for engine in ENGINES:
        keys = [format_value(v) for v in lake_of(pool).query(f"from {pool.name} | has(k) | yield k", engine=engine)]
        assert keys == ["null(int64)", "5", "4", "3", "2", "1"]


# ---- generated

POLICIES = (
    "dedupe", "replace by ts", "replace by k.a", "aggregate sum(n), max(ts) by k", "aggregate min(n), or(b) by k, s",
    "program sort ts | tail 1", "program summarize a:=max(n) by k | put n:=a | drop a",
)  # fmt: skip
VALUES = st.sampled_from(
    [
        "1",
        "2",
        "1.",
        "-7",
        '"x"',
        "null",
        "null(string)",
        "true",
        "false",
        "2024-01-01T00:00:00Z",
        "3(uint8)",
        "1.5",
        "{a:1}",
        "[1,2]",
        'error("bad")',
        "1(uint64)",
        "9223372036854775807",
        "0x01",
    ]
)
KEYS = st.sampled_from(["", "k:1,", "k:2,", "k:1.,", 'k:"x",', "k:null(int64),", "k:{a:1},", "k:null,"])
RECORDS = st.builds(
    lambda key, others: "{" + key + "".join(f"{name}:{text}," for name, text in others.items()) + "z:0}",
    KEYS,
    st.dictionaries(st.sampled_from(["ts", "n", "b", "s"]), VALUES),
)
LISTS = st.lists(
    st.lists(RECORDS | st.sampled_from(["1", '"text"', "null"]), min_size=1, max_size=6), min_size=1, max_size=5
)


@settings(max_examples=examples(25))
@given(st.sampled_from(POLICIES), LISTS, st.sampled_from(["k", "k:desc", "k,ts"]), st.data())
def test_results_are_the_same_however_objects_were_compacted(
    lake: LocalLake, policy: str, loads: list[list[str]], key: str, data: st.DataObject
) -> None:
    inline = data.draw(st.sampled_from([0, 65536]))
    pool = pool_of(lake, policy, key, [" ".join(records) for records in loads], inline=inline)
    wanted = bag(pool)
    assert bag(pool, engine="duckdb") == wanted
    table = rows(pool)
    assert table.total() == wanted.total()
    for _ in range(2):
        present = ids(pool)
        chosen = data.draw(st.lists(st.sampled_from(present), unique=True))
        try:
            pool.branch("main").compact(chosen)
        except InvalidInput:
            continue
        assert bag(pool) == wanted == bag(pool, engine="duckdb")
        assert rows(pool) == table
    tip = pool.branch("main").resolve()
    assert tip is not None
    compact_all(pool)
    assert bag(pool) == wanted == bag(pool, engine="duckdb")
    assert rows(pool) == table
    assert list(pool.diff_values(tip, "main")) == []


@pytest.mark.parametrize("seed", range(6))
def test_larger_pools_are_cut_between_keys(lake: LocalLake, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Partitions of a few hundred bytes, so that reads and compactions have many of them."""
    monkeypatch.setattr("shoal.planner.merged_sources.READ_SIZE", 2000)
    monkeypatch.setattr("shoal.lake.partitioning.partition_to_merge.__defaults__", (3000,))
    monkeypatch.setattr("shoal.lake.rewriting.LARGE", 3000)
    chance = random.Random(seed)
    policy = ("dedupe", "replace by ts", "aggregate sum(n), max(ts) by k, s")[seed % 3]
    loads = [
        "".join(
            f'{{k:{chance.randrange(60)},ts:{chance.randrange(9)},n:{chance.randrange(5)},s:"{chance.choice("ab")}"}}'
            for _ in range(150)
        )
        for _ in range(4)
    ]
    pool, plain = pool_of(lake, policy, loads=loads), pool_of(lake, "", loads=loads)
    wanted = bag(pool)
    questions = {
        "dedupe": "count() by it:=this",
        "replace by ts": "ts:=max(ts) by k | sort k",
        "aggregate sum(n), max(ts) by k, s": "n:=sum(n), ts:=max(ts) by k,s | yield {k,s,n,ts}",
    }
    answer = bag(plain, questions[policy])
    assert wanted.total() == answer.total()
    if policy.startswith("aggregate"):
        assert wanted == answer
    if policy.startswith("replace"):
        assert bag(pool, "cut k,ts") == bag(plain, "ts:=max(ts) by k | cut k,ts")
    for _ in range(2):
        for engine in ENGINES:
            assert bag(pool, engine=engine) == wanted
            assert bag(pool, "k > 20 and k <= 31", engine) == Counter(
                {text: n for text, n in wanted.items() if 20 < int(text[3:].split(",")[0]) <= 31}
            )
        assert sum(rows(pool).values()) == wanted.total()
        compact_all(pool)
    assert sum(o.count for o in pool.branch("main").objects()) == wanted.total()


def test_mixed_shapes_by_chance(lake: LocalLake) -> None:
    for seed in range(examples(4)):
        for policy in ("dedupe", "replace by ts"):
            pool = lake.create(f"chance{next(_numbers)}", key="a", policy=policy)
            loads = list(Rows(seed).loads(3, 40))
            for load in (*loads, loads[0]):
                pool.load(load)
            wanted = bag(pool)
            for _ in range(2):
                assert bag(pool) == wanted == bag(pool, engine="duckdb")
                compact_all(pool)


# ---- history


def test_a_diff_compares_what_reads_give(lake: LocalLake) -> None:
    pool = pool_of(lake, "replace by ts", loads=["{k:1,ts:1}{k:5,ts:1}", "{k:1,ts:5}{k:2,ts:1}"])
    pool.create_tag("before")
    compact_all(pool)
    assert list(pool.diff_values("before", "main")) == []
    pool.load(parse_values("{k:2,ts:0}{k:1,ts:7}"))
    changes = Counter((sign, format_value(value)) for sign, value in pool.diff_values("before", "main"))
    assert changes == Counter([("-", "{k:1,ts:5}"), ("+", "{k:1,ts:7}")])


def test_branches_merge_and_compactions_are_reverted(lake: LocalLake) -> None:
    pool = pool_of(lake, "aggregate sum(n)", loads=["{k:1,n:1}{k:2,n:1}", "{k:1,n:10}"])
    pool.create_branch("dev")
    pool.branch("dev").load(parse_values("{k:1,n:100}{k:3,n:5}"))
    compact_all(pool)
    pool.branch("main").merge("dev")
    wanted = Counter(["{k:1,n:111}", "{k:2,n:1}", "{k:3,n:5}"])
    assert bag(pool) == wanted
    compact_all(pool)
    assert bag(pool) == wanted
    pool.branch("main").revert("main")
    assert bag(pool) == wanted == bag(pool, engine="duckdb")


# ---- deletion


@pytest.mark.parametrize("is_compacted", [False, True])
def test_records_are_deleted_by_their_groups(lake: LocalLake, is_compacted: bool) -> None:
    pool = pool_of(lake, "replace by ts", loads=["{k:1,ts:1}{k:2,ts:1}", "{k:1,ts:2}"])
    if is_compacted:
        compact_all(pool)
    pool.branch("main").delete(where="k == 1")
    assert bag(pool) == Counter(["{k:2,ts:1}"])
    with pytest.raises(InvalidInput, match="fields of its groups alone, k "):
        pool.branch("main").delete(where="ts == 1")
    compact_all(pool)
    assert bag(pool) == Counter(["{k:2,ts:1}"])


def test_stored_records_are_not_updated(lake: LocalLake) -> None:
    pool = pool_of(lake, "replace by ts", loads=["{k:1,ts:1}"])
    with pytest.raises(InvalidInput, match="cannot be updated one by one"):
        pool.branch("main").update("k == 1", "put ts:=5")


def test_any_record_of_a_pool_that_dedupes_can_be_deleted(lake: LocalLake) -> None:
    pool = pool_of(lake, "dedupe", loads=["{k:1,v:1}{k:1,v:2}", "{k:1,v:1}"])
    pool.branch("main").delete(where="v == 1")
    assert bag(pool) == Counter(["{k:1,v:2}"])


# ---- what is refused

REFUSED = {
    "dedup": "did you mean dedupe",
    "dedupe by k": "stands alone",
    "replace": "replace needs the field",
    "replace by a,b": "one field is needed",
    "replace by ts:desc": "one field is needed",
    "aggregate": "merge policy: ",
    "aggregate count()": r"use sum\(n\)",
    "aggregate avg(n)": "avg of results of avg is something else",
    "aggregate collect(n)": "collect of results",
    "aggregate dcount(n) by k": "dcount of results",
    "aggregate union(n)": "union of results",
    "aggregate sum(n) by a": "have to contain the pool key k",
    "aggregate sum(n) by k:=k+1": "is computed",
    "aggregate sum(n) where n > 1": "without a condition",
    "aggregate sum(n+1)": "has to be of a field",
    "aggregate total:=sum(n)": "goes to n, not total",
    "aggregate min(n), max(n)": "one aggregate",
    "aggregate sum(k)": "one aggregate",
    "aggregate sum(n) by k | head 1": "not a list of aggregates",
    "aggregate sum(n) | yield 1": "not a list of aggregates",
    "aggregate nosuch(n)": "merge policy: ",
    "program": "needs a program",
    "program sort (": "merge policy: ",
    "program put t:=now()": "another value each time",
    "program from other": "merge policy: ",
    "program load other": "merge policy: ",
}


@pytest.mark.parametrize("policy", REFUSED)
def test_policies_that_make_no_sense_are_refused_in_one_line(lake: LocalLake, policy: str) -> None:
    with pytest.raises(InvalidInput, match=REFUSED[policy]) as info:
        lake.create("refused", key="k", policy=policy)
    assert "\n" not in str(info.value)
    assert "refused" not in [pool.name for pool in lake.pools()]


def test_a_keyed_pool_has_no_merge_policy(lake: LocalLake) -> None:
    with pytest.raises(InvalidInput, match="primary key or a merge policy"):
        lake.create("refused", key="k", primary="k", policy="dedupe")
    with pytest.raises(InvalidInput, match="not both"):
        lake.create("refused", key="k", partition="k", policy="dedupe")


def test_a_program_that_moves_records_to_other_keys_is_refused(lake: LocalLake) -> None:
    pool = pool_of(lake, "program k:=k+1", loads=["{k:1}"])
    with pytest.raises(InvalidInput, match=r"the program made \{k:2\}"):
        bag(pool)


def test_a_program_that_does_not_keep_its_word_compacts_nothing(lake: LocalLake) -> None:
    pool = pool_of(lake, "program n:=count() by k", loads=["{k:1}{k:1}", "{k:1}"])
    before = ids(pool)
    with pytest.raises(InvalidInput, match="nothing was compacted"):
        pool.branch("main").compact(before)
    assert ids(pool) == before
