"""The verbs that commit to a branch, except load: delete, compact, revert, cherry-pick, merge, rebase."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from shoal.api.branch import (
    CherryPick,
    Compact,
    CompactAll,
    CompactRuns,
    Delete,
    Merge,
    Rebase,
    Revert,
    RewritePartition,
)
from shoal.api.infos import Compaction
from shoal.api.requests import NO_NOTE
from shoal.errors import ShoalError
from shoal.ids import Id, parse, to_text
from shoal.lake import changes, pools, rewriting
from shoal.lake.objects import DataObject
from shoal.lazy import lazy
from shoal.local.executor import StoreExecutor, implements, operation, stored_note, text_of
from shoal.local.history import require_commit
from shoal.planner.engine_choice import choose_workers
from shoal.planner.pool_partitions import whole_partitions
from shoal.planner.predicates import parse_predicate

if TYPE_CHECKING:
    from shoal.planner import merge_policies
else:
    merge_policies = lazy("shoal.planner.merge_policies")


@implements(Delete)
def delete(lake: StoreExecutor, request: Delete) -> str:
    """Delete data objects, the records that match a filter, or a partition."""
    branch, note = request.branch, stored_note(request.note)
    if request.partition is not None:
        whole = whole_partitions(request.partition)
        return once(lake, request, lambda pool, op: rewriting.delete_where(pool, branch, whole, note, op=op))
    if request.where is None:
        return once(
            lake, request, lambda pool, op: changes.delete(pool, branch, object_ids(pool, request.ids), note, op)
        )
    predicate, by = parse_predicate(request.where), choose_workers(request.engine, lake.uri)
    return once(lake, request, lambda pool, op: rewriting.delete_where(pool, branch, predicate, note, by, op))


@implements(Compact)
def compact(lake: StoreExecutor, request: Compact) -> str:
    """Merge data objects into sorted ones that do not overlap."""
    branch, note, by = request.branch, stored_note(request.note), choose_workers(request.engine, lake.uri)
    return once(
        lake,
        request,
        lambda pool, op: rewriting.compact(pool, branch, object_ids(pool, request.ids), note, by, op, _policy_of(pool)),
    )


@implements(CompactRuns)
def compact_runs(lake: StoreExecutor, request: CompactRuns) -> list[list[str]]:
    """The data objects that are worth compacting, each run together."""
    pool = lake.opened(request.pool)
    return [[to_text(o.id) for o in run] for run in _runs(pool, pool.refs().branch(request.branch).commit)]


@implements(CompactAll)
def compact_all(lake: StoreExecutor, request: CompactAll) -> Iterator[Compaction]:
    """Compact every run of objects that is worth it, one commit per run."""
    pool = lake.writable(request.pool)
    base = pool.refs().branch(request.branch).commit
    note, by = stored_note(NO_NOTE), choose_workers(request.engine, lake.uri)
    policy = _policy_of(pool)
    for run, outcome in rewriting.compact_runs(pool, request.branch, base, _runs(pool, base), note, by, policy=policy):
        if isinstance(outcome, ShoalError):
            yield Compaction(len(run), None, str(outcome))
        else:
            yield Compaction(len(run), to_text(outcome))


def _policy_of(pool: pools.Pool) -> merge_policies.MergePolicy | None:
    return merge_policies.policy_of(pool.config) if pool.config.settings.policy else None


def _runs(pool: pools.Pool, commit: Id | None) -> list[list[DataObject]]:
    config = pool.config
    objects = pool.snapshot(commit).objects()
    return rewriting.choose_runs(config.key, objects, config.object_size, bool(config.settings.policy))


@implements(Revert)
def revert(lake: StoreExecutor, request: Revert) -> str:
    """Undo a commit by a new one that does the opposite."""
    note = stored_note(request.note)
    return once(
        lake,
        request,
        lambda pool, op: changes.revert(pool, request.branch, require_commit(pool, request.commit), note, op),
    )


@implements(CherryPick)
def cherry_pick(lake: StoreExecutor, request: CherryPick) -> str:
    """Apply the changes of one commit to a branch."""
    note = stored_note(request.note)
    return once(
        lake,
        request,
        lambda pool, op: changes.cherry_pick(pool, request.branch, require_commit(pool, request.commit), note, op),
    )


@implements(Merge)
def merge(lake: StoreExecutor, request: Merge) -> str:
    """Merge another branch into this one."""
    note = stored_note(request.note)
    return once(lake, request, lambda pool, op: changes.merge(pool, request.child, request.branch, note, op))


@implements(Rebase)
def rebase(lake: StoreExecutor, request: Rebase) -> str | None:
    """Replay the commits of a branch on the tip of another."""
    pool = lake.writable(request.pool)
    return text_of(changes.rebase(pool, request.branch, request.onto, operation(request.op)))


CommitRequest = CherryPick | Compact | Delete | Merge | Revert | RewritePartition


def once(lake: StoreExecutor, request: CommitRequest, act: Callable[[pools.Pool, Id | None], Id]) -> str:
    """The commit that `act` creates, or the one that the same operation created before."""
    pool, op = lake.writable(request.pool), operation(request.op)
    return to_text(pool.committer.once(op, request.branch, lambda: act(pool, op)))


def object_ids(pool: pools.Pool, texts: Sequence[str]) -> list[Id]:
    """Object ids; a commit id stands for the objects that the commit added."""
    out: list[Id] = []
    for text in texts:
        ident = parse(text)
        commit = pool.commits.lookup(ident)
        out.extend([ident] if commit is None else (o.id for o in commit.adds))
    return out
