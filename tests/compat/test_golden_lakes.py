"""Lakes that older versions wrote are read whole, and written to. `tools/golden_lake.py` says what is in them."""

from __future__ import annotations

import io
import tarfile
from collections import Counter
from itertools import groupby
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tools.golden_lake import KINDS

import shoal
from shoal.api.lake import Lake
from shoal.api.pool import Pool
from shoal.errors import AlreadyExists
from shoal.lake.objects import key_of
from shoal.lake.pending import pending_in
from shoal.local.lake import stored
from shoal.model.text import format_value
from shoal.testing.queries import parse_values

GOLDEN = sorted(Path(__file__).parent.glob("lake-*.tar.xz"))


@pytest.fixture(params=GOLDEN, ids=[p.name for p in GOLDEN])
def lake(request: pytest.FixtureRequest, tmp_path: Path) -> Lake:
    with tarfile.open(request.param) as tar:
        tar.extractall(tmp_path, filter="data")
    return shoal.open(str(tmp_path))


def zson(lake: Lake, program: str) -> list[str]:
    return lake.query(program).to_zson().splitlines()


def test_there_is_a_golden_lake() -> None:
    assert [p.name for p in GOLDEN] == ["lake-1.tar.xz"]


def test_every_kind_of_value_is_read_exactly(lake: Lake) -> None:
    assert [format_value(v) for v in lake.query("from kinds")] == [format_value(v) for v in parse_values(KINDS)]
    assert zson(lake, "from kinds@v1 | k==2 | yield port") == ["80(port=uint16)"]
    assert zson(lake, "from kinds:log | has(meta) | yield [author,message], meta") == [
        '["ada","one of each"]',
        '{a:1,b:|["x"]|}',
    ]


def test_history_reads_as_it_was(lake: Lake) -> None:
    pool = lake.pool("many")
    log = list(pool.log())
    assert [c.message.splitlines()[0] for c in log][:4] == [
        'merged "side" into "main"',
        "loaded 1 data object",
        "compacted 10 data objects",
        "load 39",
    ]
    assert len(log) == 43
    for i, commit in enumerate(reversed(log[3:])):
        assert zson(lake, f"from many@{commit.id} | count()") == [f"{2 * (i + 1)}(uint64)"]
    assert zson(lake, "from many | count()") == ["80(uint64)"]
    assert zson(lake, "from many@side | count()") == ["80(uint64)"]
    assert zson(lake, "from many | head 1") == ["{a:100}"]


def test_what_was_purged_renamed_and_vacated(lake: Lake) -> None:
    assert [p.name for p in lake.pools()] == ["gone", "kinds", "many", "new-name"]
    assert zson(lake, "from gone") == ["{k:2}"]
    assert len(list(lake.pool("gone").log())) == 1
    assert zson(lake, "from gone:branchlog | count()") == ["6(uint64)"]


def test_it_takes_commits(lake: Lake) -> None:
    for info in lake.pools():
        pool = lake.pool(info.name)
        before = zson(lake, f"from {info.name} | count()")
        commit = pool.load([{"k": 1000}])
        pool.revert(commit)
        assert zson(lake, f"from {info.name} | count()") == before
        assert pool.vacuum(grace=0).objects == 0


# ---- pools whose records were changed


@pytest.fixture
def changed(tmp_path: Path) -> Lake:
    with tarfile.open(Path(__file__).parent / "changes-1.tar.xz") as tar:
        tar.extractall(tmp_path, filter="data")
    return shoal.open(str(tmp_path))


def check_changed(lake: Lake, engine: str) -> None:
    """What the lake has, on an engine."""

    def ask(program: str) -> list[str]:
        return lake.query(program, engine=engine).to_zson().splitlines()

    few = [i for i in range(60_000) if i % 97 != 5]
    many = [i for i in few if i % 7 != 3 and i % 11 != 4 and i % 13 != 6]
    assert ask("from small | count(), total:=sum(k)") == [f"{{count:19(uint64),total:{sum(range(20)) - 3}}}"]
    assert ask("from rows@few | count(), total:=sum(k)") == [f"{{count:{len(few)}(uint64),total:{sum(few)}}}"]
    assert ask("from rows | count(), total:=sum(k)") == [f"{{count:{len(many)}(uint64),total:{sum(many)}}}"]
    assert ask("from keyed | count() by v | sort v") == [
        '{v:"new",count:1(uint64)}',
        '{v:"old",count:7(uint64)}',
        '{v:"text",count:1(uint64)}',
        '{v:"updated",count:1(uint64)}',
    ]
    assert ask("from days | sort k | yield k") == ["0", "2", "3", "5", "6", "8"]
    assert ask("from sums | sort host") == ['{host:"h0",n:2}', '{host:"h1",n:4}']


@pytest.mark.parametrize("engine", ["interp", "duckdb"])
def test_changed_records_are_read_and_changed_again(changed: Lake, engine: str) -> None:
    check_changed(changed, engine)
    rows = stored(changed.pool("rows"))
    (masked,) = rows.snapshot(rows.resolve()).objects()
    assert masked.mask is not None
    assert masked.mask.id is not None, "no mask of its own"
    assert any(
        o.inline for o in stored(changed.pool("small")).snapshot(stored(changed.pool("small")).resolve()).objects()
    )
    for name, record in (("keyed", {"id": 3}), ("altered", {"ts": 9, "id": 2})):
        with pytest.raises(AlreadyExists):
            changed.pool(name).load([record])
    for info in changed.pools():
        pool = changed.pool(info.name)
        if len(list(pool.objects())) > 1 and not info.settings.partition:
            pool.compact([o.id for o in pool.objects()])
        pool.vacuum(grace=0)
    check_changed(changed, engine)
    changed.pool("keyed").upsert([{"id": 3, "v": "newer"}])
    assert changed.query("from keyed | id == 3 | yield v").to_list() == ["newer"]


# ---- transactions over several pools, and rows that were moved


@pytest.fixture
def history(tmp_path: Path) -> Lake:
    with tarfile.open(Path(__file__).parent / "history-1.tar.xz") as tar:
        tar.extractall(tmp_path, filter="data")
    return shoal.open(str(tmp_path))


def test_what_writers_that_died_had_decided_counts_and_what_they_had_not_is_aborted(history: Lake) -> None:
    before = zson(history, "from orders | sort id | yield id"), zson(history, "from items | sort id | yield stock")
    assert before == (["0", "1", "7"], ["9", "9", "10", "9"])
    assert zson(history, "from :transactions | yield message") == ['"order 0"', '"order 1"', '"died with order 7"']
    for pool, record in (("orders", {"id": 9}), ("items", {"id": 9, "stock": 1})):
        assert pending_in(stored(history.pool(pool)).journal.read().entries)
        history.pool(pool).load([record])
    assert zson(history, "from orders | sort id | yield id") == ["0", "1", "7", "9"]
    assert zson(history, "from items | sort id | yield stock") == ["9", "9", "10", "9", "1"]
    assert zson(history, "from :transactions | count() by state | sort state") == [
        '{state:"aborted",count:1(uint64)}',
        '{state:"committed",count:3(uint64)}',
    ]
    ids = zson(history, "from :transactions | state == 'committed' | sort -r ts | yield ksuid(id)")
    assert [f'"{commit.transaction}"' for commit in history.pool("orders").log()][1:] == ids


def test_rows_that_were_moved_are_traced_and_merged(history: Lake) -> None:
    moved = history.pool("moved")
    lines = [(each.records and (each.records.added, each.records.deleted), each.is_maintenance) for each in moved.log()]
    assert lines == [((0, 30), False), ((0, 0), True), ((0, 30), False), *[((10_000, 0), False)] * 3]
    moved.branch("before").delete(where="k % 1000 == 9")
    moved.merge("before")
    assert zson(history, "from moved | count()") == ["29910(uint64)"]
    assert zson(history, "from moved | k % 1000 == 7 or k % 1000 == 8 or k % 1000 == 9 | count()") == []
    first = list(moved.log())[-1]
    moved.revert(first.id)
    assert zson(history, "from moved | count() by load | sort load | yield load") == ["1", "2"]
    assert zson(history, "from sums | sort host") == ['{host:"h0",n:2}', '{host:"h1",n:4}']


# ---- changes of commits that do not say what they did


@pytest.mark.parametrize("name", ["lake-1", "changes-1"])
def test_the_changes_of_old_commits_make_their_states(name: str, tmp_path: Path) -> None:
    with tarfile.open(Path(__file__).parent / f"{name}.tar.xz") as tar:
        tar.extractall(tmp_path, filter="data")
    lake = shoal.open(str(tmp_path))
    for info in lake.pools():
        pool = lake.pool(info.name)
        log = list(pool.log())[::-1]
        assert [(commit.records, commit.is_maintenance) for commit in log] == [(None, False)] * len(log)
        if info.settings.policy or info.name == "gone":
            continue  # whose states are merged, or begin later than history
        state: Counter[str] = Counter()
        moving = 0
        feed = {commit: list(changes) for commit, changes in groupby(pool.changes(), lambda change: change.commit)}
        for commit in log:
            changes = feed.get(commit.id, [])
            moving += not changes
            state.subtract(format_value(change.before) for change in changes if change.before is not None)
            state.update(format_value(change.after) for change in changes if change.after is not None)
            assert +state == Counter(zson(lake, f"from {pool.pool_id}@{commit.id}")), commit
        assert moving == sum(commit.message.startswith("compacted") for commit in log)


# ---- objects in column form, whose columns version 0.1.0 named after the shapes of each object alone

LEVELS = [
    "{k:1,level:3,r:{x:1}}",
    '{k:2,level:"high",R:1}',
    '{k:3,level:"low",r:{x:"s",X:1},R:2}',
    "{k:4,level:4,r:[{x:1}]}",
    "{k:5,r:{}}",
]


@pytest.fixture
def levels(tmp_path: Path) -> Lake:
    with tarfile.open(Path(__file__).parent / "columns-1.tar.xz") as tar:
        tar.extractall(tmp_path, filter="data")
    return shoal.open(str(tmp_path))


def columns(pool: Pool) -> list[dict[str, int | None]]:
    """The columns of each object, with their field ids."""
    inner = stored(pool)
    objects = inner.snapshot(inner.resolve()).objects()
    schemas = [pq.read_schema(io.BytesIO(inner.store.get(key_of(inner.prefix, o)))) for o in objects]
    return [{field.name: _field_id(field) for field in schema if field.name != "$shape"} for schema in schemas]


def _field_id(field: pa.Field) -> int | None:
    return int(field.metadata[b"PARQUET:field_id"]) if field.metadata else None


@pytest.mark.parametrize("engine", ["interp", "duckdb"])
def test_objects_with_the_old_names_are_read(levels: Lake, engine: str) -> None:
    assert columns(levels.pool("levels")) == [
        dict.fromkeys(names)
        for names in (
            ["k", "level", "level$string", "r", "R$2"],
            ["k", "level", "r", "R$2"],
            ["k", "level", "r"],
            ["k", "r"],
        )
    ]
    for program, rows in (("*", LEVELS), ("level=='low'", LEVELS[2:3]), ("r.x == 1", LEVELS[:1])):
        assert levels.query(f"from levels | {program}", engine=engine).to_zson().splitlines() == rows


@pytest.mark.parametrize("engine", ["interp", "duckdb"])
def test_new_objects_beside_old_ones_are_stable(levels: Lake, engine: str) -> None:
    more = ['{k:6,level:"x"}', "{k:7,level:1}", '{k:8,level:"y",r:{}}']
    pool = levels.pool("levels")
    for row in more:
        pool.load(row.encode(), format="zson")
    new = columns(pool)[4:]
    assert new == [{"k": 1, "level": 2}, {"k": 1, "level$int64": 3}, {"k": 1, "level": 2, "r": 4}]
    for program, rows in (("*", LEVELS + more), ("level=='low' or level=='y'", [LEVELS[2], more[2]])):
        assert zson(levels, f"from levels | {program}") == rows
        assert levels.query(f"from levels | {program}", engine=engine).to_zson().splitlines() == rows
    pool.compact([o.id for o in pool.objects()])
    (compacted,) = columns(pool)
    assert compacted.items() >= {"k": 1, "level": 2, "level$int64": 3}.items()
    assert None not in compacted.values()
    assert levels.query("from levels", engine=engine).to_zson().splitlines() == LEVELS + more
