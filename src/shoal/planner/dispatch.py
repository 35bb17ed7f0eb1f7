"""Which engine computes what: scans of pools, and as many operators after them as it can, go to another engine.

The interpreter does the rest. Small scans stay with it as well: it is there, the other engines have to be loaded.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Literal, Protocol

from shoal.engines.interp.environment import Run
from shoal.errors import InvalidInput
from shoal.ids import Id
from shoal.lake.lake import Lake
from shoal.lake.pools import Pool
from shoal.lake.scans import Warn
from shoal.lang import plan
from shoal.lang.walk import rewrite_from_outside
from shoal.model.values import Value
from shoal.planner.legs import from_left_side, joined_scans, part_legs
from shoal.planner.opening import OnRead
from shoal.planner.pruned import Pruned, prune
from shoal.planner.pruning import key_range

Engine = Literal["auto", "interp", "duckdb", "spark"]
ENGINES: tuple[Engine, ...] = ("auto", "interp", "duckdb", "spark")
SMALL = 1 << 20
"""Bytes of data objects that the interpreter reads before another engine would have begun."""
FEW = 1000
"""First values of a pool that the interpreter reads before another engine would have begun."""
LARGE = 8 << 30
"""Bytes from which on Spark is worth its start."""


def choose_engine(name: str | None) -> Engine:
    """The engine of a name, or of the environment."""
    wanted = name or os.environ.get("SHOAL_ENGINE") or "auto"
    for engine in ENGINES:
        if engine == wanted:
            return engine
    raise InvalidInput(f"unknown engine {wanted!r} (one of {', '.join(ENGINES)})")


class Part(Protocol):
    """A scan and the first operators after it, in the hands of another engine."""

    rest: plan.Seq
    """The operators that are left to the interpreter."""
    is_reduced: bool
    """Whether what comes out is less than what was read: groups, or the first rows."""
    joined: tuple[int, ...]
    """Which of the other scans that were offered it reads as well, by their places."""
    joining: str
    """How it joins these, in words that end before the name of the pool that it begins with."""

    def explain(self) -> tuple[str, ...]:
        """What the engine is told, for each layout."""

    def values(self, run: Run) -> Iterator[Value]:
        """What comes out."""


@dataclass(frozen=True, slots=True)
class Decision:
    """What was decided about the scan of a pool."""

    pool: str
    commit: str
    pruned: Pruned
    engine: str
    why: str
    queries: tuple[str, ...]
    """What the engine was told, for each layout."""
    rest: plan.Seq
    """What the interpreter does with what comes out."""


@dataclass(frozen=True, slots=True)
class _Read:
    """A scan, and what of its pool it has to read."""

    scan: plan.PoolScan
    pool: Pool
    pruned: Pruned


@dataclass(frozen=True, slots=True)
class _Considered:
    """A scan and the operators after it, and what another engine would do of that."""

    read: _Read
    joined: tuple[_Read, ...]
    """What the other engine joins with it."""
    ops: plan.Seq
    part: Part | None
    why: str


class Handover:
    """The parts of one query that another engine computes."""

    def __init__(
        self,
        lake: Lake,
        engine: Engine,
        warn: Warn | None,
        on_read: OnRead | None,
        commit_of: Callable[[str], Id | None],
    ) -> None:
        self._lake = lake
        self._engine = engine
        self._warn = warn
        self._on_read = on_read
        self._commit_of = commit_of
        self._parts: list[Part] = []
        self._explains = False
        self.decisions: list[Decision] = []

    def rewrite(self, program: plan.Program, explain: bool = False) -> plan.Program:
        """The program with those parts replaced by what comes out of them."""
        if self._engine == "interp" and not explain:
            return program
        self._explains = explain

        def hand_over(seq: plan.Seq) -> plan.Seq:
            begun = from_left_side(seq)
            match begun[0] if begun else None:
                case plan.PoolScan() as scan:
                    return self._decide(scan, begun[1:], program.funcs, explain)
            return seq

        # A join of two pools may be one part; only if it is none are its sides parts of their own.
        return rewrite_from_outside(program, hand_over)

    def open(self, part: plan.Computed, run: Run) -> Iterator[Value]:
        """What comes out of a part."""
        return self._parts[part.index].values(run)

    def _decide(self, scan: plan.PoolScan, ops: plan.Seq, funcs: tuple[plan.Func, ...], explain: bool) -> plan.Seq:
        if self._engine == "auto" and not explain and _takes_few(scan, ops):
            return (scan, *ops)  # without a look at what there is: it may be very much
        made = self._consider(scan, ops, funcs)
        legs = self._legs(scan, ops, funcs, made)
        if legs is not None:
            found, rest = legs
            return (plan.Fork(tuple(self._take(leg) for leg in found)), *rest)
        return self._take(made)

    def _legs(
        self, scan: plan.PoolScan, ops: plan.Seq, funcs: tuple[plan.Func, ...], whole: _Considered
    ) -> tuple[list[_Considered], plan.Seq] | None:
        """The legs of a fork, if it is cheaper to scan for each of them: if but few values come out of each."""
        if whole.part is None or not whole.part.rest or not isinstance(whole.part.rest[0], plan.Fork | plan.Switch):
            return None
        parted = part_legs(scan, ops, funcs)
        if parted is None:
            return None
        found: list[_Considered] = []
        for inner, *leg in parted[0]:
            if not isinstance(inner, plan.PoolScan):
                return None
            made = self._consider(inner, tuple(leg), funcs)
            if made.part is None or not made.part.is_reduced:
                return None
            found.append(made)
        return found, parted[1]

    def _consider(self, scan: plan.PoolScan, ops: plan.Seq, funcs: tuple[plan.Func, ...]) -> _Considered:
        read, others = self._read(scan), tuple(map(self._read, joined_scans(ops)))
        part, why = self._compile(read, others, ops, funcs)
        return _Considered(read, tuple(others[place] for place in part.joined) if part else (), ops, part, why)

    def _read(self, scan: plan.PoolScan) -> _Read:
        pool = self._lake.pool(scan.pool)
        return _Read(scan, pool, prune(pool, self._commit_of(scan.commit), scan.filter))

    def _take(self, made: _Considered) -> plan.Seq:
        """What stands for a scan and the operators after it from here on."""
        part, read = made.part, made.read
        if part is None:
            self._note(read, "interp", made.why, (), made.ops)
            return (read.scan, *made.ops)
        engine = type(part).__module__.split(".")[-2]
        self._note(read, engine, made.why, part.explain() if self._explains else (), part.rest)
        together = f"{part.joining} {read.pool.config.name}"
        for other in made.joined:
            self._note(other, engine, together, (), ())
        if self._on_read is not None:
            for each in (read, *made.joined):
                self._on_read(each.pool.config.id, key_range(each.scan.filter, each.pool.config.key.paths[0]))
        self._parts.append(part)
        return (plan.Computed(len(self._parts) - 1), *part.rest)

    def _note(self, read: _Read, engine: str, why: str, queries: tuple[str, ...], rest: plan.Seq) -> None:
        name, commit = read.pool.config.name, read.scan.commit
        self.decisions.append(Decision(name, commit, read.pruned, engine, why, queries, rest))

    def _compile(
        self, read: _Read, others: tuple[_Read, ...], ops: plan.Seq, funcs: tuple[plan.Func, ...]
    ) -> tuple[Part | None, str]:
        """What another engine does, if it does anything, and why."""
        scan, size = read.scan, sum(each.pruned.size for each in (read, *others))
        if self._engine == "interp":
            return None, "as asked"
        if self._engine == "auto" and _takes_few(scan, ops):
            return None, f"no more than the first {FEW} values"
        if self._engine == "auto" and size <= SMALL:
            return None, f"no more than {SMALL >> 20} MiB to read"
        units: Any = import_module("shoal.planner.scan_units")
        found = units.make_scan(read.pool, read.pruned.objects, self._warn)
        if found is None:
            return None, "its shapes are too many to list, or several keys have to be merged"
        warnings: list[list[str]] = [[] for _ in others]
        offered = [
            (each.scan, units.make_scan(each.pool, each.pruned.objects, held.append))
            for each, held in zip(others, warnings, strict=True)
        ]
        engine, why = self._engine, "as asked"
        if engine == "auto":
            engine = "spark" if size > LARGE else "duckdb"
            why = f"{'more' if engine == 'spark' else 'no more'} than {LARGE >> 30} GiB to read"
        if engine == "spark":
            import_module("shoal.planner.spark_frames")  # so that a session that is started knows the source of tables
        runner: Any = import_module(f"shoal.engines.{engine}.runner")
        made: Part | None = runner.compile_scan(found, scan, ops, funcs, offered)
        if made is None:
            return None, "no columnar form"
        if self._warn is not None:
            for warning in (text for place in made.joined for text in warnings[place]):
                self._warn(warning)
        return made, why


def _takes_few(scan: plan.PoolScan, ops: plan.Seq) -> bool:
    """Whether no more than the first values of a pool are wanted, however many it has."""
    if scan.filter is not None:
        return False
    for op in ops:
        if isinstance(op, plan.Head):
            return op.count <= FEW
        if not op.traits.keeps_count:
            return False
    return False
