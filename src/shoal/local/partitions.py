"""The verbs on partitions of a pool: a list of them, and the replacement of what is in one."""

from __future__ import annotations

from collections.abc import Iterator

from shoal.api.branch import Partitions, RewritePartition
from shoal.api.infos import PartitionInfo
from shoal.errors import Conflict, InvalidInput
from shoal.ids import Id, to_text
from shoal.lake import rewriting
from shoal.lake.keys import sorted_indices
from shoal.lake.partition_changes import replace_partitions, require_partitions, require_unpurged, view_of
from shoal.lake.pool_partitions import partition_sizes
from shoal.lake.pools import Pool
from shoal.lang import ast
from shoal.lang.parser import parse
from shoal.local.commits import once
from shoal.local.executor import StoreExecutor, implements, stored_note
from shoal.model.values import NULL
from shoal.planner.execute import Question
from shoal.planner.lake_query import ask
from shoal.planner.pool_partitions import parse_partition_value, whole_partitions, within_partition


@implements(Partitions)
def list_partitions(lake: StoreExecutor, request: Partitions) -> Iterator[PartitionInfo]:
    """The partitions at a commit, by their values."""
    pool = lake.opened(request.pool)
    require_partitions(pool)
    sizes = partition_sizes(pool.snapshot(pool.resolve(request.revision)).objects())
    order = sorted_indices([(NULL if each.value is None else each.value,) for each in sizes], "asc")
    return (PartitionInfo(each.value, each.objects, each.records, each.size) for each in map(sizes.__getitem__, order))


@implements(RewritePartition)
def rewrite_partition(lake: StoreExecutor, request: RewritePartition) -> str:
    """Replace the records of a partition by what a program makes of them."""
    meant, whole = parse_partition_value(request.partition), whole_partitions(request.partition)
    _require_input(request.program)

    def act(pool: Pool, op: Id | None) -> Id:
        base = pool.refs().branch(request.branch).commit
        old = whole.objects(pool, base)
        require_unpurged(pool, old)
        head, views = (to_text(pool.config.id), request.branch), {(pool.config.id, request.branch): view_of(pool, old)}
        question = Question(request.program, head, views=views, engine=request.engine)
        with ask(lake.root, question) as results:
            new = within_partition(pool, meant).writer().write_all(results.pieces())
        try:
            note = stored_note(request.note)
            return replace_partitions(pool, request.branch, base, old, new, whole.is_in, note, op)
        except (Conflict, InvalidInput):
            rewriting.remove(pool, new)
            raise

    return once(lake, request, act)


def _require_input(program: str) -> None:
    """InvalidInput if a program does not read what it is given."""
    if isinstance(next(iter(parse(program)), None), ast.From | ast.File | ast.Get | ast.Pool):
        raise InvalidInput("rewrite: the program has a source of its own (write it without: it reads the partition)")
