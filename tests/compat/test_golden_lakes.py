"""Lakes that older versions wrote are read whole, and written to. `tools/golden_lake.py` says what is in them."""

from __future__ import annotations

import tarfile
from pathlib import Path

import pytest
from tools.golden_lake import KINDS

import shoal
from shoal.api.lake import Lake
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
