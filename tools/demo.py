"""The demonstration of `make demo`: load, query, fix, merge and compact a log on Spark in local mode.

Each step is a line of Python that is printed and then run, so you can type it into your own session.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import shoal
from shoal.api.infos import Diff
from shoal.engines.progress import watching
from shoal.engines.spark.session import spark_session
from shoal.model.text import format_value
from shoal.model.values import Value

RECORDS = 300_000
_COLOUR = sys.stdout.isatty() and "NO_COLOR" not in os.environ
_WIDTH = min(shutil.get_terminal_size().columns, 120) - 2


def say(text: str) -> None:
    """Print a heading."""
    print(f"\n\x1b[1m{text}\x1b[0m" if _COLOUR else f"\n== {text}")


class Bar:
    """A progress bar on a terminal; prints nothing elsewhere."""

    def __init__(self, unit: str) -> None:
        self._unit = unit

    def __call__(self, done: int, total: int) -> None:
        if not sys.stdout.isatty():
            return
        if not total:
            print("\r\x1b[K", end="", flush=True)
            return
        filled = 30 * min(done, total) // total
        print(f"\r  [{'#' * filled}{'.' * (30 - filled)}] {done}/{total} {self._unit}", end="", flush=True)


class Session:
    """Prints lines of Python and runs them."""

    def __init__(self, **names: Any) -> None:
        self.names: dict[str, Any] = {"shoal": shoal, **names}

    def run(self, code: str, lines: int = 8) -> None:
        """Print a line, run it, and print its result."""
        print(f">>> {code}")
        began = time.perf_counter()
        with watching(Bar("tasks")):
            try:
                result = eval(code, self.names)
            except SyntaxError:
                exec(code, self.names)
                result = None
            output = list(_lines(result))
        seconds = time.perf_counter() - began
        for line in output[:lines]:
            print(f"  {line if len(line) <= _WIDTH else line[: _WIDTH - 3] + '...'}")
        if len(output) > lines:
            print(f"  ... {len(output) - lines} more")
        if seconds > 0.5:
            print(f"  ({seconds:.1f} s)")


def _lines(result: Any) -> Iterator[str]:
    if result is None:
        return
    if isinstance(result, Diff):
        yield f"{len(result.added)} data objects added, {len(result.removed)} removed"
    elif isinstance(result, str):
        yield from result.splitlines()
    elif isinstance(result, Iterable):
        for item in result:
            yield format_value(item) if isinstance(item, Value) else str(item)
    else:
        yield str(result)


def write_log(path: Path) -> None:
    """Write a log with records of several shapes; some sensors write strings instead of numbers."""
    dice = random.Random(1)
    bar = Bar("records")
    with path.open("w") as file:
        for i in range(RECORDS):
            if i % 20_000 == 0:
                bar(i, RECORDS)
            second = dice.randrange(86_400)
            ts = f"2024-03-01T{second // 3600:02d}:{second // 60 % 60:02d}:{second % 60:02d}Z"
            record: dict[str, object] = {"ts": ts, "id": i}
            match dice.randrange(4):
                case 0:
                    record |= {"kind": "http", "status": dice.choice([200, 404]), "ms": round(dice.random() * 9, 2)}
                case 1:
                    record |= {"kind": "app", "msg": "hello", "tags": ["a", "b"][: dice.randrange(3)]}
                case 2:
                    record |= {"kind": "metric", "value": dice.choice([dice.randrange(9), 0.5, "n/a"])}
                case _:
                    record |= {"kind": "auth", "user": {"name": "ann", "id": dice.randrange(99)}}
            file.write(json.dumps(record) + "\n")
    bar(0, 0)


@contextmanager
def _working_directory(directory: Path) -> Iterator[None]:
    before = Path.cwd()
    os.chdir(directory)
    try:
        yield
    finally:
        os.chdir(before)


def main() -> int:
    """Write a log and run every step."""
    began = time.perf_counter()
    with tempfile.TemporaryDirectory(prefix="shoal-demo-") as name, _working_directory(Path(name)):
        say(f"A log of {RECORDS:,} records: every line has its own shape")
        write_log(Path("log.json"))
        with open("log.json") as file:
            for _ in range(4):
                print(f"  {file.readline().rstrip()}")
        print("  ...")
        run_steps()
    print(f"\nTotal time: {time.perf_counter() - began:.0f} s.")
    return 0


def run_steps() -> None:
    """Load, query, fix, merge and compact the log."""
    session = Session()
    say("Start Spark on this machine")
    began = time.perf_counter()
    version = spark_session().version
    print(f"  Spark {version}, {time.perf_counter() - began:.1f} s")

    say("Create a lake (a directory or a bucket) and a pool, which has a key but no schema")
    session.run("lake = shoal.create('lake')")
    session.run("logs = lake.create('logs', key='ts')")
    session.run("logs.load([{'ts': '2024-02-29T00:00:00Z', 'kind': 'begin'}], message='first record')")

    say("Load the log on a branch: Spark tasks write, one commit publishes")
    session.run("incoming = logs.create_branch('incoming')")
    session.run("incoming.load('log.json', engine='spark', message='a day of logs')")
    session.run("lake.query('from logs | count()')")

    say("Query it in SQL and in Zed; each record has kept its exact type")
    session.run("lake.sql('select kind, count(*) as n from \"logs@incoming\" group by kind order by kind')")
    session.run("lake.query('from logs@incoming | count() by kind | sort kind', engine='spark')")
    session.run(
        "lake.query('from logs@incoming | has(value) | count() by typeof(value) | sort -r count', engine='spark')"
    )

    say('Some sensors write "n/a" instead of a number: find bad data by its type')
    session.run("bad = 'typeof(value) == <string>'")
    session.run("lake.query(f'from logs@incoming | {bad} | head 2')")

    say("Fix it on the branch, in one transaction: replace the bad values by null")
    session.run("fixed = list(lake.query(f'from logs@incoming | {bad} | put value:=float64(null)', engine='spark'))")
    session.run(
        "with incoming.transaction(message='n/a is null') as change: change.delete(where=bad); change.load(fixed)"
    )
    session.run("lake.query('from logs@incoming | has(value) | count() by typeof(value) | sort -r count')")

    say("Merge the branch, so that everybody sees the data")
    session.run("logs.create_tag('before', 'main')")
    session.run("logs.merge('incoming')")
    session.run("[f'{c.id[:9]}  {c.message.splitlines()[0]}' for c in logs.log()]")

    say("Travel in time: the tag still shows the old state")
    session.run("lake.query('from logs | count()')")
    session.run("lake.query('from logs@before | count()')")

    say("A query reads only the objects that can match")
    session.run("[plan.pruning() for plan in lake.explain('from logs | ts < \"2024-03-01\"')]")

    say("Compact overlapping objects with Spark tasks; query results stay the same")
    session.run("[f'{o.count:>7,} records' for o in logs.objects()]")
    session.run("list(logs.compact_all(engine='spark'))")
    session.run("[f'{o.count:>7,} records' for o in logs.objects()]")

    say("Show what has changed since the tag")
    session.run("logs.diff('before', 'main')")


if __name__ == "__main__":
    sys.exit(main())
