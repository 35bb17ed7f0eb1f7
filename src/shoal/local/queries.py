"""The verbs that read: query, sql, explain and describe."""

from __future__ import annotations

from typing import TYPE_CHECKING

from shoal.api.commitish import parse_head
from shoal.api.infos import Description, ScanPlan
from shoal.api.lake import Describe, Explain
from shoal.api.queries import Query, Sql
from shoal.api.results import Results
from shoal.engines.stopping import current
from shoal.lazy import lazy
from shoal.local.executor import StoreExecutor, implements
from shoal.planner.describe import describe
from shoal.planner.execute import Question, explain
from shoal.planner.lake_query import ask, ask_sql, change_of

if TYPE_CHECKING:
    from shoal.local import sql_changes
else:
    sql_changes = lazy("shoal.local.sql_changes")


@implements(Query)
def run_query(lake: StoreExecutor, request: Query) -> Results:
    """Run a program."""
    question = Question(
        request.program,
        _head(request.head),
        request.includes,
        request.memory,
        request.statistics,
        on_debug=request.on_debug,
        on_warning=request.on_warning,
        watch=request.watch,
        engine=request.engine,
        on_output=request.on_output,
    )
    return ask(lake.root, question)


@implements(Sql)
def run_sql(lake: StoreExecutor, request: Sql) -> Results:
    """Run a statement in SQL."""
    change = change_of(request.statement)
    if change is not None:
        return sql_changes.run_change(lake, request, change)
    return ask_sql(lake.root, request.statement, request.engine, request.on_warning, current())


@implements(Describe)
def describe_query(lake: StoreExecutor, request: Describe) -> Description:
    """The pools that a query reads, and how its results are arranged."""
    return describe(lake.root, Question(request.program, _head(request.head)))


@implements(Explain)
def explain_query(lake: StoreExecutor, request: Explain) -> list[ScanPlan]:
    """How a query would read each pool, and which engine would run it."""
    question = Question(request.program, _head(request.head), request.includes, engine=request.engine)
    return [
        ScanPlan(
            d.pool,
            d.commit,
            len(d.pruned.objects),
            d.pruned.total,
            d.pruned.by_key,
            d.pruned.by_zone,
            d.pruned.size,
            d.engine,
            d.why,
            d.queries,
            tuple(type(op).__name__.lower() for op in d.rest),
            d.pruned.by_partition,
        )
        for d in explain(lake.root, question)
    ]


def _head(text: str | None) -> tuple[str, str] | None:
    return None if text is None else parse_head(text)
