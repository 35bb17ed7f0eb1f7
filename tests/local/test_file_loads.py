"""Files in parts, loaded in this process by the functions that tasks call."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

import shoal
from shoal.api.options import DEFAULT_READ, ReadOptions, for_load
from shoal.api.pool import Pool as PoolHandle
from shoal.api.queries import Query
from shoal.errors import InvalidInput
from shoal.lake import changes
from shoal.lake.commits import Note
from shoal.lake.workers import HERE
from shoal.local import file_loads
from shoal.local.lake import stored
from shoal.model.text import format_value


@pytest.fixture
def pool(monkeypatch: pytest.MonkeyPatch) -> PoolHandle:
    monkeypatch.setattr(file_loads, "SMALLEST", 500)
    monkeypatch.setattr(file_loads, "LARGEST", 500)
    made = shoal.create("memory://").create("p", key="ts")
    assert isinstance(made, PoolHandle)
    return made


def load(pool: PoolHandle, *paths: Path, options: ReadOptions = DEFAULT_READ) -> Counter[str]:
    names = [str(path) for path in paths]
    objects = file_loads.load_files(stored(pool), names, "auto", for_load(options), HERE)
    stored(pool).committer.commit(changes.load("main", objects, Note()))
    return Counter(format_value(v) for v in pool.lake.do(Query("from p")))


def test_a_file_that_is_named_twice_is_loaded_twice(pool: PoolHandle, tmp_path: Path) -> None:
    lines, quoted = tmp_path / "lines.json", tmp_path / "quoted.csv"
    lines.write_text("".join(json.dumps({"ts": i}) + "\n" for i in range(200)))
    quoted.write_text("ts,s\n" + "".join(f'{i},"two\nlines"\n' for i in range(200)))
    found = load(pool, lines, quoted, lines, quoted)
    assert len(found) == 400
    assert set(found.values()) == {2}


def test_a_damaged_parquet_file_is_told_by_its_name(pool: PoolHandle, tmp_path: Path) -> None:
    bad = tmp_path / "bad.parquet"
    bad.write_bytes(b"PAR1" + bytes(2000) + b"PAR1")
    with pytest.raises(InvalidInput, match=r"bad\.parquet: parquet"):
        load(pool, bad)


def test_a_table_in_splits_has_one_shape(pool: PoolHandle, tmp_path: Path) -> None:
    table = tmp_path / "t.csv"
    table.write_text("ts,n\n" + "".join(f"{i},{i}\n" for i in range(300)) + "300,1.5\n")
    found = load(pool, table)
    assert len(found) == 301
    assert "{ts:5,n:5.}" in found
    assert "{ts:300,n:1.5}" in found


def test_a_table_whose_quotes_cross_splits_is_read_whole(pool: PoolHandle, tmp_path: Path) -> None:
    table, other = tmp_path / "quoted.csv", tmp_path / "other.csv"
    table.write_text("ts,s\n" + "".join(f'{i},"two\nlines"\n' for i in range(200)))
    other.write_text("ts,s\n" + "".join(f"{i},x\n" for i in range(200)))
    found = load(pool, other, table)
    assert len(found) == 400
    assert '{ts:199,s:"two\\nlines"}' in found


def test_bad_records_of_splits_are_kept_or_counted(pool: PoolHandle, tmp_path: Path) -> None:
    path = tmp_path / "bad.ndjson"
    lines = [json.dumps({"ts": i}) for i in range(200)]
    lines[150] = "{"
    path.write_text("\n".join(lines))
    found = load(pool, path, options=ReadOptions(bad="keep"))
    (bad,) = [text for text in found if text.startswith("error")]
    assert bad.startswith(f'error({{file:"{path}",line:151,text:"{{",')
    load(pool, path, options=ReadOptions(bad="skip"))
    report = pool.branch("main").report()
    assert (report.records, report.bad, report.skipped, report.errors) == (199, 1, 1, 0)


def test_a_large_array_of_records_is_read_whole(pool: PoolHandle, tmp_path: Path) -> None:
    path = tmp_path / "array.json"
    path.write_text("[\n" + ",\n".join(json.dumps({"ts": i}) for i in range(200)) + "\n]\n")
    assert len(load(pool, path, options=ReadOptions(bad="keep"))) == 200
