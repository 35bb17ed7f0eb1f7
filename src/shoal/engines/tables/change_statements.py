"""Statements in SQL that change a pool: INSERT, UPDATE, DELETE, MERGE INTO, CREATE TABLE AS.

Each of them is a query whose rows say what to do. Rows of the target have numbers, in the column `ROW`; so what a row
of the answer replaces or removes is known exactly, whatever the condition was. What a record has beside the fields that
are set is not part of the query: it stays as it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from sqlglot import exp

from shoal.engines.tables.forms import ROW
from shoal.engines.tables.statements import DIALECT, Statement, parse_tree, recent
from shoal.errors import InvalidInput

CLAUSE = "$clause"
"""The column that says which clause a row is for."""
THERE = "$there"
"""Is true in rows of the source of a MERGE."""
Verb: TypeAlias = Literal["insert", "update", "delete", "merge", "create"]
Action: TypeAlias = Literal["insert", "update", "delete"]
Names: TypeAlias = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Clause:
    """What becomes of the rows that a clause is for."""

    action: Action
    fields: tuple[Names, ...] = ()
    """The fields that get values, each by its name after those of the records that it is in."""
    columns: tuple[str, ...] = ()
    """The columns of the answer that hold these."""
    takes_all: bool = False
    """Whether each column of the source is a field: `INSERT *`, `UPDATE SET *`."""


@dataclass(frozen=True)
class ChangeStatement:
    """A statement that changes a pool, or creates one."""

    verb: Verb
    target: str
    is_quoted: bool
    query: Statement
    """Its rows are what to do."""
    clauses: tuple[Clause, ...] = ()
    names: tuple[str, ...] | None = None
    """Of INSERT: the fields that it names, for the columns of the query in their order."""
    by_name: bool = False
    """Of INSERT: whether the columns of the query name the fields."""
    is_values: bool = False
    """Of INSERT: whether the query is a list of VALUES, whose columns have no names."""
    replaces: bool = False
    """Of INSERT: whether records with the same primary key are replaced."""
    order: tuple[tuple[str, bool], ...] = field(default=())
    """Of CREATE: the columns that the query is ordered by, and whether they descend."""
    if_not_exists: bool = False
    target_index: int | None = None
    """The number of the use of the query that is the target, where its rows have numbers."""


def parse_statement(text: str) -> Statement | ChangeStatement:
    """A query, or a statement that changes something."""
    return recent(text, _parse)


def _parse(text: str) -> Statement | ChangeStatement:
    tree = parse_tree(text)
    match tree:
        case exp.Insert():
            return _insert(tree)
        case exp.Update():
            return _update(tree)
        case exp.Delete():
            return _delete(tree)
        case exp.Merge():
            return _merge(tree)
        case exp.Create() if tree.args.get("kind") == "TABLE":
            return _create(tree)
    return Statement(tree)


# ---- INSERT and CREATE


def _insert(tree: exp.Insert) -> ChangeStatement:
    _require_only(tree, "this", "expression", "by_name", "alternative", "with_")
    target, names = tree.this, None
    if isinstance(target, exp.Schema):
        names = tuple(_name(each) for each in target.expressions)
        _require_distinct([(name,) for name in names])
        target = target.this
    alternative = str(tree.args.get("alternative") or "").lower()
    if alternative not in ("", "replace"):
        raise InvalidInput(f"sql: INSERT OR {alternative.upper()} is not known (OR REPLACE is; or use MERGE INTO)")
    if tree.expression is None:
        raise InvalidInput("sql: INSERT needs rows: VALUES (...) or a query")
    is_values = isinstance(tree.expression, exp.Values)
    query = exp.select(exp.Star()).from_(tree.expression.subquery("rows") if not is_values else _listed(tree))
    return ChangeStatement(
        "insert",
        *_target(target),
        Statement(_with(tree, query if is_values else tree.expression)),
        names=names,
        by_name=bool(tree.args.get("by_name")),
        is_values=is_values,
        replaces=alternative == "replace",
    )


def _listed(tree: exp.Insert) -> exp.Values:
    rows: exp.Values = tree.expression
    counts = {len(row.expressions) if isinstance(row, exp.Tuple) else 1 for row in rows.expressions}
    if len(counts) != 1:
        raise InvalidInput("sql: the rows of VALUES have different numbers of values")
    rows.set("alias", exp.TableAlias(this=exp.to_identifier("rows")))
    return rows


def _create(tree: exp.Create) -> ChangeStatement:
    _require_only(tree, "this", "kind", "expression", "exists", "with_")
    if not isinstance(tree.this, exp.Table) or not isinstance(tree.expression, exp.Query):
        raise InvalidInput(
            "sql: only CREATE TABLE name AS query creates a pool with data (shoal create makes one without)"
        )
    query = tree.expression
    order = query.args.get("order")
    return ChangeStatement(
        "create",
        *_target(tree.this),
        Statement(_with(tree, query)),
        order=() if order is None else _order(order.expressions),
        if_not_exists=bool(tree.args.get("exists")),
    )


def _order(terms: Sequence[exp.Expr]) -> tuple[tuple[str, bool], ...]:
    """The columns at the beginning of an ORDER BY; a pool has one direction for all of its keys."""
    order: list[tuple[str, bool]] = []
    for term in terms:
        is_descending = bool(term.args.get("desc"))
        if not isinstance(term.this, exp.Column) or (order and order[0][1] != is_descending):
            break
        order.append((term.this.name, is_descending))
    return tuple(order)


# ---- UPDATE and DELETE


def _update(tree: exp.Update) -> ChangeStatement:
    _require_only(tree, "this", "expressions", "from_", "where", "with_")
    alias = _alias(tree.this)
    settings = _settings(tree.expressions, alias)
    columns = [exp.alias_(value, f"c{i}", quoted=True) for i, (_, value) in enumerate(settings)]
    query = exp.select(_row(alias), *columns).from_(_numbered(tree.this))
    source = tree.args.get("from_")
    if source is not None:
        query = query.join(source.this, join_type="CROSS")
    clause = Clause("update", tuple(path for path, _ in settings), tuple(f"c{i}" for i in range(len(settings))))
    return _changing("update", tree, query, (clause,))


def _delete(tree: exp.Delete) -> ChangeStatement:
    _require_only(tree, "this", "using", "where", "with_", "tables", "cluster")
    if tree.args.get("tables") or tree.args.get("cluster"):
        raise InvalidInput("sql: DELETE FROM names one pool")
    query = exp.select(_row(_alias(tree.this))).from_(_numbered(tree.this))
    for source in tree.args.get("using") or ():
        query = query.join(source, join_type="CROSS")
    return _changing("delete", tree, query, (Clause("delete"),))


def _changing(verb: Verb, tree: exp.Expr, query: exp.Select, clauses: tuple[Clause, ...]) -> ChangeStatement:
    where = tree.args.get("where")
    if where is not None:
        query.set("where", where)
    statement = Statement(_with(tree, _in_order_of_rows(query)))
    return ChangeStatement(verb, *_target(tree.this), statement, clauses, target_index=_only_numbered(statement))


def _in_order_of_rows(query: exp.Select) -> exp.Select:
    """The query with its answer in the order of rows, so that it is dealt with object by object; new records last."""
    return query.order_by(exp.Ordered(this=exp.column(ROW, quoted=True), nulls_first=False), copy=False)


def _only_numbered(statement: Statement, first: int = 0) -> int:
    return sorted(statement.numbered)[first]


def _settings(assignments: Sequence[exp.Expr], alias: str) -> list[tuple[Names, exp.Expr]]:
    settings: list[tuple[Names, exp.Expr]] = []
    for each in assignments:
        if not isinstance(each, exp.EQ):
            raise InvalidInput(f"sql: SET {each.sql(DIALECT)}: an assignment is field = value")
        settings.append((_path(each.this, alias), each.expression))
    _require_distinct([path for path, _ in settings])
    return settings


def _path(node: exp.Expr, alias: str) -> Names:
    """The names of a field that is set; the name of the table may come before them."""
    if not isinstance(node, exp.Column | exp.Dot):
        raise InvalidInput(f"sql: SET {node.sql(DIALECT)}: one field is set at a time")
    names: list[str] = []
    while isinstance(node, exp.Dot):
        names.insert(0, _name(node.expression))
        node = node.this
    if not isinstance(node, exp.Column):
        raise InvalidInput(f"sql: SET {node.sql(DIALECT)}: one field is set at a time")
    names = [part.name for part in node.parts] + names
    return tuple(names[1:] if len(names) > 1 and names[0].lower() == alias.lower() else names)


def _require_distinct(paths: Sequence[Names]) -> None:
    lower = [tuple(name.lower() for name in path) for path in paths]
    for i, path in enumerate(lower):
        if any(path[: len(other)] == other for j, other in enumerate(lower) if i != j):
            raise InvalidInput(f"sql: {'.'.join(paths[i])} is set twice")


# ---- MERGE


def _merge(tree: exp.Merge) -> ChangeStatement:
    _require_only(tree, "this", "using", "on", "using_cond", "whens", "with_")
    target, source = tree.this, tree.args["using"]
    to, by = _alias(target), source.alias_or_name
    whens = [when for when in tree.args["whens"].expressions if not _is_nothing(when.args["then"])]
    needs_source = any(when.args.get("source") for when in whens)
    needs_target = any(not when.args["matched"] and not when.args.get("source") for when in whens)
    if needs_source:
        source = _marked(source, by)
    kinds = [
        _kind(when, exp.column(ROW, to, quoted=True), exp.column(THERE, by, quoted=True), needs_source)
        for when in whens
    ]
    columns: list[exp.Expr] = []
    clauses = tuple(_clause(when, to, by, kinds[: i + 1], columns) for i, when in enumerate(whens))
    if any(clause.takes_all for clause in clauses):
        columns.append(exp.Column(this=exp.Star(), table=exp.to_identifier(by, quoted=True)))
    number = exp.Case(ifs=[exp.If(this=kind.copy(), true=exp.Literal.number(i)) for i, kind in enumerate(kinds)])
    query = exp.select(_row(to), exp.alias_(number, CLAUSE, quoted=True), *columns)
    joined = {(True, True): "FULL", (True, False): "RIGHT", (False, True): "LEFT", (False, False): "INNER"}
    on = tree.args.get("on") or _equal(tree.args.get("using_cond") or (), to, by)
    query = query.from_(source).join(_numbered(target), on=on, join_type=joined[needs_source, needs_target])
    query = query.where(exp.or_(*(kind.copy() for kind in kinds))) if kinds else query.where(exp.false())
    statement = Statement(_with(tree, _in_order_of_rows(query)))
    return ChangeStatement("merge", *_target(target), statement, clauses, target_index=_only_numbered(statement))


def _is_nothing(then: exp.Expr) -> bool:
    return isinstance(then, exp.Var) and then.name.upper() == "DO NOTHING"


def _marked(source: exp.Expr, alias: str) -> exp.Subquery:
    """The source of a MERGE with a column that is true: where it is null, the target has no partner."""
    there = exp.alias_(exp.true(), THERE, quoted=True)
    return exp.select(exp.Star(), there).from_(source).subquery(exp.to_identifier(alias, quoted=True))


def _kind(when: exp.When, row: exp.Expr, there: exp.Expr, is_outer: bool) -> exp.Expr:
    """Which rows of the join a clause is for, as far as no clause before it is; in an outer one the source may lack."""
    has_row, condition = exp.Not(this=exp.Is(this=row, expression=exp.null())), when.args.get("condition")
    if when.args.get("source"):
        basis: exp.Expr = exp.Is(this=there, expression=exp.null())
    elif not when.args["matched"]:
        basis = exp.Is(this=row, expression=exp.null())
    elif is_outer:
        basis = exp.and_(has_row, exp.Not(this=exp.Is(this=there, expression=exp.null())))
    else:
        basis = has_row
    return basis if condition is None else exp.and_(basis, exp.Paren(this=condition.copy()))


def _clause(when: exp.When, to: str, by: str, kinds: Sequence[exp.Expr], columns: list[exp.Expr]) -> Clause:
    """A clause; its values become columns, which are computed for its own rows alone."""
    then = when.args["then"]
    if isinstance(then, exp.Var) and then.name.upper() == "DELETE":
        return Clause("delete")
    if isinstance(then, exp.Update):
        if not then.expressions or isinstance(then.expressions[0], exp.Star):
            return Clause("update", takes_all=True)
        settings = _settings(then.expressions, to)
        return Clause("update", *_computed(settings, kinds, columns))
    if isinstance(then, exp.Insert):
        if isinstance(then.this, exp.Star) or then.expression is None or then.expression is False:
            return Clause("insert", takes_all=True)
        if not isinstance(then.this, exp.Tuple):
            raise InvalidInput("sql: INSERT in a MERGE names its fields: INSERT (a, b) VALUES (...), or INSERT *")
        paths = [_path(each, to) for each in then.this.expressions]
        values = then.expression.expressions
        if len(paths) != len(values):
            raise InvalidInput(f"sql: INSERT names {len(paths)} fields, and gives {len(values)} values")
        _require_distinct(paths)
        return Clause("insert", *_computed(list(zip(paths, values, strict=True)), kinds, columns))
    raise InvalidInput(f"sql: {then.sql(DIALECT)} is not an action of MERGE (INSERT, UPDATE, DELETE or DO NOTHING)")


def _computed(
    settings: Sequence[tuple[Names, exp.Expr]], kinds: Sequence[exp.Expr], columns: list[exp.Expr]
) -> tuple[tuple[Names, ...], tuple[str, ...]]:
    names = []
    for _, value in settings:
        names.append(f"c{len(columns)}")
        before = [exp.If(this=kind.copy(), true=exp.null()) for kind in kinds[:-1]]
        own = exp.If(this=kinds[-1].copy(), true=value.copy())
        columns.append(exp.alias_(exp.Case(ifs=[*before, own]), names[-1], quoted=True))
    return tuple(path for path, _ in settings), tuple(names)


def _equal(names: Sequence[exp.Expr], to: str, by: str) -> exp.Expr:
    """The condition that USING (a, b) stands for."""
    if not names:
        raise InvalidInput("sql: MERGE needs ON condition, or USING (column)")
    pairs = [(exp.column(n.name, to, quoted=True), exp.column(n.name, by, quoted=True)) for n in names]
    return exp.and_(*(exp.EQ(this=one, expression=other) for one, other in pairs))


# ---- parts


def _target(node: exp.Expr) -> tuple[str, bool]:
    if not isinstance(node, exp.Table) or not isinstance(node.this, exp.Identifier) or node.db or node.catalog:
        raise InvalidInput(f'sql: {node.sql(DIALECT)} is not a pool (a branch is named in double quotes: "logs@dev")')
    return node.name, bool(node.this.args.get("quoted"))


def _alias(node: exp.Expr) -> str:
    _target(node)
    return node.alias_or_name


def _row(alias: str) -> exp.Expr:
    return exp.alias_(exp.column(ROW, alias, quoted=True), ROW, quoted=True)


def _numbered(table: exp.Expr) -> exp.Expr:
    """The target among the tables of a query; its rows have numbers there."""
    table = table.copy()
    table.meta["numbered"] = True
    return table


def _with(tree: exp.Expr, query: exp.Expr) -> exp.Expr:
    """The query, with the tables that a statement defines by WITH."""
    clause = tree.args.get("with_")
    if clause is not None:
        own = query.args.get("with_")
        if own is not None:
            clause.set("expressions", [*clause.expressions, *own.expressions])
        query.set("with_", clause)
    return query


def _name(node: exp.Expr) -> str:
    if not isinstance(node, exp.Identifier | exp.Column) or not node.name:
        raise InvalidInput(f"sql: {node.sql(DIALECT)} is not the name of a field")
    return node.name


def _require_only(tree: exp.Expr, *known: str) -> None:
    """InvalidInput if a statement has a part that would be ignored."""
    for name, part in tree.args.items():
        if name not in known and part not in (None, False, [], ()):
            shown = part.sql(DIALECT) if isinstance(part, exp.Expr) else name.strip("_").upper()
            raise InvalidInput(f"sql: {tree.key.upper()} ... {' '.join(shown.split())} is not known here")
