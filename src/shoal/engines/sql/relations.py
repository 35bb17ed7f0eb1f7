"""Rows on their way through a query: a source in SQL, and for each shape of row what its values are there.

Operators on rows change the cases and add conditions; SQL is made of a relation when its rows are needed. The columns
of that SQL are flat: `$shape`, `c0`, `c1`, ... for the leaves of the layout, and `v0`, `v1`, ... for its structs; `o0`,
`o1`, ... are what the rows are ordered by.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import TypeAlias

from sqlglot import exp

from shoal.engines.sql import build, formulas
from shoal.engines.sql.build import Cond, Sql, both, either
from shoal.engines.sql.nodes import Const, Leaf, Node, NotColumnar, Rec, fields_of, is_valid
from shoal.engines.sql.types import literal
from shoal.formats.columns import layouts
from shoal.formats.columns.layouts import SHAPE, Form, Layout, RecordForm
from shoal.model import types as t
from shoal.model.node import frozen
from shoal.model.values import Value

MOST_SHAPES = 512


@frozen
class Case:
    """The rows on a condition, and what they are."""

    when: Cond
    node: Node
    columns: frozenset[str]
    """The columns of the source that these rows have; all others are NULL."""


@frozen
class Item:
    """One of the columns that rows are ordered by. It has no nulls, but where an item before it says so."""

    sql: Sql
    is_descending: bool = False


Order: TypeAlias = tuple[Item, ...]


@frozen
class Relation:
    """Rows of a source."""

    source: Sql
    """What stands after FROM."""
    cases: tuple[Case, ...]
    where: Cond = True
    order: Order = ()
    """The position of a row among all; empty if they are in no order."""

    def having(self, condition: Cond) -> Relation:
        """Those rows that meet a condition."""
        return replace(self, where=both(self.where, condition))

    def select(self, columns: Sequence[tuple[str, Sql]]) -> exp.Select:
        """A query for some columns."""
        return formulas.select(self.source, columns, self.where)

    def order_columns(self) -> list[tuple[str, Sql]]:
        """The columns that rows are ordered by, by their names."""
        return [(f"o{i}", item.sql) for i, item in enumerate(self.order)]


def ordered_by(query: exp.Select, order: Order) -> exp.Select:
    """A query with columns of order, sorted by them."""
    for i, item in enumerate(order):
        ordered = exp.Ordered(this=build.column(f"o{i}"), desc=item.is_descending, nulls_first=False)
        query = query.order_by(ordered, copy=False)
    return query


def scan_relation(source: Sql, layout: Layout, shapes: Sequence[int], with_nulls: bool, order: Order) -> Relation:
    """The rows of a table in a layout, which has these of its shapes, and maybe records that are null themselves."""
    return Relation(source, _scan_cases(layout, tuple(shapes), with_nulls), order=order)


@lru_cache(maxsize=128)
def _scan_cases(layout: Layout, shapes: tuple[int, ...], with_nulls: bool) -> tuple[Case, ...]:
    code = build.column(SHAPE)
    cases = [source_case(build.among(code, [i]), scan_node(layout.shapes[i], layout.forms[i])) for i in shapes]
    if with_nulls:
        records = [i for i in shapes if isinstance(layout.shapes[i].under, t.Record)]
        cases += [source_case(build.among(code, [-1 - i]), Const(Value(layout.shapes[i], None))) for i in records]
    elif len(cases) == 1:
        cases = [replace(cases[0], when=True)]
    return tuple(cases)


def source_case(when: Cond, node: Node) -> Case:
    """Rows that are just as they are in the source."""
    return Case(when, node, _columns(node))


def scan_node(shape: t.Type, form: Form, is_top: bool = True) -> Node:
    """Where the values of a shape are in a table of the layout."""
    if form is None:
        return Const(Value(shape, None))
    if isinstance(form, RecordForm):
        under = shape.under
        assert isinstance(under, t.Record)
        fields = tuple(
            scan_node(f.type, inner, is_top=False) for f, inner in zip(under.fields, form.fields, strict=True)
        )
        return Rec(shape, fields, None if is_top else build.is_present(build.nested(form.struct.column)))
    return Leaf(shape, build.nested(form.column))


# ---- conditions by case


def by_case(relation: Relation, conditions: Sequence[Cond]) -> Cond:
    """A condition that is another one for each case.

    It is taken apart into alternatives. One that is the same for all cases, or that can only be true for rows that
    have its columns, need not ask for the shape; so filters on fields stay plain, and engines push them into files.
    """
    if len(set(conditions)) == 1:
        return conditions[0]
    holders: dict[Cond, list[int]] = {}
    for index, condition in enumerate(conditions):
        for part in _alternatives(condition):
            holders.setdefault(part, []).append(index)
    parts: list[Cond] = []
    for part, indexes in holders.items():
        others = [relation.cases[i] for i in range(len(relation.cases)) if i not in set(indexes)]
        if not others or (isinstance(part, exp.Expr) and _is_strict(part) and _is_foreign(part, others)):
            parts.append(part)
        else:
            parts.append(both(any_of([relation.cases[i].when for i in indexes]), part))
    return either(*parts)


def passing(relation: Relation, verdicts: Sequence[Cond]) -> Relation:
    """The rows for which the verdict on their case is true."""
    kept = tuple(case for case, verdict in zip(relation.cases, verdicts, strict=True) if verdict is not False)
    return replace(relation, cases=kept).having(by_case(relation, verdicts))


def _alternatives(condition: Cond) -> list[Cond]:
    if condition is False:
        return []
    if isinstance(condition, exp.Paren):
        return _alternatives(condition.this)
    if isinstance(condition, exp.Or):
        return [*_alternatives(condition.this), *_alternatives(condition.expression)]
    return [condition]


def _is_strict(condition: Sql) -> bool:
    """Whether a condition is never true where one of its columns is NULL."""
    not_strict = (exp.Is, exp.Not, exp.Coalesce, exp.Case, exp.Or, exp.Lambda, formulas.Computed)
    return condition.find(*not_strict) is None


def _is_foreign(sql: Sql, cases: Sequence[Case]) -> bool:
    """Whether some of its columns is in no row of these cases, so that it is NULL there."""
    names = {column.name for column in sql.find_all(exp.Column)}
    return bool(names) and all(names - case.columns for case in cases)


def _columns(node: Node) -> frozenset[str]:
    """The names of the columns that a value is in. Those of a struct are NULL where there is no such struct."""
    if isinstance(node, Const):
        return frozenset()
    if isinstance(node, Leaf):
        return frozenset(column.name for column in node.sql.find_all(exp.Column))
    return frozenset().union(*(_columns(inner) for inner in node.fields))


def any_of(whens: Sequence[Cond]) -> Cond:
    """Whether one of some conditions holds; of those that ask for one shape each it is one question."""
    codes = [shape_of(when) for when in whens]
    if codes and all(code is not None for code in codes):
        return build.among(build.column(SHAPE), [code for code in codes if code is not None])
    return either(*whens)


def shape_of(when: Cond) -> int | None:
    """The shape that a condition asks for, if it does no more than that."""
    if isinstance(when, exp.EQ) and isinstance(when.this, exp.Paren) and when.this.this == build.column(SHAPE):
        number = when.expression.this
        return int(number.this) if isinstance(number, exp.Literal) else None
    return None


# ---- flat columns


@frozen
class Flat:
    """Columns of SQL for rows in a layout."""

    layout: Layout
    shape: Sql
    leaves: tuple[Sql, ...]
    structs: tuple[Sql | None, ...]
    """Whether each struct is there; None if it always is where a shape has it."""

    def columns(self) -> list[tuple[str, Sql]]:
        """The columns by their names."""
        columns = [(SHAPE, self.shape)]
        columns += [(f"c{i}", sql) for i, sql in enumerate(self.leaves)]
        return columns + [(f"v{i}", sql) for i, sql in enumerate(self.structs) if sql is not None]


def flatten(
    cases: Sequence[Case],
    shapes: Sequence[t.Type] | None = None,
    is_exact: bool = False,
    guarded: Collection[int] = (),
) -> Flat:
    """The columns for cases, in the layout of their shapes, or of these which have them among them.

    What a column is in rows of shapes that do not have it does not matter, unless it has to be NULL there: `is_exact`.
    The structs in `guarded`, by their indexes, have a column in any case.
    """
    if shapes is None:
        shapes = shapes_of(cases)
    layout = layouts.layout_of(tuple(shapes))
    code_of = {shape: i for i, shape in enumerate(shapes)}
    codes: list[tuple[Cond, Sql]] = []
    leaves: list[dict[int, Sql]] = [{} for _ in layout.leaves]
    structs: list[dict[int, Sql | None]] = [{} for _ in layout.structs]
    for number, case in enumerate(cases):
        code = code_of[case.node.type]
        codes.append((case.when, _shape_code(case.node, code)))
        for index, sql in _leaves(case.node, layout.forms[code]):
            leaves[index][number] = sql
        for index, valid in _structs(case.node, layout.forms[code]):
            structs[index][number] = valid
    merged = _merged_exactly if is_exact else _merged_of
    return Flat(
        layout,
        _shape_column(codes),
        tuple(merged(cases, column) for column in leaves),
        tuple(_validity(cases, column, merged, index in guarded) for index, column in enumerate(structs)),
    )


def shapes_of(cases: Sequence[Case]) -> list[t.Type]:
    """The shapes of cases."""
    shapes = list(dict.fromkeys(case.node.type for case in cases))
    if len(shapes) > MOST_SHAPES:
        raise NotColumnar("too many shapes")
    return shapes


def _shape_column(codes: list[tuple[Cond, Sql]]) -> Sql:
    """The shape of each row; where it is the one that the source has, just that."""
    if len(codes) > 1 and all(
        shape_of(when) is not None and build.integer(shape_of(when) or 0) == sql for when, sql in codes
    ):
        return build.column(SHAPE)
    return _merged(codes)


def _shape_code(node: Node, code: int) -> Sql:
    """The index of the shape; of a record that is null, the number that stands for that."""
    if isinstance(node.type.under, t.Record):
        valid = is_valid(node)
        if valid is False:
            return build.integer(-1 - code)
        if valid is not True:
            return build.choose([(valid, build.integer(code))], build.integer(-1 - code))
    return build.integer(code)


def _leaves(node: Node, form: Form) -> Iterator[tuple[int, Sql]]:
    if form is None:
        return
    if isinstance(form, RecordForm):
        for part, inner in zip(fields_of(node), form.fields, strict=True):
            yield from _leaves(part, inner)
    elif isinstance(node, Const):
        yield form.index, literal(node.value)
    else:
        assert isinstance(node, Leaf)
        yield form.index, node.sql


def _structs(node: Node, form: Form, is_around: Cond = True) -> Iterator[tuple[int, Sql | None]]:
    """On which condition each struct is there. One that is never null is still absent where the one around it is."""
    if isinstance(form, RecordForm):
        valid = is_valid(node)
        if form.struct.column:
            valid = is_around if valid is True else valid
            yield form.struct.index, None if valid is True else build.known(valid)
        for part, inner in zip(fields_of(node), form.fields, strict=True):
            yield from _structs(part, inner, valid)


def _merged(entries: Sequence[tuple[Cond, Sql]]) -> Sql:
    """The value of a column on each of some conditions. What it is in other rows does not matter."""
    groups = _by_value(entries)
    if not groups:
        return exp.null()
    if len(groups) == 1:
        return next(iter(groups))
    return build.choose([(any_of(whens), sql) for sql, whens in groups.items()])


def _merged_of(cases: Sequence[Case], sqls: dict[int, Sql]) -> Sql:
    """The value of a column in the cases that have it, by their numbers."""
    return _merged([(cases[number].when, sql) for number, sql in sqls.items()])


def _merged_exactly(cases: Sequence[Case], sqls: dict[int, Sql]) -> Sql:
    """The value of a column in all cases: NULL where they do not have it."""
    return merged_column([(case, case.when, sqls.get(number)) for number, case in enumerate(cases)], exp.null())


def merged_column(entries: Sequence[tuple[Case, Cond, Sql | None]], null: Sql) -> Sql:
    """A column that is exact in all rows: None is NULL. What is NULL by itself there needs no question.

    An entry has the case that it is of, and the condition on which it is the one.
    """
    groups = _by_value([(when, sql) for _, when, sql in entries if sql is not None])
    if not groups:
        return null
    others = [case for case, _, sql in entries if sql is None]
    if len(groups) == 1:
        (only,) = groups
        if not others or (_is_strict(only) and _is_foreign(only, others)):
            return only
    return build.choose([(any_of(whens), sql) for sql, whens in groups.items()], null)


def _by_value(entries: Sequence[tuple[Cond, Sql]]) -> dict[Sql, list[Cond]]:
    groups: dict[Sql, list[Cond]] = {}
    for when, sql in entries:
        groups.setdefault(sql, []).append(when)
    return groups


def _validity(
    cases: Sequence[Case],
    sqls: dict[int, Sql | None],
    merged: Callable[[Sequence[Case], dict[int, Sql]], Sql],
    is_guarded: bool,
) -> Sql | None:
    if not is_guarded and all(valid is None for valid in sqls.values()):
        return None
    return merged(cases, {number: build.TRUE if valid is None else valid for number, valid in sqls.items()})
