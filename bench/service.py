"""A service under load: metadata requests by many concurrent clients, and small loads to one branch.

Clients are tasks of this process, each with its own persistent connection. They are as small as possible, because they
share the cores with the service. Every acknowledged load must be one commit of the branch with its own row, and every
response must be a success or a request to retry.
"""

from __future__ import annotations

import asyncio
import json
import os
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from itertools import count, cycle
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

import shoal
from bench.tables import Table
from shoal.ids import new, parse, to_text
from shoal.testing.services import Served, serving

CLIENTS = 200
LOADERS = 64
SECONDS = 60.0
LATER = (429, 503)
_SHARE_OF_LOADS = 1 / 3
"""The share of the time that each kind of load gets."""
METADATA = ("/pool/logs/branch/main", "/pool", "/pool/logs/revision/main/log")
WITHOUT_GROUPS = ("-groupcommit=false",)


class Answered(NamedTuple):
    """The response to a request."""

    status: int
    seconds: float
    body: bytes


class Wire:
    """A persistent connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    async def ask(self, request: bytes) -> Answered:
        """Send a request and read the response."""
        began = time.perf_counter()
        self._writer.write(request)
        head = await self._reader.readuntil(b"\r\n\r\n")
        body = await self._body(head.lower())
        return Answered(int(head[9:12]), time.perf_counter() - began, body)

    async def _body(self, head: bytes) -> bytes:
        if b"transfer-encoding: chunked" not in head:
            length = head.partition(b"content-length: ")[2].partition(b"\r\n")[0]
            return await self._reader.readexactly(int(length or 0))
        parts = []
        while size := int(await self._reader.readline(), 16):
            parts.append(await self._reader.readexactly(size))
            await self._reader.readexactly(2)
        await self._reader.readexactly(2)
        return b"".join(parts)


@asynccontextmanager
async def connected(url: str) -> AsyncIterator[Wire]:
    """Open a connection."""
    address = urlsplit(url)
    reader, writer = await asyncio.open_connection(address.hostname, address.port)
    try:
        yield Wire(reader, writer)
    finally:
        writer.close()


def request(method: str, path: str, body: bytes = b"", **headers: str) -> bytes:
    """A request as bytes."""
    lines = [f"{method} {path} HTTP/1.1", "Host: localhost", "Accept: application/json"]
    lines += [f"{name.replace('_', '-')}: {text}" for name, text in headers.items()]
    if body:
        lines.append(f"Content-Length: {len(body)}")
    return "\r\n".join([*lines, "", ""]).encode() + body


Work = Callable[[Wire, Callable[[], bool]], Awaitable[None]]
"""The work of a client, which runs while the function that it gets returns True."""


async def crowd(url: str, clients: int, seconds: float, work: Work) -> float:
    """Run clients concurrently; returns the seconds that it took."""
    async with asyncio.timeout(seconds + 120):
        begin = asyncio.Event()
        until = 0.0

        async def client() -> None:
            async with connected(url) as wire:
                await begin.wait()
                await work(wire, lambda: time.perf_counter() < until)

        async with asyncio.TaskGroup() as tasks:
            for _ in range(clients):
                tasks.create_task(client())
            await asyncio.sleep(0.5)  # all of them are connected by then
            began = time.perf_counter()
            until = began + seconds
            begin.set()
        return time.perf_counter() - began


def quantile(times: list[float], share: float) -> float:
    """The quantile of times in seconds, in milliseconds."""
    return 1000 * sorted(times)[min(len(times) - 1, int(share * len(times)))] if times else 0.0


# ---- metadata


def metadata(url: str, clients: int, seconds: float) -> tuple[float, list[Answered]]:
    """Metadata requests by clients that send one after the other."""
    answers: list[Answered] = []

    async def work(wire: Wire, go_on: Callable[[], bool]) -> None:
        for question in cycle([request("GET", path) for path in METADATA]):
            if not go_on():
                return
            answer = await wire.ask(question)
            answers.append(answer._replace(body=b""))
            if answer.status not in (200, *LATER):
                raise RuntimeError(f"status {answer.status}: {answer.body[:200]!r}")

    return asyncio.run(crowd(url, clients, seconds, work)), answers


# ---- loads


def loads(url: str, pool: str, clients: int, seconds: float) -> tuple[float, dict[int, str], list[float], Counter[int]]:
    """Loads of one row with an idempotency key; returns acknowledged commits by row number, and the times."""
    numbers, acknowledged = count(), dict[int, str]()
    times: list[float] = []
    statuses: Counter[int] = Counter()

    async def work(wire: Wire, go_on: Callable[[], bool]) -> None:
        while go_on():
            number = next(numbers)
            body = b'{"id":%d,"text":"a row of its own"}\n' % number
            load = request("POST", f"/pool/{pool}/branch/main", body, Idempotency_Key=to_text(new()))
            began = time.perf_counter()
            while number not in acknowledged:
                answer = await wire.ask(load)
                statuses[answer.status] += 1
                if answer.status == 200:
                    acknowledged[number] = to_text(parse(json.loads(answer.body)["commit"]))
                    times.append(time.perf_counter() - began)
                elif answer.status in LATER:
                    await asyncio.sleep(0.05)
                else:
                    raise RuntimeError(f"status {answer.status}: {answer.body[:200]!r}")

    took = asyncio.run(crowd(url, clients, seconds, work))
    return took, acknowledged, times, statuses


def check_loads(lake: Path, acknowledged: dict[int, str]) -> None:
    """Check that each acknowledged load is one commit of the branch with its own row, and that there are no others."""
    direct = shoal.open(lake)
    commits = [commit.id for commit in direct.pool("loads").log()]
    rows = Counter(direct.query("from loads | yield id").to_list())
    problems = [
        (len(set(acknowledged.values())) != len(acknowledged), "two loads got the same commit"),
        (Counter(commits) != Counter(acknowledged.values()), "the history is not what was acknowledged"),
        (rows != Counter(acknowledged.keys()), "the rows are not those that were acknowledged"),
    ]
    wrong = [text for is_wrong, text in problems if is_wrong]
    if wrong:
        raise RuntimeError(
            f"{len(acknowledged)} acknowledged, {len(commits)} commits, {sum(rows.values())} rows: {wrong}"
        )


# ---- the measurement


def _prepare(folder: Path) -> Path:
    """A lake with a few pools, one of them with a short history."""
    lake = shoal.create(folder / "lake")
    pool = lake.create("logs", key="id")
    for i in range(10):
        pool.load([{"id": i}])
    for i in range(4):
        lake.create(f"other{i}", key="id")
    lake.create("loads", key="id")
    return folder / "lake"


def _served_metadata(seconds: float) -> tuple[str | int | float, ...]:
    with (
        tempfile.TemporaryDirectory() as name,
        serving(_prepare(Path(name)), Path(name), ["-log.level", "warn"]) as served,
    ):
        metadata(served.url, CLIENTS, min(2.0, seconds))  # warm
        before = _cpu_seconds(served)
        took, answers = metadata(served.url, CLIENTS, seconds)
        times = [answer.seconds for answer in answers if answer.status == 200]
        later = sum(answer.status in LATER for answer in answers)
        used = (_cpu_seconds(served) - before) / len(answers)
    return (
        f"metadata, {CLIENTS} clients",
        round(len(times) / took),
        round(quantile(times, 0.5), 1),
        round(quantile(times, 0.99), 1),
        round(1000 * used, 2),
        later,
    )


def _served_loads(title: str, flags: tuple[str, ...], seconds: float) -> tuple[str | int | float, ...]:
    with tempfile.TemporaryDirectory() as name:
        lake = _prepare(Path(name))
        with serving(lake, Path(name), ["-log.level", "warn", *flags]) as served:
            loads(served.url, "other0", LOADERS, min(2.0, seconds))  # warm
            before = _cpu_seconds(served)
            took, acknowledged, times, statuses = loads(served.url, "loads", LOADERS, seconds)
            used = (_cpu_seconds(served) - before) / max(1, len(acknowledged))
        check_loads(lake, acknowledged)
    later = sum(statuses[status] for status in LATER)
    return (
        title,
        round(len(acknowledged) / took),
        round(quantile(times, 0.5), 1),
        round(quantile(times, 0.99), 1),
        round(1000 * used, 2),
        later,
    )


def _cpu_seconds(served: Served) -> float:
    """Processor seconds of the service."""
    fields = Path(f"/proc/{served.process.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def measure(seconds: float = SECONDS) -> Table:
    """All measurements on loopback: metadata requests for `seconds`, loads for a part of that."""
    share = seconds * _SHARE_OF_LOADS
    rows = [
        _served_metadata(seconds),
        _served_loads(f"loads, {LOADERS} clients", (), share),
        _served_loads(f"loads, {LOADERS} clients, without group commit", WITHOUT_GROUPS, share),
    ]
    head = ("requests", "/s", "p50 ms", "p99 ms", "CPU ms each", "asked to retry")
    note = (
        f"Metadata requests ran for {seconds:.0f} s, loads of one record to one branch for {share:.0f} s each way.\n"
        "The clients are tasks of one process, on the cores that the service has. Every acknowledged load was found\n"
        "to be one commit of the branch with its own row, and there was nothing else."
    )
    return Table("A service on loopback", head, rows, note)
