"""Connections that are lost at every place: each change happens once, and what is not known is said to be so."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, cast

import pytest

import shoal
from shoal.api.lake import Lake
from shoal.api.pool import Pool
from shoal.client import service, uploads
from shoal.errors import NotFound, OutcomeUnknown, StorageFailure
from shoal.ids import new, to_text
from shoal.testing.cutting_proxy import Cut, CuttingProxy, cutting
from shoal.testing.services import Served


@pytest.fixture
def proxy(empty_service: Served) -> Iterator[CuttingProxy]:
    with cutting(empty_service.url) as made:
        yield made


@pytest.fixture(autouse=True)
def _in_a_hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(service, "_FIRST_PAUSE", 0.001)


@pytest.fixture
def lake(proxy: CuttingProxy) -> Lake:
    return shoal.open(proxy.url)


@pytest.fixture
def pool(lake: Lake) -> Pool:
    return lake.create("logs", key="ts")


class Pipe(io.RawIOBase):
    """Bytes that can be read once."""

    def __init__(self, data: bytes) -> None:
        self._inner = io.BytesIO(data)

    def read(self, size: int = -1) -> bytes:
        return self._inner.read(size)


def numbers(lake: Lake, program: str = "from logs") -> list[Any]:
    return lake.query(f"{program} | yield ts").to_list()


LOADS: dict[str, Callable[[Path], Any]] = {
    "bytes": lambda folder: b"{ts:1}",
    "values": lambda folder: [{"ts": 1}],
    "an iterator": lambda folder: iter([{"ts": 1}]),
    "a path": lambda folder: folder / "a.zson",
    "an open file": lambda folder: (folder / "a.zson").open("rb"),
    "a pipe": lambda folder: Pipe(b"{ts:1}"),
}


@pytest.mark.parametrize("times", [1, 3])
@pytest.mark.parametrize("lost", ["answer", "body", "delivered"])
@pytest.mark.parametrize("kind", LOADS)
def test_a_load_whose_answer_is_lost_is_there_once(
    kind: str, lost: Cut, times: int, lake: Lake, pool: Pool, proxy: CuttingProxy, tmp_path: Path
) -> None:
    (tmp_path / "a.zson").write_text("{ts:1}")
    data = LOADS[kind](tmp_path)
    proxy.cut(lost, times)
    commit = pool.load(data)
    if hasattr(data, "close"):
        data.close()
    assert proxy.cuts == times
    assert numbers(lake) == [1]
    assert [c.id for c in pool.log()] == [commit]


@pytest.mark.parametrize("make", [io.BytesIO, Pipe])
def test_a_load_that_is_lost_on_its_way_begins_again(
    make: Callable[[bytes], Any], lake: Lake, pool: Pool, proxy: CuttingProxy
) -> None:
    many = 100_000
    lines = b"".join(b'{"ts":%d,"text":"%050d"}\n' % (i, i) for i in range(many))
    proxy.cut("request", 2, after=3_000_000)
    pool.load(make(lines))
    assert proxy.cuts == 2
    assert lake.query("from logs | count(), sum(ts)").to_list() == [{"count": many, "sum": many * (many - 1) // 2}]
    assert len(list(pool.log())) == 1


def test_several_files_are_one_commit_whatever_is_lost(
    lake: Lake, pool: Pool, proxy: CuttingProxy, tmp_path: Path
) -> None:
    for i in range(3):
        (tmp_path / f"{i}.zson").write_text(f"{{ts:{i}}}")
    paths = [tmp_path / f"{i}.zson" for i in range(3)]
    steps = ("/transaction ", "/load", "/commit")
    for at, step in enumerate(steps, 1):
        proxy.cut("answer", 2, first_line=step)
        pool.load(paths)
        assert proxy.cuts == 2 * at
        assert sorted(numbers(lake)) == sorted([0, 1, 2] * at)
        assert len(list(pool.log())) == at


def test_a_transaction_stages_and_commits_once(lake: Lake, pool: Pool, proxy: CuttingProxy) -> None:
    pool.load([{"ts": 0}])
    with pool.transaction() as tx:
        for i in (1, 2):
            proxy.cut("answer", 2)
            tx.load([{"ts": i}])
        proxy.cut("answer", 2)
        tx.delete(where="ts == 0")
        assert tx.query("yield ts").to_list() == [1, 2]
        proxy.cut("answer", 2)
    assert proxy.cuts == 8
    assert numbers(lake) == [1, 2]
    assert len(list(pool.log())) == 2


def test_a_transaction_over_several_pools_stages_and_commits_once(lake: Lake, pool: Pool, proxy: CuttingProxy) -> None:
    other = lake.create("other", key="ts")
    proxy.cut("answer", 2)
    with lake.transaction(["logs", "other"]) as t:
        for place in ("logs", "other"):
            proxy.cut("answer", 2)
            t.load(place, [{"ts": 1}, {"ts": 2}])
        proxy.cut("answer", 2)
        t.delete("other", where="ts == 1")
        proxy.cut("answer", 2)
        t.sql("insert into logs (ts) values (3)")
        proxy.cut("answer", 2)
    assert proxy.cuts == 12
    assert sorted(numbers(lake)) == [1, 2, 3]
    assert numbers(lake, "from other") == [2]
    assert [len(list(each.log())) for each in (pool, other)] == [1, 1]
    t = lake.begin(["logs", "other"])
    saved = t.save()
    proxy.cut("answer", 2)
    t.abandon()
    with pytest.raises(NotFound, match="transaction not found"):
        lake.resume(saved).query("from logs")


def test_every_other_change_happens_once(lake: Lake, pool: Pool, proxy: CuttingProxy) -> None:
    first, second = pool.load([{"ts": 1}, {"ts": 2}]), pool.load([{"ts": 3}])
    steps: list[tuple[str, Callable[[], object]]] = [
        ("POST", lambda: pool.create_branch("dev", first)),
        ("POST", lambda: pool.create_tag("v1", first)),
        ("POST", lambda: pool.branch("dev").load([{"ts": 4}])),
        ("POST", lambda: pool.branch("dev").rebase("main")),
        ("POST", lambda: pool.merge("dev")),
        ("POST", lambda: pool.revert(second)),
        ("POST", lambda: pool.delete(where="ts == 1")),
        ("POST", lambda: pool.compact([o.id for o in pool.objects()])),
        ("DELETE", lambda: pool.drop_branch("dev")),
        ("DELETE", lambda: pool.drop_tag("v1")),
        ("POST", lambda: pool.vacuum(grace=0)),
        ("POST", lambda: lake.create("other")),
        ("PUT", lambda: lake.rename("other", "third")),
        ("DELETE", lambda: lake.drop("third")),
    ]
    for at, (method, step) in enumerate(steps, 1):
        proxy.cut("answer", 2, first_line=f"{method} ")
        step()
        assert proxy.cuts == 2 * at
    assert numbers(lake) == [2, 4]
    assert len(list(pool.log())) == 6
    assert [b.name for b in pool.branches()] == ["main"]
    assert pool.tags() == []
    assert [p.name for p in lake.pools()] == ["logs"]


def test_what_stays_unknown_says_its_id_with_which_it_is_done_once(lake: Lake, pool: Pool, proxy: CuttingProxy) -> None:
    proxy.cut("answer", 1000, first_line="")
    with pytest.raises(OutcomeUnknown, match="it may have happened") as caught:
        pool.load([{"ts": 1}])
    ident = caught.value.commit
    assert ident is not None
    assert ident in str(caught.value)
    proxy.cut("answer", 0)
    commit = pool.load([{"ts": 1}], op=ident)
    assert numbers(lake) == [1]
    assert [c.id for c in pool.log()] == [commit]
    assert pool.done(ident) == commit
    assert pool.done(to_text(new())) is None


def test_a_lost_answer_stays_unknown_if_the_service_is_gone_afterwards(empty_service: Served) -> None:
    with cutting(empty_service.url) as proxy:
        pool = shoal.open(proxy.url).create("logs", key="ts")
        proxy.cut("answer", then_close=True)
        with pytest.raises(OutcomeUnknown, match="it may have happened") as caught:
            pool.load([{"ts": 1}])
        with pytest.raises(StorageFailure):  # this one was never sent
            pool.load([{"ts": 2}])
    pool = shoal.open(empty_service.url).pool("logs")
    assert caught.value.commit == pool.done(caught.value.commit or "")
    assert numbers(shoal.open(empty_service.url)) == [1]


def test_what_was_too_much_to_keep_is_asked_about(
    lake: Lake, pool: Pool, proxy: CuttingProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(uploads, "_KEPT", 3)
    proxy.cut("answer")
    commit = pool.load(Pipe(b"{ts:1}"))
    assert [c.id for c in pool.log()] == [commit]
    assert [line.split()[0] for line in proxy.requests if "/commit/" in line] == ["GET"]
    proxy.cut("request")
    with pytest.raises(OutcomeUnknown):  # all of it was sent, and who knows how far it came
        pool.load(Pipe(b"{ts:2}"))
    proxy.cut("request", after=1_000_000)
    with pytest.raises(StorageFailure, match="the connection was lost"):
        pool.load(Pipe(b"{ts:3}\n" * 4_000_000))
    assert numbers(lake) == [1]


def test_what_reads_is_asked_again(lake: Lake, pool: Pool, proxy: CuttingProxy) -> None:
    pool.load([{"ts": 1}])
    reads: dict[str, Callable[[], bool]] = {
        "/branch": lambda: [b.name for b in pool.branches()] == ["main"],
        "/log": lambda: len(list(pool.log())) == 1,
        "POST /query?": lambda: numbers(lake) == [1],
        "POST /query/sql": lambda: lake.sql("select ts from logs").to_list() == [{"ts": 1}],
        "POST /query/explain": lambda: lake.explain("from logs")[0].total == 1,
        "/revision/main ": lambda: pool.resolve() is not None,
    }
    for line, read in reads.items():
        before = proxy.cuts
        proxy.cut("answer", 2, first_line=line)
        assert read(), line
        assert proxy.cuts == before + 2, line


def test_a_query_that_loads_is_not_asked_twice(lake: Lake, pool: Pool, proxy: CuttingProxy) -> None:
    pool.load([{"ts": 1}])
    lake.create("copy", key="ts")
    proxy.cut("answer", first_line="POST /query")
    with pytest.raises(StorageFailure, match="the connection was lost"):
        lake.query("from logs | load copy")
    assert numbers(lake, "from copy") == [1]


def test_an_answer_that_breaks_off_is_an_error(lake: Lake, pool: Pool, proxy: CuttingProxy) -> None:
    pool.load([{"ts": i, "text": f"{i * 7919:0100d}"} for i in range(50_000)])
    results = lake.query("from logs")
    assert next(iter(results)) is not None
    proxy.cut("answer", first_line="")
    with pytest.raises(StorageFailure, match="lost before the end of the answer"):
        list(iter(cast("Any", results)._values))


def test_a_service_that_is_too_busy_is_asked_again_when_it_says(lake: Lake, pool: Pool, proxy: CuttingProxy) -> None:
    proxy.refuse(2)
    pool.load([{"ts": 1}])
    assert proxy.cuts == 2
    assert numbers(lake) == [1]
    proxy.refuse(1000)
    with pytest.raises(StorageFailure, match=r"^no room$"):
        pool.load([{"ts": 2}])
    assert proxy.cuts == 2 + service._TRIES
    proxy.refuse(0)
    assert numbers(lake) == [1]


def test_errors_are_not_asked_about_again(lake: Lake, pool: Pool, proxy: CuttingProxy) -> None:
    before = len(proxy.requests)
    with pytest.raises(NotFound, match="branch not found"):
        pool.branch("nope").load([{"ts": 1}])
    assert len(proxy.requests) == before + 1
