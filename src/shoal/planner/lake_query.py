"""Answers queries over a lake: in the language, and in SQL."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from shoal.access.view import Pools, policy_of
from shoal.api.options import Statistics
from shoal.engines.stopping import NEVER, Stop, results_stopped_by, stopped_by
from shoal.frames.results import Results
from shoal.lake.names import Warn
from shoal.lazy import lazy, load
from shoal.planner.execute import Question, compile_question, prepare_in_cut, run_dispatched

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from shoal.engines.physical import Source
    from shoal.engines.tables import answers, change_statements, statements
    from shoal.planner import reach, spark_dataframes, statement_plans
else:
    change_statements = lazy("shoal.engines.tables.change_statements")
    statements = lazy("shoal.engines.tables.statements")
    answers = lazy("shoal.engines.tables.answers")
    reach = lazy("shoal.planner.reach")
    spark_dataframes = lazy("shoal.planner.spark_dataframes")
    statement_plans = lazy("shoal.planner.statement_plans")


def ask(lake: Pools, question: Question) -> Results:
    """The results of a query in the language."""
    with stopped_by(question.stop):
        dispatched, cut = prepare_in_cut(lake, question)
    if "spark" in dispatched.engines:
        load(spark_dataframes)  # registers the data source `shoal` with the session that is about to start
        with stopped_by(question.stop):
            reach.require_lake(lake.store.uri)
    results = run_dispatched(lake, question, dispatched, cut)
    results.on_spark(lambda times: _dataframe(lake, question, times))
    return results


def _dataframe(lake: Pools, question: Question, times: str) -> DataFrame:
    with stopped_by(question.stop):
        return spark_dataframes.frame_of_program(lake, question, compile_question(lake, question), times)


# ---- SQL


def change_of(text: str) -> change_statements.ChangeStatement | None:
    """The statement in a text, if it changes a pool."""
    statement = change_statements.parse_statement(text)
    return statement if isinstance(statement, change_statements.ChangeStatement) else None


def ask_sql(lake: Pools, text: str, engine: str | None, warn: Warn | None, stop: Stop = NEVER) -> Results:
    """The results of a query in SQL."""
    with stopped_by(stop):
        plan = statement_plans.plan_statement(lake, text, engine, warn)
    return _run_statement(lake, text, plan, stop)


def ask_once(lake: Pools, text: str, reading: statement_plans.Reading, stop: Stop = NEVER) -> Results:
    """The results of a query in SQL, of which nothing is kept for the next time."""
    with stopped_by(stop):
        plan = statement_plans.plan_once(lake, statements.Statement(text), reading)
    return _run_statement(lake, text, plan, stop)


def _run_statement(lake: Pools, text: str, plan: statement_plans.StatementPlan, stop: Stop) -> Results:
    statistics = Statistics()
    with stopped_by(stop):
        _count(statistics, plan.sources)
        if plan.engine == "spark":
            reach.require_lake(lake.store.uri)
        rows = answers.batches_of(plan.run(is_trusted=policy_of(lake) is None))
    return Results(text, results_stopped_by(stop, rows), statistics, in_pieces=True)


def _count(statistics: Statistics, sources: Iterable[Source]) -> None:
    """Count the data objects of all tables. What a statement makes of their rows is its own: all of them match."""
    for source in sources:
        statistics.records_read += source.count
        statistics.records_matched += source.count
        statistics.bytes_read += source.size
        statistics.bytes_matched += source.size
