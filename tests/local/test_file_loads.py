"""Files in parts, loaded in this process by the functions that tasks call."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

import shoal
from shoal.api.options import ReadOptions
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


def load(pool: PoolHandle, *paths: Path) -> Counter[str]:
    names = [str(path) for path in paths]
    objects = file_loads.load_files(stored(pool), names, "auto", ReadOptions(), HERE)
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
