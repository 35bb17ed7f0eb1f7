"""`python -m bench`: runs all benchmarks and prints tables."""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from bench import attach, commits, engines, interpreter, logs, rates, results, service, steady
from bench.tables import Table

ROUNDS = 3


def run_once(candidate: str, source: Path, threads: int) -> tuple[float, float]:
    """Seconds and MiB of one run in its own process."""
    with tempfile.TemporaryDirectory() as directory:
        command = [
            sys.executable,
            "-m",
            "bench.ndjson",
            candidate,
            str(source),
            f"{directory}/out.parquet",
            str(threads),
        ]
        out = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    seconds, memory = out.split()
    return float(seconds), float(memory)


def ndjson(source: Path, records: int) -> None:
    """NDJSON to sorted Parquet, the two taking turns."""
    print(f"\nNDJSON -> sorted Parquet, {records:,} mixed log records, {source.stat().st_size / 1e6:.0f} MB")
    print(f"{'threads':>8} {'DuckDB s':>9} {'Shoal s':>9} {'ratio':>6} {'DuckDB MiB':>11} {'Shoal MiB':>10}")
    for threads in sorted({1, min(2, os.cpu_count() or 1)}):
        runs: dict[str, list[tuple[float, float]]] = {"duckdb": [], "shoal": []}
        for _ in range(ROUNDS):
            for candidate, results_of in runs.items():
                results_of.append(run_once(candidate, source, threads))
        (peer, peer_memory), (ours, memory) = min(runs["duckdb"]), min(runs["shoal"])
        print(f"{threads:>8} {peer:>9.2f} {ours:>9.2f} {ours / peer:>6.2f} {peer_memory:>11.0f} {memory:>10.0f}")
    print("DuckDB's read_json infers one type a column; Shoal keeps the exact type of every value.")


def formats(source: Path) -> None:
    """Rates of the row formats."""
    print(f"\nRow formats, {rates.RECORDS:,} of these records, one core")
    print(f"{'format':>8} {'write rec/s':>12} {'read rec/s':>12} {'write MB/s':>11} {'read MB/s':>10}")
    for name, written, read, written_mb, read_mb in rates.measure(source):
        print(f"{name:>8} {written:>12,.0f} {read:>12,.0f} {written_mb:>11.1f} {read_mb:>10.1f}")


def language(records: int) -> None:
    """Rates of the interpreter."""
    print(f"\nThe interpreter over ZNG, {records:,} of these records, one core")
    print(f"{'program':>18} {'rec/s':>10} {'decoding':>9}")
    for name, rate, share in interpreter.measure(records):
        print(f"{name:>18} {rate:>10,.0f} {share:>9.0%}")


def lake() -> None:
    """Commits, openings, branches."""
    print("\nCommits of one record on one branch of a durable local lake")
    print(f"{'processes':>10} {'commits':>8} {'per second':>11} {'lost':>5}")
    for rate in commits.rates():
        print(f"{rate.processes:>10} {rate.commits:>8} {rate.commits / rate.seconds:>11.0f} {rate.lost:>5}")
    print("\nA branch as its history grows: to open it and run `head 1`, and to make another branch, in ms")
    print(f"{'commits':>10} {'head 1':>8} {'branch':>8}")
    for opening in commits.openings():
        print(f"{opening.commits:>10,} {opening.head:>8.1f} {opening.branch:>8.2f}")
    print(f"\n`shoal ls`, cold: {commits.cold_command():.2f} s")


def columns(records: int, rounds: int) -> list[Table]:
    """Loads, queries and compactions over columns."""
    print(f"\nPools in columns beside peers, {records:,} mixed log records")
    tables = []
    for table in engines.measure(records, rounds):
        print(f"\n{table}", flush=True)
        tables.append(table)
    return tables


def served(seconds: float, requests: int, writes: bool) -> None:
    """A service under load."""
    tables = [service.measure(seconds), steady.measure(requests)]
    for table in tables:
        print(f"\n{table}")
    if writes:
        results.write_service(tables)


PARTS = ("ndjson", "formats", "language", "lake", "attach", "engines", "service")


def numbers(text: str) -> list[int]:
    """Parse numbers separated by commas."""
    return [int(number) for number in text.split(",")]


def main() -> None:
    """Run all parts, or the ones given."""
    parser = argparse.ArgumentParser(prog="python -m bench")
    parser.add_argument(
        "--records", type=numbers, default=[1_000_000], help="number of records; several separated by commas"
    )
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="of the parts engines and attach")
    parser.add_argument("--seconds", type=float, default=service.SECONDS, help="of the part service")
    parser.add_argument("--requests", type=int, default=steady.REQUESTS, help="mixed ones, of the part service")
    parser.add_argument("--write", action="store_true", help="write the parts engines and service to their files")
    parser.add_argument("parts", nargs="*", default=PARTS, help=", ".join(PARTS))
    args = parser.parse_args()
    print(results.machine())
    first = args.records[0]
    source = logs.path(first)
    runs: dict[str, Callable[[], None]] = {
        "ndjson": lambda: ndjson(source, first),
        "formats": lambda: formats(source),
        "language": lambda: language(first),
        "lake": lake,
        "attach": lambda: print(f"\n{attach.measure(args.rounds)}"),
        "service": lambda: served(args.seconds, args.requests, args.write),
    }
    for part in args.parts:
        if part != "engines":
            runs[part]()
            continue
        tables = [(records, columns(records, args.rounds)) for records in args.records]
        if args.write:
            results.write(tables)


if __name__ == "__main__":
    main()
