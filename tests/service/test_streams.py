"""Answers of any size take little memory, here and there; who reads slowly is waited for, who leaves is noticed."""

from __future__ import annotations

import json
import random
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from tests.service.conftest import Api

import shoal
from shoal.testing.processes import descendants
from shoal.testing.services import Served

MEDIA_TYPES = {
    "zng": "application/x-zng",
    "arrows": "application/vnd.apache.arrow.stream",
    "ndjson": "application/x-ndjson",
}
MEBI = 1 << 20
SLACK = 64 * MEBI
"""By how much the peaks of two runs of the same may differ: allocators keep what they had, and threads come and go."""
CLIENT_SLACK = 16 * MEBI
QUICK = ("quick", 100_000, 400_000, 500)
SIZES = [QUICK, pytest.param(("long", 200_000, 1_000_000, 500), marks=pytest.mark.long)]
"""A pool, two numbers of its rows, of which it has the greater, and the letters in each."""
PATIENCE = 30.0
"""Seconds until something happens, on a busy machine."""
IDLE, IDLE_CPU = 0.2, 0.05
"""A service that uses less CPU time than this within some seconds rests."""
BUSY_CPU = 0.2

CLIENT = """
import sys
from tests.service.test_streams import high_water, forget_high_water
import shoal
url, pool, engine, *counts = sys.argv[1:]
lake = shoal.open(url)
for count in map(int, counts):
    before = forget_high_water("self")
    results = lake.query(f"from {pool} | id < {count}", engine=engine)
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
    """What a process has worked, and those that it started, such as those of statements."""
    return sum(map(_own_cpu_seconds, (process, *descendants(process))))


def _own_cpu_seconds(process: int) -> float:
    try:
        fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return 0.0
    return (int(fields[11]) + int(fields[12])) / 100


def wait_until_busy(process: int) -> None:
    """Wait until a process has worked for some time."""
    until, before = time.monotonic() + PATIENCE, cpu_seconds(process)
    while cpu_seconds(process) < before + BUSY_CPU:
        assert time.monotonic() < until, "nothing goes on"
        time.sleep(0.02)


def wait_until_idle(process: int) -> None:
    """Wait until a process has nothing to do."""
    until, before = time.monotonic() + PATIENCE, -1.0
    while (now := cpu_seconds(process)) > before + IDLE_CPU:
        assert time.monotonic() < until, "something goes on"
        before = now
        time.sleep(IDLE)


pytestmark = pytest.mark.skipif(
    not Path("/proc/self/clear_refs").exists(), reason="what a process has had is asked of Linux"
)


# ---- a pool with rows


@dataclass(frozen=True)
class Rows:
    """A pool and two numbers of its rows."""

    pool: str
    few: int
    many: int

    def question(self, count: int, engine: str) -> dict[str, str]:
        return {"query": f"from {self.pool} | id < {count}", "engine": engine}


@pytest.fixture
def rows(api: Api, request: pytest.FixtureRequest) -> Rows:
    pool, few, many, letters = getattr(request, "param", QUICK)
    if pool not in [each["name"] for each in api.get("/pool")]:
        chance = random.Random(1)
        lines = (b'{"id":%d,"text":"%s"}\n' % (i, chance.randbytes(letters // 2).hex().encode()) for i in range(many))
        shoal.open(str(api.served.lake)).create(pool, key="id").load(b"".join(lines))
    return Rows(pool, few, many)


# ---- bounded memory


@pytest.mark.parametrize("rows", SIZES, indirect=True)
@pytest.mark.parametrize("name", MEDIA_TYPES)
def test_an_answer_of_many_rows_takes_the_service_no_more_memory_than_one_of_few(
    name: str, rows: Rows, api: Api
) -> None:
    process = api.served.process.pid
    forget_high_water(process)
    peaks, sizes = [], []
    for count in (*[rows.few] * 4, rows.many):  # after a few times, what allocators keep stays the same
        sizes.append(sum(map(len, chunks(api, rows.question(count, "duckdb"), MEDIA_TYPES[name]))))
        peaks.append(high_water(process))
    print(f"{name}: peaks of {[each // MEBI for each in peaks]} MiB for {[each // MEBI for each in sizes]} MiB")
    assert sizes[-1] > sizes[0] + 2 * SLACK, "too little to tell"
    assert peaks[-1] < peaks[-2] + SLACK


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
def test_neither_does_it_take_the_client(engine: str, rows: Rows, api: Api) -> None:
    process = api.served.process.pid
    command = [sys.executable, "-c", CLIENT, api.served.url, rows.pool, engine]
    command += map(str, (rows.few // 10, rows.few // 10, rows.many // 4))
    before = forget_high_water(process)
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    first, few, many = map(int, done.stdout.split())
    served = high_water(process) - before
    print(f"{engine}: client {[each // MEBI for each in (first, few, many)]} MiB, service {served // MEBI} MiB")
    assert many < few + CLIENT_SLACK
    assert served < 2 * SLACK


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


def test_a_slow_reader_is_waited_for_and_gets_everything(rows: Rows, api: Api) -> None:
    process, many = api.served.process.pid, rows.many
    before = forget_high_water(process)
    with Slow(api.served, "/query", rows.question(many, "duckdb")) as slow:
        first = slow.read(1000)
        wait_until_idle(process)  # it fills its queue and the buffers
        assert running(api) == 1, "the service does not wait for the reader"
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
    wait_until_running(api, 0)


# ---- clients that leave


def running(api: Api) -> int:
    """Queries that the service says it is at."""
    text = api.call("GET", "/metrics").data.decode()
    return int(float(next(each.split()[1] for each in text.splitlines() if each.startswith("shoal_queries_running "))))


def wait_until_running(api: Api, count: int) -> None:
    until = time.monotonic() + PATIENCE
    while running(api) != count:
        assert time.monotonic() < until, f"{running(api)} queries are running instead of {count}"
        time.sleep(0.02)


ENDLESS: dict[str, tuple[str, dict[str, str]]] = {
    "DuckDB, before any result": (
        "/query/sql",
        {
            "statement": "select sum(a.id % b.id) as s from quick a, quick b where a.id > 0 and b.id > 0",
            "engine": "duckdb",
        },
    ),
    "the interpreter, before any result": (
        "/query",
        {"query": "from quick | k:=1 | join (from quick | k:=1) on k=k | count()", "engine": "interp"},
    ),
    "DuckDB, amid results": ("/query", {"query": "from quick", "engine": "duckdb"}),
    "the interpreter, amid results": ("/query", {"query": "from quick", "engine": "interp"}),
}


@pytest.mark.parametrize("case", ENDLESS)
def test_a_client_that_leaves_ends_its_query(case: str, rows: Rows, api: Api) -> None:
    wait_until_running(api, 0)
    path, body = ENDLESS[case]
    with Slow(api.served, path, body) as slow:
        wait_until_running(api, 1)
        if "amid" in case:
            assert slow.read(1000).startswith(b"HTTP/1.1 200 OK")
            wait_until_idle(api.served.process.pid)
        else:
            wait_until_busy(api.served.process.pid)
        assert running(api) == 1
    wait_until_running(api, 0)
    wait_until_idle(api.served.process.pid)
    assert api.query("from quick | count()") == [rows.many]
