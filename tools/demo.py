"""What `make demo` shows: a log of many shapes on its way through a lake, on Spark in local mode.

Every step is a line of Python that is printed and then run, so that all of it can be typed into a session.
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
from shoal.api.protocol import Diff
from shoal.engines.progress import watching
from shoal.engines.spark.session import spark_session
from shoal.model.text import format_value
from shoal.model.values import Value

RECORDS = 300_000
_COLOUR = sys.stdout.isatty() and "NO_COLOR" not in os.environ
_WIDTH = min(shutil.get_terminal_size().columns, 120) - 2


def say(text: str) -> None:
    """A heading."""
    print(f"\n\x1b[1m{text}\x1b[0m" if _COLOUR else f"\n== {text}")


class Bar:
    """How far something has come: on a terminal a bar that grows, elsewhere nothing."""

    def __init__(self, what: str) -> None:
        self._what = what

    def __call__(self, done: int, total: int) -> None:
        if not sys.stdout.isatty():
            return
        if not total:
            print("\r\x1b[K", end="", flush=True)
            return
        filled = 30 * min(done, total) // total
        print(f"\r  [{'#' * filled}{'.' * (30 - filled)}] {done}/{total} {self._what}", end="", flush=True)


class Session:
    """Lines of Python, shown and run."""

    def __init__(self, **names: Any) -> None:
        self.names: dict[str, Any] = {"shoal": shoal, **names}

    def run(self, code: str, lines: int = 8) -> None:
        """Show a line, run it, and show what it gives."""
        print(f">>> {code}")
        began = time.perf_counter()
        with watching(Bar("tasks")):
            try:
                found = eval(code, self.names)
            except SyntaxError:
                exec(code, self.names)
                found = None
            shown = list(_lines(found))
        seconds = time.perf_counter() - began
        for line in shown[:lines]:
            print(f"  {line if len(line) <= _WIDTH else line[: _WIDTH - 3] + '...'}")
        if len(shown) > lines:
            print(f"  ... {len(shown) - lines} more")
        if seconds > 0.5:
            print(f"  ({seconds:.1f} s)")


def _lines(found: Any) -> Iterator[str]:
    if found is None:
        return
    if isinstance(found, Diff):
        yield f"{len(found.added)} data objects more, {len(found.removed)} fewer"
    elif isinstance(found, str):
        yield from found.splitlines()
    elif isinstance(found, Iterable):
        for item in found:
            yield format_value(item) if isinstance(item, Value) else str(item)
    else:
        yield str(found)


def write_log(path: Path) -> None:
    """A log whose records come in several shapes, and some of whose sensors write words for numbers."""
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
def _standing_in(directory: Path) -> Iterator[None]:
    before = Path.cwd()
    os.chdir(directory)
    try:
        yield
    finally:
        os.chdir(before)


def main() -> int:
    """The whole demonstration."""
    began = time.perf_counter()
    with tempfile.TemporaryDirectory(prefix="shoal-demo-") as name, _standing_in(Path(name)):
        say(f"A log of {RECORDS:,} records: every line has its own shape")
        write_log(Path("log.json"))
        with open("log.json") as file:
            for _ in range(4):
                print(f"  {file.readline().rstrip()}")
        print("  ...")
        tell()
    print(f"\nAll of it took {time.perf_counter() - began:.0f} s.")
    return 0


def tell() -> None:
    """What happens in the lake."""
    session = Session()
    say("Spark starts, on this machine")
    began = time.perf_counter()
    version = spark_session().version
    print(f"  Spark {version}, {time.perf_counter() - began:.1f} s")

    say("A lake is a directory, or a bucket. A pool has a key, and no schema")
    session.run("lake = shoal.create('lake')")
    session.run("logs = lake.create('logs', key='ts')")
    session.run("logs.load([{'ts': '2024-02-29T00:00:00Z', 'kind': 'begin'}], message='the beginning')")

    say("The log is loaded on a branch, by tasks of Spark, as one commit")
    session.run("logs.create_branch('incoming')")
    session.run("logs.load('log.json', branch='incoming', engine='spark', message='a day of logs')")
    session.run("lake.query('from logs | count()')")

    say("Queries run where the data is; each record has kept its exact type")
    session.run("lake.query('from logs@incoming | count() by kind | sort kind', engine='spark')")
    session.run(
        "lake.query('from logs@incoming | has(value) | count() by typeof(value) | sort -r count', engine='spark')"
    )

    say('Some sensors write "n/a" for a number: bad data, found by its type')
    session.run("bad = 'typeof(value) == <string>'")
    session.run("lake.query(f'from logs@incoming | {bad} | head 2')")

    say("It is fixed on the branch, in one transaction: the bad records out, the same ones with a null in")
    session.run("fixed = list(lake.query(f'from logs@incoming | {bad} | put value:=float64(null)', engine='spark'))")
    session.run(
        "with logs.transaction('incoming', message='n/a is null') as change:"
        " change.delete(where=bad); change.load(fixed)"
    )
    session.run("lake.query('from logs@incoming | has(value) | count() by typeof(value) | sort -r count')")

    say("Now it may be seen by all: the branch is merged")
    session.run("logs.create_tag('before', 'main')")
    session.run("logs.merge('incoming')")
    session.run("[f'{c.id[:9]}  {c.message.splitlines()[0]}' for c in logs.log()]")

    say("Back in time: the tag still stands for what was there")
    session.run("lake.query('from logs | count()')")
    session.run("lake.query('from logs@before | count()')")

    say("A query reads the objects that can hold an answer, and no others")
    session.run("[plan.pruning() for plan in lake.explain('from logs | ts < \"2024-03-01\"')]")

    say("Objects that overlap are compacted, by tasks of Spark; what a query gives stays the same")
    session.run("[f'{o.count:>7,} records' for o in logs.objects()]")
    session.run("list(logs.compact_all(engine='spark'))")
    session.run("[f'{o.count:>7,} records' for o in logs.objects()]")

    say("What has changed since the tag")
    session.run("logs.diff('before', 'main')")


if __name__ == "__main__":
    sys.exit(main())
