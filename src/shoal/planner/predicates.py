"""The filter of a `delete -where`: any filter expression of the language."""

from __future__ import annotations

from typing import TYPE_CHECKING

from shoal.engines.interp.engine import evaluate, run_program
from shoal.errors import InvalidInput
from shoal.ids import Id
from shoal.lake.keys import KeyRange, Path
from shoal.lake.objects import DataObject
from shoal.lake.pools import Pool
from shoal.lake.scans import scan_objects
from shoal.lang import ast, plan
from shoal.lang.compile import compile_program
from shoal.lang.parser import parse
from shoal.lazy import lazy
from shoal.model.node import frozen
from shoal.planner.engine_choice import is_small
from shoal.planner.prune import has_key, is_key_range, key_range, prune

if TYPE_CHECKING:
    import numpy

    from shoal.engines.duckdb import queries
    from shoal.formats.columns.batches import Rows
    from shoal.lake import masks
    from shoal.planner import merge_policies, partition_filters, scan_units
else:
    merge_policies = lazy("shoal.planner.merge_policies")
    partition_filters = lazy("shoal.planner.partition_filters")
    masks = lazy("shoal.lake.masks")
    numpy = lazy("numpy")
    queries = lazy("shoal.engines.duckdb.queries")
    scan_units = lazy("shoal.planner.scan_units")


@frozen
class Predicate:
    """A compiled filter."""

    program: plan.Program
    condition: plan.Expr

    def key_range(self, path: Path) -> KeyRange:
        """Where the filter can be true."""
        return key_range(self.condition, path)

    def objects(self, pool: Pool, commit: Id | None) -> tuple[DataObject, ...]:
        """The objects at a commit that may hold something it is true for; a merge policy may refuse the filter."""
        if pool.config.settings.policy:
            merge_policies.check_condition(pool.config, self.condition)
        return prune(pool, commit, self.condition).objects

    def covers(self, pool: Pool, o: DataObject) -> bool:
        """Whether the filter is true for all records of an object.

        It asks for a range of keys, and has all of them; or it is true for all of a partition.
        """
        if o.partition is not None and pool.config.settings.partition and self._has_partition(pool, o):
            return True
        path = pool.config.key.paths[0]
        if not o.has_key or not o.is_ranged or not is_key_range(self.condition, path):
            return False
        keys = self.key_range(path)
        return has_key(keys, o.min) and has_key(keys, o.max)

    def _has_partition(self, pool: Pool, o: DataObject) -> bool:
        judge = partition_filters.judge(pool, self.condition)
        return judge is not None and judge(o) is partition_filters.Verdict.ALWAYS

    def rows(self, pool: Pool, o: DataObject) -> Rows:
        """The numbers of the rows that the filter is true for; it is not for false, null and errors."""
        source = None
        if not is_small(o.size, o.count) and o.shapes is not None:
            source = scan_units.make_source(pool, o)
        rows = None if source is None else queries.matching_rows(source, self.condition, self.program.funcs)
        if rows is not None and source is not None and source.file is not None:
            return rows
        rows = self._interpreted_rows(pool, o) if rows is None else rows
        if o.mask is None:
            return rows
        visible = numpy.setdiff1d(numpy.arange(o.rows), masks.hidden_rows(pool.store, pool.prefix, o))
        return visible[rows]

    def _interpreted_rows(self, pool: Pool, o: DataObject) -> Rows:
        values = list(scan_objects(pool, [o]))
        # A filter passes on the very objects that it is given, so identity says which ones it let pass.
        matched = {id(value) for value in run_program(self.program, values)}
        return numpy.array([i for i, value in enumerate(values) if id(value) in matched], numpy.int64)


def parse_predicate(text: str) -> Predicate:
    """The filter in a text. A search term is refused: it selects more than its author may think."""
    for op in parse(text):
        if isinstance(op, ast.OpExpr | ast.Search) and (span := _search_term(op.expr)) is not None:
            term = text[slice(*span)]
            raise InvalidInput(
                f"{term} is a search for values that contain it, not a condition (compare a field, as in name == 'x'; "
                "write where true for all records)"
            )
    program = compile_program(text, evaluate)
    match program.body:
        case (plan.DefaultScan(filter=condition),) if condition is not None:
            return Predicate(program, condition)
        case (plan.DefaultScan(), plan.Filter()):
            # A filter that is not pushed down has a running aggregate, which would start again with each data object.
            raise InvalidInput("invalid delete where query: a filter with an aggregate depends on the order of records")
    raise InvalidInput("invalid delete where query: must be a single filter operation")


def _search_term(expr: ast.Expr) -> tuple[int, int] | None:
    """The first search term in the text of a filter."""
    match expr:
        case ast.Term() | ast.Glob() | ast.Regexp():
            return expr.span
        case ast.Binary(op="and" | "or"):
            span = _search_term(expr.left)
            return _search_term(expr.right) if span is None else span
        case ast.Unary(op="!"):
            return _search_term(expr.operand)
    return None
