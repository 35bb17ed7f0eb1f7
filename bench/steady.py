"""What a service holds while it serves an hour's worth of mixed requests: memory, file descriptors and threads.

Every request has a connection of its own. Most ask for metadata, some load, some read results of megabytes, and some
are cancelled: their clients leave in the middle of an answer that never ends. Nothing may grow with their number.
"""

from __future__ import annotations

import asyncio
import json
import random
import re
import tempfile
from collections import Counter
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import NamedTuple

import shoal
from bench.service import METADATA, connected, request
from bench.tables import Table
from shoal.ids import new, to_text
from shoal.testing.services import Served, serving

REQUESTS = 36_000
"""Ten a second, for an hour."""
CLIENTS = 16
SAMPLES = 10
_ROWS = 20_000
_ENDLESS = "yield 1 " + "| over [1,2,3,4,5,6,7,8,9,10] " * 12
_LARGE = "from wide"
_SEED = 7
LIMITS = ("-log.level", "error", "-limit.memory", "512MiB", "-limit.time", "30s")


class Holdings(NamedTuple):
    """What a process holds at a moment."""

    requests: int
    memory: int
    """Resident, in MiB."""
    files: int
    threads: int


def holdings(served: Served, requests: int) -> Holdings:
    """What a service holds now."""
    process = Path(f"/proc/{served.process.pid}")
    status = dict(re.findall(r"^(VmRSS|Threads):\s+(\d+)", (process / "status").read_text(), re.MULTILINE))
    files = len(list((process / "fd").iterdir()))
    return Holdings(requests, int(status["VmRSS"]) >> 10, files, int(status["Threads"]))


Ask = Callable[[str], Awaitable[None]]


async def _expect(url: str, question: bytes) -> None:
    async with connected(url) as wire:
        answer = await wire.ask(question)
    if answer.status != 200:
        raise RuntimeError(f"status {answer.status}: {answer.body[:200]!r}")


async def _metadata(url: str) -> None:
    await _expect(url, request("GET", random.choice(METADATA)))


async def _load(url: str) -> None:
    body = json.dumps({"id": random.randrange(10**9), "text": "a row of its own"}).encode()
    await _expect(url, request("POST", "/pool/loads/branch/main", body, Idempotency_Key=to_text(new())))


async def _query(url: str) -> None:
    body = {"query": f"from wide | id < {random.randrange(1000)} | count() by kind"}
    await _expect(url, request("POST", "/query", json.dumps(body).encode()))


async def _statement(url: str) -> None:
    body = {"statement": f"select kind, count(*) as n from wide where id < {random.randrange(1000)} group by kind"}
    await _expect(url, request("POST", "/query/sql", json.dumps(body).encode()))


async def _large(url: str) -> None:
    await _expect(url, request("POST", "/query", json.dumps({"query": _LARGE}).encode()))


async def _cancelled(url: str) -> None:
    host, _, port = url.removeprefix("http://").partition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(request("POST", "/query", json.dumps({"query": _ENDLESS}).encode()))
    await reader.read(1 << 10)
    writer.transport.abort()


MIX: tuple[tuple[Ask, float], ...] = (
    (_metadata, 0.74), (_load, 0.08), (_query, 0.08), (_statement, 0.05), (_cancelled, 0.04), (_large, 0.01),
)  # fmt: skip


def _prepare(folder: Path) -> Path:
    lake = shoal.create(folder / "lake")
    lake.create("logs", key="id").load([{"id": i} for i in range(10)])
    lake.create("loads", key="id")
    rows = [{"id": i, "kind": f"k{i % 7}", "text": f"{i} " + "x" * 100} for i in range(_ROWS)]
    lake.create("wide", key="id").load(rows)
    return folder / "lake"


async def _serve_all(served: Served, requests: int, record: Callable[[Holdings], None]) -> Counter[str]:
    """Send the requests, a few at a time, and sample what the service holds."""
    asks, weights = zip(*MIX, strict=True)
    picked = iter(random.Random(_SEED).choices(asks, weights, k=requests))
    done: Counter[str] = Counter()

    async def client() -> None:
        for ask in picked:
            await ask(served.url)
            done[ask.__name__.strip("_")] += 1
            if done.total() % (requests // SAMPLES) == 0:
                record(holdings(served, done.total()))

    async with asyncio.TaskGroup() as tasks:
        for _ in range(CLIENTS):
            tasks.create_task(client())
    return done


def run(requests: int = REQUESTS) -> tuple[list[Holdings], Counter[str]]:
    """What a service held after each tenth of the requests, and how many there were of each kind."""
    samples: list[Holdings] = []
    with tempfile.TemporaryDirectory() as name, serving(_prepare(Path(name)), Path(name), LIMITS) as served:
        done = asyncio.run(_serve_all(served, requests, samples.append))
    return samples, done


def measure(requests: int = REQUESTS) -> Table:
    """The samples as a table."""
    samples, done = run(requests)
    kinds = ", ".join(f"{count:,} {kind}" for kind, count in done.most_common())
    note = (
        f"{CLIENTS} clients, a connection for each request: {kinds}. Limits: 512 MiB and 30 s per query.\n"
        "A large answer is the whole of a pool of 20,000 records; a cancelled one never ends by itself."
    )
    head = ("requests served", "resident MiB", "file descriptors", "threads")
    return Table("What a service holds under mixed requests", head, [tuple(sample) for sample in samples], note)
