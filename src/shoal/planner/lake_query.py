"""Answers queries over a lake: in the language, and in SQL, where each pool is a table by its name.

In SQL `"pool@commitish"` is the pool as it was there.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from shoal.access.view import Pools, policy_of
from shoal.api.commitish import parse_head
from shoal.api.options import Statistics
from shoal.engines.stopping import NEVER, Stop, results_stopped_by, stopped_by
from shoal.errors import NotFound
from shoal.frames.results import Results
from shoal.ids import Id
from shoal.lake.names import Warn
from shoal.lake.pools import Pool
from shoal.lazy import lazy, load
from shoal.model.node import frozen
from shoal.planner.engine_choice import for_statement
from shoal.planner.execute import Question, compile_question, prepare, run_dispatched
from shoal.planner.prune import Pruned

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from shoal.engines.duckdb import sandbox
    from shoal.engines.physical import Source
    from shoal.engines.tables import answers, plain, statements
    from shoal.formats.columns.batches import Batch
    from shoal.planner import reach, scan_units, spark_dataframes
else:
    sandbox = lazy("shoal.engines.duckdb.sandbox")
    answers = lazy("shoal.engines.tables.answers")
    plain = lazy("shoal.engines.tables.plain")
    statements = lazy("shoal.engines.tables.statements")
    reach = lazy("shoal.planner.reach")
    scan_units = lazy("shoal.planner.scan_units")
    spark_dataframes = lazy("shoal.planner.spark_dataframes")


def ask(lake: Pools, question: Question) -> Results:
    """The results of a query in the language."""
    with stopped_by(question.stop):
        dispatched = prepare(lake, question)
    if "spark" in dispatched.engines:
        load(spark_dataframes)  # registers the data source `shoal` with the session that is about to start
        with stopped_by(question.stop):
            reach.require_lake(lake.store.uri)
    results = run_dispatched(lake, question, dispatched)
    results.on_spark(lambda times: _dataframe(lake, question, times))
    return results


def _dataframe(lake: Pools, question: Question, times: str) -> DataFrame:
    with stopped_by(question.stop):
        return spark_dataframes.frame_of_program(lake, question, compile_question(lake, question), times)


# ---- SQL


def ask_sql(lake: Pools, text: str, engine: str | None, warn: Warn | None, stop: Stop = NEVER) -> Results:
    """The results of an SQL statement."""
    statistics = Statistics()
    with stopped_by(stop):
        rows = _answer(lake, statements.Statement(text), engine, warn, statistics)
    return Results(text, results_stopped_by(stop, rows), statistics, in_pieces=True)


@frozen
class _Read:
    """A use of a table in a statement, and what it reads."""

    use: statements.Use
    pool: Pool
    commit: Id | None
    pruned: Pruned


def _answer(
    lake: Pools, statement: statements.Statement, name: str | None, warn: Warn | None, statistics: Statistics
) -> Iterator[Batch]:
    reads = _reads(lake, statement, warn)
    engine = for_statement(name, sum(read.pruned.size for read in reads), statement.is_description)
    style = plain.SPARK if engine == "spark" else plain.DUCKDB
    tables = [scan_units.PoolTable(read.pool, read.commit, style) for read in reads]
    sources = [table.sources(read.pruned, warn) for table, read in zip(tables, reads, strict=True)]
    _count(statistics, sources)
    read = [(table.form, rows) for table, rows in zip(tables, sources, strict=True)]
    if engine == "spark":
        reach.require_lake(lake.store.uri)
        return answers.batches_of(spark_dataframes.run_statement(statement, read))
    return answers.batches_of(sandbox.run_statement(statement, read, is_trusted=policy_of(lake) is None))


def _count(statistics: Statistics, tables: list[list[Source]]) -> None:
    """Count the data objects of all tables. What a statement makes of their rows is its own: all of them match."""
    for source in (source for sources in tables for source in sources):
        statistics.records_read += source.count
        statistics.records_matched += source.count
        statistics.bytes_read += source.size
        statistics.bytes_matched += source.size


def _reads(lake: Pools, statement: statements.Statement, warn: Warn | None) -> list[_Read]:
    """What a statement reads; each pool is at one commit however often it is named."""
    commits: dict[str, tuple[Pool, Id | None]] = {}
    reads = []
    for use in statement.uses:
        if use.name not in commits:
            pool = _pool(lake, use)
            commits[use.name] = pool, pool.resolve(parse_head(use.name)[1], warn)
        pool, commit = commits[use.name]
        pruned = scan_units.PoolTable(pool, commit, plain.DUCKDB).prune(use.conditions)
        reads.append(_Read(use, pool, commit, pruned))
    return reads


def _pool(lake: Pools, use: statements.Use) -> Pool:
    """The pool of a table; unless the name is quoted, upper and lower case are the same."""
    name = parse_head(use.name)[0]
    try:
        return lake.pool(name)
    except NotFound:
        alike = [config.name for config in lake.configs() if config.name.lower() == name.lower()]
        if use.is_quoted or len(alike) != 1:
            raise
        return lake.pool(alike[0])
