"""SQL statements that change a pool, each as one commit: INSERT, UPDATE, DELETE, MERGE INTO, CREATE TABLE AS."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from typing import TYPE_CHECKING

from shoal.access.view import Pools, pool_to_load, require_create
from shoal.api.branch import Load, WriteMode
from shoal.api.commitish import parse_head
from shoal.api.lake import DEFAULT_KEY, CreatePool, DropPool
from shoal.api.options import DEFAULT_READ, MAX_MEMORY, ReadOptions, Statistics
from shoal.api.queries import Sql
from shoal.api.requests import Note
from shoal.engines.stopping import current
from shoal.engines.tables.change_statements import ChangeStatement
from shoal.errors import AlreadyExists, InvalidInput, NotFound
from shoal.formats.columns.batches import Batch
from shoal.frames.results import Results
from shoal.ids import Id, to_text
from shoal.lake import keyed_changes
from shoal.lake.actions import Effect, Patch, patch_to
from shoal.lake.branches import MAIN
from shoal.lake.cuts import Cut, read_cut
from shoal.lake.pools import Pool
from shoal.lake.row_masking import hide_rows
from shoal.lake.tallies import Tally
from shoal.local.executor import StoreExecutor, operation, stored_note
from shoal.local.loads import staged_write
from shoal.local.updates import commit_planned, require_unmerged
from shoal.model import types as t
from shoal.model.values import Value, record, string
from shoal.planner.change_plans import RowChanges, insert_batches, plan_rows
from shoal.planner.statement_plans import Reading, pool_of

if TYPE_CHECKING:
    from shoal.lake import commits

_FIRST_WORD = {"insert": "inserted", "update": "updated", "delete": "deleted", "merge": "merged", "create": "created"}


def run_change(lake: StoreExecutor, request: Sql, change: ChangeStatement) -> Results:
    """Carry out a statement; the result is one record that says what became of how many records."""
    if change.verb == "create":
        return result_of(request.statement, *_create(lake, request, change))
    pool, branch = target_of(lake, change)
    if change.verb == "insert":
        return result_of(request.statement, *_insert(lake, request, change, pool, branch))
    return result_of(request.statement, *_change(lake, request, change, pool, branch))


def target_of(lake: StoreExecutor, change: ChangeStatement) -> tuple[Pool, str]:
    """The pool and branch that a statement changes, if the caller may."""
    name, branch = parse_head(change.target)
    pool = pool_of(lake.root, change.target, change.is_quoted)
    ident = to_text(pool.config.id)
    pool_to_load(lake.root, ident)
    lake.root.require_writable()
    branch = branch or MAIN
    if branch not in {ref.name for ref in pool.refs().branches()}:
        raise NotFound(f"{name}@{branch}: branch not found (only a branch can be changed)")
    return lake.opened(ident), branch


RowCounts = tuple[int | None, int | None, int | None]
"""How many records were inserted, updated and deleted; None where an earlier request did it."""
UNKNOWN: RowCounts = (None, None, None)
_NOTHING: RowCounts = (0, 0, 0)


def tally_of(counts: RowCounts) -> Tally:
    """What a statement did, as a tally."""
    inserted, updated, deleted = (count or 0 for count in counts)
    return Tally(inserted, deleted, updated)


def _note(request: Sql, change: ChangeStatement) -> Note:
    note = request.note
    return note if note.message else Note(note.author, f"{_FIRST_WORD[change.verb]} by SQL", note.meta)


# ---- INSERT, CREATE


class _Counted:
    """Batches on their way, counted."""

    def __init__(self, batches: Iterator[Batch]) -> None:
        self._batches = batches
        self.count = 0

    def __iter__(self) -> Iterator[Batch]:
        for batch in self._batches:
            self.count += batch.length
            yield batch


def _insert(
    lake: StoreExecutor, request: Sql, change: ChangeStatement, pool: Pool, branch: str
) -> tuple[str | None, RowCounts]:
    op = operation(request.op)
    if op is not None and (done := pool.committer.done(op, branch)) is not None:
        return to_text(done), UNKNOWN
    base = pool.refs().branch(branch).commit
    batches = insert_batches(lake.root, change, pool, base, Reading(request.engine, request.on_warning))
    return _load(lake, request, change, to_text(pool.config.id), branch, batches)


def _load(
    lake: StoreExecutor, request: Sql, change: ChangeStatement, pool: str, branch: str, batches: Iterator[Batch]
) -> tuple[str | None, RowCounts]:
    first = next(batches, None)
    if first is None:
        return None, _NOTHING
    counted = _Counted(chain((first,), batches))
    mode: WriteMode = "upsert" if change.replaces else "load"
    options = ReadOptions(max_memory=current().memory or MAX_MEMORY)
    load = Load(pool, branch, counted, options=options, note=_note(request, change), op=request.op, mode=mode)
    commit = lake.do(load)
    return commit, (counted.count, 0, 0)


def _create(lake: StoreExecutor, request: Sql, change: ChangeStatement) -> tuple[str | None, RowCounts]:
    """Create a pool with the results of a query. If that fails, there is no pool."""
    require_create(lake.root)
    if "@" in change.target:
        raise InvalidInput(f"sql: {change.target!r} is not the name of a pool (branches are made by shoal branch)")
    try:
        there = pool_of(lake.root, change.target, is_quoted=True)
    except NotFound:
        there = None
    if there is not None:
        op = operation(request.op)
        done = None if op is None else there.committer.done(op, MAIN)
        if done is None and not change.if_not_exists:
            raise AlreadyExists(f"{change.target}: pool already exists (add to it: insert into {change.target} ...)")
        return (None, _NOTHING) if done is None else (to_text(done), UNKNOWN)
    batches = insert_batches(lake.root, change, None, None, Reading(request.engine, request.on_warning))
    first = next(batches, None)
    key, order = _key(change, first)
    pool = lake.do(CreatePool(change.target, key, order, op=request.op)).id
    try:
        return _load(lake, request, change, pool, MAIN, batches if first is None else chain((first,), batches))
    except BaseException:
        lake.do(DropPool(pool))
        raise


def _key(change: ChangeStatement, first: Batch | None) -> tuple[str | tuple[str, ...], str | None]:
    """What a new pool is sorted by: the columns that its query is; else its `ts`, or its first column."""
    names = [] if first is None else list(_field_names(first))
    ordered = [(name, is_descending) for name, is_descending in change.order if not names or name in names]
    if ordered:
        return tuple(name for name, _ in ordered), "desc" if ordered[0][1] else "asc"
    if not names or DEFAULT_KEY.partition(":")[0] in names:
        return DEFAULT_KEY, None
    return (names[0],), "asc"


def _field_names(batch: Batch) -> Iterator[str]:
    shape = batch.parts[0].shape.under
    assert isinstance(shape, t.Record)
    return (field.name for field in shape.fields)


# ---- UPDATE, DELETE, MERGE


def _change(
    lake: StoreExecutor, request: Sql, change: ChangeStatement, pool: Pool, branch: str
) -> tuple[str | None, RowCounts]:
    _require_unmerged(pool, change)
    op, counts, cut = operation(request.op), _NOTHING, Cut()

    def base_of() -> Id | None:
        nonlocal cut
        cut = read_cut([(pool.config.id, pool.journal)])  # other pools are read as they go with the base
        return pool.names.refs(cut).branch(branch).commit

    def plan_at(base: Id | None) -> tuple[Patch, commits.Note]:
        nonlocal counts
        reading = Reading(request.engine, request.on_warning, {(pool.config.id, branch): base}, cut=cut)
        patch, counts = _patch_of(pool, base, plan_rows(lake.root, change, pool, reading))
        if not any(counts):
            raise _NothingToDo
        return patch, stored_note(_note(request, change))

    def act() -> Id:
        # Who inserts what nobody has must not meet another who does the same.
        has_inserts = any(clause.action == "insert" for clause in change.clauses)
        return commit_planned(
            pool,
            branch,
            plan_at,
            change.verb,
            op,
            is_strict=has_inserts,
            counted=lambda: tally_of(counts),
            base_of=base_of,
        )

    try:
        commit = pool.committer.once(op, branch, act)
    except _NothingToDo:
        return None, _NOTHING
    return to_text(commit), counts if any(counts) else UNKNOWN


def _require_unmerged(pool: Pool, change: ChangeStatement) -> None:
    if pool.config.settings.policy and change.verb == "delete":
        raise InvalidInput(
            f"sql: {pool.config.name} has a merge policy, by which stored records are merged later "
            "(delete whole groups by a condition on their fields: shoal delete -where)"
        )
    require_unmerged(pool)


class _NothingToDo(Exception):
    """No record is changed."""


def _patch_of(pool: Pool, base: Id | None, rows: RowChanges) -> tuple[Patch, RowCounts]:
    """What changes in a pool: new objects are written, and rows hidden. InvalidInput if a primary key is taken."""
    objects = pool.writer(memory=current().memory or MAX_MEMORY).write_all(rows.added())
    hidden = [hide_rows(pool, o, numbers) for o, numbers in rows.hidden]
    patch = patch_to([*(Effect(None, o) for o in objects), *hidden])
    if pool.config.settings.primary and objects:
        keyed_changes.require_free(pool, base, patch, objects, "sql")
    return patch, (rows.counts["insert"], rows.counts["update"], rows.counts["delete"])


def staged_change(
    lake: Pools, pool: Pool, branch: str, view: Id | None, change: ChangeStatement, reading: Reading
) -> tuple[Patch, RowCounts]:
    """What a statement changes at a commit, for a transaction."""
    if change.verb != "insert":
        _require_unmerged(pool, change)
        return _patch_of(pool, view, plan_rows(lake, change, pool, reading))
    counted = _Counted(insert_batches(lake, change, pool, view, reading))
    mode: WriteMode = "upsert" if change.replaces else "load"
    patch = staged_write(pool, view, branch, mode, counted, "auto", DEFAULT_READ)
    return patch, (counted.count, 0, 0)


def result_of(statement: str, commit: str | None, counts: RowCounts) -> Results:
    """The result of a statement that changes a pool: a record."""
    inserted, updated, deleted = (Value(t.UINT64, count) for count in counts)
    ident = Value(t.STRING, None) if commit is None else string(commit)
    fields = [("commit", ident), ("inserted", inserted), ("updated", updated), ("deleted", deleted)]
    return Results(statement, iter((record(fields),)), Statistics())
