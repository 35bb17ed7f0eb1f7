"""What `make demo` shows: one log of many shapes through every format, queried, and into exact columns."""

from __future__ import annotations

import io
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from shoal.formats.columns import read_columns
from shoal.model.text import format_type

RECORDS = 200_000
_COLOUR = sys.stdout.isatty() and "NO_COLOR" not in os.environ


def say(text: str) -> None:
    """A heading."""
    print(f"\n\x1b[1m{text}\x1b[0m" if _COLOUR else f"\n== {text}")


def show(command: str, directory: Path, lines: int = 12) -> None:
    """Run a command as a user would, and print the beginning of what it prints."""
    print(f"$ {command}")
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        command, shell=True, cwd=directory, env={**os.environ, "PATH": path}, capture_output=True, text=True
    )
    out = (done.stdout + done.stderr).splitlines()
    for line in out[:lines]:
        print(f"  {line if len(line) <= 110 else line[:107] + '...'}")
    if len(out) > lines:
        print(f"  ... {len(out) - lines} more lines")


def write_log(path: Path) -> None:
    """A log whose records come in several shapes."""
    dice = random.Random(1)
    with path.open("w") as file:
        for i in range(RECORDS):
            record: dict[str, object] = {"ts": f"2024-03-01T10:{i % 60:02d}:00Z", "id": i}
            match dice.randrange(4):
                case 0:
                    record |= {"kind": "http", "status": dice.choice([200, 404]), "ms": round(dice.random() * 9, 2)}
                case 1:
                    record |= {"kind": "app", "msg": "hello", "tags": ["a", "b"][: dice.randrange(3)]}
                case 2:
                    record |= {"kind": "metric", "value": dice.choice([dice.randrange(9), 0.5, "n/a", None])}
                case _:
                    record |= {"kind": "auth", "user": {"name": "ann", "id": dice.randrange(99)}}
            file.write(json.dumps(record) + "\n")


def main() -> int:
    """The whole demonstration."""
    with tempfile.TemporaryDirectory(prefix="shoal-demo-") as name:
        directory = Path(name)
        write_log(directory / "log.ndjson")
        say("A log: every line has its own shape")
        show("head -5 log.ndjson", directory)
        say("ZSON shows the exact type of everything; 1 is not 1.0 and null is not missing")
        show("head -5 log.ndjson | shoal zq -z -", directory)
        say("Any format to any other, and back without loss")
        show("head -5 log.ndjson | shoal zq -f zng -o log.zng - && shoal zq -f vng -o log.vng log.zng", directory)
        show("shoal zq -f zjson log.vng", directory)
        show("shoal zq log.vng | gzip | shoal zq -f text -", directory)
        say("Types that JSON has no word for")
        literal = "{addr:10.0.0.1,net:10.0.0.0/8,took:1h30m,port:80(port=uint16),set:|[1,2]|,type:<[string]>}"
        show(f"echo '{literal}' | shoal zq -Z -", directory, 20)
        say("Queries: search, filter, compute, summarize, over any mix of shapes")
        show("shoal zq -z 'count() by kind | sort kind' log.ndjson", directory)
        show("shoal zq -z 'kind==\"metric\" | count() by typeof(value) | sort -r count' log.ndjson", directory)
        show("shoal zq -z 'status==404 ms > 8.9 | cut id, ms | sort -r ms | head 3' log.ndjson", directory)
        say("What goes wrong with one value is a value, too")
        show("shoal zq -z 'has(value) | yield value*2 | is_error(this) | count()' log.ndjson", directory)
        say("Bad input: one line that says where, and nothing before it is lost")
        show('printf \'{"a":1}\\n{"a":}\\n\' | shoal zq -i json -z -', directory)
        columns((directory / "log.ndjson").read_bytes())
    return 0


def columns(log: bytes) -> None:
    """The log as shapes and typed columns."""
    say(f"{RECORDS:,} records into exact shapes and typed Arrow columns")
    start = time.perf_counter()
    counts: dict[str, int] = {}
    for batch in read_columns(io.BytesIO(log), "ndjson"):
        for part in batch.parts:
            shape = format_type(part.shape)
            counts[shape] = counts.get(shape, 0) + len(part.rows)
    seconds = time.perf_counter() - start
    for shape, count in sorted(counts.items(), key=lambda item: -item[1]):
        print(f"  {count:>7,}  {shape}")
    print(f"  {RECORDS / seconds:,.0f} records a second, on one core, each with its exact type")


if __name__ == "__main__":
    sys.exit(main())
