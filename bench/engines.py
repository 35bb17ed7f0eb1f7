"""Loads and queries of mixed logs beside DuckDB on hand-made Parquet of the same data, in one run.

The peer's file has the columns that its reader makes of the data, with `ts` as the string it is. A load is a process of
its own; queries are warm, each the best of several, and the two take turns.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import duckdb

import shoal
from bench import peak

_ROUNDS = 5


class Query(NamedTuple):
    """A question, in both languages."""

    name: str
    ours: str
    theirs: str


QUERIES = (
    Query("count by type", "count() by kind", "SELECT kind, count(*) FROM t GROUP BY kind"),
    Query(
        "filter, group, top 10",
        "status >= 404 | count() by host | sort -r count | head 10",
        "SELECT host, count(*) c FROM t WHERE status >= 404 GROUP BY host ORDER BY c DESC LIMIT 10",
    ),
    Query(
        "key range",
        "ts >= '2024-03-10T00' and ts < '2024-03-10T01' | count()",
        "SELECT count(*) FROM t WHERE ts >= '2024-03-10T00' AND ts < '2024-03-10T01'",
    ),
    Query("needle by id", "id == 777777", "SELECT * FROM t WHERE id = 777777"),
    Query("keyword anywhere", "gamma | count()", "SELECT count(*) FROM t WHERE {anywhere}"),
    Query("time histogram", "count() by h:=ts[0:13]", "SELECT substr(ts, 1, 13) h, count(*) FROM t GROUP BY h"),
)


def load_shoal(source: str, directory: str) -> None:
    """Ours: into a pool sorted by `ts`, as one commit."""
    shoal.create(f"{directory}/lake").create("logs", key="ts").load(source)


def load_duckdb(source: str, directory: str) -> None:
    """The peer: one statement."""
    query = f"SELECT * FROM read_json('{source}', format = 'newline_delimited') ORDER BY ts"
    duckdb.execute(f"COPY ({query}) TO '{directory}/peer.parquet' (FORMAT parquet)")


LOADS: dict[str, Callable[[str, str], None]] = {"shoal": load_shoal, "duckdb": load_duckdb}


def time_load(who: str, source: Path, directory: str) -> tuple[float, int]:
    """Seconds and MiB of a load in a process of its own."""
    command = [sys.executable, "-m", "bench.engines", who, str(source), directory]
    found = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    return found["seconds"], found["peak"]


def measure(source: Path) -> None:
    """Both tables."""
    with tempfile.TemporaryDirectory() as directory:
        _loads(source, directory)
        _queries(source, directory)


def _loads(source: Path, directory: str) -> None:
    found: dict[str, list[tuple[float, int]]] = {who: [] for who in LOADS}
    for place in range(3):
        for who, runs in found.items():
            own = Path(directory) / f"{who}{place}"
            own.mkdir()
            runs.append(time_load(who, source, str(own)))
    (ours, memory), (peer, peer_memory) = min(found["shoal"]), min(found["duckdb"])
    print(f"{'load':>22} {'Shoal s':>9} {'DuckDB s':>9} {'ratio':>6} {'Shoal MiB':>10} {'DuckDB MiB':>11}")
    print(f"{'sorted by ts':>22} {ours:>9.2f} {peer:>9.2f} {ours / peer:>6.2f} {memory:>10} {peer_memory:>11}")


def _queries(source: Path, directory: str) -> None:
    lake = shoal.open(f"{directory}/shoal0/lake")
    peer = duckdb.connect()
    file = f"{directory}/peer.parquet"
    text = "strftime(ts AT TIME ZONE 'UTC', '%Y-%m-%dT%H:%M:%S.%fZ')"
    peer.execute(f"COPY (SELECT * REPLACE ({text} AS ts) FROM '{directory}/duckdb0/peer.parquet') TO '{file}'")
    peer.execute(f"CREATE VIEW t AS FROM '{file}'")
    columns = peer.execute("SELECT column_name FROM (DESCRIBE t) WHERE column_type = 'VARCHAR'").fetchall()
    anywhere = " OR ".join(f"\"{name}\" ILIKE '%gamma%'" for (name,) in columns)
    print(f"\n{'query, DuckDB':>22} {'Shoal ms':>9} {'DuckDB ms':>9} {'ratio':>6}")
    for query in QUERIES:
        statement = query.theirs.replace("{anywhere}", anywhere)
        ours, theirs = [], []
        for _ in range(_ROUNDS):
            ours.append(_timed(lambda: list(lake.query(f"from logs | {query.ours}", engine="duckdb"))))  # noqa: B023
            theirs.append(_timed(lambda: peer.sql(statement).to_arrow_table()))  # noqa: B023
        a, b = min(ours) * 1000, min(theirs) * 1000
        print(f"{query.name:>22} {a:>9.1f} {b:>9.1f} {a / b:>6.2f}")


def _timed(run: Callable[[], Any]) -> float:
    began = time.perf_counter()
    run()
    return time.perf_counter() - began


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("who", choices=LOADS)
    parser.add_argument("source")
    parser.add_argument("directory")
    args = parser.parse_args()
    start = time.perf_counter()
    LOADS[args.who](args.source, args.directory)
    print(json.dumps({"seconds": time.perf_counter() - start, "peak": peak.mebibytes()}))
