"""The interpreter on ZNG: records per second, and the share of decoding."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

from bench import logs
from shoal.engines.interp.engine import evaluate, run_program
from shoal.formats.json import reader as json_reader
from shoal.formats.zng import stream as zng
from shoal.lang.compile import compile_program

PROGRAMS = {
    "count() by _path": "count() by _path",
    "filter": "status == 500 and latency > 100.",
    "search": "gamma",
    "cut": "cut ts, host, _path",
    "put": "put slow := latency > 100.",
    "sort": "sort -r id",
}
ROUNDS = 3


def zng_file(records: int) -> Path:
    """The logs as ZNG, with the kind of record as `_path`; created on first use."""
    source = logs.path(records)
    out = source.with_suffix(".zng")
    if not out.exists():
        part = out.with_suffix(".zng-part")
        with source.open("rb") as stream, part.open("wb") as sink:
            writer = zng.Writer(sink)
            for value in run_program(compile_program("rename _path:=kind", evaluate), json_reader.read(stream)):
                writer.write(value)
            writer.close()
        part.rename(out)
    return out


def seconds(program: str | None, source: Path) -> float:
    """The seconds that a program takes on a file, or those of decoding alone; the best of some rounds."""
    return min(_once(program, source) for _ in range(ROUNDS))


def _once(program: str | None, source: Path) -> float:
    start = time.perf_counter()
    with source.open("rb") as stream:
        values = zng.read(stream)
        results = values if program is None else run_program(compile_program(program, evaluate), values)
        for _ in results:
            pass
    return time.perf_counter() - start


def measure(records: int) -> Iterator[tuple[str, float, float]]:
    """Name, records per second and share of decoding, for each program."""
    source = zng_file(records)
    decoding = seconds(None, source)
    yield "decoding alone", records / decoding, 1.0
    for name, program in PROGRAMS.items():
        taken = seconds(program, source)
        yield name, records / taken, decoding / taken
