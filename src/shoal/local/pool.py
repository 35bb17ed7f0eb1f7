"""A pool of a lake that is reached directly."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from datetime import UTC, datetime
from heapq import merge
from typing import Any

from shoal.api.options import ReadOptions
from shoal.api.protocol import CommitInfo, Compaction, Diff, Isolation, ObjectInfo, PoolInfo, RefInfo, Vacuumed
from shoal.errors import InvalidInput, NotFound, ShoalError
from shoal.ids import Id, parse, to_text
from shoal.lake import changes, pools, rewriting, sessions, vacuum
from shoal.lake.branches import Ref
from shoal.lake.commits import Commit
from shoal.lake.keys import comparer, key_getter
from shoal.lake.lake import Lake
from shoal.lake.objects import DataObject, in_order
from shoal.lake.scans import scan_objects
from shoal.lake.stores import open_lake
from shoal.lake.vacuum import Garbage
from shoal.local.pool_configs import pool_info
from shoal.local.transaction import LocalTransaction, committed
from shoal.local.writing import make_note, object_ids, write_data
from shoal.model.values import Value
from shoal.planner.jobs import choice
from shoal.planner.predicates import parse_predicate


class LocalPool:
    """A pool in a store that this process can reach."""

    def __init__(self, lake: Lake, inner: pools.Pool) -> None:
        self._lake = lake
        self.inner = inner

    def __reduce__(self) -> tuple[Any, ...]:
        return _restore, (self._lake.store.uri, self.id)

    def __repr__(self) -> str:
        return f"<pool {self.name} of {self._lake.store.uri}>"

    @property
    def name(self) -> str:
        return self.inner.config.name

    @property
    def id(self) -> str:
        return to_text(self.inner.config.id)

    def info(self) -> PoolInfo:
        return pool_info(self.inner.config)

    # ---- names

    def branches(self) -> list[RefInfo]:
        return [_ref_info(ref) for ref in self.inner.refs().branches()]

    def tags(self) -> list[RefInfo]:
        return [_ref_info(ref) for ref in self.inner.refs().tags()]

    def create_branch(self, name: str, at: str = "main", *, id: str | None = None) -> None:  # noqa: A002 - the word for it
        op = _operation(id)
        self.writable().create_branch(name, self._place(at, op), op)

    def drop_branch(self, name: str, *, id: str | None = None) -> None:  # noqa: A002 - the word for it
        self._changeable(to_free=True).drop_branch(name, _operation(id))

    def create_tag(self, name: str, at: str = "main", *, id: str | None = None) -> None:  # noqa: A002 - the word for it
        op = _operation(id)
        self.writable().create_tag(name, self._place(at, op), op)

    def drop_tag(self, name: str, *, id: str | None = None) -> None:  # noqa: A002 - the word for it
        self._changeable(to_free=True).drop_tag(name, _operation(id))

    def _place(self, commitish: str, op: Id | None) -> Id | None:
        """The commit that is to have a name; who repeats what was done does not need it any more."""
        try:
            return self.inner.resolve(commitish)
        except NotFound:
            if op is None or self.inner.journal.done(op) is None:
                raise
            return None

    def resolve(self, commitish: str = "main") -> str | None:
        return _text(self.inner.resolve(commitish))

    # ---- changes

    def writable(self) -> pools.Pool:
        """The pool, if the lake can be written to."""
        return self._changeable()

    def _changeable(self, to_free: bool = False) -> pools.Pool:
        self._lake.require_writable(to_free)
        return self.inner

    def load(
        self,
        data: Any,
        *,
        branch: str = "main",
        format: str = "auto",  # noqa: A002 - the word for it
        author: str | None = None,
        message: str = "",
        meta: Any = None,
        id: str | None = None,  # noqa: A002 - the word for it
        engine: str | None = None,
        options: ReadOptions | None = None,
    ) -> str:
        self.writable().refs().branch(branch)
        if id is not None and (done := self.done(id, branch)) is not None:
            return done
        objects = self.write(data, format=format, engine=engine, options=options)
        return self.add(objects, branch=branch, author=author, message=message, meta=meta, id=id)

    def write(
        self,
        data: Any,
        *,
        format: str = "auto",  # noqa: A002 - the word for it
        engine: str | None = None,
        options: ReadOptions | None = None,
    ) -> list[DataObject]:
        """Data as objects that are in no branch yet."""
        return write_data(self.writable(), data, format, engine, options)

    def add(
        self,
        objects: Sequence[DataObject],
        *,
        branch: str = "main",
        author: str | None = None,
        message: str = "",
        meta: Any = None,
        id: str | None = None,  # noqa: A002 - the word for it
    ) -> str:
        """Commit objects that were just written."""
        note = make_note(author, message, meta)
        return to_text(self._lake.loads(self.writable()).load(branch, objects, note, _operation(id)))

    def done(self, id: str, branch: str = "main") -> str | None:  # noqa: A002 - the word for it
        return _text(self.inner.done(parse(id), branch))

    def delete(
        self,
        ids: Sequence[str] = (),
        *,
        where: str | None = None,
        branch: str = "main",
        author: str | None = None,
        message: str = "",
        meta: Any = None,
        id: str | None = None,  # noqa: A002 - the word for it
        engine: str | None = None,
    ) -> str:
        note = make_note(author, message, meta)
        if where is None:
            return self._once(id, branch, lambda pool: changes.delete(pool, branch, object_ids(pool, ids), note))
        if ids:
            raise InvalidInput("delete by ids or by a filter, not both")
        predicate, by = parse_predicate(where), choice(engine)
        return self._once(id, branch, lambda pool: rewriting.delete_where(pool, branch, predicate, note, by))

    def _once(self, id: str | None, branch: str, act: Callable[[pools.Pool], Id]) -> str:  # noqa: A002 - the word
        """The commit that `act` makes of the pool, or has made under this id."""
        return to_text(changes.once(self.writable(), branch, _operation(id), act))

    def compact(
        self,
        ids: Sequence[str],
        *,
        branch: str = "main",
        author: str | None = None,
        message: str = "",
        meta: Any = None,
        id: str | None = None,  # noqa: A002 - the word for it
        engine: str | None = None,
    ) -> str:
        note, by = make_note(author, message, meta), choice(engine)
        return self._once(id, branch, lambda pool: rewriting.compact(pool, branch, object_ids(pool, ids), note, by))

    def compact_runs(self, branch: str = "main") -> list[list[str]]:
        return [[to_text(o.id) for o in run] for run in self._runs(self.inner.refs().branch(branch).commit)]

    def _runs(self, commit: Id | None) -> list[list[DataObject]]:
        config = self.inner.config
        return rewriting.choose_runs(config.key, self.inner.snapshot(commit).objects(), config.object_size)

    def compact_all(self, branch: str = "main", *, engine: str | None = None) -> Iterator[Compaction]:
        pool = self.writable()
        base = pool.refs().branch(branch).commit
        note = make_note(None, "", None)
        for run, done in rewriting.compact_runs(pool, branch, base, self._runs(base), note, choice(engine)):
            if isinstance(done, ShoalError):
                yield Compaction(len(run), None, str(done))
            else:
                yield Compaction(len(run), to_text(done))

    def revert(
        self,
        commit: str,
        *,
        branch: str = "main",
        author: str | None = None,
        message: str = "",
        meta: Any = None,
        id: str | None = None,  # noqa: A002 - the word for it
    ) -> str:
        note = make_note(author, message, meta)
        return self._once(id, branch, lambda pool: changes.revert(pool, branch, self._commit(commit), note))

    def merge(
        self,
        child: str,
        into: str = "main",
        *,
        author: str | None = None,
        message: str = "",
        meta: Any = None,
        id: str | None = None,  # noqa: A002 - the word for it
    ) -> str:
        note = make_note(author, message, meta)
        return self._once(id, into, lambda pool: changes.merge(pool, child, into, note))

    def rebase(self, branch: str, onto: str = "main", *, id: str | None = None) -> str | None:  # noqa: A002 - the word for it
        return _text(changes.rebase(self.writable(), branch, onto, _operation(id)))

    def transaction(
        self,
        branch: str = "main",
        *,
        isolation: Isolation = "snapshot",
        expires: float | None = None,
        author: str | None = None,
        message: str = "",
        meta: Any = None,
    ) -> AbstractContextManager[LocalTransaction]:
        return committed(self.begin(branch, isolation=isolation, expires=expires), author, message, meta)

    def begin(
        self,
        branch: str = "main",
        *,
        isolation: Isolation = "snapshot",
        expires: float | None = None,
        id: str | None = None,  # noqa: A002 - the word for it
    ) -> LocalTransaction:
        """A transaction that its caller ends."""
        seconds = sessions.DEFAULT_SECONDS if expires is None else expires
        session = sessions.begin(self.writable(), branch, isolation, seconds, _operation(id))
        return LocalTransaction(self._lake, self.inner, session)

    # ---- what there is

    def log(self, at: str = "main") -> Iterator[CommitInfo]:
        return map(_commit_info, self.inner.log(self.inner.resolve(at)))

    def objects(self, at: str = "main") -> Iterator[ObjectInfo]:
        return map(_object_info, self.inner.snapshot(self.inner.resolve(at)).objects())

    def diff(self, old: str, new: str) -> Diff:
        patch = self.inner.snapshots.between(self.inner.resolve(old), self.inner.resolve(new))
        return Diff(*(tuple(map(_object_info, self._sorted(side))) for side in (patch.adds, patch.deletes)))

    def diff_values(self, old: str, new: str) -> Iterator[tuple[str, Value]]:
        """Values that are on both sides, as after a compaction, cancel each other out."""
        patch = self.inner.snapshots.between(self.inner.resolve(old), self.inner.resolve(new))
        sides = [self._marked("-", patch.deletes), self._marked("+", patch.adds)]
        return _differences(merge(*sides, key=lambda item: item[0]))

    def _marked(self, mark: str, objects: Sequence[DataObject]) -> Iterator[tuple[Any, str, Value]]:
        """The values of objects in the order of the pool, each with its sortable key and a mark."""
        key = self.inner.config.key
        sortable, key_of = comparer(key.order), key_getter(key)
        for value in scan_objects(self.inner, self._sorted(objects)):
            yield sortable(key_of(value)), mark, value

    def _sorted(self, objects: Sequence[DataObject]) -> list[DataObject]:
        return in_order(self.inner.config.key, list(objects))

    # ---- maintenance

    def vacuum(self, *, grace: float | None = None, dry_run: bool = False) -> Vacuumed:
        garbage = self.vacuum_objects(grace=grace, dry_run=dry_run)
        return Vacuumed(len(garbage.data), garbage.size)

    def vacuum_objects(self, *, grace: float | None = None, dry_run: bool = False) -> Garbage:
        """A vacuum that tells all that it removed, or would remove."""
        pool = self._changeable(to_free=True)
        seconds = vacuum.DEFAULT_GRACE if grace is None else grace
        return vacuum.find_garbage(pool, seconds) if dry_run else vacuum.collect(pool, seconds)

    def vacate(self, commit: str) -> None:
        vacuum.vacate(self.writable(), self._commit(commit))

    def purge(self, ids: Sequence[str]) -> list[str]:
        return [to_text(ident) for ident in vacuum.purge(self._changeable(to_free=True), [parse(text) for text in ids])]

    def _commit(self, commitish: str) -> Id:
        found = self.inner.resolve(commitish)
        if found is None:
            raise NotFound(f"{self.name}@{commitish}: nothing has been committed there yet")
        return found


def _restore(uri: str, pool: str) -> LocalPool:
    lake = open_lake(uri)
    return LocalPool(lake, lake.pool(pool))


def _differences(items: Iterator[tuple[Any, str, Value]]) -> Iterator[tuple[str, Value]]:
    """Of values in order, those that are not as often on one side as on the other."""
    group: list[tuple[str, Value]] = []
    at: Any = None
    for place, mark, value in items:
        if group and at < place:
            yield from _cancelled(group)
            group = []
        at = place
        group.append((mark, value))
    yield from _cancelled(group)


def _cancelled(group: list[tuple[str, Value]]) -> Iterator[tuple[str, Value]]:
    left: dict[Value, int] = {}
    for mark, value in group:
        left[value] = left.get(value, 0) + (1 if mark == "+" else -1)
    for value, count in left.items():
        yield from [("+" if count > 0 else "-", value)] * abs(count)


def _operation(text: str | None) -> Id | None:
    """The id that a caller gave to an operation."""
    return None if text is None else parse(text)


def _text(ident: Id | None) -> str | None:
    return None if ident is None else to_text(ident)


def _ref_info(ref: Ref) -> RefInfo:
    return RefInfo(ref.name, _text(ref.commit))


def _object_info(o: DataObject) -> ObjectInfo:
    return ObjectInfo(to_text(o.id), o.min, o.max, o.count, o.size)


def _commit_info(c: Commit) -> CommitInfo:
    date = datetime.fromtimestamp(c.date / 1e9, UTC)
    return CommitInfo(to_text(c.id), _text(c.parent), c.note.author, date, c.note.message, c.note.meta, _text(c.merged))
