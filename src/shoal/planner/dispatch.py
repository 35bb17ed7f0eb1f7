"""Picks an engine for each pool scan and pushes the longest compilable prefix of the pipeline down to it.

The physical plan of the prefix stands in the program as `plan.Physical`; the interpreter runs the rest. Small scans
stay with the interpreter as well: it is loaded already, the other engines have to be.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from shoal.access.view import Pools
from shoal.engines.physical import PhysicalPlan
from shoal.lake.names import Warn
from shoal.lake.pools import Pool
from shoal.lang import plan
from shoal.lang.walk import rewrite_from_outside
from shoal.lazy import lazy
from shoal.model.node import frozen
from shoal.planner.engine_choice import Engine, for_scan, takes_few
from shoal.planner.legs import from_left_side, joined_scans, part_legs
from shoal.planner.prune import Pruned, key_range, prune
from shoal.planner.read_log import ReadLog
from shoal.planner.scan_sources import commit_of

if TYPE_CHECKING:
    from shoal.engines.duckdb import runner as duckdb_runner
    from shoal.engines.spark import runner as spark_runner
    from shoal.planner import scan_units
else:
    duckdb_runner = lazy("shoal.engines.duckdb.runner")
    spark_runner = lazy("shoal.engines.spark.runner")
    scan_units = lazy("shoal.planner.scan_units")


@frozen
class Decision:
    """The engine of one pool scan, and why."""

    pool: str
    commit: str
    pruned: Pruned
    engine: str
    why: str
    rest: plan.Seq
    """The operators that the interpreter runs on the output."""
    plan: PhysicalPlan | None = None
    """None if the interpreter reads the pool, or if the plan is that of a scan which this one is joined with."""

    @property
    def queries(self) -> tuple[str, ...]:
        """The queries of the engine, one for each layout."""
        return () if self.plan is None else self.plan.explain()


@frozen
class Dispatched:
    """A program in which physical plans stand for what other engines run. A value: it pickles."""

    program: plan.Program
    decisions: tuple[Decision, ...]

    @property
    def engines(self) -> frozenset[str]:
        """The engines that read pools."""
        return frozenset(decision.engine for decision in self.decisions)


def dispatch(
    lake: Pools,
    program: plan.Program,
    engine: Engine,
    warn: Warn | None = None,
    reads: ReadLog | None = None,
    is_explained: bool = False,
) -> Dispatched:
    """The program with physical plans in it; to be explained, every scan is looked at, also one of a few values."""
    if engine == "interp" and not is_explained:
        return Dispatched(program, ())
    dispatcher = _Dispatcher(lake, engine, program.funcs, warn, reads, is_explained)

    def push_down(seq: plan.Seq) -> plan.Seq:
        ops = from_left_side(seq)
        match ops[0] if ops else None:
            case plan.PoolScan() as scan:
                return dispatcher.push_down(scan, ops[1:])
        return seq

    # A join of two pools may be one plan; only if it is not, each side is a plan of its own.
    rewritten = rewrite_from_outside(program, push_down)
    return Dispatched(rewritten, tuple(dispatcher.decisions))


@frozen
class _Read:
    """A scan, its pool, and the objects that it has to read."""

    scan: plan.PoolScan
    pool: Pool
    pruned: Pruned


@frozen
class _Candidate:
    """A scan and the operators after it, with a physical plan for them; None if the interpreter runs them."""

    read: _Read
    joined: tuple[_Read, ...]
    """The scans that the plan joins with it."""
    ops: plan.Seq
    plan: PhysicalPlan | None
    why: str


class _Dispatcher:
    """Pushes down the scans of one program, and keeps the decisions."""

    def __init__(
        self,
        lake: Pools,
        engine: Engine,
        funcs: tuple[plan.Func, ...],
        warn: Warn | None,
        reads: ReadLog | None,
        is_explained: bool,
    ) -> None:
        self._lake = lake
        self._engine = engine
        self._funcs = funcs
        self._warn = warn
        self._reads = reads
        self._is_explained = is_explained
        self.decisions: list[Decision] = []

    def push_down(self, scan: plan.PoolScan, ops: plan.Seq) -> plan.Seq:
        """The operators that stand for a scan and those after it."""
        if self._engine == "auto" and not self._is_explained and takes_few(_first_values(scan, ops)):
            return (scan, *ops)  # without listing the objects, which may be very many
        whole = self._candidate(scan, ops)
        by_leg = self._legs(scan, ops, whole)
        if by_leg is not None:
            legs, rest = by_leg
            return (plan.Fork(tuple(self._accept(leg) for leg in legs)), *rest)
        return self._accept(whole)

    def _legs(self, scan: plan.PoolScan, ops: plan.Seq, whole: _Candidate) -> tuple[list[_Candidate], plan.Seq] | None:
        """The legs of a fork, if it is cheaper to scan for each of them: if each returns but few values."""
        if whole.plan is None or not whole.plan.rest or not isinstance(whole.plan.rest[0], plan.Fork | plan.Switch):
            return None
        split = part_legs(scan, ops, self._funcs)
        if split is None:
            return None
        legs: list[_Candidate] = []
        for inner, *leg in split[0]:
            if not isinstance(inner, plan.PoolScan):
                return None
            candidate = self._candidate(inner, tuple(leg))
            if candidate.plan is None or not candidate.plan.is_reduced:
                return None
            legs.append(candidate)
        return legs, split[1]

    def _candidate(self, scan: plan.PoolScan, ops: plan.Seq) -> _Candidate:
        read, others = self._read(scan), tuple(map(self._read, joined_scans(ops)))
        physical, why = self._compile(read, others, ops)
        joined = tuple(others[index] for index in physical.joined) if physical else ()
        return _Candidate(read, joined, ops, physical, why)

    def _read(self, scan: plan.PoolScan) -> _Read:
        pool = self._lake.pool(scan.pool)
        return _Read(scan, pool, prune(pool, commit_of(scan.commit), scan.filter))

    def _accept(self, candidate: _Candidate) -> plan.Seq:
        """The operators that stand for a candidate; the decision is kept."""
        physical, read = candidate.plan, candidate.read
        if physical is None:
            self._decide(read, "interp", candidate.why, candidate.ops)
            return (read.scan, *candidate.ops)
        self._decide(read, physical.engine, candidate.why, physical.rest, physical)
        together = f"{physical.joining} {read.pool.config.name}"
        for other in candidate.joined:
            self._decide(other, physical.engine, together, ())
        if self._reads is not None:
            for each in (read, *candidate.joined):
                keys = key_range(each.scan.filter, each.pool.config.key.paths[0])
                self._reads.on_values(each.pool.config.id, commit_of(each.scan.commit), keys)
        return (plan.Physical(physical), *physical.rest)

    def _decide(self, read: _Read, engine: str, why: str, rest: plan.Seq, physical: PhysicalPlan | None = None) -> None:
        name, commit = read.pool.config.name, read.scan.commit
        self.decisions.append(Decision(name, commit, read.pruned, engine, why, rest, physical))

    def _compile(self, read: _Read, others: Sequence[_Read], ops: plan.Seq) -> tuple[PhysicalPlan | None, str]:
        """The physical plan, or None for the interpreter; and why."""
        scanned = [each.pruned for each in (read, *others)]
        size, count = sum(pruned.size for pruned in scanned), sum(pruned.count for pruned in scanned)
        engine, why = for_scan(self._engine, size, count, _first_values(read.scan, ops))
        if engine == "interp":
            return None, why
        scan = scan_units.make_scan(read.pool, read.pruned.objects, self._warn)
        if scan is None:
            return None, "its shapes are too many to list, or several keys have to be merged"
        warnings: list[list[str]] = [[] for _ in others]
        offered = [
            (each.scan, scan_units.make_scan(each.pool, each.pruned.objects, texts.append))
            for each, texts in zip(others, warnings, strict=True)
        ]
        compile_scan = spark_runner.compile_scan if engine == "spark" else duckdb_runner.compile_scan
        physical: PhysicalPlan | None = compile_scan(scan, read.scan, ops, self._funcs, offered)
        if physical is None:
            return None, "no columnar form"
        if self._warn is not None:
            for text in (text for index in physical.joined for text in warnings[index]):
                self._warn(text)
        return physical, why


def _first_values(scan: plan.PoolScan, ops: plan.Seq) -> int | None:
    """How many of the first values of a pool are needed; None if that depends on the values."""
    if scan.filter is not None:
        return None
    for op in ops:
        if isinstance(op, plan.Head):
            return op.count
        if not op.traits.keeps_count:
            return None
    return None
