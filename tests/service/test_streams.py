"""Answers of any size take little memory, here and there; who reads slowly is waited for, who leaves is noticed."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from tests.service.conftest import Api

import shoal
from shoal.testing.services import Served

MEDIA_TYPES = {
    "zng": "application/x-zng",
    "arrows": "application/vnd.apache.arrow.stream",
    "ndjson": "application/x-ndjson",
}
MEBI = 1 << 20
SLACK = 40 * MEBI
"""What may differ between two runs of the same: allocators keep what they were given, and threads come and go."""
QUICK = (40_000, 200_000)
SIZES = [QUICK, pytest.param((200_000, 1_000_000), marks=pytest.mark.long)]
GONE_SECONDS = 2.0

CLIENT = """
import sys
from tests.service.test_streams import high_water, forget_high_water
import shoal
url, engine, *counts = sys.argv[1:]
lake = shoal.open(url)
for count in map(int, counts):
    before = forget_high_water("self")
    results = lake.query(f"from logs | id < {count}", engine=engine)
    assert sum(1 for _ in results) == count
    print(high_water("self") - before)
"""


# ---- memory of processes


def high_water(process: int | str) -> int:
    """The most memory, in bytes, that a process has had since its mark was forgotten."""
    return _status(process, "VmHWM")


def forget_high_water(process: int | str) -> int:
    """Let the mark begin anew with what is there now, and return that."""
    Path(f"/proc/{process}/clear_refs").write_text("5")
    return _status(process, "VmRSS")


def _status(process: int | str, name: str) -> int:
    lines = Path(f"/proc/{process}/status").read_text().splitlines()
    return int(next(line.split()[1] for line in lines if line.startswith(f"{name}:"))) * 1024


def cpu_seconds(process: int) -> float:
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / 100


pytestmark = pytest.mark.skipif(
    not Path("/proc/self/clear_refs").exists(), reason="what a process has had is asked of Linux"
)


# ---- a pool with rows


@pytest.fixture
def rows(api: Api, request: pytest.FixtureRequest) -> tuple[int, int]:
    """Two numbers of rows, of which the pool has the greater."""
    few, many = getattr(request, "param", QUICK)
    names = [each["name"] for each in api.get("/pool")]
    if "logs" not in names:
        api.post("/pool", {"name": "logs", "layout": {"order": "asc", "keys": [["id"]]}})
    have = sum(api.query("from logs | count()"))  # of nothing there is no count
    if have < many:
        lake = shoal.open(str(api.served.lake))
        lake.pool("logs").load(b"".join(map(line, range(have, many))))
    return few, many


def line(number: int) -> bytes:
    return b'{"id":%d,"text":"%s","even":%s}\n' % (
        number,
        b"".join(b"%x" % (number * each % 1_000_003) for each in (7919, 104_729, 611_953, 15_485_863) * 4),
        b"true" if number % 2 == 0 else b"false",
    )


def body_of(count: int, engine: str) -> dict[str, str]:
    return {"query": f"from logs | id < {count}", "engine": engine}


# ---- bounded memory


@pytest.mark.parametrize("rows", SIZES, indirect=True)
@pytest.mark.parametrize("name", MEDIA_TYPES)
def test_an_answer_of_many_rows_takes_the_service_no_more_memory_than_one_of_few(
    name: str, rows: tuple[int, int], api: Api
) -> None:
    process = api.served.process.pid
    taken, sizes = [], []
    for count in (rows[0], *rows):  # the first time, libraries are loaded
        before = forget_high_water(process)
        sizes.append(sum(map(len, chunks(api, body_of(count, "duckdb"), MEDIA_TYPES[name]))))
        taken.append(high_water(process) - before)
    assert sizes[2] > 4 * sizes[1] > 2 * MEBI
    print(f"{name}: {[each // MEBI for each in taken]} MiB for {[each // MEBI for each in sizes]} MiB")
    assert taken[2] < taken[1] + SLACK
    assert api.query("from logs | count()") == [rows[1]]


def chunks(api: Api, body: dict[str, str], media_type: str) -> Iterator[bytes]:
    headers = {"Accept": media_type, "Content-Type": "application/json"}
    with api.http.request(
        "POST",
        f"{api.served.url}/query",
        body=json.dumps(body),
        headers=headers,
        preload_content=False,
        retries=False,
        timeout=120,
    ) as answer:
        assert answer.status == 200, answer.data
        yield from answer.stream(MEBI)


@pytest.mark.parametrize("rows", SIZES, indirect=True)
@pytest.mark.parametrize("engine", ["duckdb", "interp"])
def test_neither_does_it_take_the_client(engine: str, rows: tuple[int, int], api: Api) -> None:
    process = api.served.process.pid
    command = [sys.executable, "-c", CLIENT, api.served.url, engine, *map(str, (rows[0], *rows))]
    before = forget_high_water(process)
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    first, few, many = map(int, done.stdout.split())
    served = high_water(process) - before
    print(f"{engine}: client {[each // MEBI for each in (first, few, many)]} MiB, service {served // MEBI} MiB")
    assert many < few + SLACK
    assert served < 4 * SLACK


# ---- slow readers


class Slow:
    """A query by hand, whose answer is read when it is asked for."""

    def __init__(self, served: Served, path: str, body: dict[str, Any], accept: str = "application/x-ndjson") -> None:
        place, data = urlsplit(served.url), json.dumps(body).encode()
        self.wire = socket.create_connection((place.hostname, place.port), timeout=60)
        self.wire.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 16)
        head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nAccept: {accept}\r\nConnection: close\r\n"
        self.wire.sendall(
            f"{head}Content-Type: application/json\r\nContent-Length: {len(data)}\r\n\r\n".encode() + data
        )

    def __enter__(self) -> Slow:
        return self

    def __exit__(self, *failure: object) -> None:
        self.wire.close()

    def read(self, size: int) -> bytes:
        return self.wire.recv(size)


def test_a_slow_reader_is_waited_for_and_gets_everything(rows: tuple[int, int], api: Api) -> None:
    process, many = api.served.process.pid, rows[1]
    before = forget_high_water(process)
    with Slow(api.served, "/query", body_of(many, "duckdb")) as slow:
        first = slow.read(1000)
        time.sleep(1)  # what the queue and the buffers hold is made meanwhile
        worked = cpu_seconds(process)
        time.sleep(1.5)
        assert cpu_seconds(process) - worked < 0.3, "the service goes on although nobody reads"
        assert running(api) == 1
        took = high_water(process) - before
        parts = [first]
        while part := slow.read(1 << 16):
            parts.append(part)
    answer = b"".join(parts)
    assert answer.startswith(b"HTTP/1.1 200 OK")
    assert answer.count(b'"id":') == many
    assert answer.endswith(b"0\r\n\r\n")
    print(f"{took // MEBI} MiB before it was read, {(high_water(process) - before) // MEBI} MiB at its end")
    assert high_water(process) - before < SLACK + took
    wait_until_none_runs(api)


# ---- clients that leave


def running(api: Api) -> int:
    """Queries that the service says it is at."""
    text = api.call("GET", "/metrics").data.decode()
    return int(float(next(each.split()[1] for each in text.splitlines() if each.startswith("shoal_queries_running "))))


def wait_until_none_runs(api: Api) -> float:
    began = time.monotonic()
    while running(api):
        assert time.monotonic() < began + GONE_SECONDS, "the query goes on although nobody is there"
        time.sleep(0.02)
    return time.monotonic() - began


ENDLESS: dict[str, tuple[str, dict[str, str]]] = {
    "DuckDB, before any result": (
        "/query/sql",
        {
            "statement": "select sum(a.id % b.id) as s from logs a, logs b where a.id > 0 and b.id > 0",
            "engine": "duckdb",
        },
    ),
    "the interpreter, before any result": (
        "/query",
        {"query": "from logs | k:=1 | join (from logs | k:=1) on k=k | count()", "engine": "interp"},
    ),
    "DuckDB, amid results": ("/query", body_of(1 << 40, "duckdb")),
    "the interpreter, amid results": ("/query", body_of(1 << 40, "interp")),
}


@pytest.mark.parametrize("case", ENDLESS)
def test_a_client_that_leaves_ends_its_query(case: str, rows: tuple[int, int], api: Api) -> None:
    wait_until_none_runs(api)
    path, body = ENDLESS[case]
    with Slow(api.served, path, body) as slow:
        until = time.monotonic() + 30
        while not running(api):
            assert time.monotonic() < until
            time.sleep(0.01)
        if "amid" in case:
            assert slow.read(1000).startswith(b"HTTP/1.1 200 OK")
        time.sleep(0.5)
        assert running(api) == 1
    print(f"{case}: ended after {wait_until_none_runs(api):.2f} s")
    worked = cpu_seconds(api.served.process.pid)
    time.sleep(0.5)
    assert cpu_seconds(api.served.process.pid) - worked < 0.3, "something goes on"
    assert api.query("from logs | count()") == [rows[1]]
