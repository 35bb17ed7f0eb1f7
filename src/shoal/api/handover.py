"""Which engine computes what: scans of pools, and as many operators after them as it can, go to another engine.

The interpreter does the rest. Small scans stay with it as well: it is there, the other engines have to be loaded.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from importlib import import_module
from typing import TYPE_CHECKING, Any, Literal

from shoal.api.lake_sources import OnRead
from shoal.api.pruning import key_range
from shoal.engines.interp.environment import Run
from shoal.errors import InvalidInput
from shoal.ids import Id
from shoal.lake.lake import Lake
from shoal.lake.pools import Pool
from shoal.lake.scans import Warn
from shoal.lang import plan
from shoal.lang.rules.sequences import rewrite_sequences
from shoal.model.values import Value

if TYPE_CHECKING:
    from shoal.engines.duckdb.runner import Compiled

Engine = Literal["auto", "interp", "duckdb"]
ENGINES: tuple[Engine, ...] = ("auto", "interp", "duckdb")
SMALL = 1 << 20
"""Bytes of data objects that the interpreter reads before another engine would have begun."""


def choose_engine(name: str | None) -> Engine:
    """The engine of a name, or of the environment."""
    wanted = name or os.environ.get("SHOAL_ENGINE") or "auto"
    for engine in ENGINES:
        if engine == wanted:
            return engine
    raise InvalidInput(f"unknown engine {wanted!r} (one of {', '.join(ENGINES)})")


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
        self.parts: list[Compiled] = []

    def rewrite(self, program: plan.Program) -> plan.Program:
        """The program with those parts replaced by what comes out of them."""
        if self._engine == "interp":
            return program

        def hand_over(seq: plan.Seq) -> plan.Seq:
            match seq[0] if seq else None:
                case plan.PoolScan() as scan:
                    return self._compile(scan, seq[1:], program.funcs) or seq
            return seq

        return rewrite_sequences(program, hand_over)

    def open(self, part: plan.Computed, run: Run) -> Iterator[Value]:
        """What comes out of a part."""
        return self.parts[part.index].values(run)

    def _compile(self, scan: plan.PoolScan, ops: plan.Seq, funcs: tuple[plan.Func, ...]) -> plan.Seq | None:
        pool = self._lake.pool(scan.pool)
        if self._engine == "auto" and self._is_small(pool, scan):
            return None
        units: Any = import_module("shoal.api.scan_units")
        pruned = units.prune(pool, self._commit_of(scan.commit), scan.filter)
        runner: Any = import_module("shoal.engines.duckdb.runner")
        found = units.make_scan(pool, pruned.objects, self._warn)
        if found is None:
            return None
        made = runner.compile_scan(found, scan, ops, funcs)
        if made is None:
            return None
        if self._on_read is not None:
            self._on_read(pool.config.id, key_range(scan.filter, pool.config.key.paths[0]))
        self.parts.append(made)
        return (plan.Computed(len(self.parts) - 1), *made.rest)

    def _is_small(self, pool: Pool, scan: plan.PoolScan) -> bool:
        """Whether there is little to read, as far as that can be told by looking at a few objects."""
        size = 0
        for o in pool.snapshot(self._commit_of(scan.commit)).objects():
            size += o.size
            if size > SMALL:
                return False
        return True
