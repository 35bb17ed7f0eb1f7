"""Runs fragments on Spark: objects are packed into a few tasks a core, each of which runs the SQL of its fragment, in
DuckDB, next to its data. What comes back are rows, or partial results that the driver merges.
"""

from __future__ import annotations

import heapq
import io
import pickle
import re
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from functools import cmp_to_key, partial
from itertools import chain
from typing import Any

from shoal.engines.duckdb import runner as duckdb_runner
from shoal.engines.duckdb.runner import Compiled, compare_by, first_values
from shoal.engines.interp.engine import run_program
from shoal.engines.interp.environment import Run
from shoal.engines.spark.session import spark_session
from shoal.engines.sql.nodes import NotColumnar
from shoal.engines.units import Scan, Source
from shoal.errors import ShoalError, StorageFailure, Unsupported
from shoal.formats import zng
from shoal.lang import plan
from shoal.lang.rules.split_aggregates import split_aggregates
from shoal.model.values import Value

TASKS_PER_CORE = 2
"""Enough to even out, few enough not to wait for their starts."""
_CHUNK = 1 << 20
"""Bytes of values that a task hands over at a time."""


def compile_scan(scan: Scan, source: plan.PoolScan, ops: plan.Seq, funcs: Sequence[plan.Func]) -> OnSpark | None:
    """A scan and what follows it on Spark; None if there is no columnar form of it."""
    try:
        return OnSpark(scan, source, ops, funcs)
    except NotColumnar:
        return None


class OnSpark:
    """A scan and the operators after it, as far as they go in tasks."""

    def __init__(self, scan: Scan, source: plan.PoolScan, ops: plan.Seq, funcs: Sequence[plan.Func]) -> None:
        """NotColumnar, if they have no columnar form."""
        self._scan, self._source, self._funcs = scan, source, tuple(funcs)
        self._ops = _for_tasks(ops)
        self._whole = Compiled(scan, source, self._ops, funcs, is_split=True)
        self.rest = (*self._whole.rest, *ops[len(self._ops) :])
        """The operators that are left to the interpreter."""
        self.is_reduced = self._whole.is_reduced
        """Whether groups come out, or the first rows."""

    def explain(self) -> tuple[str, ...]:
        """The SQL of the fragments, a text for each layout."""
        return self._whole.explain()

    def values(self, run: Run) -> Iterator[Value]:
        """What comes out."""
        if self._whole.aggregation is not None:
            _, final = split_aggregates(self._whole.aggregation)
            packs = self._any_packs() if not self._whole.needs_order else _stretches(self._scan.runs, _tasks())
            partials = chain.from_iterable(self._stream("partials", packs))
            return run_program(plan.Program((plan.DefaultScan(), final)), partials, Run(memory=run.memory))
        if self._whole.is_sorted:
            return self._merged()
        rows = chain.from_iterable(self._stream("values", _stretches(self._scan.runs, _tasks())))
        if self._whole.is_backwards:
            return iter(deque(rows, maxlen=self._whole.limit))
        return rows if self._whole.limit is None else first_values(rows, self._whole.limit)

    def _merged(self) -> Iterator[Value]:
        """The first rows of a sort, from those of each task."""
        found = [list(zip(*part, strict=True)) for part in self._stream_ordered(self._any_packs())]
        rank = cmp_to_key(partial(compare_by, self._whole.directions))
        merged = heapq.merge(*found, key=lambda pair: rank(pair[0]))
        assert self._whole.limit is not None
        return first_values((value for _, value in merged), self._whole.limit)

    def _any_packs(self) -> list[tuple[tuple[Source, ...], ...]]:
        return _packed([(source,) for source in self._scan.sources], _tasks())

    # ---- jobs

    def _stream(self, what: str, packs: list[tuple[tuple[Source, ...], ...]]) -> Iterator[list[Value]]:
        for data in self._job(what, packs):
            yield list(zng.read(io.BytesIO(data)))

    def _stream_ordered(self, packs: list[tuple[tuple[Source, ...], ...]]) -> Iterator[tuple[Any, list[Value]]]:
        for data in self._job("ordered", packs):
            order, values = pickle.loads(data)  # noqa: S301 - from a task of ours
            yield order, list(zng.read(io.BytesIO(values)))

    def _job(self, what: str, packs: list[tuple[tuple[Source, ...], ...]]) -> Iterator[bytes]:
        """What tasks hand over, in the order of the packs."""
        session = spark_session()
        context = getattr(session, "_sc", None)
        if context is None:
            raise Unsupported("queries do not run over Spark Connect yet (use a master that is no sc://)")
        scans = [Scan(pack, self._scan.key, self._scan.is_descending) for pack in packs]
        payloads = [pickle.dumps((what, scan, self._source, self._ops, self._funcs)) for scan in scans]
        if not payloads:
            return
        # Spark goes by pickles of its own; ours hold types, which have to be interned where they arrive.
        rows = context.parallelize(payloads, len(payloads)).mapPartitions(_run_tasks)
        for data in _failures_named(rows.toLocalIterator(prefetchPartitions=True)):
            kind, body = data[:1], data[1:]
            if kind == _ERROR:
                raise pickle.loads(body)  # noqa: S301 - from a task of ours
            yield body


_DATA, _ERROR = b"d", b"e"


def _for_tasks(ops: plan.Seq) -> plan.Seq:
    """The operators that tasks may begin with: a sort of everything is not theirs, its first rows are."""
    for place, op in enumerate(ops):
        if isinstance(op, plan.Sort | plan.Uniq | plan.Fuse):
            return ops[:place]
    return ops


def _tasks() -> int:
    return TASKS_PER_CORE * int(spark_session().sparkContext.defaultParallelism)


def _failures_named(rows: Iterable[bytes]) -> Iterator[bytes]:
    """A job that fails for other reasons than those of our own code is a failure of the cluster."""
    try:
        yield from rows
    except ShoalError:
        raise
    except Exception as e:
        raise StorageFailure(f"Spark: {_reason(e)} (SHOAL_SPARK_LOG=WARN shows more)") from e


def _reason(error: Exception) -> str:
    """The line that tells most: the last error that a traceback, in Python or in Java, ends with."""
    found = re.findall(r"^(?:Caused by: )?[\w.]*(?:Error|Exception): .+$", str(error), re.MULTILINE)
    return (found[-1] if found else str(error).strip().partition("\n")[0] or type(error).__name__)[:300]


def _packed(runs: list[tuple[Source, ...]], count: int) -> list[tuple[tuple[Source, ...], ...]]:
    """Runs in so many packs of about as many rows, in no order."""
    packs: list[list[tuple[Source, ...]]] = [[] for _ in range(min(count, len(runs)))]
    sizes = [0] * len(packs)
    for run in sorted(runs, key=_rows, reverse=True):
        place = sizes.index(min(sizes))
        packs[place].append(run)
        sizes[place] += _rows(run)
    return [tuple(pack) for pack in packs]


def _stretches(runs: Sequence[tuple[Source, ...]], count: int) -> list[tuple[tuple[Source, ...], ...]]:
    """Runs in about so many packs, in their order."""
    share = sum(map(_rows, runs)) / max(1, count)
    packs: list[list[tuple[Source, ...]]] = []
    size = 0
    for run in runs:
        if not packs or size >= share:
            packs.append([])
            size = 0
        packs[-1].append(run)
        size += _rows(run)
    return [tuple(pack) for pack in packs]


def _rows(run: tuple[Source, ...]) -> int:
    return sum(sum(source.counts) for source in run)


# ---- in tasks


def _run_tasks(payloads: Iterable[bytes]) -> Iterator[bytes]:
    """What a task does. Errors of ours come back as what they are; any others fail the task, which is tried again."""
    duckdb_runner.use_threads(1)
    for payload in payloads:
        try:
            what, scan, source, ops, funcs = pickle.loads(payload)  # noqa: S301 - from our driver
            compiled = Compiled(scan, source, ops, funcs, is_split=True)
            if what == "ordered":
                pairs = list(compiled.ordered())
                values = b"".join(_encoded(value for _, value in pairs))
                yield _DATA + pickle.dumps(([order for order, _ in pairs], values))
            else:
                found = compiled.partials(Run()) if what == "partials" else compiled.values(Run())
                for data in _encoded(found):
                    yield _DATA + data
        except ShoalError as e:
            yield _ERROR + pickle.dumps(e)
            return


def _encoded(values: Iterable[Value]) -> Iterator[bytes]:
    """Values as ZNG streams of some size."""
    out = io.BytesIO()
    writer = zng.Writer(out)
    has_any = False
    for value in values:
        writer.write(value)
        has_any = True
        if out.tell() >= _CHUNK:
            writer.close()
            yield out.getvalue()
            out = io.BytesIO()
            writer, has_any = zng.Writer(out), False
    if has_any:
        writer.close()
        yield out.getvalue()
