"""SQL over the pools of a lake: each is a table by its name, and `"pool@commitish"` the pool as it was there."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Literal

from shoal.api.commitish import parse_head
from shoal.api.options import Statistics
from shoal.engines.stopping import NEVER, Stop, results_stopped_by, stopped_by
from shoal.engines.tables.answers import values_of
from shoal.engines.tables.plain import DUCKDB, SPARK
from shoal.engines.tables.statements import Statement, Use
from shoal.errors import InvalidInput, NotFound
from shoal.frames.results import Results
from shoal.ids import Id
from shoal.lake.lake import Lake
from shoal.lake.pools import Pool
from shoal.lake.scans import Warn
from shoal.model.values import Value
from shoal.planner.dispatch import LARGE, choose_engine
from shoal.planner.pool_tables import PoolTable
from shoal.planner.pruned import Pruned


def ask_sql(lake: Lake, text: str, engine: str | None, warn: Warn | None, stop: Stop = NEVER) -> Results:
    """What a statement gives."""
    with stopped_by(stop):
        values = _answer(lake, Statement(text), engine, warn)
    return Results(text, results_stopped_by(stop, values), Statistics())


@dataclass(frozen=True, slots=True)
class _Read:
    """A place in a statement, and what is read there."""

    use: Use
    pool: Pool
    commit: Id | None
    pruned: Pruned


def _answer(lake: Lake, statement: Statement, engine: str | None, warn: Warn | None) -> Iterator[Value]:
    reads = _reads(lake, statement)
    chosen = _choose(engine, statement, reads)
    style = SPARK if chosen == "spark" else DUCKDB
    tables = [PoolTable(read.pool, read.commit, style) for read in reads]
    sources = [table.sources(read.pruned, warn) for table, read in zip(tables, reads, strict=True)]
    runner: Any = import_module("shoal.planner.spark_frames" if chosen == "spark" else "shoal.engines.duckdb.sandbox")
    batches = runner.run_statement(statement, [(table.form, held) for table, held in zip(tables, sources, strict=True)])
    return values_of(batches)


def _reads(lake: Lake, statement: Statement) -> list[_Read]:
    """What is read, each pool at one commit however often it is named."""
    commits: dict[str, tuple[Pool, Id | None]] = {}
    made = []
    for use in statement.uses:
        if use.name not in commits:
            pool = _find(lake, use)
            commits[use.name] = pool, pool.resolve(parse_head(use.name)[1])
        pool, commit = commits[use.name]
        made.append(_Read(use, pool, commit, PoolTable(pool, commit, DUCKDB).prune(use.conditions)))
    return made


def _find(lake: Lake, use: Use) -> Pool:
    """The pool that is named; where it is not quoted, the case of its letters makes no difference."""
    name = parse_head(use.name)[0]
    try:
        return lake.pool(name)
    except NotFound:
        alike = [config.name for config in lake.configs() if config.name.lower() == name.lower()]
        if use.is_quoted or len(alike) != 1:
            raise
        return lake.pool(alike[0])


def _choose(engine: str | None, statement: Statement, reads: list[_Read]) -> Literal["duckdb", "spark"]:
    if engine == "interp":
        raise InvalidInput("the interpreter does not speak SQL (-engine duckdb, spark or auto)")
    wanted = choose_engine(engine)
    if statement.is_description:
        return "duckdb"
    is_large = sum(read.pruned.size for read in reads) > LARGE
    return "spark" if wanted == "spark" or (wanted != "duckdb" and is_large) else "duckdb"
