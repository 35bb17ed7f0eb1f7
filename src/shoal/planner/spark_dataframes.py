"""DataFrames of Spark over a lake, and the views and the source that Spark code finds it by."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from shoal import errors
from shoal.access.view import Pools
from shoal.engines.physical import Source
from shoal.engines.spark.jobs import TASKS_PER_CORE, reason_of, stoppable
from shoal.engines.spark.session import spark_session, when_opened
from shoal.engines.stopping import current
from shoal.engines.tables.forms import TableForm
from shoal.engines.tables.statements import Statement
from shoal.errors import InvalidInput, ShoalError, StorageFailure, Unsupported
from shoal.lang import plan
from shoal.lazy import lazy
from shoal.planner.execute import Question
from shoal.planner.spark_plan import SparkPlan, plan_program, plan_sources, style_of
from shoal.storage.uris import require_reach

if TYPE_CHECKING:
    from pyspark import logger as pyspark_logger
    from pyspark.sql import DataFrame, SparkSession

    from shoal.planner import spark_datasource
else:
    pyspark_logger = lazy("pyspark.logger")
    spark_datasource = lazy("shoal.planner.spark_datasource")

_PUSHDOWN = "spark.sql.python.filterPushdown.enabled"
_FOR_STATEMENTS = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.caseSensitive": "false",
    "spark.sql.runSQLOnFiles": "false",
    "spark.sql.debug.maxToStringFields": "1000000",  # the plan is checked as text
}
"""What a statement means does not depend on what others set, and it reads no files."""
_OF_THE_SESSION = re.compile(r"\b(?:current|session)_(?:user|database|catalog|schema)\(\)")
_OF_THE_CLUSTER = ("PythonException", "SparkException", "SparkNoSuchElementException", "StreamingQueryException")
_OURS = re.compile(r"^(shoal\.[\w.]*)\.(\w+): (.+)$", re.MULTILINE)


def register(spark: SparkSession) -> None:
    """Make the source `shoal` known to a session."""
    # With the option `prune` it refuses to be asked with this setting off.
    spark.conf.set(_PUSHDOWN, "true")
    with _active(spark):
        spark.dataSource.register(spark_datasource.ShoalSource)


@contextmanager
def _active(spark: SparkSession) -> Iterator[None]:
    """A session as the active one: it is there that Spark looks whether a source is known already."""
    jvm: Any = getattr(spark, "_jvm", None)
    if jvm is None:
        yield
        return
    sessions = jvm.org.apache.spark.sql.classic.SparkSession
    before = sessions.getActiveSession()
    sessions.setActiveSession(spark._jsparkSession)
    try:
        yield
    finally:
        if before.isDefined():
            sessions.setActiveSession(before.get())
        else:
            sessions.clearActiveSession()


def open_session() -> SparkSession:
    """The session that is active, or a new one, which knows the source."""
    spark = spark_session()
    register(spark)
    return spark


def make_views(spark: SparkSession, lake: str, pools: Sequence[str], times: str = "microseconds") -> None:
    """Temporary views of pools, each by its name."""
    register(spark)
    for name in pools:
        reader = spark.read.format("shoal").option("lake", lake).option("times", times)
        reader.option("tasks", str(_tasks(spark))).load(name).createOrReplaceTempView(_quoted(name))


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def frame_of_program(lake: Pools, question: Question, program: plan.Program, times: str) -> DataFrame:
    """What a program gives, computed by tasks."""
    style = style_of(times)
    require_reach(lake.store.uri)
    spark = open_session()
    return _frame(spark, plan_program(lake, question, program, style, _tasks(spark)))


def _tasks(spark: SparkSession) -> int:
    context = getattr(spark, "_sc", None)
    if context is None:
        raise Unsupported("tables of a lake cannot be read over Spark Connect yet (use a master other than sc://)")
    return TASKS_PER_CORE * int(context.defaultParallelism)


def _frame(spark: SparkSession, table: SparkPlan) -> DataFrame:
    return spark.read.format("shoal").option("plan", table.to_text()).load()


# ---- statements


def run_statement(
    statement: Statement, tables: Sequence[tuple[TableForm, Sequence[Source]]]
) -> Iterator[pa.RecordBatch]:
    """The rows of a statement over the tables of its uses. An invalid statement fails here, not at the first row."""
    spark = spark_session().newSession()
    for name, value in _FOR_STATEMENTS.items():
        spark.conf.set(name, value)
    register(spark)
    names = [f"t{i}" for i in range(len(tables))]

    def analyzed(columns: frozenset[str] | None) -> DataFrame:
        forms = [form.for_statement(columns, statement.companions, statement.wholes) for form, _ in tables]
        for name, form, (_, sources) in zip(names, forms, tables, strict=True):
            _frame(spark, plan_sources(form, sources, _tasks(spark))).createOrReplaceTempView(name)
        answer = spark.sql(statement.sql("spark", names, [form.hidden for form in forms]))
        _require_columns(statement, answer)
        return answer

    with _errors(), stoppable():
        try:
            return _collected(analyzed(statement.columns))
        except Exception as e:
            if _class_of(e) is None:
                raise
            return _collected(analyzed(None))  # an unknown column: let the message list all of them


def _require_columns(statement: Statement, answer: DataFrame) -> None:
    """Refuse a name that Spark takes for a function, such as `user`, because no table has a column of this name."""
    if statement.session_words:
        analyzed: Any = answer._jdf.queryExecution().analyzed().toString()
        if _OF_THE_SESSION.search(analyzed) is not None:
            words = ", ".join(sorted(statement.session_words))
            raise InvalidInput(f"sql: {words}: no table has such a column")


def _collected(answer: DataFrame) -> Iterator[pa.RecordBatch]:
    with _errors():
        with stoppable():
            table = answer.toArrow()
        yield from current().checked(table.to_batches())


@contextmanager
def _errors() -> Iterator[None]:
    """What Spark says, in one line; errors of ours, which tasks tell in a traceback, are what they were."""
    try:
        with _silent():
            yield
    except ShoalError:
        raise
    except Exception as e:
        current().check()
        raise _named(e) from e


def _named(error: Exception) -> ShoalError:
    ours = _OURS.findall(str(error))
    if ours:
        module, name, text = ours[-1]
        return _kind(module, name)(text)
    if _class_of(error) is not None and type(error).__name__ not in _OF_THE_CLUSTER:
        return InvalidInput(f"sql: {' '.join(str(error).partition(' SQLSTATE')[0].split())}")
    return StorageFailure(f"Spark: {reason_of(error)} (SHOAL_SPARK_LOG=WARN shows more)")


def _kind(module: str, name: str) -> type[ShoalError]:
    """The class of the error tree that an error of a task belongs to."""
    raised = getattr(sys.modules.get(module), name, StorageFailure)
    return next(kind for kind in raised.__mro__ if kind.__module__ == errors.__name__)


def _class_of(error: Exception) -> str | None:
    """The error class that Spark gives an error; None if the error is not from Spark."""
    ask = getattr(error, "getCondition", None)
    condition: str | None = None if ask is None else ask()
    return condition


@contextmanager
def _silent() -> Iterator[None]:
    """Silences the logger of Spark: errors are raised, and need not be on the terminal as well."""
    logger: Any = pyspark_logger.PySparkLogger.getLogger("SQLQueryContextLogger")
    before, logger.disabled = logger.disabled, True
    try:
        yield
    finally:
        logger.disabled = before


when_opened(register)
