"""Loads, queries and compactions of mixed logs, side by side with peers on the same data.

Each measurement runs in its own process, so that peak memory is separate. Candidates take turns, and the best of
several rounds counts. There is no result unless all candidates have the same records and the same answers.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import duckdb

from bench import compactions, logs, processes
from bench.loads import LOADERS, WARM_UP, Loader
from bench.processes import Measured
from bench.questions import ANSWERERS, QUESTIONS
from bench.tables import Cell, Table

_LOADS_NOTE = """\
Spark is warm: its start and a load of 20,000 records before are not counted. delta-rs and PyIceberg write an Arrow
table that DuckDB reads and sorts, which is counted. Peers infer one type for a column, Shoal keeps the exact type of
every value. Each writes with its own defaults. Spark has all cores and 4 GiB for its heap, also where it works for
Shoal; its peak is that of the driver, the JVM and the workers together, pages that these share counted for each."""
_QUERIES_NOTE = """\
Warm, the best of several. DuckDB and Spark SQL read one Parquet file of the same records, sorted by `ts`, which is a
string there as it is in the pool. The keyword is looked for in every string, also in those inside of records and lists,
by all: in SQL that is a condition for each of them. The last line is the peak of memory in MiB, on Spark that of the
driver, the JVM and the workers together."""
_COMPACTION_NOTE = """\
Each object spans the whole time. On Spark the start and a small compaction before are not counted."""
_AROUND_NOTE = "Warm, the best of several, with the same answers as above."


Runs = dict[str, list[Measured]]

_KEPT = ("shoal0", "duckdb0")
"""The loads that the queries read."""


class Disagreement(Exception):
    """The candidates have different records or answers, so that there is nothing to compare."""


def measure(records: int, rounds: int) -> Iterator[Table]:
    """All tables."""
    source = logs.path(records)
    logs.path(WARM_UP)
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        yield _loads(source, records, rounds, directory)
        answers = _Answers(records, rounds)
        yield _queries(answers, directory)
        lake = directory / "overlapping"
        compactions.fill(str(lake), source, records, compactions.OBJECTS)
        yield _compactions(lake, records, rounds)
        yield _queries_around(answers, lake)


def _in_turns(names: Iterable[str], rounds: int, run: Callable[[str, int], Measured]) -> Runs:
    """The measurements of each candidate, one per round."""
    runs: Runs = {name: [] for name in names}
    for number in range(rounds):
        for name, measurements in runs.items():
            measurements.append(run(name, number))
    return runs


def _loads(source: Path, records: int, rounds: int, directory: Path) -> Table:
    def load(candidate: str, number: int) -> Measured:
        own = directory / f"{candidate}{number}"
        own.mkdir()
        run = processes.run("bench.loads", candidate, str(source), str(own))
        _require(run.results["rows"], records, LOADERS[candidate].name)
        if own.name not in _KEPT:
            shutil.rmtree(own)
        return run

    runs = _in_turns((candidate for candidate, loader in LOADERS.items() if _is_installed(loader)), rounds, load)
    seconds = {candidate: _seconds(measurements) for candidate, measurements in runs.items()}
    rows: list[tuple[Cell, ...]] = []
    for candidate, loader in LOADERS.items():
        if candidate not in runs:
            rows.append((loader.name, "not installed", *[None] * 5))
            continue
        own, size = seconds[candidate], runs[candidate][0].results["size"] / 1e6
        ratios = own / seconds["duckdb"], own / seconds["spark"]
        rows.append((loader.name, own, *ratios, int(records / own), _peak(runs[candidate]), size))
    head = ("load, sorted by `ts`", "s", "/ DuckDB", "/ Spark", "records/s", "peak MiB", "MB written")
    return Table(f"Loads of the same NDJSON, {source.stat().st_size / 1e6:,.0f} MB", head, rows, _LOADS_NOTE)


def _is_installed(loader: Loader) -> bool:
    return find_spec(loader.package.partition(".")[0]) is not None


class _Answers:
    """Asks candidates the questions in turns; all answers must equal the first."""

    def __init__(self, records: int, rounds: int) -> None:
        self._records = records
        self._rounds = rounds
        self._first: dict[str, Any] | None = None

    def ask(self, where: dict[str, tuple[str, Path, str]]) -> Runs:
        """Ask candidates, given by name: the answerer, its directory, and the pool or file in it."""

        def answer(name: str, _: int) -> Measured:
            candidate, directory, table = where[name]
            run = processes.run("bench.questions", candidate, str(directory), table, str(self._records))
            self._first = self._first or run.results["answers"]
            _require(run.results["answers"], self._first, name)
            return run

        return _in_turns(where, self._rounds, answer)


def _queries(answers: _Answers, directory: Path) -> Table:
    _write_peer_file(directory / "duckdb0" / "data" / "rows.parquet", directory / "rows.parquet")
    lake, file = (directory / "shoal0" / "data", "logs"), (directory, "rows.parquet")
    runs = answers.ask(
        {candidate: (candidate, *(lake if candidate.startswith("shoal") else file)) for candidate in ANSWERERS}
    )
    rows: list[tuple[Cell, ...]] = []
    for question in QUESTIONS:
        here, duck, spark, sql = (_milliseconds(runs[candidate], question.name) for candidate in ANSWERERS)
        rows.append((question.name, here, duck, here / duck, spark, sql, spark / sql))
    here_peak, duck_peak, spark_peak, sql_peak = (_peak(runs[candidate]) for candidate in ANSWERERS)
    rows.append(("peak MiB", here_peak, duck_peak, None, spark_peak, sql_peak, None))
    head = ("query, ms", "Shoal, here", "DuckDB", "ratio", "Shoal, on Spark", "Spark SQL", "ratio")
    return Table("Queries of the loaded records", head, rows, _QUERIES_NOTE)


def _write_peer_file(loaded: Path, file: Path) -> None:
    """Write the data that DuckDB loaded, with `ts` as the original string."""
    text = "strftime(ts AT TIME ZONE 'UTC', '%Y-%m-%dT%H:%M:%S.%fZ')"
    duckdb.execute(f"COPY (SELECT * REPLACE ({text} AS ts) FROM '{loaded}') TO '{file}' (FORMAT parquet)")


def _compactions(lake: Path, records: int, rounds: int) -> Table:
    def compact(candidate: str, number: int) -> Measured:
        branch = f"{candidate}{number}"
        compactions.branch(str(lake), branch)
        run = processes.run("bench.compactions", candidate, str(lake), branch)
        _require(run.results["rows"], records, LOADERS[candidate].name)
        return run

    runs = _in_turns(compactions.ENGINES, rounds, compact)
    here = _seconds(runs["shoal"])
    rows: list[tuple[Cell, ...]] = []
    for candidate, measurements in runs.items():
        own, objects = _seconds(measurements), int(measurements[0].results["objects"])
        rows.append((LOADERS[candidate].name, own, own / here, int(records / own), objects, _peak(measurements)))
    head = ("compaction", "s", "/ here", "records/s", "objects after", "peak MiB")
    return Table(f"Compaction of {compactions.OBJECTS} objects that overlap", head, rows, _COMPACTION_NOTE)


def _queries_around(answers: _Answers, lake: Path) -> Table:
    cases = [(candidate, pool) for candidate in compactions.ENGINES for pool in ("logs", f"logs@{candidate}0")]
    runs = list(answers.ask({f"{candidate} on {pool}": (candidate, lake, pool) for candidate, pool in cases}).values())
    rows: list[tuple[Cell, ...]] = []
    for question in QUESTIONS:
        here, here_after, spark, spark_after = (_milliseconds(run, question.name) for run in runs)
        rows.append((question.name, here, here_after, here / here_after, spark, spark_after, spark / spark_after))
    peaks = [_peak(run) for run in runs]
    rows.append(("peak MiB", peaks[0], peaks[1], None, peaks[2], peaks[3], None))
    head = ("query, ms", "here, before", "here, after", "ratio", "on Spark, before", "on Spark, after", "ratio")
    return Table("Queries before and after compaction", head, rows, _AROUND_NOTE)


def _require(actual: object, expected: object, candidate: str) -> None:
    if actual != expected:
        raise Disagreement(f"{candidate} has {actual}, not {expected}")


def _seconds(runs: Iterable[Measured]) -> float:
    return min(float(run.results["seconds"]) for run in runs)


def _milliseconds(runs: Iterable[Measured], question: str) -> float:
    return 1000 * min(float(run.results["seconds"][question]) for run in runs)


def _peak(runs: Iterable[Measured]) -> int:
    return max(run.peak for run in runs)
