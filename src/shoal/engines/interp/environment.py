"""What an expression sees beside the current value: variables, running aggregates, and the run it belongs to."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TypeAlias, TypeVar

from shoal.api.options import Memory, Statistics
from shoal.engines.interp.aggregates.contract import Aggregate, Limits
from shoal.engines.interp.spill import Workspace
from shoal.engines.stopping import Stop, current
from shoal.errors import InvalidInput, ShoalError, Unsupported
from shoal.lang import plan
from shoal.lang.walk import nodes, operators
from shoal.model.extent import TooLarge
from shoal.model.types import Type
from shoal.model.values import Value

MAX_DEPTH = 10_000
"""How deep functions may call each other."""


class StackOverflow(InvalidInput):
    """Functions of the program call each other without end."""


_LEAST = 1 << 20
_LEAST_VALUE = 1 << 18
_VALUES_PER_STEP = 8
"""How many values a step may have in flight: what it takes, what it makes, and copies on the way."""
_USUAL_STEPS = 8


def memory_within(total: int, program: plan.Program | None = None) -> Memory:
    """Splits half of `total` evenly among buffering operators and aggregates; the other half is headroom for values
    in flight, of which each step has some. Without a program, as for one of a few steps.
    """
    buffers = sum(op.traits.buffers for op in operators(program))
    aggregates = sum(isinstance(node, plan.Agg) for node in nodes(program))
    share = max(_LEAST, total // (2 * max(1, buffers + aggregates)))
    steps = _USUAL_STEPS if program is None else sum(isinstance(node, _STEPS) for node in nodes(program))
    value = max(_LEAST_VALUE, total // (_VALUES_PER_STEP * max(1, steps)))
    return Memory(share, share, share, is_strict=True, value=value)


_STEPS = plan.Op | plan.Call | plan.Binary | plan.MapCall | plan.Subquery


def _usual_memory() -> Memory:
    """The memory of work that was given none: a part of what the query around it has."""
    limit = current().memory
    return Memory() if limit is None else memory_within(limit)


def _no_scan(scan: plan.Scan) -> Iterator[Value]:
    raise Unsupported("this query cannot read other sources than its input")


def _no_load(op: plan.Load, values: Iterator[Value]) -> Iterator[Value]:
    raise Unsupported("load operator cannot be used without a lake")


@dataclass(slots=True)
class Run:
    """One run of a program: its limits, its temporary files, where side channels go."""

    memory: Memory = field(default_factory=_usual_memory)
    workspace: Workspace = field(init=False)
    emit: Callable[[str, Value], None] = lambda channel, value: None
    open_scan: Callable[[plan.Scan], Iterator[Value]] = _no_scan
    load: Callable[[plan.Load, Iterator[Value]], Iterator[Value]] = _no_load
    measure: bool = False
    """Whether to fill in the statistics, which costs some microseconds a value."""
    statistics: Statistics = field(default_factory=Statistics)
    type_names: dict[str, Type] = field(default_factory=dict)
    """The named types met so far; filled only for programs that ask for them."""
    stop: Stop = field(default_factory=current)

    def __post_init__(self) -> None:
        self.workspace = Workspace(self.stop)

    @property
    def limits(self) -> Limits:
        """What one aggregate may hold."""
        return Limits(self.memory.aggregate, self.stop if self.memory.is_strict else None)

    def too_large(self, error: TooLarge | None = None) -> ShoalError:
        """What a program fails with that makes a value which is too large."""
        if self.stop.memory is not None:
            return self.stop.too_large(self.memory.value)
        return error or TooLarge(f"value too large: it takes more than {self.memory.value >> 20} MiB")


class Env:
    """The surroundings of an evaluation. A lateral query and a call of a function each get their own."""

    __slots__ = ("calls", "depth", "limit", "run", "states", "vars")

    def __init__(self, run: Run, variables: tuple[Value, ...] = (), depth: int = 0, calls: int = 0) -> None:
        self.run = run
        self.vars = variables
        self.depth = depth
        self.calls = calls
        """How many functions of the program wait for this evaluation, each with values of its own."""
        self.limit = run.memory.value // (calls + 1)
        """How large a value may be."""
        self.states: dict[int, Aggregate] = {}

    def fresh(self) -> Env:
        """A copy whose running aggregates start from nothing."""
        return Env(self.run, self.vars, self.depth, self.calls)

    def inner(self, variables: tuple[Value, ...], weight: int = 1, calls: int = 0) -> Env:
        """Surroundings with these variables, one level deeper."""
        depth = self.depth + weight
        if depth > MAX_DEPTH:
            raise StackOverflow("stack overflow")
        if self.run.stop.why is not None:
            self.run.stop.check()
        return Env(self.run, variables, depth, self.calls + calls)

    def call(self, args: tuple[Value, ...]) -> Env:
        """The surroundings of a function's body: its arguments, and the caller's running aggregates."""
        env = self.inner(args, calls=1)
        env.states = self.states
        return env


Eval: TypeAlias = Callable[[Value, Env], Value]
"""A compiled expression: from the current value and its surroundings to a value."""


K = TypeVar("K")
V = TypeVar("V")

LIMIT = 10_000


class Cache(dict[K, V]):
    """A dictionary that is cleared when it has grown too large."""

    def keep(self, key: K, value: V) -> V:
        """Keep a value and give it back."""
        if len(self) >= LIMIT:
            self.clear()
        self[key] = value
        return value
