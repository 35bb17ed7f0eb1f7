"""Sort keys and join keys as columns: equal where the interpreter finds keys equal, and in its order.

The first column of a key is its kind. All numbers are of one kind, but for NaN, which is less than any; then come other
types in their order; nulls are equal, and at one end. The other columns have the keys of each kind.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from sqlglot import exp

from shoal.engines.sql import build
from shoal.engines.sql.build import Cond, Sql, both, negated
from shoal.engines.sql.expressions import value
from shoal.engines.sql.flat_tables import Columns
from shoal.engines.sql.nodes import Const, Leaf, Node, NotColumnar, Outcome, equals_error, refuse_exact
from shoal.engines.sql.relations import Case, Item, Order, Relation, merged_column
from shoal.engines.sql.types import physical
from shoal.lang import plan
from shoal.model import types as t
from shoal.model.node import frozen
from shoal.model.values import MISSING, NULL

_KIND = "kind"
_NAN, _NUMBER, _OTHERS = 0, 1, 2
_PLAIN: dict[t.Type, str] = {
    t.BYTES: "BLOB", t.STRING: "VARCHAR", t.BOOL: "BOOLEAN", t.IP: "BLOB", MISSING.type: "VARCHAR",
}  # fmt: skip
"""Types that the engine compares byte by byte, as the interpreter does."""
_WHOLE = "HUGEINT"


@frozen
class RowKey:
    """A key of the rows of a case, on a condition."""

    case: Case
    when: Cond
    key: Node


@frozen
class Keys:
    """What columns keys have."""

    numbers: tuple[str, ...]
    """The types of the columns that hold numbers."""
    others: tuple[t.Type, ...]
    is_descending: bool
    nulls_first: bool = False

    def names(self) -> list[str]:
        """The names of the columns."""
        return [_KIND, *self._numbers(), *(f"key{i}" for i in range(len(self.others)))]

    def _numbers(self) -> list[str]:
        return [f"number{i}" for i in range(len(self.numbers))]

    def order(self) -> Order:
        """What rows are ordered by that have the columns."""
        return tuple(Item(build.column(name), self.is_descending) for name in self.names())

    def equal(self, left: str, right: str) -> Sql:
        """Whether the keys of two tables are equal."""

        def of(table: str, name: str) -> Sql:
            return exp.column(exp.to_identifier(name, quoted=True), table=table)

        first, *names = self.names()
        same = [exp.NullSafeEQ(this=of(left, name), expression=of(right, name)) for name in names]
        return exp.and_(exp.EQ(this=of(left, first), expression=of(right, first)), *same, copy=False)

    def columns(self, row_keys: Sequence[RowKey]) -> Columns:
        """The columns for rows with these keys."""
        kinds = [(f.case, f.when, self._kind(f.key)) for f in row_keys]
        columns = [(_KIND, merged_column(kinds, build.null("INTEGER")))]
        for index, (name, kind) in enumerate(zip(self._numbers(), self.numbers, strict=True)):
            entries = [(f.case, f.when, self._number(f.key, index)) for f in row_keys]
            columns.append((name, merged_column(entries, build.null(kind))))
        for index, typ in enumerate(self.others):
            entries = [(f.case, f.when, _plain(f.key, typ)) for f in row_keys]
            columns.append((f"key{index}", merged_column(entries, build.null(_PLAIN[typ]))))
        return columns

    def _kind(self, key: Node) -> Sql:
        """The number of the kind. Where nulls come does not depend on the direction."""
        is_least = self.is_descending != self.nulls_first
        null = build.integer(-1 if is_least else _OTHERS + len(self.others))
        under = key.type.under
        if is_null(key):
            return null
        if not t.is_number(under):
            kind = build.integer(_OTHERS + self.others.index(under))
            return build.choose([(build.is_null(key_sql(key)), null)], kind)
        cases = [(build.is_null(key_sql(key)), null)]
        if under in t.FLOATS:
            cases.append((build.is_nan(key_sql(key)), build.integer(_NAN)))
        return build.choose(cases, build.integer(_NUMBER))

    def _number(self, key: Node, index: int) -> Sql | None:
        """A number in one of the columns for numbers; a NaN has none."""
        under = key.type.under
        if is_null(key) or not t.is_number(under):
            return None
        kind, sql = self.numbers[index], key_sql(key)
        if under not in t.FLOATS:
            return build.cast(sql, kind)
        if kind == _WHOLE:
            return build.try_cast(build.call("trunc", sql), kind)
        fraction = build.cast(sql, kind)
        is_zero = build.binary("=", fraction, build.integer(0))  # of either sign
        return build.choose(
            [(build.is_nan(sql), build.null(kind)), (is_zero, build.cast(build.integer(0), kind))], fraction
        )


def keys_of(row_keys: Iterable[RowKey], is_descending: bool, nulls_first: bool = False) -> Keys:
    """The columns for keys of all the types that there are."""
    types = {f.key.type.under for f in row_keys if not is_null(f.key)}
    refuse_exact(*types)
    numbers = {typ for typ in types if t.is_number(typ)}
    others = types - numbers
    if not others <= _PLAIN.keys():
        raise NotColumnar("keys of types that SQL orders otherwise")
    return Keys(_columns_for(numbers), tuple(t.unique_types(others)), is_descending, nulls_first)


def _columns_for(numbers: set[t.Type]) -> tuple[str, ...]:
    """The types of SQL that order these numbers exactly."""
    if not numbers:
        return ()
    if numbers <= t.FLOATS:
        return ("DOUBLE",)
    if numbers & t.FLOATS:
        # Integers that are equal as floats are distinguished by their exact values.
        return ("DOUBLE", _WHOLE)
    if t.UINT64 not in numbers:
        return ("BIGINT",)
    return (_WHOLE,) if len(numbers) > 1 else ("UBIGINT",)


def is_missing(node: Node) -> Cond:
    """Whether there is no key."""
    return equals_error(node, MISSING)


def is_null(node: Node) -> bool:
    """Whether a key is null for certain."""
    return node.value.data is None if isinstance(node, Const) else node.type.under is t.NULL


def _plain(key: Node, typ: t.Type) -> Sql | None:
    return None if is_null(key) or key.type.under is not typ else key_sql(key)


def key_sql(key: Node) -> Sql:
    """A key in its physical form."""
    assert isinstance(key, Leaf | Const)
    return physical(key)


_WHOLE_NUMBERS = frozenset((*t.SIGNED, t.DURATION, t.TIME, t.UINT8, t.UINT16, t.UINT32))
_BYTEWISE = (t.STRING, t.BYTES, t.IP, t.BOOL)


ITEMS_WHEN_SPLIT = 3
"""Of each key, whatever it is."""


def sort_order(op: plan.Sort, relations: Sequence[Relation], is_split: bool = False) -> tuple[Order, ...]:
    """What the rows of each relation are sorted by.

    Where the work is split, others have rows of other types, and what they sort by has to be comparable with this.
    """
    if not op.keys:
        raise NotColumnar("a sort that looks at the data for what to sort by")
    by_relation: list[list[Item]] = [[] for _ in relations]
    for key in op.keys:
        is_descending = (key.order == "desc") != op.reverse
        orders = key_order(key.expr, relations, is_descending, op.nulls_first, is_split)
        for items, order in zip(by_relation, orders, strict=True):
            items.extend(order)
    return tuple(tuple(items) for items in by_relation)


def key_order(
    expr: plan.Expr, relations: Sequence[Relation], is_descending: bool, nulls_first: bool, is_split: bool = False
) -> tuple[Order, ...]:
    """The items of one key. A missing key counts as null."""
    by_relation = [
        [f for case in relation.cases for o in value(expr, case.node) for f in _row_keys(case, o)]
        for relation in relations
    ]
    kind = _kind({f.key.type.under for row_keys in by_relation for f in row_keys if not is_null(f.key)})
    if kind is not None:
        return tuple(_items(row_keys, kind, is_descending, nulls_first, is_split) for row_keys in by_relation)
    if is_split:
        raise NotColumnar("keys of several types where the work is split")
    keys = keys_of((f for row_keys in by_relation for f in row_keys), is_descending, nulls_first)
    return tuple(tuple(Item(sql, is_descending) for _, sql in keys.columns(row_keys)) for row_keys in by_relation)


def _row_keys(case: Case, outcome: Outcome) -> Iterator[RowKey]:
    """A key, or null where it is missing."""
    when, missing = both(case.when, outcome.when), is_missing(outcome.node)
    if missing is not False:
        yield RowKey(case, both(when, missing), Const(NULL))
    if missing is not True:
        yield RowKey(case, both(when, negated(missing)), outcome.node)


def _kind(types: set[t.Type]) -> str | None:
    """The one type of SQL in which keys of these types are ordered, if there is one."""
    if types <= _WHOLE_NUMBERS:
        return "BIGINT"
    if types <= t.FLOATS:
        return "DOUBLE"
    if len(types) == 1:
        (only,) = types
        if only is t.UINT64:
            return "UBIGINT"
        if only in _BYTEWISE:
            return {t.STRING: "VARCHAR", t.BOOL: "BOOLEAN"}.get(only, "BLOB")
    return None


def _items(row_keys: Sequence[RowKey], kind: str, is_descending: bool, nulls_first: bool, is_split: bool) -> Order:
    """The items of a key of one kind: whether it is null, whether it is NaN, and what it is."""
    entries = [(f.case, f.when, None if is_null(f.key) else build.cast(key_sql(f.key), kind)) for f in row_keys]
    key = merged_column(entries, build.null(kind))
    items = [Item(build.known(build.is_null(key)), nulls_first)]
    if kind == "DOUBLE":
        # A NaN is less than any number, and to the engine greater.
        is_nan = build.known(build.is_nan(key))
        items.append(Item(is_nan, not is_descending))
    elif is_split:
        items.append(Item(build.FALSE.copy(), not is_descending))
    return (*items, Item(key, is_descending))
