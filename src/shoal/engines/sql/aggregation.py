"""Aggregation in SQL, by keys and by the types of what is aggregated.

Rows whose keys and arguments have the same types make one combination; an argument may be missing. Each group of SQL is
of one combination, so each of its results has a known type. The interpreter merges groups of several combinations that
have the same keys, from partial results; where there are none, groups are rows for the operators that follow.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Any, TypeAlias, assert_never

from sqlglot import exp

from shoal.engines.aggregates import Outcome, SqlFunction, sql_function
from shoal.engines.interp.aggregates.numeric import KINDS
from shoal.engines.sql import build, nodes
from shoal.engines.sql.arithmetic import wrapped
from shoal.engines.sql.build import Cond, Sql, both, either, negated
from shoal.engines.sql.expressions import combined, record_node, truth, value
from shoal.engines.sql.flat_tables import flat_node
from shoal.engines.sql.nodes import (
    Const,
    Leaf,
    Node,
    NotColumnar,
    Outcomes,
    always,
    const,
    equals_error,
    fields_of,
    is_known_error,
    refuse_exact,
)
from shoal.engines.sql.operators import MOST_CASES
from shoal.engines.sql.relations import Case, Flat, Relation, any_of, flatten, passing, shape_of
from shoal.engines.sql.types import physical
from shoal.lang import plan
from shoal.model import types as t
from shoal.model.node import frozen
from shoal.model.values import MISSING, NULL, QUIET, Value

MOST_COMBINATIONS = 256
GROUP = "$group"
ONLY_SHAPE = -1
"""Stands for the shape of a source that has just one."""


@frozen
class Result:
    """How one aggregate comes out of a combination: columns of SQL, and the partial result that they make."""

    outcome: Outcome
    """What the columns mean."""
    type: t.Type
    columns: tuple[str, ...] = ()
    """None, if the aggregate is fed nothing."""
    consumed: str = ""
    """The column that counts what was fed to it; "" if all rows of the group were."""


@frozen
class Combination:
    """Rows with keys and arguments of the same types."""

    keys: t.Type
    """The record of the keys."""
    results: tuple[Result, ...]


@frozen
class Summary:
    """A query for groups, and what its columns mean."""

    query: exp.Select
    keys: Flat
    """The keys as records; its `$shape` says which record."""
    combinations: tuple[Combination, ...]
    by_shape: dict[int, Value] | None = None
    """The keys of the rows of each shape of the source, if these follow from it and no row is left out."""

    @property
    def is_final(self) -> bool:
        """Whether no two combinations have keys of the same types, so that each group is whole."""
        kinds = [c.keys for c in self.combinations]
        return len(set(kinds)) == len(kinds)


_Types: TypeAlias = tuple[t.Type | Value | None, ...]
"""Those of the keys and of the arguments; None where there is no argument, MISSING where it is missing."""


@dataclass(slots=True)
class _Gathered:
    """The rows of a combination: on which condition they are, with which keys and arguments."""

    whens: list[Cond] = field(default_factory=list)
    keys: list[Node] = field(default_factory=list)
    columns: list[frozenset[str]] = field(default_factory=list)
    args: list[tuple[Node | None, ...]] = field(default_factory=list)

    def take(self, other: _Gathered) -> None:
        """Those of another one, too."""
        self.whens += other.whens
        self.keys += other.keys
        self.columns += other.columns
        self.args += other.args

    def fed(self, i: int) -> list[Node]:
        """The arguments of one aggregate that are not missing."""
        return [node for fed in self.args if (node := fed[i]) is not None and not _is_missing(node)]


def summarize(op: plan.Summarize, relation: Relation) -> Summary:
    """The query of an aggregation."""
    if op.partials_in or op.partials_out or op.limit:
        raise NotColumnar("partial results")
    for _, agg in op.aggs:
        if sql_function(agg.name) is None:
            raise NotColumnar(f"the aggregate {agg.name}")
    wheres = [None if agg.where is None else agg.where for _, agg in op.aggs]
    gathered_by: dict[_Types, _Gathered] = {}
    conditions: list[list[tuple[Cond, Cond]]] = [[] for _ in op.aggs]
    for case in relation.cases:
        for when, keys, args in _combined(op, case):
            fed = [_fed(agg, node) for (_, agg), node in zip(op.aggs, args, strict=True)]
            gathered = gathered_by.setdefault((keys.type, *(kind for _, kind in fed)), _Gathered())
            gathered.whens.append(when)
            gathered.keys.append(keys)
            gathered.columns.append(case.columns)
            gathered.args.append(tuple(node for node, _ in fed))
        for verdicts, where in zip(conditions, wheres, strict=True):
            if where is not None:
                verdicts.append((case.when, truth(where, case.node)))
    combinations = _without_gaps(gathered_by)
    if len(combinations) > MOST_COMBINATIONS:
        raise NotColumnar("too many combinations of types")
    return _Maker(op, relation, combinations, conditions).make()


def without_quiet_keys(op: plan.Summarize, relation: Relation) -> Relation:
    """The rows that belong to a group: one with a quiet key belongs to none."""
    verdicts = [_has_quiet_key(op, case.node) for case in relation.cases]
    return passing(relation, [negated(verdict) for verdict in verdicts])


def _has_quiet_key(op: plan.Summarize, node: Node) -> Cond:
    return either(*(both(o.when, equals_error(o.node, QUIET)) for _, expr in op.keys for o in value(expr, node)))


def _without_gaps(by_types: dict[_Types, _Gathered]) -> list[_Gathered]:
    """Combinations that differ only in what is missing are one."""
    combinations: list[tuple[_Types, _Gathered]] = []
    for types, gathered in by_types.items():
        for index, (others, combination) in enumerate(combinations):
            joined = _joined(others, types)
            if joined is not None:
                combination.take(gathered)
                combinations[index] = (joined, combination)
                break
        else:
            combinations.append((types, gathered))
    return [gathered for _, gathered in combinations]


def _joined(a: _Types, b: _Types) -> _Types | None:
    pairs = list(zip(a, b, strict=True))
    if all(x is y or x is MISSING or y is MISSING for x, y in pairs):
        return tuple(y if x is MISSING else x for x, y in pairs)
    return None


def _combined(op: plan.Summarize, case: Case) -> list[tuple[Cond, Node, tuple[Node | None, ...]]]:
    """The keys and arguments of the rows of a case, by their types."""
    keys = [value(expr, case.node) for _, expr in op.keys]
    args = [((None,) if agg.expr is None else value(agg.expr, case.node)) for _, agg in op.aggs]
    combinations: list[tuple[Cond, Node, tuple[Node | None, ...]]] = []
    names = [f"k{i}" for i in range(len(keys))]
    for picked in product(*keys):
        for fed in product(*args):
            when = both(case.when, *(o.when for o in picked), *(o.when for o in fed if o is not None))
            if when is False:
                continue
            nodes = tuple(None if o is None else o.node for o in fed)
            combinations.append((when, record_node(names, [o.node for o in picked]), nodes))
    return combinations


def _fed(agg: plan.Agg, node: Node | None) -> tuple[Node | None, t.Type | Value | None]:
    """What an aggregate is fed, and the kind in which it computes it. What it ignores is as good as missing."""
    if node is None:
        return None, None
    kind = _kind_of(_function(agg).outcome, node.type.under)
    if kind is None or (agg.name == "count" and _is_missing(node)):
        return Const(MISSING), MISSING
    return node, kind


def _function(agg: plan.Agg) -> SqlFunction:
    function = sql_function(agg.name)
    assert function is not None  # `summarize` has looked
    return function


def _kind_of(outcome: Outcome, typ: t.Type) -> t.Type | None:
    """The kind in which an aggregate computes values of a type; None if it ignores them."""
    match outcome:
        case Outcome.COUNT:
            return t.NULL
        case Outcome.BOOL:
            return t.BOOL if typ is t.BOOL else None
        case Outcome.NUMBER:
            refuse_exact(typ)
            return KINDS.get(_no_union(typ))
        case Outcome.MEAN:
            refuse_exact(typ)
            if typ is t.STRING:
                raise NotColumnar("a mean of texts")
            return t.FLOAT64 if t.is_number(_no_union(typ)) else None
    assert_never(outcome)


def _no_union(typ: t.Type) -> t.Type:
    if isinstance(typ, t.Union):
        raise NotColumnar("an aggregate of unions")
    return typ


def _is_missing(node: Node) -> bool:
    """Whether it is missing for certain, so that no aggregate is fed with it."""
    return is_known_error(node, MISSING)


def _feeds(node: Node | None) -> bool:
    return node is not None and not _is_missing(node)


class _Maker:
    """Puts the query together."""

    def __init__(
        self,
        op: plan.Summarize,
        relation: Relation,
        combinations: list[_Gathered],
        conditions: list[list[tuple[Cond, Cond]]],
    ) -> None:
        self._op = op
        self._relation = relation
        self._combinations = combinations
        self._conditions = conditions
        self._inner: list[tuple[str, Sql]] = []
        self._outer: list[tuple[str, Sql]] = []

    def make(self) -> Summary:
        cases = [Case(*of) for c in self._combinations for of in zip(c.whens, c.keys, c.columns, strict=True)]
        keys = flatten(cases, is_exact=True)
        self._inner += keys.columns()
        if len(self._combinations) > 1:
            codes = [(when, build.integer(code)) for code, c in enumerate(self._combinations) for when in c.whens]
            self._inner.append((GROUP, build.choose(codes)))
        filters = [self._filter(i) for i in range(len(self._op.aggs))]
        combinations = []
        for code, combination in enumerate(self._combinations):
            results = tuple(self._result(code, combination, i, filters[i]) for i in range(len(self._op.aggs)))
            combinations.append(Combination(combination.keys[0].type, results))
        return Summary(self._query(keys), keys, tuple(combinations), self._by_shape())

    def _by_shape(self) -> dict[int, Value] | None:
        if self._relation.where is not True:
            return None
        keys: dict[int, Value] = {}
        for combination in self._combinations:
            for when, key in zip(combination.whens, combination.keys, strict=True):
                code = ONLY_SHAPE if when is True else shape_of(when)
                if code is None or not isinstance(key, Const):
                    return None
                keys[code] = key.value
        return keys

    def _filter(self, i: int) -> Sql | None:
        """The column that says which rows an aggregate takes; None if it takes them all."""
        holds: Cond = True
        if self._op.aggs[i][1].where is not None:
            holds = build.either(*(both(when, verdict) for when, verdict in self._conditions[i]))
        if any(0 < len(c.fed(i)) < len(c.args) for c in self._combinations):
            fed = [
                when for c in self._combinations for when, args in zip(c.whens, c.args, strict=True) if _feeds(args[i])
            ]
            holds = both(holds, any_of(fed))
        if holds is True:
            return None
        self._inner.append((f"w{i}", build.known(holds)))
        return build.column(f"w{i}")

    def _result(self, code: int, combination: _Gathered, i: int, taken: Sql | None) -> Result:
        agg = self._op.aggs[i][1]
        if agg.expr is not None and not combination.fed(i):
            return Result(_function(agg).outcome, t.NULL)
        return _computed(_function(agg), _Argument(self, i, combination, taken))

    def argument(self, i: int, combination: _Gathered, kind: str) -> Sql:
        """The column with the arguments of one aggregate in one combination."""
        name = f"a{i}_{self._combinations.index(combination)}"
        entries = []
        for when, args in zip(combination.whens, combination.args, strict=True):
            node = args[i]
            if not _feeds(node):
                continue
            if not isinstance(node, Leaf | Const):
                raise NotColumnar("an aggregate of records")
            entries.append((when, build.cast(physical(node), kind)))
        distinct = dict.fromkeys(sql for _, sql in entries)
        sql = next(iter(distinct)) if len(distinct) == 1 else build.choose(entries)
        for column, inner in self._inner:
            if inner == sql and column.startswith("a"):
                return build.column(column)
        self._inner.append((name, sql))
        return build.column(name)

    def output(self, sql: Sql) -> str:
        """The name of a column of results."""
        for name, outer in self._outer:
            if outer == sql:
                return name
        name = f"r{len(self._outer)}"
        self._outer.append((name, sql))
        return name

    def _query(self, keys: Flat) -> exp.Select:
        inner = self._relation.select(self._inner)
        by = [name for name, _ in keys.columns()]
        if len(keys.layout.shapes) == 1 and not isinstance(keys.shape, exp.Case):
            by = by[1:]
        if len(self._combinations) > 1:
            by.append(GROUP)
        outer = [exp.alias_(sql, name, quoted=True, copy=False) for name, sql in self._outer]
        query = exp.select(*(build.column(name) for name in by), *outer, copy=False)
        query = query.from_(inner.subquery("rows", copy=False), copy=False)
        if not by:
            # Without keys the engine makes a row of nothing, too.
            query = query.having(exp.GT(this=_count(), expression=build.integer(0)), copy=False)
            if not outer:
                query = query.select(exp.alias_(_count(), "r", quoted=True), copy=False)
        groups = [build.column(name) for name in by]
        for leaf in keys.layout.leaves:
            if leaf.type in t.FLOATS:
                # Zeros of either sign are one to the engine.
                groups.append(build.call("signbit", build.column(f"c{leaf.index}")))
            elif leaf.type.has_float:
                raise NotColumnar("keys with fractions inside")
        return query.group_by(*groups, copy=False) if groups else query


@frozen
class _Argument:
    """What an aggregate is fed in one combination."""

    maker: _Maker
    index: int
    combination: _Gathered
    taken: Sql | None

    @property
    def kind(self) -> t.Type:
        """The kind of number that the values are."""
        return KINDS[self.combination.fed(self.index)[0].type.under]

    def column(self, kind: str) -> Sql:
        """The values, as numbers of a kind; NULL where they are not taken."""
        column = self.maker.argument(self.index, self.combination, kind)
        return column if self.taken is None else build.choose([(self.taken, column)])

    def count(self) -> Sql:
        """How many values there are, nulls among them."""
        return _count() if self.taken is None else exp.Filter(this=_count(), expression=exp.Where(this=self.taken))

    def result(self, outcome: Outcome, typ: t.Type, *columns: Sql) -> Result:
        """How results come out."""
        names = tuple(self.maker.output(sql) for sql in columns)
        consumed = "" if self.taken is None else self.maker.output(self.count())
        return Result(outcome, typ, names, consumed)


def _count() -> Sql:
    return exp.Count(this=exp.Star())


def _computed(function: SqlFunction, arg: _Argument) -> Result:
    """The SQL of an aggregate."""
    outcome = function.outcome
    match outcome:
        case Outcome.COUNT:
            return arg.result(outcome, t.UINT64, arg.count())
        case Outcome.BOOL:
            return arg.result(outcome, t.BOOL, build.call(function.name, arg.column("BOOLEAN")))
        case Outcome.MEAN:
            column = arg.column("DOUBLE")
            return arg.result(outcome, t.FLOAT64, build.call("sum", column), build.call("count", column))
        case Outcome.NUMBER:
            number = _sum(arg) if function.name == "sum" else _extreme(function.name, arg)
            return arg.result(outcome, arg.kind, number)
    assert_never(outcome)


def _sum(arg: _Argument) -> Sql:
    if arg.kind is t.FLOAT64:
        return build.call("sum", arg.column("DOUBLE"))
    return wrapped_sum(build.call("sum", arg.column(_whole(arg.kind))), arg.kind)


def _whole(kind: t.Type) -> str:
    return "UBIGINT" if kind is t.UINT64 else "BIGINT"


def wrapped_sum(sql: Sql, kind: t.Type) -> Sql:
    """A sum, which the engine computes in 128 bits, as a number of 64."""
    return wrapped(build.cast(sql, "HUGEINT"), kind)


def _extreme(name: str, arg: _Argument) -> Sql:
    if arg.kind is not t.FLOAT64:
        return build.call(name, arg.column(_whole(arg.kind)))
    # A NaN counts only if there is nothing else.
    column = arg.column("DOUBLE")
    number = build.choose([(build.negated(build.is_nan(column)), column)])
    return exp.Coalesce(this=build.call(name, number), expressions=[build.call("min", column)])


def grouped(op: plan.Summarize, summary: Summary) -> Relation:
    """The groups of a summary in which each is whole. They are in no order."""
    cases: list[Case] = []
    names = frozenset(selected.alias_or_name for selected in summary.query.selects)
    for code, combination in enumerate(summary.combinations):
        when: Cond = True
        if len(summary.combinations) > 1:
            when = build.binary("=", build.column(GROUP), build.integer(code))
        index = summary.keys.layout.shapes.index(combination.keys)
        guarded = {i for i, valid in enumerate(summary.keys.structs) if valid is not None}
        keys = fields_of(flat_node(combination.keys, summary.keys.layout.forms[index], guarded))
        columns = [*map(always, keys), *map(_outcomes, combination.results)]
        names_ = [f"f{i}" for i in range(len(columns))]
        paths = [path for path, _ in op.keys] + [path for path, _ in op.aggs]
        for outcome in combined(names_, columns):
            node = _nested(list(zip(paths, fields_of(outcome.node), strict=True)))
            cases.append(Case(build.both(when, outcome.when), node, names))
    if len(cases) > MOST_CASES:
        raise NotColumnar("too many cases")
    return Relation(summary.query.subquery("groups", copy=False), tuple(cases))


def _nested(fields: Sequence[tuple[plan.Path, Node]]) -> Node:
    """A record of values at paths."""
    tree: dict[str, Any] = {}
    for path, node in fields:
        level = tree
        for name in path[:-1]:
            level = level.setdefault(name, {})
        level[path[-1]] = node
    return _record_of(tree)


def _record_of(tree: dict[str, Any]) -> Node:
    nodes_ = [_record_of(item) if isinstance(item, dict) else item for item in tree.values()]
    return record_node(list(tree), nodes_)


def _outcomes(result: Result) -> Outcomes:
    """What one aggregate is in a group."""
    columns = [build.column(name) for name in result.columns]
    match result.outcome:
        case Outcome.COUNT:
            return always(Leaf(t.UINT64, build.cast(columns[0], "UBIGINT"))) if columns else const(Value(t.UINT64, 0))
        case Outcome.MEAN:
            if not columns:
                return const(Value(t.FLOAT64, None))
            total, count = columns
            divisor = build.call("nullif", build.cast(count, "DOUBLE"), build.integer(0))
            return always(Leaf(t.FLOAT64, build.divided(total, divisor)))
        case Outcome.BOOL:
            return always(Leaf(t.BOOL, columns[0])) if columns else const(Value(t.BOOL, None))
        case Outcome.NUMBER:
            if not columns:
                return const(NULL)
            number = Leaf(result.type, columns[0])
            if not result.consumed:
                return always(number)
            is_fed = build.binary(">", build.column(result.consumed), build.integer(0))
            return nodes.Outcome(is_fed, number), nodes.Outcome(build.negated(is_fed), Const(NULL))
    assert_never(result.outcome)
