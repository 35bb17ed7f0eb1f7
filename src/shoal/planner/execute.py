"""Compiles queries over a lake and runs them: text to plan, plan to physical plans, and these to values."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import field
from typing import NamedTuple

from shoal.access.view import Pools, check_plan, policy_of
from shoal.api.options import Memory, ReadOptions, Watch
from shoal.engines.interp.engine import evaluate, run_program
from shoal.engines.interp.environment import Run, memory_within
from shoal.engines.physical import ColumnarPlan
from shoal.engines.stopping import Stop, current, results_stopped_by
from shoal.errors import InvalidInput
from shoal.frames.results import Results
from shoal.lake.cuts import Cut
from shoal.lang import plan, walk
from shoal.lang.compile import compile_source, stands_alone
from shoal.lang.source import Part, Source
from shoal.model.node import frozen
from shoal.model.values import NULL, Value
from shoal.planner.catalog import OF_BRANCHES, LakeCatalog, Views
from shoal.planner.dispatch import Decision, Dispatched, dispatch
from shoal.planner.engine_choice import Engine, named_engine
from shoal.planner.file_query import emitter
from shoal.planner.file_scans import with_files
from shoal.planner.files import read_part, runs_plans
from shoal.planner.plan_cache import PlanCache
from shoal.planner.program_loads import Staging, loading, loads_of
from shoal.planner.read_log import ReadLog
from shoal.planner.scan_sources import lake_opener
from shoal.sources.policy import SourcePolicy
from shoal.storage.backoff import backoff

_DEFAULTS = ReadOptions()


@frozen
class Question:
    """A query and how to run it."""

    program: str
    head: tuple[str, str] | None = None
    """The pool and commitish that a program without a source reads."""
    includes: tuple[str, ...] = ()
    memory: Memory | None = None
    statistics: bool = False
    """Whether to count what is read and matched."""
    on_debug: Callable[[Value], None] | None = None
    on_warning: Callable[[str], None] | None = None
    on_output: Callable[[str, Value], None] | None = None
    reads: ReadLog | None = None
    """Records what is read."""
    views: Views | None = None
    cut: Cut | None = None
    """The states in which other branches are read; None is the newest that go together."""
    staging: Staging | None = None
    """Takes what the program loads; None commits it."""
    options: ReadOptions = _DEFAULTS
    watch: Watch | None = None
    engine: str | None = None
    """The engine that reads pools; None leaves it to the environment, or to the size of the pools."""
    stop: Stop = field(default_factory=current)
    """Cancels the query from another thread."""
    policy: SourcePolicy | None = None
    """What it may read besides pools; None is the policy of the lake: anything, unless it is behind a service."""


def explain(lake: Pools, question: Question) -> tuple[Decision, ...]:
    """What would be read, and by which engine."""
    program = compile_question(lake, question)
    return dispatch(lake, program, named_engine(question.engine), is_explained=True).decisions


def compile_question(lake: Pools, question: Question) -> plan.Program:
    """The plan of a query, in which each pool is at one commit."""
    return _compile(lake, _source(question), question)[0]


def _source(question: Question) -> Source:
    return Source([*map(read_part, question.includes), Part("", question.program)])


def _compile(lake: Pools, source: Source, question: Question) -> tuple[plan.Program, LakeCatalog]:
    cut, waits = question.cut or Cut(), backoff()
    while True:
        catalog = LakeCatalog(lake, question.head, question.views, question.reads, cut)
        compiled = compile_source(source, evaluate, catalog)
        if cut.is_consistent():
            break
        time.sleep(next(waits))
        cut.read_again()
    check_plan(lake, compiled, question.policy)
    if not stands_alone(compiled):
        raise InvalidInput("query must include a 'from' operator")
    if question.on_warning is not None:
        for text in catalog.warnings:
            question.on_warning(text)
    return compiled, catalog


class _Key(NamedTuple):
    """What a query is compiled from."""

    parts: tuple[str, ...]
    head: tuple[str, str] | None
    engine: Engine


_plans: PlanCache[_Key, Dispatched] = PlanCache()


def prepare(lake: Pools, question: Question) -> Dispatched:
    """The physical plan of a query, from the plan cache if it is there."""
    return prepare_in_cut(lake, question)[0]


def prepare_in_cut(lake: Pools, question: Question) -> tuple[Dispatched, Cut | None]:
    """The physical plan of a query, from the plan cache if it is there; and its cut, if there is more to read in it."""
    engine = named_engine(question.engine)
    source = _source(question)
    key = _Key(tuple(part.text for part in source.parts), question.head, engine)
    # A transaction sees its own commits, and learns what is read while the query is planned.
    is_cached = question.views is None and question.reads is None
    cached = _plans.find(lake, key) if is_cached else None
    if cached is not None:
        check_plan(lake, cached.program, question.policy)
        return cached, None
    compiled, catalog = _compile(lake, source, question)
    dispatched = dispatch(lake, compiled, engine, question.on_warning, question.reads)
    if _reads_branches(compiled):
        catalog.cut.fix()  # they go with the pools that are read
        return dispatched, catalog.cut
    if is_cached and not catalog.warnings and catalog.cut.is_decided:
        _plans.keep(lake, key, dispatched, catalog.positions)
    return dispatched, None


def _reads_branches(program: plan.Program) -> bool:
    return any(isinstance(node, plan.MetaScan) and node.meta in OF_BRANCHES for node in walk.nodes(program))


def run_compiled(lake: Pools, question: Question, compiled: plan.Program) -> Results:
    """The results of a query that is compiled already."""
    engine = named_engine(question.engine)
    return run_dispatched(lake, question, dispatch(lake, compiled, engine, question.on_warning, question.reads))


def run_dispatched(lake: Pools, question: Question, dispatched: Dispatched, cut: Cut | None = None) -> Results:
    """The results of a physical plan, with metadata of branches as they are in its cut."""
    policy = question.policy or policy_of(lake)
    program = dispatched.program
    if policy is None and not question.statistics:
        program = with_files(program, question.options, question.watch)
    load, ended = loading(lake, program, question.staging)
    run = Run(
        memory=_memory(question, program),
        load=load,
        emit=emitter(question.on_debug, question.on_output),
        measure=question.statistics,
        stop=question.stop,
    )
    asides = question.options, question.on_warning, question.reads, question.watch
    runs_plans(run, lake_opener(lake, *asides, policy, cut))
    body = program.body
    whole = body[0].plan if len(body) == 1 and isinstance(body[0], plan.Physical) else None
    if isinstance(whole, ColumnarPlan):
        pieces = results_stopped_by(question.stop, whole.pieces(run))
        return Results(question.program, pieces, run.statistics, in_pieces=True)
    values = ended(run_program(program, iter((NULL,)), run))
    results = Results(question.program, results_stopped_by(question.stop, values), run.statistics)
    # What is staged is there when the next step of the transaction begins, whether these results are read or not.
    return results if question.staging is None or not loads_of(program) else results.hold()


def _memory(question: Question, program: plan.Program) -> Memory:
    limit = question.stop.memory
    return (question.memory or Memory()) if limit is None else memory_within(limit, program)
