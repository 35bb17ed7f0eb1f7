"""A lake from Python: pools, loads, queries, and what they say when something is wrong."""

from __future__ import annotations

import bz2
import zipfile
from pathlib import Path

import pytest

import shoal
from shoal.api.lake import Lake
from shoal.api.options import ReadOptions
from shoal.api.pool import Pool
from shoal.errors import AlreadyExists, Conflict, InvalidInput, NotFound
from shoal.ids import new, to_text
from shoal.testing.files import FILES


@pytest.fixture
def pool(lake: Lake) -> Pool:
    return lake.create("logs", key="ts")


def zson(lake: Lake, program: str, **options: str) -> list[str]:
    return lake.query(program, **options).to_zson().splitlines()  # type: ignore[arg-type]


# ---- opening


def test_a_lake_in_a_directory_is_there_for_the_next_process(tmp_path: Path) -> None:
    made = shoal.create(str(tmp_path / "lake"))
    made.create("logs", key="ts").load([{"ts": 1}])
    again = shoal.open(str(tmp_path / "lake"))
    assert zson(again, "from logs") == ["{ts:1}"]
    assert again.status().id == made.status().id
    assert again.uri == f"file://{tmp_path / 'lake'}"
    with pytest.raises(NotFound, match="lake does not exist"):
        shoal.open(str(tmp_path / "other"))
    with pytest.raises(AlreadyExists):
        shoal.create(str(tmp_path / "lake"))


def test_memory_lakes_of_one_name_are_one() -> None:
    name = f"memory://{to_text(new())}"
    shoal.create(name).create("p")
    assert [p.name for p in shoal.open(name).pools()] == ["p"]


# ---- pools


@pytest.mark.parametrize(
    ("key", "order", "expected"),
    [
        ("ts", None, (("ts",), "asc")),
        ("ts:desc", None, (("ts",), "desc")),
        (["a.b", "c"], "desc", (("a.b", "c"), "desc")),
        ("this", None, (("this",), "asc")),
    ],
)
def test_keys_of_pools(
    lake: Lake, key: str | list[str], order: str | None, expected: tuple[tuple[str, ...], str]
) -> None:
    info = lake.create("p", key=key, order=order).info()
    assert (info.key, info.order) == expected


def test_an_order_that_is_given_twice_or_is_none_is_refused(lake: Lake) -> None:
    with pytest.raises(InvalidInput, match="twice"):
        lake.create("p", key="ts:asc", order="desc")
    with pytest.raises(InvalidInput, match="asc or desc"):
        lake.create("p", key="ts", order="up")
    assert lake.pools() == []


def test_pools_are_renamed_and_dropped(lake: Lake, pool: Pool) -> None:
    pool.load([{"ts": 1}])
    assert lake.rename("logs", "events").name == "events"
    assert zson(lake, "from events") == ["{ts:1}"]
    lake.drop("events")
    assert lake.pools() == []
    with pytest.raises(InvalidInput, match="events: pool not found"):
        lake.query("from events")


# ---- loading


def test_anything_that_a_query_reads_can_be_loaded(lake: Lake, pool: Pool, tmp_path: Path) -> None:
    file = tmp_path / "in.csv"
    file.write_text("ts,word\n1,one\n")
    pool.load(file)
    pool.load(b'{"ts":2,"word":"two"}')
    with file.open("rb") as opened:
        pool.load(opened, format="csv")
    pool.load([{"ts": 3}, shoal.query("yield {ts:4}").one()])
    pool.load(shoal.query("yield {ts:5}").to_arrow())
    assert zson(lake, "from logs | cut ts | sum(ts), count()") == ["{sum:16,count:6(uint64)}"]


@pytest.mark.parametrize("name", FILES)
def test_files_of_other_programs_are_loaded(name: str, lake: Lake, pool: Pool, tmp_path: Path) -> None:
    path = tmp_path / f"in.{name}"
    path.write_bytes(FILES[name])
    pool.load([path])
    pool.load(bz2.compress(FILES[name]))
    pool.load(FILES[name], format=name)
    assert zson(lake, "from logs | yield b | sort this") == ['"x"'] * 3 + ['"é"'] * 3


def test_text_of_another_encoding_and_archives_are_loaded(lake: Lake, pool: Pool, tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "in.zip", "w") as archive:
        archive.writestr("a.csv", "ts,s\n1,é\n".encode("latin-1"))
        archive.writestr("b.csv", "ts,s\n2,è\n".encode("latin-1"))
    pool.load(tmp_path / "in.zip", options=ReadOptions(encoding="latin-1"))
    pool.load("ts,s\n3,ê\n".encode("utf-16"))
    assert zson(lake, "from logs | yield s") == ['"é"', '"è"', '"ê"']
    with pytest.raises(InvalidInput, match=r"a\.zip: zip: File is not a zip file"):
        (tmp_path / "a.zip").write_bytes(b"PK\x03\x04 no zip")
        pool.load(tmp_path / "a.zip")


def test_what_is_said_of_a_commit_is_in_the_log(pool: Pool) -> None:
    commit = pool.load([{"ts": 1}], author="ada", message="first", meta={"ticket": 7})
    (entry,) = pool.log()
    assert (entry.id, entry.author, entry.message, shoal.to_python(entry.meta)) == (
        commit,
        "ada",
        "first",
        {"ticket": 7},
    )


def test_the_author_is_the_user_of_the_environment(pool: Pool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SHOAL_USER", raising=False)
    monkeypatch.setenv("ZED_USER", "zed@example.com")
    pool.load([{"ts": 1}])
    monkeypatch.setenv("SHOAL_USER", "shoal@example.com")
    pool.load([{"ts": 2}])
    assert [c.author for c in pool.log()] == ["shoal@example.com", "zed@example.com"]


def test_a_load_that_cannot_be_read_to_its_end_commits_nothing(lake: Lake, pool: Pool, tmp_path: Path) -> None:
    good, bad = tmp_path / "good.ndjson", tmp_path / "bad.ndjson"
    good.write_text('{"ts":1}\n')
    bad.write_text('{"ts":2}\n{"ts":\n')
    with pytest.raises(InvalidInput, match=r"bad\.ndjson"):
        pool.load([good, bad])
    assert zson(lake, "from logs") == []
    assert pool.resolve() is None


def test_a_load_with_an_id_happens_once(lake: Lake, pool: Pool) -> None:
    ident = to_text(new())
    first = pool.load([{"ts": 1}], op=ident)
    assert pool.load([{"ts": 1}], op=ident) == first
    assert zson(lake, "from logs | count()") == ["1(uint64)"]
    with pytest.raises(InvalidInput, match="invalid id"):
        pool.load([{"ts": 1}], op="nonsense")


@pytest.mark.parametrize("branch", ["nowhere", ""])
def test_a_load_onto_no_branch_is_refused(pool: Pool, branch: str) -> None:
    with pytest.raises(NotFound, match="branch not found"):
        pool.branch(branch).load([{"ts": 1}])


# ---- branches and time


def test_branches_tags_ids_and_times(lake: Lake, pool: Pool) -> None:
    first = pool.load([{"ts": 1}])
    pool.create_branch("dev")
    pool.create_tag("v1", at=first)
    pool.branch("dev").load([{"ts": 2}])
    assert zson(lake, "from logs@dev") == ["{ts:1}", "{ts:2}"]
    assert zson(lake, "from logs@v1") == zson(lake, f"from logs@{first}") == zson(lake, "from logs") == ["{ts:1}"]
    assert zson(lake, "from logs@2100-01-01T00:00:00Z") == ["{ts:1}"]
    assert [(b.name, b.commit == first) for b in pool.branches()] == [("dev", False), ("main", True)]
    pool.merge("dev")
    assert zson(lake, "from logs") == ["{ts:1}", "{ts:2}"]
    pool.drop_branch("dev")
    pool.drop_tag("v1")
    assert ([b.name for b in pool.branches()], pool.tags()) == (["main"], [])


def test_diff_in_objects_and_in_values(pool: Pool) -> None:
    first = pool.load([{"ts": 1}, {"ts": 2}])
    pool.load([{"ts": 3}])
    pool.delete(where="ts==1")
    diff = pool.diff(first, "main")
    assert ([o.count for o in diff.added], [o.count for o in diff.removed]) == ([1, 1], [2])
    changed = [(mark, shoal.to_python(value)) for mark, value in pool.diff_values(first, "main")]
    assert changed == [("-", {"ts": 1}), ("+", {"ts": 3})]
    assert list(pool.diff_values("main", "main")) == []


def test_delete_where_takes_any_filter(lake: Lake, pool: Pool) -> None:
    pool.load([{"ts": 1, "s": "a"}, {"ts": 2}, {"ts": 3, "s": "b"}, {"x": 1}])
    pool.delete(where="len(s) > 0 and s != 'b'")
    assert zson(lake, "from logs") == ["{ts:2}", '{ts:3,s:"b"}', "{x:1}"]
    pool.delete(where="has(x)")
    assert zson(lake, "from logs") == ["{ts:2}", '{ts:3,s:"b"}']
    with pytest.raises(InvalidInput, match="empty transaction"):
        pool.delete(where="ts > 100")
    with pytest.raises(InvalidInput, match="single filter"):
        pool.delete(where="ts > 1 | cut ts")
    with pytest.raises(InvalidInput, match="not both"):
        pool.delete([to_text(new())], where="true")


def test_delete_by_ids_takes_objects_and_commits(lake: Lake, pool: Pool) -> None:
    first, second = pool.load([{"ts": 1}]), pool.load([{"ts": 2}])
    (o,) = [o for o in pool.objects() if shoal.to_python(o.min) == 1]
    pool.delete([o.id])
    pool.delete([second])
    assert zson(lake, "from logs") == []
    with pytest.raises(NotFound):
        pool.delete([first])
    with pytest.raises(InvalidInput, match="invalid id"):
        pool.delete(["nonsense"])


def test_compact_revert_rebase(lake: Lake, pool: Pool) -> None:
    first = pool.load([{"ts": 1}])
    pool.create_branch("dev")
    pool.branch("dev").load([{"ts": 2}])
    pool.load([{"ts": 3}])
    pool.branch("dev").rebase("main")
    pool.branch("dev").compact([o.id for o in pool.objects("dev")])
    assert zson(lake, "from logs@dev") == ["{ts:1}", "{ts:2}", "{ts:3}"]
    assert len(list(pool.objects("dev"))) == 1
    pool.revert(first)
    assert zson(lake, "from logs") == ["{ts:3}"]
    with pytest.raises(NotFound, match="commit not found"):
        pool.revert(to_text(new()))


def test_cherry_pick_applies_one_commit_of_another_branch(lake: Lake, pool: Pool) -> None:
    pool.load([{"ts": 1}])
    dev = pool.create_branch("dev")
    wanted = dev.load([{"ts": 2}], message="wanted")
    dev.load([{"ts": 3}])
    picked = pool.cherry_pick(wanted, author="ada")
    assert zson(lake, "from logs") == ["{ts:1}", "{ts:2}"]
    commit = next(iter(pool.log()))
    assert (commit.id, commit.author, commit.message) == (picked, "ada", "wanted")
    with pytest.raises(InvalidInput, match='its changes are in "main" already'):
        pool.cherry_pick(wanted)
    pool.merge("dev")
    assert zson(lake, "from logs") == ["{ts:1}", "{ts:2}", "{ts:3}"]
    with pytest.raises(NotFound, match="commit not found"):
        pool.cherry_pick(to_text(new()))


# ---- queries


def test_several_pools_in_one_query(lake: Lake, pool: Pool) -> None:
    pool.load([{"ts": 1}])
    lake.create("lots", key="ts").load([{"ts": 2}])
    assert zson(lake, "from l* | sort ts") == ["{ts:1}", "{ts:2}"]
    assert zson(lake, "from /^lo.s$/ | sort ts") == ["{ts:1}", "{ts:2}"]
    assert zson(lake, "from ( pool logs => put p:=1 pool lots => put p:=2 ) | sort ts") == ["{ts:1,p:1}", "{ts:2,p:2}"]
    assert zson(lake, "from logs | join (from lots | put ts:=ts-1) on ts=ts other:=ts") == ["{ts:1,other:1}"]
    with pytest.raises(InvalidInput, match="pool matching glob not found"):
        lake.query("from x*")


def test_a_query_without_a_source_reads_the_head(lake: Lake, pool: Pool) -> None:
    pool.load([{"ts": 1}, {"ts": 2}])
    assert zson(lake, "ts > 1", head="logs@main") == ["{ts:2}"]
    assert zson(lake, "from HEAD | count()", head="logs") == ["2(uint64)"]
    assert zson(lake, "yield 1 + 1") == ["2"]
    with pytest.raises(InvalidInput, match="query must include a 'from' operator"):
        lake.query("ts > 1")
    with pytest.raises(NotFound, match="pool not found"):
        lake.query("*", head="nowhere")


def test_the_operator_load_makes_a_commit(lake: Lake, pool: Pool) -> None:
    target = lake.create("copy", key="ts")
    pool.load([{"ts": 1}, {"ts": 2}])
    (commit,) = lake.query('from logs | ts > 1 | load copy author "ada" message "some" meta "{a:1}"')
    (entry,) = target.log()
    assert (to_text(commit.data), entry.author, entry.message) == (entry.id, "ada", "some")
    assert zson(lake, "from copy") == ["{ts:2}"]
    assert list(lake.query("from logs | ts > 9 | load copy")) == []
    assert len(list(target.log())) == 1


def test_a_query_sees_one_commit_of_a_pool_however_long_it_runs(lake: Lake, pool: Pool) -> None:
    pool.load([{"ts": 1}])
    results = iter(lake.query("from ( pool logs => pass pool logs => pass )"))
    first = next(results)
    pool.load([{"ts": 0}])
    assert [shoal.to_python(v) for v in (first, *results)] == [{"ts": 1}, {"ts": 1}]


def test_a_range_is_a_filter_on_the_key_in_either_direction(lake: Lake) -> None:
    for order in ("asc", "desc"):
        lake.create(order, key="ts", order=order).load([{"ts": i} for i in range(9)] + [{"x": 1}])
        for span in ("3 to 5", "5 to 3"):
            assert sorted(zson(lake, f"from {order} range {span}")) == ["{ts:3}", "{ts:4}", "{ts:5}"]


def test_statistics_count_what_was_read_after_pruning(lake: Lake) -> None:
    lake.create("p", key="ts", seek_stride=1).load([{"ts": i} for i in range(100)])
    results = lake.query("from p | ts >= 10 and ts < 13", statistics=True).hold()
    assert (results.statistics.records_read, results.statistics.records_matched) == (3, 3)


@pytest.mark.parametrize(("stride", "most"), [(2_000, 1_000), (10_000, 5_000), (16_000, 8_065)])
def test_a_smaller_seek_stride_reads_fewer_records(lake: Lake, stride: int, most: int) -> None:
    """At most those that `zed` v1.18 reads for this filter, in a pool of these records and this stride."""
    records = [{"ts": i, "host": f"web-{i % 7}", "status": 200 + i % 3, "took": i % 100 + 0.5} for i in range(20_000)]
    lake.create("p", key="ts", seek_stride=stride).load(records)
    results = lake.query("from p | ts == 7777", statistics=True).hold()
    assert 1 <= results.statistics.records_read <= most
    assert results.statistics.records_matched == 1


def test_warnings_tell_of_purged_objects(lake: Lake, pool: Pool) -> None:
    first = pool.load([{"ts": 1}])
    (o,) = pool.objects()
    with pytest.raises(Conflict):
        pool.purge([o.id])
    pool.delete([o.id])
    assert pool.purge([first]) == [o.id]
    warnings: list[str] = []
    assert list(lake.query(f"from logs@{first}", on_warning=warnings.append)) == []
    assert warnings == [f"logs: data object {o.id} (1 records) was purged and is left out"]


# ---- metadata


@pytest.mark.inline
def test_metadata_has_the_shapes_that_are_documented(lake: Lake, pool: Pool) -> None:
    pool.load([{"ts": 1}, {"ts": 2}])
    pool.load([{"ts": "x"}])
    pool.create_tag("v1")
    config = "{ts,name,id,layout:{order,keys},seek_stride,threshold}"
    shown = {
        "from :pools": [config],
        "from :branches": [f"{{pool:{config},branch:{{ts,name,commit}}}}"],
        "from logs:tags": [f"{{pool:{config},tag:{{ts,name,commit}}}}"],
        "from logs:objects": ["{id,min,max,count,size}"] * 2,
        "from logs:partitions": ["{min,max,objects}"] * 2,
        "from logs:log": ["{Name,Commit}"]
        + ["{id,parent,retries,author,date,message,meta,records:{added,deleted,updated}}"] * 2,
        "from logs:branchlog": ["{position,ts,op,changes}"] * 4,
        "from logs:shapes": ["{shape,count}"] * 2,
        "from logs:indexes": [],
        "from logs:vectors": [],
    }
    for program, shapes in shown.items():
        assert [_names(shoal.to_python(v)) for v in lake.query(program)] == shapes, program
    kinds = zson(lake, "from logs:rawlog | yield typeof(this) | yield string(this)")
    assert [kind.split("=")[0].strip('"<') for kind in kinds] == ["Add", "Commit", "Add", "Commit"]


def test_the_branch_log_shows_a_vacuum(lake: Lake, pool: Pool) -> None:
    pool.create_branch("side")
    pool.branch("side").load([{"ts": 1}])
    pool.drop_branch("side")
    pool.vacuum(grace=0)
    assert zson(lake, "from logs:branchlog | tail 1 | over changes | yield kind") == ['"vacuum"']


def _names(value: object) -> str:
    if not isinstance(value, dict):
        return ""
    inner = {name: _names(field) for name, field in value.items()}
    return "{" + ",".join(f"{name}:{text}" if text else name for name, text in inner.items()) + "}"


def test_metadata_of_another_commit(lake: Lake, pool: Pool) -> None:
    first = pool.load([{"ts": 1}])
    pool.load([{"ts": 2}])
    assert zson(lake, f"from logs@{first}:objects | count()") == ["1(uint64)"]
    assert zson(lake, "from logs:objects tap | ts > 1 | cut min") == ["{min:2}"]
    with pytest.raises(InvalidInput, match="unknown metadata type"):
        lake.query("from logs:nonsense")
    with pytest.raises(InvalidInput, match="unknown lake metadata type"):
        lake.query("from :nonsense")


# ---- maintenance


def test_vacuum_of_a_pool_and_of_the_lake(lake: Lake, pool: Pool) -> None:
    pool.load([{"ts": 1}])
    pool.create_branch("dev")
    pool.branch("dev").load([{"ts": 2}])
    pool.drop_branch("dev")
    assert pool.vacuum().objects == 0
    assert pool.vacuum(grace=0, dry_run=True).objects == 1
    assert lake.vacuum(grace=0).objects == 1
    assert pool.vacuum(grace=0).objects == 0
    assert zson(lake, "from logs") == ["{ts:1}"]


def test_vacate(lake: Lake, pool: Pool) -> None:
    first = pool.load([{"ts": 1}])
    second = pool.load([{"ts": 2}])
    pool.vacate(second)
    pool.vacuum(grace=0)
    assert zson(lake, "from logs") == ["{ts:1}", "{ts:2}"]
    assert [c.id for c in pool.log()] == [second]
    with pytest.raises(InvalidInput, match="where history begins"):
        lake.query(f"from logs@{first}")


def test_vacuum_of_a_lake_sweeps_what_crashes_left(tmp_path: Path) -> None:
    lake = shoal.create(str(tmp_path))
    pool = lake.create("logs", key="ts")
    left = tmp_path / pool.id / "branches" / ".aside-1-2"
    left.write_bytes(b"half an entry")
    lake.vacuum()
    assert left.exists()
    lake.vacuum(grace=0)
    assert not left.exists()
    pool.load([{"ts": 1}])
    assert zson(lake, "from logs") == ["{ts:1}"]


# ---- names


CONTROL = ["\0", "a\x1b[2Jb", "a\nb", "a\u202eb", "a\u2028b", "a\x9bb", "a\x7fb"]


@pytest.mark.parametrize("name", CONTROL)
def test_names_have_no_control_characters(lake: Lake, pool: Pool, name: str) -> None:
    pool.load([{"ts": 1}])
    for give in (pool.create_branch, pool.create_tag, lake.create, lambda name: lake.rename("logs", name)):
        with pytest.raises(InvalidInput, match="control characters are not allowed in names") as raised:
            give(name)
        assert "\n" not in str(raised.value)
    assert [ref.name for ref in pool.branches()] == ["main"]
    assert [each.name for each in lake.pools()] == ["logs"]


def test_authors_and_messages_are_stored_as_they_are(lake: Lake, pool: Pool) -> None:
    pool.load([{"ts": 1}], author="eve\x1b[2J", message="one\n\u202etwo\0")
    (commit,) = pool.log()
    assert (commit.author, commit.message) == ("eve\x1b[2J", "one\n\u202etwo\0")


def test_a_pool_is_not_called_as_all_pools_are_in_grants(lake: Lake, pool: Pool) -> None:
    for give in (lake.create, lambda name: lake.rename("logs", name)):
        with pytest.raises(InvalidInput, match="it stands for all pools in grants"):
            give("*")
