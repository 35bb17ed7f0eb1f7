"""Pools with partitions: what an object holds, and what becomes of whole partitions."""

from __future__ import annotations

import random
from functools import partial
from pathlib import Path

import pytest

import shoal
from shoal.api.branch import Branch
from shoal.api.lake import Lake
from shoal.api.options import ReadOptions
from shoal.api.pool import Pool
from shoal.errors import Conflict, InvalidInput, NotFound, ShoalError
from shoal.formats.columns.batches import batch_of
from shoal.lake import partition_writer
from shoal.lake.lake import Lake as StoredLake
from shoal.lake.lake import create as create_in
from shoal.local import partitions as verbs
from shoal.local.lake import LocalLake, stored
from shoal.model.parse import parse_value
from shoal.model.text import format_value
from shoal.planner import lake_query
from shoal.storage.faults import FaultyStore
from shoal.storage.memory import MemoryStore
from shoal.testing.agreement import Questions, Rows, difference, is_ordered, outcome
from shoal.testing.tiers import examples

DAYS = [f"2024-01-{day:02}T00:00:00Z" for day in range(1, 29)]


@pytest.fixture
def pool(lake: Lake) -> Pool:
    return lake.create("logs", key="k", partition="bucket(ts,1d)")


def rows(*texts: str) -> bytes:
    return " ".join(f"{{{text}}}" for text in texts).encode()


def day(number: int, *keys: int) -> bytes:
    """Records of a day in January."""
    return rows(*(f"k:{key},ts:2024-01-{number:02}T12:00:00Z" for key in keys))


def load(pool: Branch, data: bytes) -> str:
    return pool.load(data, format="zson")


def listed(pool: Branch) -> list[tuple[str, int, int]]:
    return [(format_value(p.value or parse_value('"?"')), p.objects, p.records) for p in pool.partitions()]


def keys(pool: Branch) -> list[int]:
    return sorted(value.data for value in pool.query("yield k"))


# ---- loads


def test_an_object_has_records_of_one_partition(pool: Pool) -> None:
    load(pool, day(1, 1, 2) + day(2, 3) + day(1, 4))
    assert listed(pool) == [(DAYS[0], 1, 3), (DAYS[1], 1, 1)]
    load(pool, day(2, 5))
    assert listed(pool) == [(DAYS[0], 1, 3), (DAYS[1], 2, 2)]
    assert keys(pool) == [1, 2, 3, 4, 5]
    assert sum(p.size for p in pool.partitions()) == sum(o.size for o in pool.objects())


def test_null_and_missing_are_partitions_of_their_own(pool: Pool) -> None:
    load(pool, day(1, 1) + rows("k:2,ts:null", "k:3,ts:null(time)", "k:4", 'k:5,"other":1'))
    assert listed(pool) == [(DAYS[0], 1, 1), ('error("missing")', 1, 2), ("null", 1, 2)]
    pool.delete(partition="null")
    pool.delete(partition="missing")
    assert keys(pool) == [1]


def test_a_record_for_which_the_expression_fails_is_named_and_nothing_is_loaded(pool: Pool) -> None:
    data = day(1, 1, 2) + rows('k:3,ts:"yesterday"')
    with pytest.raises(InvalidInput) as e:
        load(pool, data)
    assert str(e.value) == (
        'record 3: the partition expression bucket(ts,1d) is error({message:": first argument is not a time",'
        'on:"yesterday"}) for {k:3,ts:"yesterday"}'
    )
    assert list(pool.log()) == []
    with pytest.raises(InvalidInput, match=r"^record 2: the partition expression"):
        pool.load([{"k": 1}, {"k": 2, "ts": "x"}])
    assert pool.resolve() is None


def test_the_first_bad_record_of_several_shapes_is_named(pool: Pool) -> None:
    with pytest.raises(InvalidInput, match=r"^record 2: .*for {ts:true}"):
        load(pool, day(1, 1) + rows("ts:true", 'k:3,ts:"x"', "ts:true"))


def test_values_are_too_long_to_be_partitions(lake: Lake) -> None:
    pool = lake.create("p", key="k", partition="s")
    pool.load([{"k": 1, "s": "x" * 1000}])
    with pytest.raises(InvalidInput, match=r"record 1: the partition expression s has more than 4096 bytes"):
        pool.load([{"k": 2, "s": "x" * 5000}])


def test_numbers_of_several_types_are_named_together(lake: Lake) -> None:
    pool = lake.create("p", key="k", partition="n")
    load(pool, rows("k:1,n:1", "k:2,n:1(uint8)", "k:3,n:1.", "k:4,n:2"))
    assert len(listed(pool)) == 4
    pool.delete(partition="1")
    assert keys(pool) == [4]


@pytest.mark.direct
def test_open_partitions_are_bounded(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(partition_writer, "MOST_OPEN", 3)
    pool = lake.create("p", key="k", partition="n")
    load(pool, rows(*(f"k:{k},n:{k % 5}" for k in range(50))))
    assert [(records, objects > 0) for _, objects, records in listed(pool)] == [(10, True)] * 5
    list(pool.compact_all())
    assert [objects for _, objects, _ in listed(pool)] == [1] * 5
    assert keys(pool) == list(range(50))


@pytest.mark.direct
def test_partitions_together_keep_within_memory(lake: Lake) -> None:
    pool = stored(lake.create("p", key="k", partition="n", inline=0))
    writer = pool.writer(memory=1 << 20)
    assert isinstance(writer, partition_writer.PartitionWriter)
    for start in range(20):
        values = [parse_value(f'{{k:{k},n:{k % 4},s:"{"x" * 500}"}}') for k in range(200 * start, 200 * (start + 1))]
        writer.write_batch(batch_of(values))
        assert sum(writer._sizes.values()) < (1 << 20) // 4 + 200 * 600
    objects = writer.close()
    assert len(objects) > 4
    assert sum(o.count for o in objects) == 4000


def test_a_bad_record_that_is_left_out_is_counted(pool: Pool) -> None:
    options = ReadOptions(bad="skip")
    lines = b'{"k":1}\n{"k":\n{"k":2}\n'
    commit = pool.load(lines, format="json", options=options)
    assert pool.report(commit).skipped == 1
    assert keys(pool) == [1, 2]


def test_small_loads_are_part_of_their_commits(lake: Lake) -> None:
    pool = lake.create("small", key="k", partition="bucket(ts,1d)", inline=64 << 10)
    load(pool, b"".join(day(number, number) for number in range(1, 29)))
    if isinstance(lake, LocalLake):
        assert not list(lake.root.store.list(f"{pool.id}/data/"))
    assert len(listed(pool)) == 28


# ---- compaction


def test_compaction_stays_inside_of_partitions(pool: Pool) -> None:
    for number in range(4):
        load(pool, day(1, number) + day(2, 10 + number))
    runs = pool.compact_runs()
    assert sorted(map(len, runs)) == [4, 4]
    assert [done.error for done in pool.compact_all()] == ["", ""]
    assert listed(pool) == [(DAYS[0], 1, 4), (DAYS[1], 1, 4)]
    assert pool.compact_runs() == []
    assert keys(pool) == [0, 1, 2, 3, 10, 11, 12, 13]


def test_objects_of_several_partitions_are_compacted_apart(pool: Pool) -> None:
    commits = [load(pool, day(1, 1) + day(2, 2)), load(pool, day(1, 3) + day(2, 4) + day(3, 5))]
    pool.compact(commits)
    assert listed(pool) == [(DAYS[0], 1, 2), (DAYS[1], 1, 2), (DAYS[2], 1, 1)]
    with pytest.raises(InvalidInput, match="different partitions, which stay apart"):
        pool.compact([o.id for o in pool.objects()])


# ---- whole partitions


@pytest.mark.direct
def test_the_deletion_of_a_day_reads_and_writes_no_data() -> None:
    store = FaultyStore(MemoryStore(), lambda number, name, key: None)
    lake = LocalLake(create_in(store))
    pool = lake.create("logs", key="k", partition="bucket(ts,1d)", inline=0)
    load(pool, rows(*(f"k:{k},ts:{DAYS[k % 28]}" for k in range(2800))))
    for partition, where in (
        (DAYS[3], None),
        (None, f"ts >= {DAYS[4]} and ts < {DAYS[5]}"),
        (None, f"bucket(ts,1d) in [{DAYS[6]},{DAYS[7]}]"),
    ):
        fresh = LocalLake(StoredLake(store, lake.root.info)).pool("logs")
        before = len(list(fresh.log()))
        store.calls.clear()
        fresh.delete(partition=partition, where=where)
        assert [key for _, key in store.calls if "/data/" in key or "/masks/" in key] == []
        assert len(list(fresh.log())) == before + 1
    assert len(listed(pool)) == 24
    assert len(keys(pool)) == 2400


def test_a_partition_that_is_not_there_is_not_deleted(pool: Pool, lake: Lake) -> None:
    load(pool, day(1, 1))
    with pytest.raises(NotFound, match=r"2024-02-01T00:00:00Z: no such partition \(see: shoal ls -partitions logs\)"):
        pool.delete(partition="2024-02-01T00:00:00Z")
    with pytest.raises(InvalidInput, match="plain: this pool has no partitions"):
        lake.create("plain").delete(partition="1")
    with pytest.raises(InvalidInput, match="plain: this pool has no partitions"):
        list(lake.pool("plain").partitions())
    with pytest.raises(InvalidInput, match="not both"):
        pool.delete(["x"], partition="1")


def test_a_rewrite_replaces_the_records_of_a_partition(pool: Pool) -> None:
    load(pool, day(1, 1, 2) + day(2, 3))
    load(pool, day(1, 4))
    pool.rewrite(DAYS[0], "where k != 2 | put n := k * 10")
    assert listed(pool) == [(DAYS[0], 1, 2), (DAYS[1], 1, 1)]
    assert sorted(map(format_value, pool.query("cut k, n"))) == [
        '{k:1,n:10}', '{k:3,n:error("missing")}', '{k:4,n:40}'
    ]  # fmt: skip
    (commit, *_) = pool.log()
    pool.revert(commit.id)
    assert keys(pool) == [1, 2, 3, 4]


def test_a_rewrite_to_nothing_deletes_the_partition(pool: Pool) -> None:
    load(pool, day(1, 1, 2) + day(2, 3))
    pool.rewrite(DAYS[0], "where false")
    assert keys(pool) == [3]


def test_a_rewrite_stays_in_its_partition(pool: Pool, lake: Lake) -> None:
    load(pool, day(1, 1, 2) + day(2, 3))
    before = pool.resolve()
    with pytest.raises(InvalidInput) as e:
        pool.rewrite(DAYS[0], "sort k | put ts := k == 2 ? ts + 1d : ts")
    assert str(e.value).splitlines()[-1] == (
        f"record 2: the program gives a record of partition {DAYS[1]}, not {DAYS[0]} "
        "(a rewrite stays in its partition: load other records)"
    )
    with pytest.raises(InvalidInput, match="the program has a source of its own"):
        pool.rewrite(DAYS[0], "from logs")
    with pytest.raises(NotFound, match="no such partition"):
        pool.rewrite("null", "pass")
    assert pool.resolve() == before


@pytest.mark.parametrize("engine", ["interp", "duckdb"])
def test_a_rewrite_may_join_other_pools(lake: Lake, pool: Pool, engine: str) -> None:
    lake.create("names", key="k").load([{"k": 1, "name": "one"}])
    load(pool, day(1, 1, 2) + day(2, 1))
    pool.rewrite(DAYS[0], "left join (from names) on k name", engine=engine)
    assert sorted(map(format_value, pool.query("has(name) | cut k, name"))) == ['{k:1,name:"one"}']
    assert keys(pool) == [1, 1, 2]


@pytest.mark.direct
def test_a_rewrite_conflicts_with_records_that_come_into_the_partition(
    pool: Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    load(pool, day(1, 1) + day(2, 2))

    def meanwhile(data: bytes) -> None:
        ask = lake_query.ask

        def late(*args: object) -> object:
            monkeypatch.setattr(verbs, "ask", ask)
            load(pool, data)
            return ask(*args)  # type: ignore[arg-type]

        monkeypatch.setattr(verbs, "ask", late)

    meanwhile(day(2, 3))
    pool.rewrite(DAYS[0], "put x := 1")
    meanwhile(day(1, 4))
    with pytest.raises(Conflict, match=r"^rewrite: \w+ came into this partition meanwhile \(repeat the rewrite\)"):
        pool.rewrite(DAYS[0], "put x := 2")
    assert keys(pool) == [1, 2, 3, 4]
    pool.rewrite(DAYS[0], "put x := 3")
    assert len(list(pool.query("x == 3"))) == 2


def test_deletions_of_records_keep_the_partition(pool: Pool) -> None:
    load(pool, day(1, *range(10)) + day(2, *range(10, 20)))
    pool.delete(where="k < 3 or k in [11,12,13,14,15,16,17]")
    assert listed(pool) == [(DAYS[0], 1, 7), (DAYS[1], 1, 3)]
    pool.delete(where="k >= 4 and k < 9")
    assert listed(pool) == [(DAYS[0], 1, 2), (DAYS[1], 1, 3)]
    pool.delete(partition=DAYS[0])
    assert keys(pool) == [10, 18, 19]


def test_transactions_load_and_delete_in_partitions(pool: Pool) -> None:
    load(pool, day(1, 1) + day(2, 2))
    with pool.transaction() as tx:
        tx.delete(where=f"bucket(ts,1d) == {DAYS[0]}")
        tx.load(day(3, 3), format="zson")
    assert listed(pool) == [(DAYS[1], 1, 1), (DAYS[2], 1, 1)]


def test_the_operator_load_divides_records(pool: Pool, lake: Lake) -> None:
    source = lake.create("source", key="k")
    load(source, day(1, 1) + day(2, 2))
    lake.query("from source | load logs").to_list()
    assert len(listed(pool)) == 2


def test_a_lake_that_is_opened_again_knows_its_partitions(tmp_path: Path) -> None:
    made = shoal.create(tmp_path / "lake")
    load(made.create("p", key="k", partition="bucket(ts,1d)"), day(1, 1) + day(2, 2))
    again = shoal.open(tmp_path / "lake").pool("p")
    load(again, day(1, 3))
    assert listed(again) == [(DAYS[0], 2, 2), (DAYS[1], 1, 1)]
    assert again.info().settings.partition == "bucket(ts,1d)"


# ---- the same as without partitions


BY = ("a", "k", "s", "{a,n}", "typeof(b)", "bucket(ts,1h)", "has(r) ? 1 : 0", "kind(this)")


@pytest.mark.direct
@pytest.mark.parametrize("seed", range(examples(6)))
def test_pools_with_partitions_answer_as_pools_without(lake: Lake, seed: int) -> None:
    dice, questions = random.Random(seed), Questions(seed)
    divided, whole = lake.create("parts", key="k", partition=BY[seed % len(BY)]), lake.create("whole", key="k")
    for values in Rows(seed).loads(4, 60):
        try:
            divided.load(values)
        except InvalidInput as e:
            assert "the partition expression" in str(e)
            continue
        whole.load(values)
        step(dice, divided, whole)
        for _ in range(4):
            compare(lake, dice, questions.question("whole"))
    list(divided.compact_all())
    for _ in range(8):
        compare(lake, dice, questions.question("whole"))
    partitions = [o.partition for o in stored(divided).snapshot(stored(divided).resolve()).objects()]
    assert None not in partitions


def step(dice: random.Random, divided: Pool, whole: Pool) -> None:
    """Change both in the same way."""
    condition = dice.choice(("k == 1", "a > 1", "has(r)", "s == 'x'", "where is_error(e)", "n < 3 or b == true"))
    kind = dice.randrange(4)
    if kind == 0:
        errors = []
        for pool in (divided, whole):
            try:
                pool.delete(where=condition)
            except InvalidInput as e:  # nothing matched
                errors.append(str(e))
        assert len(errors) in (0, 2)
    elif kind == 1:
        for pool in (divided, whole):
            before = pool.resolve()
            pool.create_branch("side")
            side = pool.branch("side")
            try:
                side.delete(where=condition)
                pool.merge("side")
            except ShoalError:
                assert pool.resolve() == before
            pool.drop_branch("side")
    elif kind == 2:
        for pool in (divided, whole):
            commit = pool.resolve()
            assert commit is not None
            pool.revert(commit)
    else:
        list(divided.compact_all())


FILTERS = ("", "where k == 1 | ", "where a > 1 or s == 'x' | ", "where has(r) and n <= 2 | ", "where kind(k) == 'x' | ")


def compare(lake: Lake, dice: random.Random, question: str) -> None:
    """Both pools, by every engine. Records with equal keys may come in another order, and so are sorted."""
    program = f"{dice.choice(FILTERS)}sort typeof(this), this | {question}"
    answers = [
        outcome(partial(lake.query, f"from {name} | {program}", engine=engine))
        for engine in ("interp", "duckdb")
        for name in ("whole", "parts")
    ]
    for answer in answers[1:]:
        shown = answer.replace("parts", "whole") if isinstance(answer, str) else answer
        assert difference(answers[0], shown, is_ordered(question)) is None, question
