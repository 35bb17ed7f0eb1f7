"""Flat columns as a source of rows again: a query of several relations becomes a table for the operators after it.

`uniq` is one of these: each row of the table is compared, as a whole, with the one before it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TypeAlias

from sqlglot import exp

from shoal.engines.sql import build
from shoal.engines.sql.build import Sql
from shoal.engines.sql.expressions import record_node
from shoal.engines.sql.nodes import Const, Leaf, Node, NotColumnar, Rec, is_valid
from shoal.engines.sql.relations import Case, Flat, Order, Relation, flatten, ordered_by, shapes_of, source_case
from shoal.formats.columns.layouts import SHAPE, Form, RecordForm
from shoal.model import types as t
from shoal.model.node import frozen
from shoal.model.values import Value

MOST_UNITED = 32
"""Relations that one query reads."""
Columns: TypeAlias = Sequence[tuple[str, Sql]]
"""Columns of a query by their names."""


@frozen
class Table:
    """Rows of several relations in flat columns of one layout, each of which is NULL in rows that do not have it."""

    query: exp.Query
    flat: Flat
    cases: tuple[Case, ...]
    order: Order
    """By columns of the query."""

    def columns(self) -> list[str]:
        """The names of its columns."""
        return [name for name, _ in self.flat.columns()] + [f"o{i}" for i in range(len(self.order))]


def united(relations: Sequence[Relation]) -> Relation:
    """The rows of all relations as one, with what they are ordered by."""
    table = table_of(relations)
    return Relation(table.query.subquery("flat", copy=False), table.cases, order=table.order)


def first_rows(relations: Sequence[Relation], count: int) -> Relation:
    """The first `count` rows of all relations."""
    if not all(relation.order for relation in relations):
        raise NotColumnar("the first of rows in no order")
    table = table_of(relations)
    source = table.query.subquery("flat", copy=False)
    query = exp.select(*map(build.column, table.columns()), copy=False).from_(source, copy=False)
    query = ordered_by(query, table.order).limit(count, copy=False)
    return Relation(query.subquery("firsts", copy=False), table.cases, order=table.order)


def table_of(relations: Sequence[Relation], extra: Sequence[Columns] = (), prefix: str = "") -> Table:
    """The rows of all relations in one table, with what columns each has beside those of its rows.

    A prefix is what the names of its columns begin with where others will read them.
    """
    if not 0 < len(relations) <= MOST_UNITED:
        raise NotColumnar("too many layouts for one query")
    shapes = shapes_of([case for relation in relations for case in relation.cases])
    flats = [flatten(relation.cases, shapes, is_exact=True) for relation in relations]
    guarded = {i for flat in flats for i, valid in enumerate(flat.structs) if valid is not None}
    if len(relations) > 1:
        # A struct that may be null in one relation has a column in all of them, NULL for shapes that do not have it.
        flats = [flatten(relation.cases, shapes, is_exact=True, guarded=guarded) for relation in relations]
    besides = extra or [()] * len(relations)
    selects = [_select(*one) for one in zip(relations, flats, besides, strict=True)]
    query: exp.Query = selects[0] if len(selects) == 1 else exp.union(*selects, distinct=False, copy=False)
    structs = tuple(build.TRUE if i in guarded else None for i in range(len(flats[0].structs)))
    nullable = {case.node.type for relation in relations for case in relation.cases if _may_be_null(case.node)}
    order = tuple(replace(item, sql=build.column(f"{prefix}o{i}")) for i, item in enumerate(relations[0].order))
    cases = flat_cases(flats[0], guarded, nullable, prefix)
    return Table(query, replace(flats[0], structs=structs), cases, order)


def _select(relation: Relation, flat: Flat, extra: Columns) -> exp.Select:
    columns = [*flat.columns(), *relation.order_columns(), *extra]
    return relation.select(sorted(columns, key=lambda column: column[0]))


def _may_be_null(node: Node) -> bool:
    return isinstance(node.type.under, t.Record) and is_valid(node) is not True


def flat_cases(flat: Flat, guarded: set[int], nullable: set[t.Type], prefix: str = "") -> tuple[Case, ...]:
    """The rows of a table of flat columns: `guarded` are the structs that may be null where a shape has them."""
    code = build.column(prefix + SHAPE)
    layout = flat.layout
    cases: list[Case] = []
    for i, shape in enumerate(layout.shapes):
        cases.append(source_case(build.among(code, [i]), flat_node(shape, layout.forms[i], guarded, prefix)))
        if shape in nullable:
            cases.append(source_case(build.among(code, [-1 - i]), Const(Value(shape, None))))
    return (replace(cases[0], when=True),) if len(cases) == 1 else tuple(cases)


def flat_node(shape: t.Type, form: Form, guarded: set[int], prefix: str = "") -> Node:
    """Where the values of a shape are in flat columns."""
    if form is None:
        return Const(Value(shape, None))
    if isinstance(form, RecordForm):
        under = shape.under
        assert isinstance(under, t.Record)
        parts = zip(under.fields, form.fields, strict=True)
        fields = tuple(flat_node(f.type, inner, guarded, prefix) for f, inner in parts)
        valid = build.column(f"{prefix}v{form.struct.index}") if form.struct.index in guarded else None
        return Rec(shape, fields, valid)
    return Leaf(shape, build.column(f"{prefix}c{form.index}"))


def told_apart(flat: Flat, besides: str | None = None) -> list[Sql]:
    """What distinguishes rows; with a name, without the field of that name."""
    leaves = [leaf for leaf in flat.layout.leaves if leaf.path[:1] != (besides,)]
    structs = [s for s in flat.layout.structs if flat.structs[s.index] is not None and s.path[:1] != (besides,)]
    columns = [build.column(SHAPE), *(build.column(f"v{struct.index}") for struct in structs)]
    for leaf in leaves:
        column = build.column(f"c{leaf.index}")
        columns.append(column)
        if leaf.type in t.FLOATS:
            # Zeros of either sign are one to the engine.
            columns.append(build.call("signbit", column.copy()))
        elif leaf.type.has_float:
            raise NotColumnar("floats inside of values that are compared")
    return columns


_IS_NEW, _NUMBER, _TOTAL, _COUNT = "is_new", "number", "total", "count"


def uniq(relations: Sequence[Relation], with_count: bool) -> Relation:
    """The first row of each run of equal ones, and, if asked for, how many they are."""
    if not relations or not relations[0].order:
        raise NotColumnar("neighbours of rows in no order")
    table = table_of(relations)
    row = build.call("row", *told_apart(table.flat))
    is_new = exp.NullSafeNEQ(this=row, expression=_over(build.call("lag", row.copy()), table.order))
    extra: list[tuple[str, Sql]] = [(_IS_NEW, is_new)]
    if with_count:
        extra += [(_NUMBER, _over(exp.RowNumber(), table.order)), (_TOTAL, _over(_all(), ()))]
    rows = _select_with(table.query.subquery("flat", copy=False), table.columns(), extra)
    count = [(_COUNT, _until_next())] if with_count else []
    firsts = _select_with(rows.subquery("compared", copy=False), table.columns(), count)
    firsts = firsts.where(build.column(_IS_NEW), copy=False)
    firsts_relation = Relation(firsts.subquery("firsts", copy=False), table.cases, order=table.order)
    return _counted(firsts_relation) if with_count else firsts_relation


def _select_with(source: Sql, names: Sequence[str], extra: Sequence[tuple[str, Sql]]) -> exp.Select:
    added = [exp.alias_(sql, name, quoted=True, copy=False) for name, sql in extra]
    return exp.select(*(build.column(name) for name in names), *added, copy=False).from_(source, copy=False)


def _over(function: Sql, order: Order) -> Sql:
    """A function of a window over all rows."""
    items = [exp.Ordered(this=item.sql.copy(), desc=item.is_descending, nulls_first=False) for item in order]
    return exp.Window(this=function, order=exp.Order(expressions=items) if items else None)


def _all() -> Sql:
    return exp.Count(this=exp.Star())


def _until_next() -> Sql:
    """How many rows there are from the first of a run to that of the next one, or to the end."""
    number = build.column(_NUMBER)
    by_number = exp.Order(expressions=[exp.Ordered(this=number.copy())])
    following = exp.Window(this=build.call("lead", number.copy()), order=by_number)
    end = build.binary("+", build.column(_TOTAL), build.integer(1))
    return build.binary("-", build.or_zero(following, end), number)


def _counted(relation: Relation) -> Relation:
    count = Leaf(t.UINT64, build.cast(build.column(_COUNT), "UBIGINT"))
    cases = (replace(case, node=record_node(["value", "count"], [case.node, count])) for case in relation.cases)
    return replace(relation, cases=tuple(cases))
