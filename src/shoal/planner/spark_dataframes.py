"""DataFrames of Spark over a lake, and the views and the source that Spark code finds it by."""

from __future__ import annotations

import pickle
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from shoal.access.view import Pools
from shoal.engines.physical import Source
from shoal.engines.spark import shipping
from shoal.engines.spark.credentials import credentials_to_send
from shoal.engines.spark.failures import class_of, translated_statement
from shoal.engines.spark.jobs import parse_bytes, stoppable, task_count
from shoal.engines.spark.session import spark_session, when_opened
from shoal.engines.spark.stages import Step, cluster, is_on_this_machine
from shoal.engines.spark.worker_entry import on_frame
from shoal.engines.stopping import current, running_on
from shoal.engines.tables.forms import TableForm
from shoal.engines.tables.statements import Statement
from shoal.errors import InvalidInput, ShoalError
from shoal.ids import Id, to_text
from shoal.lake.branches import MAIN
from shoal.lake.cuts import read_cut
from shoal.lake.lake import Lake, open_at
from shoal.lang import plan
from shoal.lazy import lazy
from shoal.model.fields import NO_ID
from shoal.planner.execute import Question
from shoal.planner.reach import require_lake
from shoal.planner.scan_sources import commit_of
from shoal.planner.scan_units import PoolTable
from shoal.planner.spark_plan import SparkPlan, plan_program, plan_sources, style_of, task_batches
from shoal.planner.spark_scans import native_frame

if TYPE_CHECKING:
    from pyspark import logger as pyspark_logger
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.pandas import types as spark_types

    from shoal.planner import spark_datasource, spark_reader
else:
    spark_types = lazy("pyspark.sql.pandas.types")
    pyspark_logger = lazy("pyspark.logger")
    spark_datasource = lazy("shoal.planner.spark_datasource")
    spark_reader = lazy("shoal.planner.spark_reader")

_BROADCAST_LIMIT = "spark.sql.autoBroadcastJoinThreshold"
_FOR_STATEMENTS = {
    # Spark knows the sizes of tables only once tasks have read them.
    _BROADCAST_LIMIT: "-1",
    "spark.sql.adaptive.autoBroadcastJoinThreshold": "10MB",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.caseSensitive": "false",
    "spark.sql.runSQLOnFiles": "false",
    "spark.sql.debug.maxToStringFields": "1000000",  # the plan is checked as text
}
"""What a statement means does not depend on what others set, and it reads no files."""
_OF_THE_SESSION = re.compile(r"\b(?:current|session)_(?:user|database|catalog|schema)\(\)")


def register(spark: SparkSession) -> None:
    """Make the source `shoal` known to a session. Settings of the session stay as they are."""
    if not is_on_this_machine(spark):
        shipping.send_package(spark)
    with _active(spark):
        spark.dataSource.register(spark_datasource.ShoalSource)
    spark_reader.install(_native_frame)


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
    """Temporary views of pools, each by its name. All of them are as they were at one time."""
    is_here = is_on_this_machine(spark)
    if not is_here:
        with running_on(spark):
            require_lake(lake)
    opened = open_at(lake)
    handles = [opened.pool(name) for name in pools]
    cut = read_cut([(pool.config.id, pool.journal) for pool in handles])
    tips = {name: pool.resolve(MAIN, cut=cut) for name, pool in zip(pools, handles, strict=True)}
    if not is_here:
        _make_views_elsewhere(spark, opened, tips, times)
        return
    register(spark)
    for name, tip in tips.items():
        reader = spark.read.format("shoal").option("lake", lake).option("times", times)
        reader.option("at", to_text(tip or NO_ID)).load(name).createOrReplaceTempView(_quoted(name))


def _make_views_elsewhere(spark: SparkSession, lake: Lake, tips: Mapping[str, Id | None], times: str) -> None:
    """Views that are planned here, since the Python beside the driver may have no libraries."""
    style = style_of(times)
    for name, tip in tips.items():
        _pool_frame(spark, PoolTable(lake.pool(name), tip, style)).createOrReplaceTempView(_quoted(name))


def _pool_frame(spark: SparkSession, table: PoolTable) -> DataFrame:
    """A pool as it is."""
    native = _native_frame(spark, table)
    if native is not None:
        return native
    sources = table.sources(table.prune(()))
    form = table.form.for_statement(None, frozenset())
    return _joinable(spark, plan_sources(form, sources, _tasks(spark, sources)))


def _native_frame(spark: SparkSession, table: PoolTable) -> DataFrame | None:
    """A pool whose files Spark reads by itself, beside tasks that read what is not in files; None if it cannot."""
    sources = table.sources(table.prune(()))
    native = native_frame(spark, table.form, [source for source in sources if source.file is not None])
    others = [source for source in sources if source.file is None]
    if native is None or not others:
        return native
    return native.union(_frame(spark, plan_sources(table.form, others, _tasks(spark, others))))


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def frame_of_program(lake: Pools, question: Question, program: plan.Program, times: str) -> DataFrame:
    """What a program gives, computed by tasks."""
    style = style_of(times)
    spark = open_session()
    require_lake(lake.store.uri)
    match program.body:
        case (plan.PoolScan(pool=pool, commit=commit, filter=None),):
            return _pool_frame(spark, PoolTable(lake.pool(pool), commit_of(commit), style))
    return _joinable(spark, plan_program(lake, question, program, style, _tasks(spark)))


def _tasks(spark: SparkSession, sources: Sequence[Source] = ()) -> int:
    return task_count(sum(source.size for source in sources), spark)


def _joinable(spark: SparkSession, table: SparkPlan) -> DataFrame:
    """The rows of a table, which a join sends to all executors only if they are few.

    Spark takes the rows that Python gives to be no more than the list of tasks.
    """
    frame = _frame(spark, table)
    limit = parse_bytes(str(spark.conf.get(_BROADCAST_LIMIT)))
    return frame if is_on_this_machine(spark) or table.size <= limit else frame.hint("merge")


def _frame(spark: SparkSession, table: SparkPlan) -> DataFrame:
    """The rows of a table. A source is planned by a Python beside the driver, which elsewhere may have no libraries."""
    if is_on_this_machine(spark):
        return spark.read.format("shoal").option("plan", table.to_text()).load()
    rows = pa.array([pickle.dumps(task) for task in table.tasks], pa.binary())
    numbered = pa.table({"bucket": pa.array(range(len(rows)), pa.int32()), "row": rows})
    shipping.send_package(spark)
    read = on_frame(cluster(spark).shipment, Step(task_batches, (credentials_to_send(spark),)).pickled())
    source = spark.createDataFrame(numbered).repartitionById(max(1, len(rows)), "bucket")
    return source.mapInArrow(read, spark_types.from_arrow_schema(table.form.schema))


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
            _frame(spark, plan_sources(form, sources, _tasks(spark, sources))).createOrReplaceTempView(name)
        answer = spark.sql(statement.sql("spark", names, [form.hidden for form in forms]))
        _require_columns(statement, answer)
        return answer

    with _errors(), stoppable("shoal: sql"):
        try:
            return _collected(analyzed(statement.columns))
        except Exception as e:
            if class_of(e) is None:
                raise
            return _collected(analyzed(None))  # an unknown column: let the message list all of them


def _require_columns(statement: Statement, answer: DataFrame) -> None:
    """Refuse a name that Spark takes for a function, such as `user`, because no table has a column of this name."""
    if statement.session_words and _OF_THE_SESSION.search(_analyzed(answer)) is not None:
        words = ", ".join(sorted(statement.session_words))
        raise InvalidInput(f"sql: {words}: no table has such a column")


def _analyzed(answer: Any) -> str:
    """The analyzed plan of a statement, as text."""
    if (classic := getattr(answer, "_jdf", None)) is not None:
        return str(classic.queryExecution().analyzed().toString())
    return str(answer._explain_string(extended=True))


def _collected(answer: DataFrame) -> Iterator[pa.RecordBatch]:
    with _errors():
        with stoppable("shoal: sql"):
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
        raise translated_statement(e) from e


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
