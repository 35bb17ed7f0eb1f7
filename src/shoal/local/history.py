"""The verbs on history: branches, tags, log, data objects, diff."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from heapq import merge
from typing import TYPE_CHECKING, Any

from shoal.api.branch import FindDone, Log, Objects, Report, Resolve, select_commits
from shoal.api.infos import CommitInfo, CommitReport, Diff, FieldChange, ObjectInfo, RecordCounts, RefInfo
from shoal.api.pool import (
    CreateBranch,
    CreateTag,
    DiffObjects,
    DiffValues,
    DropBranch,
    DropTag,
    ListBranches,
    ListTags,
)
from shoal.errors import InvalidInput, NotFound
from shoal.formats.bad_records import is_bad_record
from shoal.ids import Id, parse, to_text
from shoal.lake.actions import Patch
from shoal.lake.branches import Ref, primary_of
from shoal.lake.commits import Commit
from shoal.lake.history import brought_in
from shoal.lake.keys import comparer, key_getter
from shoal.lake.objects import DataObject, in_order
from shoal.lake.pools import Pool
from shoal.lake.reports import addition_of
from shoal.lake.scans import scan_objects
from shoal.lazy import lazy
from shoal.local.executor import StoreExecutor, implements, operation, text_of
from shoal.model import types as t
from shoal.model.literals import quote
from shoal.model.text import format_type
from shoal.model.values import Value

if TYPE_CHECKING:
    from shoal.lake import keyed_changes, log_filters, merging, row_masking
    from shoal.lang import parser
    from shoal.planner import merge_policies
else:
    keyed_changes = lazy("shoal.lake.keyed_changes")
    log_filters = lazy("shoal.lake.log_filters")
    merging = lazy("shoal.lake.merging")
    parser = lazy("shoal.lang.parser")
    merge_policies = lazy("shoal.planner.merge_policies")
    row_masking = lazy("shoal.lake.row_masking")

# ---- names


@implements(ListBranches)
def list_branches(lake: StoreExecutor, request: ListBranches) -> list[RefInfo]:
    """All branches, by name."""
    return [_ref_info(ref) for ref in lake.opened(request.pool).refs().branches()]


@implements(ListTags)
def list_tags(lake: StoreExecutor, request: ListTags) -> list[RefInfo]:
    """All tags, by name."""
    return [_ref_info(ref) for ref in lake.opened(request.pool).refs().tags()]


@implements(CreateBranch)
def create_branch(lake: StoreExecutor, request: CreateBranch) -> RefInfo:
    """Create a branch at a commitish."""
    pool, op = lake.writable(request.pool), operation(request.op)
    commit = _named_commit(pool, request.commit, op)
    if primary_of(pool.journal.read()) and commit not in {ref.commit for ref in pool.refs().branches()}:
        keyed_changes.require_unique(pool, commit)  # it may be from before the pool had this primary key
    pool.names.create_branch(request.name, commit, op)
    return _ref_now(pool, request.name, commit)


@implements(CreateTag)
def create_tag(lake: StoreExecutor, request: CreateTag) -> RefInfo:
    """Create a tag at a commitish."""
    pool, op = lake.writable(request.pool), operation(request.op)
    commit = _named_commit(pool, request.commit, op)
    pool.names.create_tag(request.name, commit, op)
    return _ref_now(pool, request.name, commit)


def _ref_now(pool: Pool, name: str, commit: Id | None) -> RefInfo:
    """A branch or tag after its creation. If another writer has dropped it since, it is described from the request."""
    ref = pool.refs().named(name)
    return RefInfo(name, text_of(commit)) if ref is None else _ref_info(ref)


def _named_commit(pool: Pool, commitish: str, op: Id | None) -> Id | None:
    """The commit to name; None if it is gone and this operation was done before."""
    try:
        return pool.resolve(commitish)
    except NotFound:
        if op is None or pool.journal.done(op) is None:
            raise
        return None


@implements(DropBranch)
def drop_branch(lake: StoreExecutor, request: DropBranch) -> None:
    """Remove a branch."""
    lake.writable(request.pool, to_free=True).names.drop_branch(request.branch, operation(request.op))


@implements(DropTag)
def drop_tag(lake: StoreExecutor, request: DropTag) -> None:
    """Remove a tag."""
    lake.writable(request.pool, to_free=True).names.drop_tag(request.tag, operation(request.op))


@implements(Resolve)
def resolve(lake: StoreExecutor, request: Resolve) -> str | None:
    """The commit that a commitish stands for."""
    return text_of(lake.opened(request.pool).resolve(request.revision))


@implements(FindDone)
def find_done(lake: StoreExecutor, request: FindDone) -> str | None:
    """The commit that an operation created on a branch."""
    after = None if request.after is None else int(request.after)
    return text_of(lake.opened(request.pool).committer.done(parse(request.id), request.branch, after))


def require_commit(pool: Pool, commitish: str) -> Id:
    """The commit that a commitish stands for; NotFound for an empty branch."""
    commit = pool.resolve(commitish)
    if commit is None:
        raise NotFound(f"{pool.config.name}@{commitish}: nothing has been committed there yet")
    return commit


# ---- commits and objects


@implements(Log)
def log(lake: StoreExecutor, request: Log) -> Iterator[CommitInfo]:
    """Commits, newest first."""
    pool = lake.opened(request.pool)
    tip = pool.resolve(request.revision)
    commits = pool.graph(tip, request.all) if request.all or request.ancestors else pool.log(tip)
    is_listed = _selection(pool, request)
    infos = (
        replace(_commit_info(c, brought_in(pool.commits, c) if request.brought else ()), is_listed=is_listed(c))
        for c in commits
    )
    return select_commits(infos, request)


def _selection(pool: Pool, request: Log) -> log_filters.Keep:
    """Which commits are asked for by what they are and did."""
    keeps: list[log_filters.Keep] = []
    if request.since is not None:
        keeps.append(log_filters.after(pool, request.since))
    if request.path is not None:
        keeps.append(log_filters.changing(pool, _path(request.path)))
    return lambda commit: all(keep(commit) for keep in keeps)


def _path(text: str) -> tuple[str, ...]:
    path = parser.parse_path(text)
    if path is None:
        example = f"this[{quote(text)}]"
        raise InvalidInput(
            f"path: {text!r} is not the path of a field (such as a.b; another name is quoted: {example})"
        )
    return path


@implements(Report)
def report(lake: StoreExecutor, request: Report) -> CommitReport:
    """What a commit adds."""
    pool = lake.opened(request.pool)
    commit = require_commit(pool, request.revision)
    added = addition_of(pool, commit)
    shapes = added.shapes or {}
    skipped = sum(o.skipped for o in added.objects)
    kept = sum(count for shape, count in shapes.items() if is_bad_record(shape))
    return CommitReport(
        to_text(commit),
        sum(o.count for o in added.objects),
        sum(o.size + o.index_size for o in added.objects),
        len(added.objects),
        len(shapes),
        sum(count for shape, count in shapes.items() if isinstance(shape.under, t.Error)),
        tuple(
            FieldChange(".".join(path), _texts(new), _texts(before))
            for path, (new, before) in sorted((added.fields or {}).items())
        ),
        added.fields is not None,
        not added.objects or any(o.has_key for o in added.objects),
        kept + skipped,
        skipped,
    )


def _texts(types: Iterable[t.Type]) -> tuple[str, ...]:
    return tuple(sorted(map(format_type, types)))


@implements(Objects)
def objects(lake: StoreExecutor, request: Objects) -> Iterator[ObjectInfo]:
    """Data objects, in the order of the pool key."""
    pool = lake.opened(request.pool)
    return map(_object_info, pool.snapshot(pool.resolve(request.revision)).objects())


@implements(DiffObjects)
def diff_objects(lake: StoreExecutor, request: DiffObjects) -> Diff:
    """The data objects that differ between two commitishes; one of which rows were hidden is on both sides."""
    if request.old is None or request.new is None:
        raise InvalidInput("the parameters old and new are required (two commitishes)")
    pool = lake.opened(request.pool)
    patch = _patch(pool, request.old, request.new)
    added = [*patch.adds, *(mask.object for mask in patch.masks)]
    removed = [*patch.deletes, *(mask.before for mask in patch.masks)]
    return Diff(*(tuple(map(_object_info, _sorted(pool, side))) for side in (added, removed)))


@implements(DiffValues)
def diff_values(lake: StoreExecutor, request: DiffValues) -> Iterator[tuple[str, Value]]:
    """The values that differ. Equal values on both sides, such as after a compaction, cancel out."""
    pool = lake.opened(request.pool)
    if pool.config.settings.policy:
        return _differences(merge(*_merged_sides(pool, request.old, request.new), key=lambda item: item[0]))
    patch = _patch(pool, request.old, request.new)
    gone, come = row_masking.changed_parts(pool, patch) if patch.masks else (patch.deletes, patch.adds)
    sides = [_marked(pool, "-", gone), _marked(pool, "+", come)]
    return _differences(merge(*sides, key=lambda item: item[0]))


def _patch(pool: Pool, old: str, new: str) -> Patch:
    return pool.snapshots.between(pool.resolve(old), pool.resolve(new))


def _marked(pool: Pool, mark: str, objects: Sequence[DataObject]) -> Iterator[tuple[Any, str, Value]]:
    """The values of objects in the order of the pool, each with its sortable key and a mark."""
    key = pool.config.key
    sortable, key_of = comparer(key.order), key_getter(key)
    for value in scan_objects(pool, _sorted(pool, objects)):
        yield sortable(key_of(value)), mark, value


def _merged_sides(pool: Pool, old: str, new: str) -> list[Iterator[tuple[Any, str, Value]]]:
    """What reads give on both sides, where objects differ: what a record becomes depends on all that share its key."""
    policy = merge_policies.policy_of(pool.config)
    assert policy is not None
    states = [{(o.id, o.mask): o for o in pool.snapshot(pool.resolve(name)).objects()} for name in (old, new)]
    parts = merging.parts(pool.config.key, _sorted(pool, list((states[0] | states[1]).values())))
    changed = [part for part in parts if any((o.id, o.mask) not in side for o in part.objects for side in states)]
    sortable, key_of = comparer(pool.config.key.order), key_getter(pool.config.key)

    def marked(mark: str, side: Mapping[Any, DataObject]) -> Iterator[tuple[Any, str, Value]]:
        for part in changed:
            objects = [o for o in part.objects if (o.id, o.mask) in side]
            for value in merging.merged_scan(pool, objects, policy):
                yield sortable(key_of(value)), mark, value

    return [marked(mark, side) for mark, side in zip("-+", states, strict=True)]


def _sorted(pool: Pool, objects: Sequence[DataObject]) -> list[DataObject]:
    return in_order(pool.config.key, list(objects))


def _differences(items: Iterator[tuple[Any, str, Value]]) -> Iterator[tuple[str, Value]]:
    """The sorted values whose counts differ between the two sides."""
    group: list[tuple[str, Value]] = []
    group_key: Any = None
    for key, mark, value in items:
        if group and group_key < key:
            yield from _cancel_out(group)
            group = []
        group_key = key
        group.append((mark, value))
    yield from _cancel_out(group)


def _cancel_out(group: list[tuple[str, Value]]) -> Iterator[tuple[str, Value]]:
    counts: dict[Value, int] = {}
    for mark, value in group:
        counts[value] = counts.get(value, 0) + (1 if mark == "+" else -1)
    for value, count in counts.items():
        yield from [("+" if count > 0 else "-", value)] * abs(count)


def _ref_info(ref: Ref) -> RefInfo:
    return RefInfo(ref.name, text_of(ref.commit), ref.ts)


def _object_info(o: DataObject) -> ObjectInfo:
    return ObjectInfo(to_text(o.id), o.min, o.max, o.count, o.size)


def _commit_info(c: Commit, brought: Iterable[Commit] = ()) -> CommitInfo:
    note = c.note
    return CommitInfo(
        to_text(c.id),
        text_of(c.parent),
        note.author,
        c.date,
        note.message,
        note.meta,
        text_of(c.merged),
        c.retries,
        tuple(map(_commit_info, brought)),
        None if c.records is None else RecordCounts(c.records.added, c.records.deleted, c.records.updated),
        c.is_maintenance,
        text_of(c.txn),
    )
