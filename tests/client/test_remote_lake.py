"""A lake behind a service, in what is its own: handles, streams, tokens, files that are sent."""

from __future__ import annotations

import io
import os
import pickle
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import urllib3

import shoal
from shoal.api.lake import Lake
from shoal.api.options import ReadOptions
from shoal.api.pool import Pool
from shoal.api.transaction import Transaction
from shoal.client.remote_lake import RemoteLake
from shoal.client.transport import Access
from shoal.errors import InvalidInput, NotFound, ShoalError, StorageFailure, TooLarge, Unauthenticated, Unsupported
from shoal.testing.services import Served, serving


@pytest.fixture
def lake(empty_service: Served) -> Lake:
    return shoal.open(empty_service.url)


@pytest.fixture
def pool(lake: Lake) -> Pool:
    return lake.create("logs", key="ts")


def figure(served: Served, name: str) -> float:
    """A figure that a service tells of itself."""
    text = urllib3.request("GET", f"{served.url}/metrics").data.decode()
    return next(float(line.split()[1]) for line in text.splitlines() if line.startswith(f"{name} "))


# ---- opening


def test_a_url_may_end_with_a_slash(empty_service: Served) -> None:
    lake = shoal.open(f"{empty_service.url}/")
    assert lake.uri == empty_service.url
    assert lake.status().pools == 0
    assert lake.status().id == shoal.open(empty_service.lake).status().id


def test_a_service_creates_no_lakes(empty_service: Served) -> None:
    with pytest.raises(Unsupported, match="a service does not create lakes"):
        shoal.create(empty_service.url)


@pytest.mark.parametrize(
    ("url", "error"),
    [
        ("http://localhost:1", "connection refused"),
        ("http://no-such-host.invalid", "no such host"),
        ("http://", "not the URL of a service"),
        ("http://localhost:99999", "not the URL of a service"),
        ("http://localhost:9867?x=1", "not the URL of a service"),
        ("http://ada:secret@localhost", "do not put secrets into a URL"),
    ],
)
def test_what_is_no_service_is_told_in_a_line(url: str, error: str) -> None:
    with pytest.raises((StorageFailure, InvalidInput), match=error) as caught:
        shoal.open(url)
    assert "\n" not in str(caught.value)
    assert "secret@" not in str(caught.value)


def test_handles_are_queried_as_those_of_a_store(pool: Pool) -> None:
    pool.load([{"ts": 1, "host": "a"}])
    dev = pool.create_branch("dev")
    dev.load([{"ts": 2}], author="grace", message="two")
    pool.merge("dev")
    assert pool.query("yield ts").to_list() == [1, 2]
    assert dev.query("host == 'a' | count()").to_list() == [1]
    assert dev.schema() == {"ts": "BIGINT", "host": "VARCHAR"}
    (merge, _), listed = pool.log(brought=True), list(pool.log(ancestors=True, author="GRACE", limit=1))
    assert [(each.author, each.message) for each in merge.brought] == [("grace", "two")]
    assert listed == list(merge.brought)


def test_handles_are_what_the_protocol_says(lake: Lake) -> None:
    remote = RemoteLake(Access(lake.uri))
    pool = remote.create("logs")
    with pool.transaction() as tx:
        assert isinstance(remote, Lake)
        assert isinstance(pool, Pool)
        assert isinstance(tx, Transaction)


def test_a_service_keeps_what_copies_of_a_transaction_over_several_pools_stage(lake: Lake, pool: Pool) -> None:
    other = lake.create("other", key="ts")
    t = lake.begin(["logs", "other@main"], isolation="serializable")
    copies = [pickle.loads(pickle.dumps(t)) for _ in range(2)]
    for number, copy in enumerate(copies):
        copy.load("logs", [{"ts": number}])
    part = pickle.loads(pickle.dumps(t.part("other")))
    part.load([{"ts": 5}])
    assert part.query("yield ts").to_list() == [5], "without a source it reads the branch"
    t.take_over(*copies)
    with pytest.raises(InvalidInput, match="is not a copy"):
        t.take_over(lake.begin(["logs", "other"]))
    resumed = lake.resume(t.save())
    assert (resumed.places, resumed.expires) == (t.places, t.expires)
    lake.rename("other", "others")
    assert resumed.commit(message="both") == {"logs@main": pool.resolve(), "other@main": other.resolve()}
    assert next(iter(other.log())).message == "both"
    assert t.commit() == {"logs@main": pool.resolve(), "other@main": other.resolve()}, "it finds that it was committed"


def test_a_token_that_cannot_be_one_is_refused_here(empty_service: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InvalidInput, match="this is not a token"):
        shoal.open(empty_service.url, token="a\nb")
    monkeypatch.setenv("SHOAL_TOKEN", "a b")
    with pytest.raises(InvalidInput, match="this is not a token"):
        shoal.open(empty_service.url)
    monkeypatch.setenv("SHOAL_TOKEN", "")
    assert shoal.open(empty_service.url).pools() == []


def test_importing_the_client_loads_no_engine() -> None:
    heavy = ("pyspark", "duckdb", "pyarrow", "numpy", "pandas", "polars", "obstore", "starlette", "uvicorn")
    code = f"import sys, shoal.client.remote_lake; print([m for m in {heavy} if m in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, check=True).stdout == b"[]\n"


# ---- handles


def test_handles_can_be_pickled_and_show_no_token(lake: Lake, pool: Pool) -> None:
    pool.load([{"ts": 1}])
    again = pickle.loads(pickle.dumps(lake))
    assert again.query("from logs").to_list() == [{"ts": 1}]
    assert list(pickle.loads(pickle.dumps(pool)).log()) == list(pool.log())
    secret = RemoteLake(Access(lake.uri, "secret"))
    assert "secret" not in repr(secret) + repr(Access(lake.uri, "secret"))
    assert pickle.loads(pickle.dumps(secret))._service.access.token == "secret"


def test_a_pool_stays_the_same_when_it_is_renamed(lake: Lake, pool: Pool) -> None:
    lake.rename("logs", "events")
    pool.load([{"ts": 1}])
    assert lake.query("from events").to_list() == [{"ts": 1}]


def test_a_child_process_makes_connections_of_its_own(lake: Lake, pool: Pool) -> None:
    pool.load([{"ts": 1}])
    child = os.fork()
    if child == 0:
        os._exit(0 if lake.query("from logs").to_list() == [{"ts": 1}] else 1)
    assert lake.query("from logs").to_list() == [{"ts": 1}]
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


# ---- results


def test_results_are_had_in_every_form_but_as_frames_of_spark(lake: Lake, pool: Pool) -> None:
    pool.load([{"ts": 1, "x": "a"}, {"ts": 2, "x": None}])
    assert lake.query("from logs").to_arrow().column_names == ["ts", "x"]
    assert lake.query("from logs").to_arrow(exact=True).column_names == ["ts", "x", "$shape"]
    assert list(lake.query("from logs | ts == 1").to_pandas()["x"]) == ["a"]
    assert lake.query("from logs | ts == 1").to_polars()["x"].to_list() == ["a"]
    assert lake.query("from logs | ts == 1").to_json() == '{"ts":1,"x":"a"}'
    with pytest.raises(Unsupported, match="tasks of Spark do not read through a service"):
        lake.query("from logs").to_spark()


def test_an_error_in_the_middle_is_raised_as_it_is_directly(empty_service: Served, lake: Lake, pool: Pool) -> None:
    for i in range(2):
        pool.load([{"ts": i}])
    (first, second) = pool.objects()
    next((empty_service.lake / pool.id / "data").glob(f"{second.id}.*")).write_bytes(b"rubbish")
    failures = []
    for way in (lake, shoal.open(empty_service.lake)):
        seen = []
        with pytest.raises(ShoalError) as caught:
            for value in way.query("from logs", engine="interp"):
                seen.append(shoal.to_python(value))
        assert seen == [{"ts": 0}]
        failures.append((type(caught.value), str(caught.value)))
    assert failures[0] == failures[1]
    assert second.id in failures[0][1]
    assert first.id not in failures[0][1]


def test_results_that_are_closed_early_stop_the_query(empty_service: Served, lake: Lake, pool: Pool) -> None:
    pool.load([{"ts": i, "text": f"{i * 7919:0100d}"} for i in range(50_000)])
    before = figure(empty_service, "shoal_queries_stopped_total")
    with lake.query("from logs | fork (=> pass => pass => pass => pass)") as results:
        assert next(iter(results)) is not None
    until = time.monotonic() + 30
    while figure(empty_service, "shoal_queries_stopped_total") == before and time.monotonic() < until:
        time.sleep(0.05)
    assert figure(empty_service, "shoal_queries_stopped_total") == before + 1
    assert lake.query("from logs | count()").to_list() == [50_000]


def test_what_debug_sees_and_warnings_come_on_the_side(lake: Lake, pool: Pool) -> None:
    commit = pool.load([{"ts": 1}, {"ts": 2}])
    seen: list[object] = []
    results = lake.query(
        "from logs | debug {d:ts} | sum(ts)", on_debug=lambda value: seen.append(shoal.to_python(value))
    )
    assert results.to_list() == [3]
    assert seen == [{"d": 1}, {"d": 2}]
    pool.delete([commit])
    pool.purge([commit])
    warnings: list[str] = []
    assert lake.query(f"from logs@{commit}", on_warning=warnings.append).to_list() == []
    assert len(warnings) == 1
    assert "was purged and is left out" in warnings[0]


# ---- loads


def test_names_of_files_are_in_errors_whatever_letters_they_have(pool: Pool, tmp_path: Path) -> None:
    bad = tmp_path / "größe 100%.zson"
    bad.write_text("{ts:1}\n{ts:}\n")
    with pytest.raises(InvalidInput) as caught:
        pool.load(bad)
    assert str(caught.value).startswith(f"{bad}: line 2, column 5: ")
    with bad.open("rb") as file, pytest.raises(InvalidInput) as caught:
        pool.load([{"ts": 1}, file])
    assert str(caught.value).startswith(f"{bad}: line 2, column 5: ")
    with pytest.raises(NotFound, match="file does not exist"):
        pool.load([bad, tmp_path / "nope"])
    assert pool.resolve() is None


@pytest.mark.parametrize("error", [OSError("gone"), ConnectionResetError("lost"), TimeoutError(), KeyError("x")])
def test_data_that_cannot_be_read_to_its_end_is_not_loaded(error: Exception, lake: Lake, pool: Pool) -> None:
    def records() -> Iterator[dict[str, object]]:
        for i in range(50_000):
            yield {"ts": i, "text": f"{i * 7919:050d}"}
        raise error

    with pytest.raises(type(error)) as caught:
        pool.load(records())
    assert caught.value is error
    with pytest.raises(type(error)), pool.transaction() as tx:
        tx.load(records())
    assert pool.resolve() is None
    assert lake.query("from logs").to_list() == []


def test_everything_in_a_list_is_one_commit(lake: Lake, pool: Pool, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("ts,x\n1,a\n")
    pool.load([
        {"ts": 2.0}, shoal.query("yield {ts:3.}").to_arrow(), tmp_path / "a.csv", b'{"ts":4.0}', io.BytesIO(b"{ts:5.}"),
    ])  # fmt: skip
    assert lake.query("from logs | yield ts").to_list() == [1.0, 2.0, 3.0, 4.0, 5.0]
    assert len(list(pool.log())) == 1


def test_options_of_formats_reach_the_service(lake: Lake, pool: Pool) -> None:
    pool.load(b"ts;x\n1;a\n", format="csv", options=ReadOptions(csv_delimiter=";"))
    assert lake.query("from logs").to_zson() == '{ts:1,x:"a"}'
    with pytest.raises(InvalidInput, match="cannot read format 'table'"):
        pool.load(b"x", format="table")
    with pytest.raises(InvalidInput, match="opened as text"):
        pool.load(io.StringIO("x"))


def test_text_of_some_length_is_said_of_a_commit(pool: Pool) -> None:
    message, meta = "ü\n" * 5_000, {"a": ["é", 1.5], "b": None}
    pool.load([{"ts": 1}], author="ada ☂", message=message, meta=meta)
    (commit,) = pool.log()
    assert (commit.author, commit.message, shoal.to_python(commit.meta)) == ("ada ☂", message, meta)
    with pytest.raises(TooLarge, match="commit author, message and meta take 80"):
        pool.load([{"ts": 2}], message=2 * message)


# ---- who is asking


def test_a_token_is_shown_from_the_environment_from_the_file_or_as_given(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SHOAL_TOKEN", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    store = shoal.create(tmp_path / "lake")
    store.create("logs")
    run = [sys.executable, "-m", "shoal"]
    subprocess.run([*run, "grant", "-q", "-lake", str(tmp_path / "lake"), "ada", "admin", "*"], check=True)
    made = subprocess.run(
        [*run, "tokens", "-lake", str(tmp_path / "lake"), "create", "ada"], check=True, capture_output=True
    )
    token = made.stdout.decode().strip()
    with serving(tmp_path / "lake", tmp_path, ["-auth.enabled", "-log.level", "warn"]) as served:
        with pytest.raises(Unauthenticated):
            shoal.open(served.url)
        assert [p.name for p in shoal.open(served.url, token=token).pools()] == ["logs"]
        command = [*run, "auth", "-q", "-lake", f"{served.url}/", "-configdir", "conf", "store", "-access", token]
        subprocess.run(command, check=True, cwd=tmp_path)
        assert [p.name for p in shoal.open(served.url, config=tmp_path / "conf").pools()] == ["logs"]
        monkeypatch.setenv("SHOAL_TOKEN", token)
        assert [p.name for p in shoal.open(served.url).pools()] == ["logs"]
        monkeypatch.setenv("SHOAL_TOKEN", "shoal_nonsense")
        with pytest.raises(Unauthenticated):
            shoal.open(served.url)
        assert token not in served.lines()
