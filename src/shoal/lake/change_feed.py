"""The change feed: what the commits of a branch changed, record by record, commit by commit, the oldest first.

It follows the parents of a branch, so a merge is one commit with all that it changed there. Commits that only move
records give nothing and are not read. A position names a commit and how many changes of it have been seen: the changes
of a commit come in the same order whenever they are asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import islice

from shoal.api.commitish import split_position
from shoal.errors import InvalidInput, NotFound, Unsupported
from shoal.ids import Id, to_text
from shoal.lake.actions import Patch, touched
from shoal.lake.commits import Commit, older_than_history
from shoal.lake.loaded_records import GroupKey, LoadedRecords
from shoal.lake.moments import commit_at
from shoal.lake.names import NotYet, Warn
from shoal.lake.objects import DataObject
from shoal.lake.pools import Pool
from shoal.lake.record_changes import RecordChange, loaded_changes, record_changes
from shoal.lake.scans import object_shapes
from shoal.model import types as t
from shoal.model.fields import NO_ID, id_value, time_value
from shoal.model.fusion import Move, fuse_types, mover
from shoal.model.node import frozen
from shoal.model.text import format_type
from shoal.model.values import NULL, Value, record, string


@frozen
class Position:
    """How far a feed was read."""

    commit: Id | None
    """None: not at all."""
    seen: int | None = None
    """How many changes of that commit; None for all of it."""

    def __str__(self) -> str:
        text = to_text(self.commit or NO_ID)
        return text if self.seen is None else f"{text}/{self.seen}"


BEGINNING = Position(None)


def parse_position(pool: Pool, text: str | None, warn: Warn | None = None) -> Position:
    """The position in a text: `COMMIT/NUMBER` as a feed has given it, or what `commit_at` takes; "" begins."""
    if not text:
        return BEGINNING
    position = split_position(text)
    if position is not None and pool.refs().named(text) is None:
        return Position(*position)
    try:
        return Position(commit_at(pool, "since", text, warn))
    except NotYet:
        return BEGINNING


@frozen
class CommitChanges:
    """What one commit changed."""

    commit: Commit
    changes: Iterator[RecordChange]
    """From its first change on that was not seen."""


def changes_between(
    pool: Pool, since: Position, until: Id | None, warn: Warn | None = None, group: GroupKey | None = None
) -> Iterator[CommitChanges]:
    """What the commits after a position changed, up to a commit and with it. It fails before the first, if it does.

    In a pool with a merge policy, `group` tells records apart that the policy makes one of.
    """
    loaded = None if group is None else LoadedRecords(pool, until, group, warn)
    return _changes_in(pool, chain_of(pool, since, until), since, loaded, warn)


def _changes_in(
    pool: Pool, chain: Sequence[Id], since: Position, loaded: LoadedRecords | None, warn: Warn | None
) -> Iterator[CommitChanges]:
    for ident in chain:
        commit = pool.commits.read(ident)
        changes = iter(()) if is_moving(commit) else changes_of(pool, commit, loaded, warn)
        if commit.id == since.commit and since.seen:
            _require_all_there(pool, commit)
            _skip(changes, since)
        if not is_moving(commit):
            yield CommitChanges(commit, changes)


def _skip(changes: Iterator[RecordChange], since: Position) -> None:
    """Go past the changes of a commit that have been seen."""
    count = sum(1 for _ in islice(changes, since.seen))
    if count != since.seen:
        raise InvalidInput(f"since: {since}: this commit has {count} changes (is it one of another pool?)")


def following(
    pool: Pool,
    branch: str,
    since: Position,
    wait: Callable[[], None],
    warn: Warn | None = None,
    group: GroupKey | None = None,
) -> Iterator[CommitChanges | None]:
    """What commits change from a position on, also those to come. None where there is none yet; then it waits."""
    while True:
        tip = pool.refs().branch(branch).commit
        if tip != since.commit or since.seen is not None:
            yield from changes_between(pool, since, tip, warn, group)
            since = Position(tip)
        yield None
        wait()


def changes_of(
    pool: Pool, commit: Commit, loaded: LoadedRecords | None, warn: Warn | None = None
) -> Iterator[RecordChange]:
    """What one commit changed; in a pool with a merge policy, of records as they were loaded."""
    patch = Patch(commit.actions)
    try:
        if loaded is None:
            yield from record_changes(pool, patch, warn)
        else:
            yield from loaded_changes(pool, patch, loaded, warn)
    except Unsupported as e:
        raise Unsupported(f"{pool.config.name}: commit {to_text(commit.id)}: {e}") from None


def is_moving(commit: Commit) -> bool:
    """Whether a commit only moves records. Compactions of older versions that applied a merge policy do not say so."""
    if commit.is_maintenance:
        return True
    return commit.merged is None and bool(commit.deletes) and bool(commit.adds) and _is_merged(commit)


def _is_merged(commit: Commit) -> bool:
    return commit.records is None and all(o.merged is not None for o in commit.adds)


def chain_of(pool: Pool, since: Position, until: Id | None) -> list[Id]:
    """The commits after a position up to another one, by parents, the oldest first."""
    first = since.commit if since.seen is None else pool.names.commit(since.commit or NO_ID).parent
    horizon = pool.refs().horizon
    chain: list[Id] = []
    end = until
    if until == first:
        return []
    for commit in pool.commits.walk(until):
        chain.append(commit.id)
        end = commit.parent
        if end == first:
            break
        if commit.id == horizon and first is None:
            raise NotFound(
                f"{pool.config.name}: the changes before {to_text(horizon)} were cut off from history "
                f"(ask for those after it: {pool.config.name}@{to_text(horizon)}..:changes)"
            )
        if commit.id == horizon:
            break
    if end != first:
        raise _not_inchain_of(pool, first, until, horizon)
    return chain[::-1]


def _not_inchain_of(pool: Pool, first: Id | None, until: Id | None, horizon: Id | None) -> NotFound:
    assert first is not None
    if horizon is not None and pool.commits.lookup(first) is None:
        return older_than_history(first, horizon)
    name = "an empty branch" if until is None else to_text(until)
    return NotFound(
        f"{pool.config.name}: commit {to_text(first)} is not among the parents of {name} (it is later, or of another "
        "branch, or the branch was rebased: begin at a commit that shoal log lists without -all)"
    )


def _require_all_there(pool: Pool, commit: Commit) -> None:
    refs = pool.refs()
    if any(refs.is_purged(o.id) for o in touched(commit.actions)):
        raise InvalidInput(
            f"{pool.config.name}: records of commit {to_text(commit.id)} were purged, so its changes cannot be counted "
            f"(go on after it: {to_text(commit.id)})"
        )


# ---- as values


Shape = Callable[[Value | None], Value]
"""Makes one side of a change a value to show."""


def as_it_is(side: Value | None) -> Value:
    """One side of a change in its own type; null where there is none."""
    return NULL if side is None else side


def uniform(pool: Pool, since: Position, until: Id | None) -> Shape:
    """Makes values of one type of the sides of all changes between two commits."""
    types = dict.fromkeys(_types_between(pool, since, until))
    common = fuse_types(types) or t.NULL
    moves: dict[t.Type, Move] = {}

    def shape(side: Value | None) -> Value:
        if side is None:
            return Value(common, None)
        if side.type not in moves:
            if side.type not in types and fuse_types((common, side.type)) is not common:
                raise InvalidInput(
                    f"{pool.config.name}: records of type {format_type(side.type)} do not fit into the type of the "
                    "changes before them (begin again after the last one)"
                )
            moves[side.type] = mover(side.type, common)
        return Value(common, moves[side.type](side.data))

    return shape


def _types_between(pool: Pool, since: Position, until: Id | None) -> Iterator[t.Type]:
    key = pool.config.key
    objects = {(o.id, o.mask): o for o in _touched_between(pool, since, until)}
    for o in objects.values():
        yield from (shape for shape, _ in object_shapes(pool.store, pool.prefix, key, o))


def _touched_between(pool: Pool, since: Position, until: Id | None) -> Iterator[DataObject]:
    for commit in map(pool.commits.read, chain_of(pool, since, until)):
        if not is_moving(commit) or pool.config.settings.policy:
            yield from (o for o in touched(commit.actions) if not pool.refs().is_purged(o.id))


def show_change(change: RecordChange, commit: Commit, shape: Shape = as_it_is) -> Value:
    """A change as a record: `before` of an insertion and `after` of a deletion are null."""
    kind = "insert" if change.before is None else "delete" if change.after is None else "update"
    return record([
        ("change", string(kind)),
        ("before", shape(change.before)),
        ("after", shape(change.after)),
        ("commit", id_value(commit.id)),
        ("author", string(commit.note.author)),
        ("ts", time_value(commit.date)),
    ])  # fmt: skip


def shown(parts: Iterator[CommitChanges]) -> Iterator[Value]:
    """All changes as records."""
    return (show_change(change, part.commit) for part in parts for change in part.changes)
