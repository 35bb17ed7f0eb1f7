"""How tasks of Spark compute a table: its form, and what each of them does.

A program whose operators all take rows one by one runs in as many tasks as there is work for; of what has an exact form
in SQL the types are known beforehand. Any other program runs in one task, as it would anywhere else, and its types are
found by running it once before.
"""

from __future__ import annotations

import base64
import math
import pickle
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import replace

import pyarrow as pa

from shoal.access.view import Pools, policy_of
from shoal.engines.duckdb.runner import Compiled
from shoal.engines.interp.engine import needs_names
from shoal.engines.physical import Scan, Source
from shoal.engines.spark.credentials import use_credentials
from shoal.engines.spark.runner import packed
from shoal.engines.spark.table_tasks import ReadObjects, RunFragment, Task
from shoal.engines.sql.nodes import NotColumnar
from shoal.engines.tables.forms import TableForm
from shoal.engines.tables.object_rows import rows_in_form
from shoal.engines.tables.plain import SPARK, SPARK_INTEGERS, Style
from shoal.engines.tables.statements import Condition
from shoal.errors import InvalidInput
from shoal.lake.lake import open_at
from shoal.lake.names import Warn
from shoal.lang import plan
from shoal.lang.walk import nodes
from shoal.model import types as t
from shoal.model.node import frozen
from shoal.planner.execute import Question, run_compiled
from shoal.planner.prune import prune
from shoal.planner.scan_sources import commit_of
from shoal.planner.scan_units import PoolTable, sources_of
from shoal.sources.policy import SourcePolicy

_BROUGHT_TOGETHER = (plan.Agg, plan.Subquery)


@frozen
class SparkPlan:
    """A table, and the tasks that compute it."""

    form: TableForm
    tasks: tuple[Task, ...]

    @property
    def size(self) -> float:
        """Bytes that the tasks read; infinite if that is not known."""
        return sum(task.size for task in self.tasks)

    def to_text(self) -> str:
        """As an option of a source."""
        return base64.b64encode(zlib.compress(pickle.dumps(self))).decode()

    @staticmethod
    def from_text(text: str) -> SparkPlan:
        """The inverse of `to_text`."""
        plan_: SparkPlan = pickle.loads(zlib.decompress(base64.b64decode(text)))  # noqa: S301 - of our own driver
        return plan_


def task_batches(batches: Iterator[pa.RecordBatch], credentials: dict[str, str]) -> Iterator[pa.RecordBatch]:
    """The rows of the tasks in the second column, pickled; runs in a worker, over `mapInArrow`."""
    use_credentials(credentials)
    from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema  # noqa: PLC0415 - a worker has it

    for batch in batches:
        for row in batch.column(1):
            task = pickle.loads(row.as_py())  # noqa: S301 - of our own driver
            schema = to_arrow_schema(from_arrow_schema(task.form.schema), timezone="UTC")
            for rows in task.batches():
                yield rows.select(schema.names).cast(schema)


def style_of(times: str) -> Style:
    """What types a table has that is to keep times in this way."""
    styles = {style.times: style for style in (SPARK, SPARK_INTEGERS)}
    for name, style in styles.items():
        if name == times:
            return style
    raise InvalidInput(f"times: {times!r} is not one of {', '.join(styles)}")


def plan_pool(
    table: PoolTable,
    conditions: Sequence[Condition],
    names: frozenset[str] | None,
    count: int,
    warn: Warn | None = None,
) -> SparkPlan:
    """A pool as it is: those objects that may meet conditions, and some columns of them."""
    sources = table.sources(table.prune(conditions), warn)
    return plan_sources(table.form.for_statement(names, names or frozenset()), sources, count)


def plan_sources(form: TableForm, sources: Sequence[Source], count: int) -> SparkPlan:
    """Data objects as they are."""
    needed = [source.narrowed(form.paths) for source in sources]
    return SparkPlan(form, tuple(ReadObjects(form, pack) for pack in _packs(needed, count)))


def _packs(sources: Sequence[Source], count: int) -> list[tuple[Source, ...]]:
    return [tuple(s for run in pack for s in run) for pack in packed([(s,) for s in sources], count)]


def plan_program(lake: Pools, question: Question, program: plan.Program, style: Style, count: int) -> SparkPlan:
    """What a program gives."""
    if any(isinstance(node, plan.Load) for node in nodes(program)):
        raise InvalidInput("a program that loads cannot be a DataFrame, which may be computed any number of times")
    in_tasks = _in_tasks(lake, question, program, style, count)
    if in_tasks is not None:
        return in_tasks
    form = _found_form(lake, question, program, style)
    return SparkPlan(form, (RunProgram(form, lake.store.uri, program, question.policy or policy_of(lake)),))


def _in_tasks(lake: Pools, question: Question, program: plan.Program, style: Style, count: int) -> SparkPlan | None:
    """The plan of a program that takes the rows of one pool one by one; None for others."""
    source, ops = program.body[0], program.body[1:]
    if not isinstance(source, plan.PoolScan):
        return None
    pool, commit = lake.pool(source.pool), commit_of(source.commit)
    # Types follow from all that the pool has, so that a filter that leaves nothing takes no column away.
    everything = sources_of(pool, list(pool.snapshot(commit).objects()), None)
    try:
        compiled = Compiled(_unordered(everything), source, ops, program.funcs)
    except NotColumnar:
        return None
    if not compiled.is_row_wise or not _is_row_wise(compiled.rest, program):
        return None
    sources = sources_of(pool, prune(pool, commit, source.filter).objects, question.on_warning)
    if compiled.rest:
        form = _found_form(lake, question, program, style)
    else:
        form = TableForm(tuple(dict.fromkeys(s for _, flat in compiled.relations for s in flat.layout.shapes)), style)
    tasks = (RunFragment(form, _unordered(p), source, ops, program.funcs) for p in _packs(sources, count))
    return SparkPlan(form, tuple(tasks))


def _unordered(sources: Sequence[Source]) -> Scan:
    return Scan(tuple((source,) for source in sources), ())


def _is_row_wise(ops: plan.Seq, program: plan.Program) -> bool:
    if any(isinstance(node, _BROUGHT_TOGETHER) for node in nodes((ops, program.funcs))) or needs_names(program):
        return False
    return all(op.traits.is_row_wise for op in ops)


def _found_form(lake: Pools, question: Question, program: plan.Program, style: Style) -> TableForm:
    """The form of what a program gives, by running it."""
    quiet = replace(question, on_debug=None, on_warning=None, on_output=None, watch=None)
    shapes: dict[t.Type, None] = {}
    with run_compiled(lake, quiet, program) as results:
        for value in results:
            shapes[value.type] = None
    return TableForm(tuple(shapes), style)


@frozen
class RunProgram:
    """A whole program, over the same commits wherever it runs."""

    form: TableForm
    lake: str
    program: plan.Program
    policy: SourcePolicy | None

    @property
    def size(self) -> float:
        """Bytes that it reads, which nobody has counted."""
        return math.inf

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Rows in the form of the table."""
        with run_compiled(open_at(self.lake), Question("", policy=self.policy), self.program) as results:
            yield from rows_in_form(self.form, results)
