"""Plans of SQL statements, in which each pool is a table by its name: what is read, and by which engine.

In SQL `"pool@commitish"` is the pool as it was there.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Literal, NamedTuple

import pyarrow as pa

from shoal.access.view import Pools
from shoal.api.commitish import parse_head
from shoal.engines.physical import Source
from shoal.engines.tables.forms import TableForm
from shoal.engines.tables.plain import DUCKDB, SPARK
from shoal.engines.tables.statements import Statement, Use
from shoal.errors import NotFound
from shoal.ids import Id, to_text
from shoal.lake.branches import MAIN
from shoal.lake.cuts import Cut
from shoal.lake.keys import EVERYTHING
from shoal.lake.names import Warn
from shoal.lake.objects import DataObject
from shoal.lake.pools import Pool
from shoal.lazy import lazy
from shoal.planner.catalog import Views, position_in
from shoal.planner.engine_choice import Engine, for_statement, named_engine
from shoal.planner.plan_cache import PlanCache
from shoal.planner.prune import Pruned
from shoal.planner.read_log import ReadLog
from shoal.planner.scan_units import PoolTable, numbered_sources
from shoal.storage.backoff import backoff

if TYPE_CHECKING:
    from shoal.engines.duckdb import sandbox
    from shoal.planner import spark_dataframes
else:
    sandbox = lazy("shoal.engines.duckdb.sandbox")
    spark_dataframes = lazy("shoal.planner.spark_dataframes")

MOST_SOURCES = 4096
"""Data objects of a plan that is kept: to read more of them takes so long that to plan it does not count."""


@dataclass(frozen=True)
class StatementPlan:
    """A statement, each of whose tables is at one commit. It can run any number of times."""

    statement: Statement
    engine: Literal["duckdb", "spark"]
    tables: Sequence[tuple[TableForm, Sequence[Source]]]
    """Those of the uses of the statement."""
    numbered: tuple[DataObject, ...] = ()
    """The data objects whose rows have numbers, by the numbers of their sources."""

    @cached_property
    def _query(self) -> sandbox.TableQuery:
        return sandbox.TableQuery(self.statement, self.tables)

    def run(self, is_trusted: bool) -> Iterator[pa.RecordBatch]:
        """The rows. An invalid statement fails here, not at the first row.

        A trusted one comes from the user of this process, who may read any file.
        """
        if self.engine == "spark":
            return spark_dataframes.run_statement(self.statement, self.tables)
        return self._query.run(is_trusted)

    @property
    def sources(self) -> Iterator[Source]:
        """The data objects of all tables."""
        return (source for _, sources in self.tables for source in sources)


class _Key(NamedTuple):
    """What a plan is made from."""

    text: str
    engine: Engine


_plans: PlanCache[_Key, StatementPlan] = PlanCache()


def plan_statement(lake: Pools, text: str, engine: str | None, warn: Warn | None) -> StatementPlan:
    """The plan of a query, from the plan cache if it is there."""
    statement = Statement(text)
    for_statement(engine, 0, statement.is_description)  # an engine that there is not
    key = _Key(text, named_engine(engine))
    cached = _plans.find(lake, key)
    if cached is not None:
        return cached
    planner = _Planner(lake, {})
    plan = planner.plan(statement, engine, warn)
    if planner.is_repeatable and sum(1 for _ in plan.sources) <= MOST_SOURCES:
        _plans.keep(lake, key, plan, planner.positions)
    return plan


@dataclass(frozen=True)
class Reading:
    """How a statement that is part of a change reads."""

    engine: str | None = None
    warn: Warn | None = None
    views: Views = field(default_factory=dict)
    """The commits that branches are taken for."""
    log: ReadLog | None = None
    """What a transaction checks again when it commits."""
    cut: Cut | None = None
    """The states in which other branches are read; None is the newest that go together."""


def plan_once(lake: Pools, statement: Statement, reading: Reading) -> StatementPlan:
    """The plan of a query that is part of a change."""
    return _Planner(lake, reading.views, reading.log, reading.cut).plan(statement, reading.engine, reading.warn)


class _Read(NamedTuple):
    """A pool at a commit, and the objects that a use of it has to read."""

    pool: Pool
    commit: Id | None
    pruned: Pruned


class _Planner:
    """Plans one statement."""

    def __init__(self, lake: Pools, views: Views, log: ReadLog | None = None, cut: Cut | None = None) -> None:
        self._cut = Cut() if cut is None else cut
        self._lake = lake
        self._views = views
        self._log = log
        self.positions = {"": lake.position()}
        """Where the journals stood before they were asked: of the lake, and of pools by their ids."""
        self.warnings: list[str] = []
        """Why what is read may not be what was meant."""
        self._is_literal = True
        """Whether all pools have the very names that the statement has."""

    @property
    def is_repeatable(self) -> bool:
        """Whether the plan stays right while no journal moves.

        Which pool has a similar name also depends on the pools that a caller may see.
        """
        return self._is_literal and not self.warnings and self._cut.is_decided

    def plan(self, statement: Statement, engine: str | None, warn: Warn | None) -> StatementPlan:
        """The plan; warnings say why what is read may not be what was meant."""
        plan = self._planned(statement, engine)
        if warn is not None:
            for line in self.warnings:
                warn(line)
        return plan

    def _planned(self, statement: Statement, engine: str | None) -> StatementPlan:
        reads = self._reads(statement)
        chosen = for_statement(engine, sum(read.pruned.size for read in reads), statement.is_description)
        style = SPARK if chosen == "spark" else DUCKDB
        tables: list[tuple[TableForm, Sequence[Source]]] = []
        numbered: tuple[DataObject, ...] = ()
        for use, read in zip(statement.uses, reads, strict=True):
            table = PoolTable(read.pool, read.commit, style)
            table.form.require_clear(statement.column_names)
            if use.is_numbered:
                pairs = numbered_sources(read.pool, read.pruned.objects, self.warnings.append)
                numbered = tuple(o for o, _ in pairs)
                tables.append((replace(table.form, is_numbered=True), [source for _, source in pairs]))
            else:
                tables.append((table.form, table.sources(read.pruned, self.warnings.append)))
        return StatementPlan(statement, chosen, tables, numbered)

    def _reads(self, statement: Statement) -> list[_Read]:
        """What a statement reads; each pool is at one commit however often it is named."""
        waits = backoff()
        while (commits := self._commits(statement)) is None:
            time.sleep(next(waits))
            self._cut.read_again()
        pairs = ((use, *commits[use.name]) for use in statement.uses)
        return [
            _Read(pool, commit, PoolTable(pool, commit, DUCKDB).prune(use.conditions)) for use, pool, commit in pairs
        ]

    def _commits(self, statement: Statement) -> dict[str, tuple[Pool, Id | None]] | None:
        """The pools of a statement by their names in it, each with its commit; None if these do not go together."""
        commits: dict[str, tuple[Pool, Id | None]] = {}
        self.warnings.clear()
        for use in statement.uses:
            if use.name not in commits:
                pool = self._pool(use)
                commits[use.name] = pool, self._commit(pool, parse_head(use.name)[1])
                self.positions[to_text(pool.config.id)] = position_in(self._cut, pool)
        return commits if self._cut.is_consistent() else None

    def _commit(self, pool: Pool, commitish: str) -> Id | None:
        ident, name = pool.config.id, commitish or MAIN
        is_viewed = (ident, name) in self._views
        commit = self._views[ident, name] if is_viewed else pool.resolve(commitish, self.warnings.append, self._cut)
        if self._log is not None:
            if not is_viewed and pool.names.refs(self._cut).has_branch(name):
                self._log.on_branch(ident, name, commit)
            self._log.on_values(ident, commit, EVERYTHING)
        return commit

    def _pool(self, use: Use) -> Pool:
        pool = pool_of(self._lake, use.name, use.is_quoted)
        self._is_literal = self._is_literal and parse_head(use.name)[0] in (pool.config.name, to_text(pool.config.id))
        return pool


def pool_of(lake: Pools, table: str, is_quoted: bool) -> Pool:
    """The pool of a table; unless the name is quoted, upper and lower case are the same."""
    name = parse_head(table)[0]
    try:
        return lake.pool(name)
    except NotFound:
        alike = [config.name for config in lake.configs() if config.name.lower() == name.lower()]
        if is_quoted or len(alike) != 1:
            raise
        return lake.pool(alike[0])
