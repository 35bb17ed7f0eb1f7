"""Statements in SQL: which tables they name, and which conditions the rows of each have to meet.

They are read in the dialect of DuckDB, and written again for the engine that runs them: what was looked at is what
runs. Only queries are let through; those of statements that change something are made by `change_statements`.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterator, Sequence, Set
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, TypeAlias, TypeVar

import sqlglot
from sqlglot import exp
from sqlglot.errors import ErrorLevel, ParseError, SqlglotError, UnsupportedError

from shoal.engines.tables.sql_functions import OF_THE_SESSION
from shoal.engines.tables.sql_syntax import require_allowed
from shoal.errors import InvalidInput, Unsupported
from shoal.suggestions import did_you_mean

Constant: TypeAlias = int | float | str
DIALECT = "duckdb"
_LONGEST = 100_000
_LONGEST_KEPT = 10_000
"""Characters of a statement that is kept: its tree takes some hundred times as many bytes."""
_MOST_LEVELS = 900
"""As many as DuckDB takes, or nearly so."""
_TOO_DEEP = f"sql: the statement nests deeper than {_MOST_LEVELS} levels"
_CONFUSED = (SqlglotError, AttributeError, LookupError, TypeError, ValueError)
"""What sqlglot raises for a call with too few arguments, or with others than it expects."""
_WRONG_ARGUMENTS = "sql: a function is called with arguments that it does not take"
_FLIPPED = {"=": "=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
_TIMES = (exp.DType.DATE, exp.DType.DATETIME, exp.DType.TIMESTAMP, exp.DType.TIMESTAMPNTZ, exp.DType.TIMESTAMP_NS)
_OPS: dict[type[exp.Expr], str] = {exp.EQ: "=", exp.LT: "<", exp.LTE: "<=", exp.GT: ">", exp.GTE: ">="}


@dataclass(frozen=True, slots=True)
class Condition:
    """A comparison of a column with a constant, which is true of every row that matters."""

    column: tuple[str, ...]
    """Its name, after those of the structs that it is in."""
    op: str
    """One of = < <= > >= in."""
    value: Constant | tuple[Constant, ...]
    """Several for `in`."""


@dataclass(frozen=True, slots=True)
class Use:
    """A table reference in a statement."""

    index: int
    """Its number among the tables of the tree."""
    name: str
    is_quoted: bool
    conditions: tuple[Condition, ...]
    """Some of them name columns of other tables, where the names do not tell."""
    is_numbered: bool = False
    """Whether its rows have numbers."""


class Statement:
    """A query. It does not change: threads may share it."""

    def __init__(self, source: str | exp.Expr) -> None:
        """From its text or its tree; InvalidInput, if it is not a query over pools."""
        self._tree = tree = parse_tree(source) if isinstance(source, str) else source
        try:
            require_allowed(tree)
            self.uses = tuple(_uses(tree))
        except RecursionError:
            raise InvalidInput(_TOO_DEEP) from None

    @cached_property
    def numbered(self) -> frozenset[int]:
        """The uses, by their place among `uses`, whose rows have numbers."""
        return frozenset(i for i, use in enumerate(self.uses) if use.is_numbered)

    @cached_property
    def is_description(self) -> bool:
        """Whether it asks for the columns of a table, and reads none."""
        return isinstance(self._tree, exp.Describe)

    @cached_property
    def columns(self) -> frozenset[str] | None:
        """The names of columns that occur, in lower case; None if a star stands for all of them."""
        tree = self._tree
        is_open = any(not isinstance(star.parent, exp.Count) for star in tree.find_all(exp.Star))
        is_open = is_open or self.is_description
        is_natural = any(join.args.get("method") for join in tree.find_all(exp.Join))
        if is_open or is_natural or tree.find(exp.Pivot, exp.Columns) is not None:
            return None
        return self.names

    @cached_property
    def names(self) -> frozenset[str]:
        """All names that occur, in lower case."""
        return frozenset(name.name.lower() for name in self._identifiers)

    @cached_property
    def column_names(self) -> frozenset[str]:
        """The names of columns, after those of tables, as they are written."""
        columns = [column.parts for column in self._tree.find_all(exp.Column)]
        return frozenset(part.name for parts in columns for part in parts[:2] if isinstance(part, exp.Identifier))

    @cached_property
    def wholes(self) -> frozenset[str]:
        """The names that occur at the end of a path, or in no path, in lower case: `c`, of `a.b.c`."""
        return frozenset(name.name.lower() for name in self._identifiers if not _has_field(name))

    @cached_property
    def session_words(self) -> frozenset[str]:
        """Names that functions have as well, which an engine calls if there is no column of this name."""
        return OF_THE_SESSION & self.names

    @cached_property
    def companions(self) -> frozenset[str]:
        """The names that may be companions of columns, in lower case."""
        return frozenset(name for name in self.names if "$" in name)

    @cached_property
    def _identifiers(self) -> tuple[exp.Identifier, ...]:
        return tuple(self._tree.find_all(exp.Identifier))

    def sql(self, dialect: str, names: Sequence[str], hidden: Sequence[Sequence[str]] = ()) -> str:
        """The statement for an engine, in which the tables have these names; some of their columns are no part of `*`.

        Nothing is left that the engine could look up by itself: tables of WITH have names of ours as well, all names
        are in quotes, and comments are gone.
        """
        tree = self._tree.copy()
        if any(hidden):
            _hide(tree, dict(zip((use.index for use in self.uses), hidden, strict=True)))
        _rename_tables(tree, dict(zip((use.index for use in self.uses), names, strict=True)))
        if self.is_description:
            tree = exp.select("column_name", "column_type").from_(exp.Subquery(this=tree))
        try:
            return tree.sql(dialect, copy=False, identify=True, comments=False, unsupported_level=ErrorLevel.RAISE)
        except UnsupportedError as e:
            raise Unsupported(f"sql: {_one_line(e)} (it may be known to the other engine: -engine duckdb)") from None
        except RecursionError:
            raise InvalidInput(_TOO_DEEP) from None
        except _CONFUSED:
            raise InvalidInput(_WRONG_ARGUMENTS) from None


Parsed = TypeVar("Parsed")


def recent(text: str, parse: Callable[[str], Parsed]) -> Parsed:
    """What is made of the text of a statement; those that were asked recently are not parsed again."""
    kept: Callable[[str, Callable[[str], Parsed]], Parsed] = _recent
    return kept(text, parse) if len(text) <= _LONGEST_KEPT else parse(text)


@lru_cache(maxsize=64)
def _recent(text: str, parse: Callable[[str], Any]) -> Any:
    return parse(text)


def parse_tree(text: str) -> exp.Expr:
    """The tree of the one statement in a text."""
    if len(text) > _LONGEST:
        raise InvalidInput(f"sql: the statement is longer than {_LONGEST} characters")
    try:
        with _silent():
            trees = [tree for tree in sqlglot.parse(text, dialect=DIALECT) if tree is not None]
    except SqlglotError as e:
        raise InvalidInput(f"sql: {_syntax_error(e, text)}") from None
    except RecursionError:
        raise InvalidInput(_TOO_DEEP) from None
    except _CONFUSED:
        raise InvalidInput(_WRONG_ARGUMENTS) from None
    if len(trees) != 1:
        raise InvalidInput(f"sql: one statement is wanted, and there are {len(trees)}")
    _require_shallow(trees[0])
    return trees[0]


def _syntax_error(error: SqlglotError, text: str) -> str:
    """Where a statement cannot be parsed; sqlglot's own words name its classes and tokens."""
    if not isinstance(error, ParseError) or not error.errors:
        return _one_line(error)
    place = error.errors[0]
    near, line, end = (place[name] for name in ("highlight", "line", "col"))
    what = _one_line(place["description"])
    reason = what if what.startswith("Expect") else "syntax error"
    hint = did_you_mean(text.split(None, 1)[0].lower(), _FIRST_WORDS) if text.strip() else ""
    return f"{reason} at line {line}, column {max(end - len(near) + 1, 1)}, near {near!r}{hint}"


_FIRST_WORDS = (
    "select",
    "with",
    "from",
    "values",
    "describe",
    "explain",
    "insert",
    "update",
    "delete",
    "merge",
    "create",
)


def _require_shallow(tree: exp.Expr) -> None:
    """Refuse a statement that nests so deep that reading or writing it would run out of stack frames."""
    level: list[exp.Expr] = [tree]
    for _ in range(_MOST_LEVELS):
        level = [child for node in level for child in node.iter_expressions()]
        if not level:
            return
    raise InvalidInput(_TOO_DEEP)


@contextmanager
def _silent() -> Iterator[None]:
    """What sqlglot does not know it says in a log."""
    logger = logging.getLogger("sqlglot")
    before = logger.disabled
    logger.disabled = True
    try:
        yield
    finally:
        logger.disabled = before


def _one_line(error: Exception | str) -> str:
    plain = re.sub(r"\x1b\[[0-9;]*m", "", str(error))
    line = " ".join(plain.partition("\n")[0].split())
    return re.sub(r"<Token .*?>", "the end of the statement", line) if "SENTINEL" in line else line


def _has_field(name: exp.Identifier) -> bool:
    """Whether a name is followed by that of a field: `a` and `b`, in `a.b.c`."""
    node: exp.Expr | None = name.parent
    if isinstance(node, exp.Column) and name.arg_key != "this":
        return True
    if not isinstance(node, exp.Column | exp.Dot) or (isinstance(node, exp.Dot) and name.arg_key == "this"):
        return False
    return isinstance(node.parent, exp.Dot) and node.arg_key == "this"


def _uses(tree: exp.Expr) -> Iterator[Use]:
    names = {each.alias_or_name.lower() for each in tree.find_all(exp.Table, exp.TableAlias, exp.CTE)}
    for index, node in enumerate(tree.find_all(exp.Table)):
        name = node.this
        if not isinstance(name, exp.Identifier):
            continue
        if node.db or node.catalog:
            name_of = node.sql(DIALECT)
            raise InvalidInput(f'sql: {name_of} is not a pool (pools have no schemas; quote a name with dots: "a.b")')
        if _common_table(node, name.name) is None:
            is_numbered = bool(node.meta.get("numbered"))
            yield Use(index, name.name, bool(name.args.get("quoted")), tuple(_conditions(node, names)), is_numbered)


def _hide(tree: exp.Expr, hidden: dict[int, Sequence[str]]) -> None:
    """Take columns of tables out of `*`, and out of `t.*`."""
    tables = dict(enumerate(tree.find_all(exp.Table)))
    for star in list(tree.find_all(exp.Star)):
        select = star.parent_select
        qualifier = star.parent.table if isinstance(star.parent, exp.Column) else ""
        columns = [
            name
            for index, names in hidden.items()
            for name in names
            if _is_source(tables[index], select) and qualifier.lower() in ("", tables[index].alias_or_name.lower())
        ]
        if columns and not isinstance(star.parent, exp.Count):
            taken = [*(star.args.get("except_") or ()), *(exp.to_identifier(name, quoted=True) for name in columns)]
            star.set("except_", taken)


def _is_source(table: exp.Table, select: exp.Expr | None) -> bool:
    """Whether a table is one that a query reads, and not a query inside of it."""
    return isinstance(table.parent, exp.From | exp.Join) and table.parent.parent is select


def _rename_tables(tree: exp.Expr, names: dict[int, str]) -> None:
    """Give all tables names of ours: the pools by their index in the tree, and those that WITH defines."""
    common = {id(table): f"c{number}" for number, table in enumerate(tree.find_all(exp.CTE))}
    tables = list(tree.find_all(exp.Table))
    renamed: list[tuple[exp.Table, str]] = []
    for index, node in enumerate(tables):
        table = None if index in names else _common_table(node, node.name)
        if index in names or table is not None:
            renamed.append((node, names[index] if table is None else common[id(table)]))
    for node, name in renamed:
        if not node.alias and not isinstance(node.parent, exp.Describe):
            node.set("alias", exp.TableAlias(this=exp.to_identifier(node.name, quoted=True)))
        node.set("this", exp.to_identifier(name, quoted=True))
    for table in tree.find_all(exp.CTE):
        table.args["alias"].set("this", exp.to_identifier(common[id(table)], quoted=True))


def _common_table(node: exp.Expr, name: str) -> exp.CTE | None:
    """What WITH defines under a name; None if the name is that of a pool here."""
    inside: exp.Expr = node
    above = node.parent
    while above is not None:
        clause = above.args.get("with_")
        if isinstance(clause, exp.With):
            tables: list[exp.CTE] = clause.expressions
            for table in tables:
                is_itself = table is inside
                if is_itself and not clause.recursive:
                    break
                if table.alias.lower() == name.lower():
                    return table
                if is_itself:
                    break
        # A step over the WITH itself, to learn from which of its tables one came.
        if not isinstance(above, exp.With):
            inside = above
        above = above.parent
    return None


# ---- conditions


def _conditions(table: exp.Table, others: Set[str]) -> Iterator[Condition]:
    """What WHERE asks of a table, as far as it compares columns with constants; `others` are the names of tables."""
    select = table.parent_select
    if (
        not isinstance(select, exp.Select)
        or not _is_source(table, select)
        or table.args.get("sample")
        or table.args.get("pivots")
    ):
        return
    where = select.args.get("where")
    if where is None:
        return
    computed = {item.alias.lower() for item in select.expressions if isinstance(item, exp.Alias)}
    is_only = not select.args.get("joins") and not select.args.get("laterals")
    for part in _conjuncts(where.this):
        for column, op, value in _compared(part):
            names = tuple(piece.name for piece in column.parts)
            if names[0].lower() == table.alias_or_name.lower() and len(names) > 1:
                yield Condition(names[1:], op, value)
            elif is_only and names[0].lower() not in computed and (len(names) == 1 or names[0].lower() not in others):
                yield Condition(names, op, value)


def _conjuncts(node: exp.Expr) -> Iterator[exp.Expr]:
    if isinstance(node, exp.Paren):
        yield from _conjuncts(node.this)
    elif isinstance(node, exp.And):
        yield from _conjuncts(node.this)
        yield from _conjuncts(node.expression)
    else:
        yield node


def _compared(node: exp.Expr) -> Iterator[tuple[exp.Column, str, Constant | tuple[Constant, ...]]]:
    op = _OPS.get(type(node))
    if op is not None:
        left, right = node.this, node.expression
        if isinstance(right, exp.Column):
            left, right, op = right, left, _FLIPPED[op]
        value = constant(right)
        if isinstance(left, exp.Column) and value is not None:
            yield left, op, value
    elif isinstance(node, exp.Between) and isinstance(node.this, exp.Column) and not node.args.get("symmetric"):
        for op, bound in ((">=", node.args["low"]), ("<=", node.args["high"])):
            value = constant(bound)
            if value is not None:
                yield node.this, op, value
    elif isinstance(node, exp.In) and isinstance(node.this, exp.Column) and node.expressions:
        values = [constant(item) for item in node.expressions]
        constants = tuple(value for value in values if value is not None)
        if len(constants) == len(values):
            yield node.this, "in", constants


def constant(node: exp.Expr | None) -> Constant | None:
    """The constant that an expression is: a number, or the text of a string, a date or a timestamp."""
    if isinstance(node, exp.Paren):
        return constant(node.this)
    if isinstance(node, exp.Neg):
        inner = constant(node.this)
        return None if inner is None or isinstance(inner, str) else -inner
    if isinstance(node, exp.Cast) and node.to.this in _TIMES:
        inner = constant(node.this)
        return inner if isinstance(inner, str) and _is_kept(inner, node.to) else None
    if not isinstance(node, exp.Literal):
        return None
    if node.is_string:
        return str(node.this)
    return int(node.this) if re.fullmatch(r"\d+", node.this) else _fraction(node.this)


def _is_kept(text: str, typ: exp.DataType) -> bool:
    """Whether a cast leaves all of a time as it is written."""
    return len(text) <= len("2024-01-01") or typ.this is not exp.DType.DATE


def _fraction(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None
