"""`uniq`: equal neighbours as one. Each row is compared, as a whole, with the one before it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from sqlglot import exp

from shoal.engines.sql import build
from shoal.engines.sql.build import Sql
from shoal.engines.sql.expressions import record_node
from shoal.engines.sql.frames import Frame, Order
from shoal.engines.sql.nodes import Leaf, NotColumnar
from shoal.engines.sql.tables import table_of, told_apart
from shoal.model import types as t

_IS_NEW, _NUMBER, _TOTAL, _COUNT = "is_new", "number", "total", "count"


def uniq(frames: Sequence[Frame], with_count: bool) -> Frame:
    """The first row of each run of equal ones, and how many they are if that is wanted."""
    if not frames or not frames[0].order:
        raise NotColumnar("neighbours of rows in no order")
    table = table_of(frames)
    row = build.call("row", *told_apart(table.flat))
    is_new = exp.NullSafeNEQ(this=row, expression=_over(build.call("lag", row.copy()), table.order))
    extra: list[tuple[str, Sql]] = [(_IS_NEW, is_new)]
    if with_count:
        extra += [(_NUMBER, _over(exp.RowNumber(), table.order)), (_TOTAL, _over(_all(), ()))]
    rows = _select(table.query.subquery("flat", copy=False), table.columns(), extra)
    count = [(_COUNT, _until_next())] if with_count else []
    firsts = _select(rows.subquery("compared", copy=False), table.columns(), count)
    firsts = firsts.where(build.column(_IS_NEW), copy=False)
    made = Frame(firsts.subquery("firsts", copy=False), table.cases, order=table.order)
    return _counted(made) if with_count else made


def _select(source: Sql, names: Sequence[str], extra: Sequence[tuple[str, Sql]]) -> exp.Select:
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


def _counted(frame: Frame) -> Frame:
    count = Leaf(t.UINT64, build.cast(build.column(_COUNT), "UBIGINT"))
    cases = (replace(case, node=record_node(["value", "count"], [case.node, count])) for case in frame.cases)
    return replace(frame, cases=tuple(cases))
