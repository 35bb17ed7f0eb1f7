"""Transactions over several pools beside commits to one: `python -m bench.transactions [--commits N]`.

All are durable commits of one record to each pool of a lake in a directory, in turns, so that a change of the machine's
speed affects all. A commit to one pool comes in two ways: a load, and a transaction on a branch.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import shoal
from shoal.api.lake import Lake
from shoal.api.pool import Pool

POOLS = 4


def seconds(act: Callable[[int], object], number: int) -> float:
    """How long one takes."""
    began = time.perf_counter()
    act(number)
    return time.perf_counter() - began


def over(lake: Lake, pools: int) -> Callable[[int], None]:
    """A transaction that loads a record into each of so many pools."""
    places = [f"p{number}" for number in range(pools)]

    def act(number: int) -> None:
        with lake.transaction(places) as t:
            for place in places:
                t.load(place, [{"k": number}])

    return act


def on_branch(pool: Pool) -> Callable[[int], None]:
    """A transaction on one branch."""

    def act(number: int) -> None:
        with pool.transaction() as t:
            t.load([{"k": number}])

    return act


def main() -> None:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--commits", type=int, default=200)
    commits = parser.parse_args().commits
    with tempfile.TemporaryDirectory() as folder:
        lake = shoal.create(Path(folder) / "lake")
        pools = [lake.create(f"p{number}", key="k") for number in range(POOLS)]
        kinds: dict[str, Callable[[int], object]] = {
            "load into one pool": lambda number: pools[0].load([{"k": number}]),
            "transaction on a branch": on_branch(pools[0]),
            "transaction over 2 pools": over(lake, 2),
            "transaction over 4 pools": over(lake, 4),
        }
        times: dict[str, list[float]] = {kind: [] for kind in kinds}
        for number in range(commits):
            for kind, act in kinds.items():
                times[kind].append(seconds(act, number))
        medians = {kind: statistics.median(each[commits // 10 :]) for kind, each in times.items()}
    single = medians["load into one pool"]
    print(f"{'':<26} {'ms':>7} {'ratio':>6}   median of {commits}, durable")
    for kind, median in medians.items():
        print(f"{kind:<26} {1000 * median:>7.2f} {median / single:>6.2f}")


if __name__ == "__main__":
    main()
