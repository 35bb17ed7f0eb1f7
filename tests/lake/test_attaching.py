"""Attached files: they read as if they were loaded, and what is known of them is true."""

from __future__ import annotations

import datetime
import decimal
import os
import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from shoal.errors import AlreadyExists, CorruptData, InvalidInput, NotFound
from shoal.lake import attaching
from shoal.lake.keys import parse_sort_key
from shoal.lake.objects import DataObject, format_object, parse_object
from shoal.lake.vacuum import collect
from shoal.local.lake import LocalLake, create_local, stored
from shoal.model.text import format_value
from shoal.sources.in_place import find_files

D = decimal.Decimal
_FEW = 3


def every_kind() -> dict[str, Any]:
    """A column of each kind, with nulls."""
    numbers = (pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64(),
               pa.float16(), pa.float32(), pa.float64())  # fmt: skip
    return {
        "k": pa.array([3, 1, 2]),
        "nothing": pa.nulls(_FEW),
        "flag": [True, None, False],
        **{str(typ): pa.array([1, None, 3], typ) for typ in numbers},
        "text": ["b", None, "é"],
        "large_text": pa.array(["a", None, "b"], pa.large_string()),
        "large_raw": pa.array([b"a", None, b"b"], pa.large_binary()),
        "raw": pa.array([b"a", None, b"\xff"]),
        "fixed": pa.array([b"aa", None, b"bb"], pa.binary(2)),
        "date32": pa.array([datetime.date(2020, 1, 1), None, datetime.date(1960, 1, 1)]),
        "date64": pa.array([datetime.date(2020, 1, 1), None, None], pa.date64()),
        **{f"at_{unit}": pa.array([-1, None, 3], pa.timestamp(unit)) for unit in ("s", "ms", "us", "ns")},
        "zoned": pa.array([1, 2, 3], pa.timestamp("us", "Europe/Berlin")),
        "day_ms": pa.array([1, 2, None], pa.time32("ms")),
        "day_us": pa.array([1, 2, None], pa.time64("us")),
        "span": pa.array([1, None, 3], pa.duration("s")),
        "money": pa.array([D("1.50"), None, D("-2.25")], pa.decimal128(10, 2)),
        "wide_money": pa.array([D("1.5"), None, D("2.5")], pa.decimal256(60, 2)),
        "dictionary": pa.array(["x", "y", "x"]).dictionary_encode(),
        "list": [[1, None], None, []],
        "large_list": pa.array([["a"], None, []], pa.large_list(pa.string())),
        "pair": pa.array([[1, 2], None, [3, 4]], pa.list_(pa.int64(), 2)),
        "map": pa.array([[("b", 1), ("a", 2)], None, []], pa.map_(pa.string(), pa.int64())),
        "inner": [{"x": 1, "y": {"z": "q"}}, None, {"x": None, "y": None}],
        "records": [[{"a": 1}], None, []],
    }


@pytest.fixture
def lake(tmp_path: Path) -> LocalLake:
    return create_local(str(tmp_path / "lake"))


def write(path: Path, table: dict[str, Any] | pa.Table, **choices: Any) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(table if isinstance(table, pa.Table) else pa.table(table), path, **choices)
    return str(path)


def values(lake: LocalLake, program: str, engine: str = "interp") -> list[str]:
    return [format_value(value) for value in lake.query(program, engine=engine)]


def described(path: str, key: str = "k") -> DataObject:
    (candidate,) = attaching.read_candidates(list(find_files(path)))
    return attaching.describe(candidate, attaching.folder_types([candidate]), parse_sort_key(key))


# ---- the same as loaded


@pytest.mark.parametrize("engine", ["interp", "duckdb"])
@pytest.mark.parametrize(
    "key", ["k", "k:desc", "text", "double", "money", "inner.x,k", "list", "map", "missing", "this"]
)
def test_an_attached_file_reads_as_if_it_was_loaded(lake: LocalLake, tmp_path: Path, key: str, engine: str) -> None:
    table = pa.table(every_kind())
    path = write(tmp_path / "x.parquet", pa.concat_tables([table] * 4), row_group_size=5)
    for name in ("loaded", "attached"):
        lake.create(name, key=key)
    lake.pool("loaded").load(path)
    lake.pool("attached").attach(path)
    # pyarrow writes dictionaries and times of seconds in its own way, but both read the same file.
    assert values(lake, "from attached", engine) == values(lake, "from loaded", engine)
    for program in ("count() by text | sort text", "k > 1 | sum(k), min(text)", "cut inner, date32, at_us",
                    "at_ms > 1970-01-01T00:00:00Z", "text == 'b'", "int64 == 3", "double >= 1.", "head 3"):  # fmt: skip
        assert values(lake, f"from attached | {program}", engine) == values(lake, f"from loaded | {program}", engine)


@pytest.mark.parametrize("order", ["asc", "desc"])
@pytest.mark.parametrize("engine", ["interp", "duckdb"])
def test_a_scan_gives_unsorted_files_in_the_order_of_the_pool(
    lake: LocalLake, tmp_path: Path, engine: str, order: str
) -> None:
    rng = random.Random(7)
    pool = lake.create("logs", key=f"k:{order}")
    keys = [None if rng.random() < 0.1 else rng.randrange(50) for _ in range(400)]
    for number in range(4):
        part = keys[number * 100 : number * 100 + 100]
        write(
            tmp_path / "in" / f"{number}.parquet", {"k": pa.array(part, pa.int64()), "n": range(100)}, row_group_size=9
        )
    pool.attach(str(tmp_path / "in"))
    pool.load([{"k": 25, "n": -1}])
    shown = [value.data[0] for value in lake.query("from logs | cut k", engine=engine)]
    expected = sorted([*keys, 25], key=lambda k: (k is None, k or 0), reverse=order == "desc")
    assert shown == expected
    assert values(lake, "from logs", engine) == values(lake, "from logs", "interp")


@pytest.mark.parametrize("engine", ["interp", "duckdb"])
def test_rows_of_attached_files_are_hidden_and_compaction_copies_what_is_left(
    lake: LocalLake, tmp_path: Path, engine: str
) -> None:
    pools = {name: lake.create(name, key="k") for name in ("loaded", "attached")}
    path = write(
        tmp_path / "x.parquet", {"k": [(i * 37) % 101 for i in range(101)], "n": range(101)}, row_group_size=10
    )
    pools["loaded"].load(path)
    pools["attached"].attach(path)
    for where in ("n % 3 == 0", "k < 20", "n == 50"):
        for pool in pools.values():
            pool.delete(where=where, engine=engine)
        assert values(lake, "from attached", engine) == values(lake, "from loaded", engine)
        assert values(lake, "from attached | sum(n)", engine) == values(lake, "from loaded | sum(n)", engine)
    before = values(lake, "from attached")
    attached = list(pools["attached"].objects())
    assert attached[0].count == len(before)
    assert pools["attached"].compact_runs() == []
    pools["attached"].compact([attached[0].id])
    assert values(lake, "from attached") == before
    os.remove(path)
    assert values(lake, "from attached", engine) == before


def test_a_deletion_of_most_rows_writes_the_rest_into_the_lake(lake: LocalLake, tmp_path: Path) -> None:
    pool = lake.create("logs", key="k")
    path = write(tmp_path / "x.parquet", {"k": [3, 1, 2, 5, 4]})
    pool.attach(path)
    pool.delete(where="k > 1")
    os.remove(path)
    assert values(lake, "from logs") == ["{k:1}"]


# ---- folders


def test_names_of_folders_become_fields(lake: LocalLake, tmp_path: Path) -> None:
    lake.create("logs", key="k")
    root = tmp_path / "in"
    write(root / "year=2024" / "day=2024-03-01" / "zip=01234" / "a%2Fb=x%20y" / "f.parquet", {"k": [2, 1]})
    write(
        root / "year=2023" / "day=2024-03-02" / "zip=5" / "a%2Fb=__HIVE_DEFAULT_PARTITION__" / "f.parquet", {"k": [3]}
    )
    write(root / "year=2022" / "own" / "f.parquet", {"k": [4]})
    write(root / "year=2021" / "year=7" / "f.parquet", {"k": [5], "year": ["own"]})
    (root / "_SUCCESS").touch()
    (root / ".hidden").mkdir()
    (root / ".hidden" / "x").touch()
    lake.pool("logs").attach(str(root))
    assert values(lake, "from logs") == [
        '{k:1,year:2024,day:2024-03-01,zip:"01234","a/b":"x y"}',
        '{k:2,year:2024,day:2024-03-01,zip:"01234","a/b":"x y"}',
        '{k:3,year:2023,day:2024-03-02,zip:"5","a/b":null(string)}',
        "{k:4}",
        '{k:5,year:"own"}',
    ]
    for engine in ("interp", "duckdb"):
        assert values(lake, "from logs | year == 2023 | cut k", engine) == ["{k:3}"]
        assert values(lake, "from logs | count() by year | sort year", engine)[0] == "{year:2023,count:1(uint64)}"


def test_filters_on_folders_and_statistics_skip_files(lake: LocalLake, tmp_path: Path) -> None:
    pool = lake.create("logs", key="k")
    for year in range(2020, 2025):
        write(
            tmp_path / "in" / f"year={year}" / "f.parquet", {"k": [year * 10, year * 10 + 9], "s": [f"s{year}", None]}
        )
    pool.attach(str(tmp_path / "in"), message="all")
    for condition in ("year == 2022", "k >= 20220 and k < 20230", "s == 's2022'"):
        (plan,) = lake.explain(f"from logs | {condition}")
        assert (plan.objects, plan.total) == (1, 5), condition


# ---- what is refused


def test_a_file_that_changed_or_is_gone_is_named(lake: LocalLake, tmp_path: Path) -> None:
    pool = lake.create("logs", key="k")
    path = write(tmp_path / "x.parquet", {"k": [1, 2]})
    pool.attach(path)
    status = os.stat(path)
    for engine in ("interp", "duckdb"):
        os.utime(path, ns=(0, 0))
        with pytest.raises(CorruptData, match=rf"{path}: this attached file has changed .*shoal detach {path}"):
            values(lake, "from logs | sum(k)", engine)
        os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
        assert values(lake, "from logs | sum(k)", engine)
    data = Path(path).read_bytes()
    for end in (-20, -9):  # the footer, at the same time and with the same size
        Path(path).write_bytes(data[:end] + bytes((data[end] ^ 1,)) + data[end + 1 :])
        os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
        with pytest.raises(CorruptData, match="has changed"):
            values(lake, "from logs")
    os.remove(path)
    with pytest.raises(CorruptData, match="is gone"):
        values(lake, "from logs")
    pool.detach(path)
    assert values(lake, "from logs") == []


def test_damaged_pages_are_an_error_that_names_the_file(lake: LocalLake, tmp_path: Path) -> None:
    pool = lake.create("logs", key="k")
    path = write(tmp_path / "x.parquet", {"k": list(range(1000))}, compression="zstd")
    pool.attach(path)
    status = os.stat(path)
    data = bytearray(Path(path).read_bytes())
    data[4:60] = bytes(56)
    Path(path).write_bytes(data)
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    with pytest.raises(CorruptData, match=path):
        values(lake, "from logs")


def test_bad_files_are_refused_and_nothing_is_attached(lake: LocalLake, tmp_path: Path) -> None:
    pool = lake.create("logs", key="k")
    good = write(tmp_path / "good.parquet", {"k": [1]})
    bad = {
        "text.parquet": (b"k\n1\n", "not a Parquet file"),
        "empty.parquet": (b"", "not a Parquet file"),
        "cut.parquet": (Path(good).read_bytes()[:-30], "not a Parquet file"),
        "tail.parquet": (b"PAR1" + b"\xff\xff\xff\x7fPAR1", "cut off"),
    }
    for name, (data, said) in bad.items():
        (tmp_path / name).write_bytes(data)
        with pytest.raises(InvalidInput, match=rf"{name}: .*{said}"):
            pool.attach([good, str(tmp_path / name)])
    tables: dict[str, tuple[Any, str]] = {
        "case.parquet": ({"k": [1], "K": [2]}, "column 'K' and 'k' differ in case only"),
        "inner.parquet": ({"k": [1], "r": [[{"a": 1, "A": 2}]]}, "column 'A' and 'a' differ in case only"),
        "twice.parquet": (pa.table([pa.array([1]), pa.array([2])], ["k", "k"]), "column 'k' is there twice"),
        "Year=1/folder.parquet": ({"k": [1], "year": [2]}, "column 'Year' and 'year' differ in case only"),
        "late.parquet": ({"k": pa.array([2**60], pa.timestamp("us"))}, "out of range"),
        "none.parquet": (pa.table({"k": [1]}).select([]), "no columns"),
    }
    for name, (table, said) in tables.items():
        with pytest.raises(InvalidInput, match=said):
            pool.attach([good, write(tmp_path / name, table)])
    with pytest.raises(InvalidInput, match="named twice"):
        pool.attach([good, good])
    with pytest.raises(NotFound, match="does not exist"):
        pool.attach([good, str(tmp_path / "missing")])
    for uri in ("http://localhost/x.parquet", "-", "gs://bucket/x.parquet"):
        with pytest.raises(InvalidInput, match="only files, folders and s3 URLs"):
            pool.attach(uri)
    with pytest.raises(InvalidInput, match="no records"):
        pool.attach(write(tmp_path / "norows.parquet", {"k": pa.array([], pa.int64())}))
    assert pool.resolve() is None


def test_a_keyed_pool_takes_no_attached_files(lake: LocalLake, tmp_path: Path) -> None:
    pool = lake.create("keyed", key="k", primary="k")
    path = write(tmp_path / "x.parquet", {"k": [1, 1]})
    for dry_run in (True, False):
        with pytest.raises(InvalidInput, match="a pool with a primary key"):
            pool.attach(path, dry_run=dry_run)


def test_a_file_is_attached_to_a_branch_once(lake: LocalLake, tmp_path: Path) -> None:
    pool = lake.create("logs", key="k")
    path = write(tmp_path / "in" / "x.parquet", {"k": [1]})
    first = pool.attach(path)
    with pytest.raises(AlreadyExists, match='attached to "main" already'):
        pool.attach(str(tmp_path / "in"))
    with pytest.raises(AlreadyExists):
        pool.attach(path, dry_run=True)
    assert pool.resolve() == first
    pool.detach(next(iter(pool.objects())).id)
    pool.attach(path)
    assert values(lake, "from logs") == ["{k:1}"]
    with pytest.raises(NotFound, match="not attached"):
        pool.detach(str(tmp_path / "y.parquet"))


def test_a_dry_run_tells_and_commits_nothing(lake: LocalLake, tmp_path: Path) -> None:
    pool = lake.create("logs", key="k")
    path = write(tmp_path / "year=7" / "x.parquet", {"k": [3, 1]})
    (file,) = pool.attach(str(tmp_path / "year=7"), dry_run=True)
    assert (file.uri, file.records, file.shape) == (path, 2, "{k:int64,year:int64}")
    assert (file.min.data, file.max.data, file.size) == (1, 3, os.path.getsize(path))
    assert pool.resolve() is None


# ---- history and maintenance


def test_vacuum_and_purge_leave_the_file_alone(lake: LocalLake, tmp_path: Path) -> None:
    pool = lake.create("logs", key="k")
    path = write(tmp_path / "x.parquet", {"k": [1, 2]})
    commit = pool.attach(path)
    pool.detach(path)
    collect(stored(pool), 0.0)
    assert values(lake, f"from logs@{commit}") == ["{k:1}", "{k:2}"]
    pool.purge([commit])
    assert os.path.exists(path)
    assert values(lake, f"from logs@{commit}") == []


def test_revert_merge_and_diff_know_attached_files(lake: LocalLake, tmp_path: Path) -> None:
    pool = lake.create("logs", key="k")
    pool.load([{"k": 0}])
    pool.create_branch("side")
    path = write(tmp_path / "x.parquet", {"k": [2, 1]})
    commit = pool.branch("side").attach(path)
    pool.load([{"k": 9}])
    pool.merge("side")
    assert values(lake, "from logs") == ["{k:0}", "{k:1}", "{k:2}", "{k:9}"]
    assert [side for side, _ in pool.diff_values("main", "side")] == ["-"]
    pool.revert(commit)
    assert values(lake, "from logs") == ["{k:0}", "{k:9}"]


# ---- what a description says


def test_descriptions_are_stored_whole_and_refused_by_who_does_not_know_attached_files(tmp_path: Path) -> None:
    o = described(write(tmp_path / "year=1" / "x.parquet", every_kind()))
    value = format_object(o)
    form = value.field("form")
    assert form is not None
    assert form.data.endswith(", external")
    again = parse_object(value, "here")
    assert again == o
    assert again.external == o.external


@pytest.mark.parametrize(
    ("column", "low", "high"),
    [
        (pa.array([3, 1, 2]), "1", "3"),
        (pa.array([3, None, 2]), "2", "null"),
        (pa.array([None, None], pa.int64()), "null", "null"),
        (pa.array([1.0, 2.0]), "NaN", "2."),
        (pa.array([1.0, float("nan")]), "NaN", "1."),
        (pa.array([float("nan")]), "NaN", "null"),
        (pa.array([2**64 - 1, 0], pa.uint64()), "0(uint64)", "18446744073709551615(uint64)"),
        (pa.array(["b", "a"]), '"a"', '"b"'),
        (pa.array([[1], [2]]), "NaN", "null"),
        (pa.array([1, 2], pa.timestamp("ms")), "1970-01-01T00:00:00.001Z", "1970-01-01T00:00:00.002Z"),
    ],
)
def test_bounds_of_the_key_are_never_too_narrow(tmp_path: Path, column: pa.Array, low: str, high: str) -> None:
    o = described(write(tmp_path / "x.parquet", {"k": column}))
    assert (format_value(o.min), format_value(o.max)) == (low, high)
    bare = described(write(tmp_path / "y.parquet", {"k": column}, write_statistics=False))
    assert format_value(bare.max) == "null"
    assert bare.has_key


def test_a_file_without_the_key_has_none(tmp_path: Path) -> None:
    o = described(write(tmp_path / "x.parquet", {"other": [1]}))
    assert not o.has_key
    assert o.min.data is o.max.data is None
