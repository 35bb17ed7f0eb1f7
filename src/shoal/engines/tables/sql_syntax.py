"""What a statement in SQL may consist of. Whatever is not named here is refused, wherever in the tree it stands.

A tree passes if all of its nodes are of the classes below, all functions are in `sql_functions`, and what stands where
a table stands is a pool, a query or a function that only computes. So syntax that nobody thought of is refused, and so
is syntax that a later version of sqlglot learns.
"""

from __future__ import annotations

import re
from difflib import get_close_matches

from sqlglot import exp

from shoal.engines.tables.sql_functions import FUNCTIONS, TABLE_FUNCTIONS, TYPED_FUNCTIONS, is_refused
from shoal.errors import InvalidInput

_QUERIES = (exp.Select, exp.Subquery, exp.Union, exp.Except, exp.Intersect, exp.Values, exp.Pivot)
_CLAUSES = (
    exp.With, exp.CTE, exp.TableAlias, exp.From, exp.Join, exp.Lateral, exp.Table, exp.TableSample, exp.UnpivotColumns,
    exp.PivotAlias, exp.PivotAny, exp.Where, exp.Group, exp.GroupingSets, exp.Cube, exp.Rollup, exp.Having,
    exp.Qualify, exp.Order, exp.Ordered, exp.Limit, exp.LimitOptions, exp.Fetch, exp.Offset, exp.Distinct, exp.Window,
    exp.WindowSpec, exp.Filter, exp.WithinGroup, exp.IgnoreNulls, exp.RespectNulls, exp.HavingMax,
)  # fmt: skip
_NAMES = (exp.Column, exp.Identifier, exp.Star, exp.Alias, exp.Aliases, exp.PositionalColumn, exp.Dot, exp.Var)
_CONSTANTS = (
    exp.Literal, exp.Null, exp.Boolean, exp.BitString, exp.HexString, exp.ByteString, exp.RawString,
    exp.UnicodeString, exp.National, exp.Interval, exp.IntervalSpan, exp.DataType, exp.DataTypeParam, exp.ColumnDef,
)  # fmt: skip
_OPERATORS = (
    exp.Paren, exp.Tuple, exp.Bracket, exp.Slice, exp.Kwarg, exp.PropertyEQ, exp.Lambda, exp.Comprehension, exp.In,
    exp.Between, exp.Is, exp.Like, exp.ILike, exp.SimilarTo, exp.Glob, exp.Escape, exp.Not, exp.Neg, exp.All, exp.Any,
    exp.BitwiseNot, exp.BitwiseAnd, exp.BitwiseOr, exp.BitwiseXor, exp.BitwiseLeftShift, exp.BitwiseRightShift,
    exp.Add, exp.Sub, exp.Mul, exp.Div, exp.IntDiv, exp.Mod, exp.DPipe, exp.EQ, exp.NEQ, exp.GT, exp.GTE, exp.LT,
    exp.LTE, exp.NullSafeEQ, exp.NullSafeNEQ, exp.Distance, exp.AtTimeZone,
)  # fmt: skip
_PATHS = (
    exp.JSON, exp.JSONKeyValue, exp.JSONPath, exp.JSONPathKey, exp.JSONPathRecursive, exp.JSONPathRoot,
    exp.JSONPathSlice, exp.JSONPathSubscript, exp.JSONPathUnion, exp.JSONPathWildcard,
)  # fmt: skip
NODES: frozenset[type[exp.Expr]] = frozenset((*_QUERIES, *_CLAUSES, *_NAMES, *_CONSTANTS, *_OPERATORS, *_PATHS))
"""Classes of nodes that are not functions. A class that inherits from one of them is another class."""

_TABLES = (exp.Table, exp.Lateral, exp.Unnest, *_QUERIES)
"""What may stand where a table stands."""
_CHANGING = (exp.DML, exp.DDL, exp.Command, exp.Into, exp.Drop, exp.Copy)
_QUOTE_NAMES = '(the name of a pool at a branch, tag or commit is in double quotes: "logs@v1")'
_WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def require_allowed(tree: exp.Expr) -> None:
    """InvalidInput, unless a statement is a query over pools, or describes one."""
    _require_query(tree)
    for node in tree.walk():
        if node is tree and isinstance(tree, exp.Describe):
            continue
        if isinstance(node, exp.Func):
            _require_function(node)
        elif isinstance(node, exp.Placeholder | exp.Parameter):
            raise InvalidInput(f"sql: parameters are not allowed in a query {_QUOTE_NAMES}")
        elif type(node) not in NODES:
            raise InvalidInput(f"sql: {_shown(node)} is not allowed in a query")
        _require_plain(node)
        if isinstance(node, exp.From | exp.Join | exp.Lateral):
            _require_table(node.this)
        elif isinstance(node, exp.Table) and not isinstance(node.this, exp.Identifier):
            _require_table_function(node.this)


def _require_query(tree: exp.Expr) -> None:
    is_description = isinstance(tree, exp.Describe) and type(tree.this) in (exp.Table, *_QUERIES)
    changing = tree.find(*_CHANGING)
    if changing is None and (type(tree) in _QUERIES or is_description):
        return
    statement = changing or tree
    word = str(statement.this if isinstance(statement, exp.Command) else statement.key).upper()
    hint = _HINTS.get(word, "queries, INSERT, UPDATE, DELETE, MERGE INTO and CREATE TABLE AS are")
    raise InvalidInput(f"sql: {_WORDS.get(word, word)} is not a statement for pools ({hint})")


_WORDS = {"TRUNCATETABLE": "TRUNCATE"}
_HINTS = {
    "SHOW": "shoal ls lists the pools, describe POOL its columns",
    "DROP": "pools are dropped by shoal drop",
    "TRUNCATETABLE": "delete from POOL removes all records",
    "ALTER": "a pool has the columns of its data",
}


def _require_table(node: exp.Expr) -> None:
    if type(node) not in _TABLES:
        _require_table_function(node)


def _require_table_function(node: exp.Expr | None) -> None:
    if isinstance(node, exp.Explode) or (isinstance(node, exp.Func) and _names(node) & TABLE_FUNCTIONS):
        return
    raise InvalidInput(f"sql: {_shown(node)} is not a pool (only pools can be read)")


def _require_function(node: exp.Func) -> None:
    parent = node.parent
    is_table = isinstance(parent, exp.Table | exp.Lateral) and parent.this is node
    if type(node).__name__ in TYPED_FUNCTIONS or _names(node) & FUNCTIONS or is_table:
        return  # what stands for a table is checked with the node that it is in
    name = _shown(node)
    if not isinstance(node, exp.Anonymous) or is_refused(name):
        raise InvalidInput(f"sql: {name} reaches beyond the pools, which a query may not")
    alike = get_close_matches(name, FUNCTIONS, 1)
    hint = f"did you mean {alike[0]}?" if alike else "DuckDB's functions that compute values can be called"
    raise InvalidInput(f"sql: there is no function {name} ({hint})")


def _names(node: exp.Func) -> set[str]:
    """The names of a function in SQL, in lower case."""
    if isinstance(node, exp.Anonymous):
        return {node.name.lower()}
    return {name.lower() for name in node.sql_names()}


def _require_plain(node: exp.Expr) -> None:
    """Refuse what would stand in the statement of the engine without quotes, unless it is made of words."""
    if isinstance(node, exp.DataType):
        text = node.args.get("kind") or ""
        is_plain = not isinstance(text, str) or not text or _WORD.fullmatch(text) is not None
    else:
        text = node.this if isinstance(node, exp.Var) else ""
        is_plain = not text or all(map(_WORD.fullmatch, text.split(" ")))
    if not is_plain:
        raise InvalidInput(f"sql: {text!r} is not allowed in a query")


def _shown(node: exp.Expr | None) -> str:
    if isinstance(node, exp.Anonymous):
        return node.name.lower()
    if isinstance(node, exp.Func):
        return node.sql_name().lower()
    return "nothing" if node is None else node.key.upper()
