"""Rows on their way through a query: a source in SQL, and for each shape of row what its values are there.

Operators on rows change the cases and add conditions; SQL is made of a frame when its rows are wanted. The columns of
that SQL are flat: `$shape`, `c0`, `c1`, ... for the leaves of the layout, and `v0`, `v1`, ... for its structs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from sqlglot import exp

from shoal.engines.sql import build, formulas
from shoal.engines.sql.build import Cond, Sql, both, either
from shoal.engines.sql.nodes import Const, Leaf, Node, NotColumnar, Rec
from shoal.engines.sql.types import literal
from shoal.formats import layouts
from shoal.formats.layouts import SHAPE, Form, Layout, RecordForm
from shoal.model import types as t
from shoal.model.values import Value

MOST_SHAPES = 512


@dataclass(frozen=True, slots=True)
class Case:
    """The rows on a condition, and what they are."""

    when: Cond
    node: Node


@dataclass(frozen=True, slots=True)
class Frame:
    """Rows of a source."""

    source: Sql
    """What stands after FROM."""
    cases: tuple[Case, ...]
    where: Cond = True

    def having(self, condition: Cond) -> Frame:
        """Those rows that meet a condition."""
        return replace(self, where=both(self.where, condition))

    def select(self, columns: Sequence[tuple[str, Sql]]) -> exp.Select:
        """A query for some columns."""
        return formulas.select(self.source, columns, self.where)


def scan_frame(source: Sql, layout: Layout, shapes: Sequence[int], with_nulls: bool) -> Frame:
    """The rows of a table in a layout, which has these of its shapes, and maybe records that are null themselves."""
    return Frame(source, _scan_cases(layout, tuple(shapes), with_nulls))


@lru_cache(maxsize=128)
def _scan_cases(layout: Layout, shapes: tuple[int, ...], with_nulls: bool) -> tuple[Case, ...]:
    code = build.column(SHAPE)
    cases = [Case(build.among(code, [i]), scan_node(layout.shapes[i], layout.forms[i])) for i in shapes]
    if with_nulls:
        records = [i for i in shapes if isinstance(layout.shapes[i].under, t.Record)]
        cases += [Case(build.among(code, [-1 - i]), Const(Value(layout.shapes[i], None))) for i in records]
    elif len(cases) == 1:
        cases = [Case(True, cases[0].node)]
    return tuple(cases)


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
        return Rec(shape, fields, None if is_top else build.is_present(_nested(form.struct.column)))
    return Leaf(shape, _nested(form.column))


def _nested(names: tuple[str, ...]) -> Sql:
    made = build.column(names[0])
    for name in names[1:]:
        made = build.call("struct_extract", made, build.text(name))
    return made


# ---- conditions by case


def by_case(frame: Frame, conditions: Sequence[Cond]) -> Cond:
    """A condition that is another one for each case.

    It is taken apart into alternatives. One that is the same for all cases, or that can only be true for rows that
    have its columns, need not ask for the shape; so filters on fields stay plain, and engines push them into files.
    """
    if len(set(conditions)) == 1:
        return conditions[0]
    holders: dict[Cond, list[int]] = {}
    for place, condition in enumerate(conditions):
        for part in _alternatives(condition):
            holders.setdefault(part, []).append(place)
    made: list[Cond] = []
    for part, places in holders.items():
        others = [frame.cases[i].node for i in range(len(frame.cases)) if i not in set(places)]
        if not others or (isinstance(part, exp.Expr) and _is_strict(part) and _is_foreign(part, others)):
            made.append(part)
        else:
            made.append(both(any_of([frame.cases[i].when for i in places]), part))
    return either(*made)


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


def _is_foreign(condition: Sql, nodes: Sequence[Node]) -> bool:
    """Whether some column of a condition is in no row of these shapes, so that it is NULL there."""
    names = {column.name for column in condition.find_all(exp.Column)}
    return bool(names) and all(names - _columns(node) for node in nodes)


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


@dataclass(frozen=True, slots=True)
class Flat:
    """Columns of SQL for rows in a layout."""

    layout: Layout
    shape: Sql
    leaves: tuple[Sql, ...]
    structs: tuple[Sql | None, ...]
    """Whether each struct is there; None if it always is where a shape has it."""

    def columns(self) -> list[tuple[str, Sql]]:
        """The columns by their names."""
        made = [(SHAPE, self.shape)]
        made += [(f"c{i}", sql) for i, sql in enumerate(self.leaves)]
        return made + [(f"v{i}", sql) for i, sql in enumerate(self.structs) if sql is not None]


def flatten(cases: Sequence[Case], grouped: Frame | None = None) -> Flat:
    """The columns for cases; NULL in the rows that do not have them, if rows of a frame are to be grouped by them."""
    shapes = list(dict.fromkeys(case.node.type for case in cases))
    if len(shapes) > MOST_SHAPES:
        raise NotColumnar("too many shapes")
    layout = layouts.layout_of(tuple(shapes))
    place = {shape: i for i, shape in enumerate(shapes)}
    codes: list[tuple[Cond, Sql]] = []
    leaves: list[list[tuple[Cond, Sql]]] = [[] for _ in layout.leaves]
    structs: list[list[tuple[Cond, Sql | None]]] = [[] for _ in layout.structs]
    for case in cases:
        code = place[case.node.type]
        codes.append((case.when, _shape_code(case.node, code)))
        for index, sql in _leaves(case.node, layout.forms[code]):
            leaves[index].append((case.when, sql))
        for index, valid in _structs(case.node, layout.forms[code]):
            structs[index].append((case.when, valid))
    return Flat(
        layout,
        _shape_column(codes),
        tuple(_merged(entries, grouped, len(cases)) for entries in leaves),
        tuple(_validity(entries, grouped, len(cases)) for entries in structs),
    )


def _shape_column(codes: list[tuple[Cond, Sql]]) -> Sql:
    """The shape of each row; where it is the one that the source has, just that."""
    if len(codes) > 1 and all(
        shape_of(when) is not None and build.integer(shape_of(when) or 0) == sql for when, sql in codes
    ):
        return build.column(SHAPE)
    return _merged(codes)


def _shape_code(node: Node, code: int) -> Sql:
    """The place of the shape; of a record that is null, the number that stands for that."""
    if isinstance(node.type.under, t.Record):
        valid = _valid(node)
        if valid is False:
            return build.integer(-1 - code)
        if valid is not True:
            return build.choose([(valid, build.integer(code))], build.integer(-1 - code))
    return build.integer(code)


def _valid(node: Node) -> Cond:
    if isinstance(node, Const):
        return node.value.data is not None
    return True if not isinstance(node, Rec) or node.valid is None else node.valid


def _parts(node: Node) -> tuple[Node, ...]:
    """The fields of a record."""
    if isinstance(node, Rec):
        return node.fields
    assert isinstance(node, Const)
    under = node.value.type.under
    assert isinstance(under, t.Record)
    data = node.value.data or (None,) * len(under.fields)
    return tuple(Const(Value(f.type, d)) for f, d in zip(under.fields, data, strict=True))


def _leaves(node: Node, form: Form) -> Iterator[tuple[int, Sql]]:
    if form is None:
        return
    if isinstance(form, RecordForm):
        for part, inner in zip(_parts(node), form.fields, strict=True):
            yield from _leaves(part, inner)
    elif isinstance(node, Const):
        yield form.index, literal(node.value)
    else:
        assert isinstance(node, Leaf)
        yield form.index, node.sql


def _structs(node: Node, form: Form) -> Iterator[tuple[int, Sql | None]]:
    if isinstance(form, RecordForm):
        if form.struct.column:
            valid = _valid(node)
            yield form.struct.index, None if valid is True else build.known(valid)
        for part, inner in zip(_parts(node), form.fields, strict=True):
            yield from _structs(part, inner)


def _merged(entries: list[tuple[Cond, Sql]], grouped: Frame | None = None, cases: int = 0) -> Sql:
    """The value of a column in all cases. What it is in other rows does not matter, unless these are grouped."""
    if not entries:
        return build.null("BOOLEAN")
    groups: dict[Sql, list[Cond]] = {}
    for when, sql in entries:
        groups.setdefault(sql, []).append(when)
    if len(groups) == 1 and (grouped is None or len(entries) == cases or _parts_no_groups(entries, grouped)):
        return next(iter(groups))
    return build.choose([(any_of(whens), sql) for sql, whens in groups.items()])


def _parts_no_groups(entries: list[tuple[Cond, Sql]], frame: Frame) -> bool:
    """Whether a column that some cases of a frame have is the same, or NULL, by itself in all rows of the others."""
    whens = {when for when, _ in entries}
    sql = entries[0][1]
    if sql.find(exp.Column) is None:
        return True
    others = [case.node for case in frame.cases if case.when not in whens]
    return whens <= {case.when for case in frame.cases} and _is_strict(sql) and _is_foreign(sql, others)


def merged_column(frame: Frame, entries: Sequence[tuple[Cond, Sql | None]], kind: str) -> Sql:
    """A column that is exact in all rows: None is NULL. Columns that are NULL by themselves there need no question."""
    sqls = list(dict.fromkeys(sql for _, sql in entries if sql is not None))
    if not sqls:
        return build.null(kind)
    others = [case.node for case, (_, sql) in zip(frame.cases, entries, strict=False) if sql is None]
    is_plain = len(sqls) == 1 and len(entries) == len(frame.cases)
    if is_plain and (not others or (_is_strict(sqls[0]) and _is_foreign(sqls[0], others))):
        return sqls[0]
    groups: dict[Sql, list[Cond]] = {}
    for when, sql in entries:
        if sql is not None:
            groups.setdefault(sql, []).append(when)
    return build.choose([(any_of(whens), sql) for sql, whens in groups.items()], build.null(kind))


def _validity(entries: list[tuple[Cond, Sql | None]], grouped: Frame | None, cases: int) -> Sql | None:
    if all(valid is None for _, valid in entries):
        return None
    return _merged([(when, build.TRUE if valid is None else valid) for when, valid in entries], grouped, cases)
