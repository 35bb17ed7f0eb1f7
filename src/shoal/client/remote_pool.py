"""A pool of a lake behind a service."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Any

from shoal.api.options import ReadOptions
from shoal.api.protocol import CommitInfo, Compaction, Diff, Isolation, ObjectInfo, PoolInfo, RefInfo, Vacuumed
from shoal.client.changes import Place, commit_by, find_done, make_note
from shoal.client.infos import Reader
from shoal.client.loads import load
from shoal.client.remote_transaction import RemoteTransaction, begin, committed
from shoal.client.service import Call, Note, Service, decode, make_key
from shoal.client.transport import Access
from shoal.errors import InvalidInput
from shoal.model.values import Value, array, record, string


class RemotePool:
    """A pool that a service gives access to. It is asked for by its id, so that it may be renamed meanwhile."""

    def __init__(self, service: Service, info: PoolInfo) -> None:
        self._service = service
        self._info = info
        self._reader = Reader(service.url)

    def __reduce__(self) -> tuple[Any, ...]:
        return _restore, (self._service.access, self._info)

    def __repr__(self) -> str:
        return f"<pool {self.name} of {self._service.url}>"

    @property
    def name(self) -> str:
        return self._info.name

    @property
    def id(self) -> str:
        return self._info.id

    def info(self) -> PoolInfo:
        return self._info

    # ---- names

    def branches(self) -> list[RefInfo]:
        return [self._reader.ref(value) for value in self._service.read_list("pool", self.id, "branch")]

    def tags(self) -> list[RefInfo]:
        return [self._reader.ref(value) for value in self._service.read_list("pool", self.id, "tag")]

    def create_branch(self, name: str, at: str = "main", *, id: str | None = None) -> None:  # noqa: A002 - the word for it
        self._change("POST", value=_ref(name, at), key=id)

    def drop_branch(self, name: str, *, id: str | None = None) -> None:  # noqa: A002 - the word for it
        self._change("DELETE", "branch", name, key=id)

    def create_tag(self, name: str, at: str = "main", *, id: str | None = None) -> None:  # noqa: A002 - the word for it
        self._change("POST", "tag", value=_ref(name, at), key=id)

    def drop_tag(self, name: str, *, id: str | None = None) -> None:  # noqa: A002 - the word for it
        self._change("DELETE", "tag", name, key=id)

    def resolve(self, commitish: str = "main") -> str | None:
        return self._reader.optional_id(self._service.read_one("pool", self.id, "revision", commitish), "commit")

    # ---- changes

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
        note = make_note(author, message, meta)
        return load(self._place(branch), data, format, note, id, engine, options or ReadOptions())

    def done(self, id: str, branch: str = "main") -> str | None:  # noqa: A002 - the word for it
        return find_done(self._place(branch), id)

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
        if where is not None and ids:
            raise InvalidInput("delete by ids or by a filter, not both")
        value = _objects(ids) if where is None else record([("where", string(where))])
        note = make_note(author, message, meta)
        return self._commit(branch, "delete", value=value, note=note, engine=engine, key=id)

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
        note = make_note(author, message, meta)
        return self._commit(branch, "compact", value=_objects(ids), note=note, engine=engine, key=id)

    def compact_runs(self, branch: str = "main") -> list[list[str]]:
        return [self._reader.ids(run) for run in self._service.read_list("pool", self.id, "branch", branch, "runs")]

    def compact_all(self, branch: str = "main", *, engine: str | None = None) -> Iterator[Compaction]:
        call = self._call("POST", "branch", branch, "manage", choices={"engine": engine})
        return map(self._reader.compaction, decode(self._service.send(call)))

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
        return self._commit(branch, "revert", commit, note=make_note(author, message, meta), key=id)

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
        return self._commit(into, "merge", child, note=make_note(author, message, meta), key=id)

    def rebase(self, branch: str, onto: str = "main", *, id: str | None = None) -> str | None:  # noqa: A002 - the word for it
        made = self._change("POST", "branch", branch, "rebase", onto, key=id)
        return None if made is None else self._reader.optional_id(made, "commit")

    def transaction(
        self,
        branch: str = "main",
        *,
        isolation: Isolation = "snapshot",
        expires: float | None = None,
        author: str | None = None,
        message: str = "",
        meta: Any = None,
    ) -> AbstractContextManager[RemoteTransaction]:
        begun = begin(self._place(branch), isolation, expires)
        return committed(begun, author, message, meta)

    # ---- what there is

    def log(self, at: str = "main") -> Iterator[CommitInfo]:
        return map(self._reader.commit, self._read("revision", at, "log"))

    def objects(self, at: str = "main") -> Iterator[ObjectInfo]:
        return map(self._reader.object, self._read("revision", at, "objects"))

    def diff(self, old: str, new: str) -> Diff:
        sides: dict[str, list[ObjectInfo]] = {"+": [], "-": []}
        for value in self._read("diff", old=old, new=new):
            sides[self._reader.data(value, "side")].append(self._reader.object(self._reader.field(value, "object")))
        return Diff(tuple(sides["+"]), tuple(sides["-"]))

    def diff_values(self, old: str, new: str) -> Iterator[tuple[str, Value]]:
        choices = {"old": old, "new": new, "values": "T"}
        answer = self._service.send(Call("GET", ("pool", self.id, "diff"), choices, is_safe=True))
        return ((self._reader.data(value, "side"), self._reader.field(value, "value")) for value in decode(answer))

    # ---- maintenance

    def vacuum(self, *, grace: float | None = None, dry_run: bool = False) -> Vacuumed:
        made = self._change("POST", "vacuum", choices=vacuum_choices(grace, dry_run))
        assert made is not None
        return self._reader.vacuumed(made)

    def vacate(self, commit: str) -> None:
        self._change("POST", "vacate", commit)

    def purge(self, ids: Sequence[str]) -> list[str]:
        made = self._change("POST", "purge", value=_objects(ids))
        assert made is not None
        return self._reader.ids(self._reader.field(made, "object_ids"))

    # ---- calls

    def _place(self, branch: str) -> Place:
        return Place(self._service, self.id, branch)

    def _read(self, *names: str, **choices: str | None) -> Iterator[Value]:
        return self._service.read("pool", self.id, *names, **choices)

    def _call(self, method: str, *names: str, key: str | None = None, **how: Any) -> Call:
        return Call(method, ("pool", self.id, *names), key=make_key(key), **how)

    def _change(self, method: str, *names: str, **how: Any) -> Value | None:
        return self._service.change(self._call(method, *names, **how))

    def _commit(
        self,
        branch: str,
        *names: str,
        note: Note,
        value: Value | None = None,
        engine: str | None = None,
        key: str | None = None,
    ) -> str:
        how = {"value": value, "headers": note.headers(), "choices": {"engine": engine}}
        return commit_by(self._place(branch), self._call("POST", "branch", branch, *names, key=key, **how))


def vacuum_choices(grace: float | None, dry_run: bool) -> dict[str, str | None]:
    """How a vacuum is done."""
    return {"dryrun": "T" if dry_run else None, "grace": None if grace is None else f"{grace:.9f}"}


def _restore(access: Access, info: PoolInfo) -> RemotePool:
    return RemotePool(Service(access), info)


def _ref(name: str, at: str) -> Value:
    return record([("name", string(name)), ("commit", string(at))])


def _objects(ids: Sequence[str]) -> Value:
    return record([("object_ids", array(map(string, ids)))])
