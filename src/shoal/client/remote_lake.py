"""A lake behind a service: the Lake protocol over HTTP."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from os import PathLike
from typing import Any

from shoal.api.commitish import parse_head
from shoal.api.options import Memory, Watch
from shoal.api.protocol import LakeStatus, PoolInfo, ScanPlan, Vacuumed
from shoal.client.address import service_url
from shoal.client.credentials import check_token, find_token
from shoal.client.infos import Reader
from shoal.client.questions import ask, full_text, question
from shoal.client.remote_pool import RemotePool, vacuum_choices
from shoal.client.service import Call, Service, make_key
from shoal.client.transport import Access
from shoal.frames.results import Results
from shoal.local.pool_configs import make_config
from shoal.model import types as t
from shoal.model.values import Value, int64, record, string

_PATHS = t.array(t.array(t.STRING))


def open_remote(uri: str, token: str | None, config: str | PathLike[str] | None) -> RemoteLake:
    """The lake behind the service at a URL, which has to answer."""
    url = service_url(uri)
    lake = RemoteLake(Access(url, find_token(url, config) if token is None else check_token(token)))
    lake.status()
    return lake


class RemoteLake:
    """A lake that a service gives access to."""

    def __init__(self, access: Access) -> None:
        self._service = Service(access)
        self._reader = Reader(access.url)

    def __reduce__(self) -> tuple[Any, ...]:
        return RemoteLake, (self._service.access,)

    def __repr__(self) -> str:
        return f"<lake {self.uri}>"

    @property
    def uri(self) -> str:
        return self._service.url

    def status(self) -> LakeStatus:
        return self._reader.status(self._service.read_one("lake"))

    def pools(self) -> list[PoolInfo]:
        return [self._reader.pool(value) for value in self._service.read_list("pool")]

    def pool(self, name: str) -> RemotePool:
        return RemotePool(self._service, self._reader.pool(self._service.read_one("pool", name)))

    def create(
        self,
        name: str,
        *,
        key: str | Iterable[str] = "ts:desc",
        order: str | None = None,
        object_size: int | None = None,
        seek_stride: int | None = None,
        id: str | None = None,  # noqa: A002 - the word for it
    ) -> RemotePool:
        config = make_config(name, key, order, object_size, seek_stride)
        paths = tuple(path or ("this",) for path in config.key.paths)
        layout = record([("order", string(config.key.order)), ("keys", Value(_PATHS, paths))])
        sizes = [("seek_stride", int64(config.seek_stride)), ("thresh", int64(config.object_size))]
        body = record([("name", string(name)), ("layout", layout), *sizes])
        told = self._service.change(Call("POST", ("pool",), value=body, key=make_key(id)))
        assert told is not None
        return RemotePool(self._service, self._reader.pool(self._reader.field(told, "pool")))

    def rename(self, old: str, new: str, *, id: str | None = None) -> PoolInfo:  # noqa: A002 - the word for it
        pool = self.pool(old)
        self._service.change(Call("PUT", ("pool", pool.id), value=record([("name", string(new))]), key=make_key(id)))
        return self.pool(pool.id).info()

    def drop(self, name: str, *, id: str | None = None) -> PoolInfo:  # noqa: A002 - the word for it
        pool = self.pool(name)
        self._service.change(Call("DELETE", ("pool", pool.id), key=make_key(id)))
        return pool.info()

    def vacuum(self, *, grace: float | None = None, dry_run: bool = False) -> Vacuumed:
        told = self._service.change(Call("POST", ("vacuum",), vacuum_choices(grace, dry_run), key=make_key()))
        assert told is not None
        return self._reader.vacuumed(told)

    def query(
        self,
        program: str,
        *,
        head: str | None = None,
        includes: Sequence[str] = (),
        memory: Memory | None = None,
        statistics: bool = False,
        on_debug: Callable[[Value], None] | None = None,
        on_warning: Callable[[str], None] | None = None,
        watch: Watch | None = None,
        engine: str | None = None,
    ) -> Results:
        """The limits of memory are those of the service."""
        text = full_text(program, includes)
        body = question(text, None if head is None else parse_head(head), engine)
        return ask(
            self._service, ("query",), body, text, statistics=statistics, on_debug=on_debug, on_warning=on_warning
        )

    def sql(
        self, statement: str, *, engine: str | None = None, on_warning: Callable[[str], None] | None = None
    ) -> Results:
        fields = [("statement", string(statement))]
        if engine is not None:
            fields.append(("engine", string(engine)))
        names = ("query", "sql")
        return ask(self._service, names, record(fields), statement, on_warning=on_warning, is_safe=True)

    def explain(
        self, program: str, *, head: str | None = None, includes: Sequence[str] = (), engine: str | None = None
    ) -> list[ScanPlan]:
        body = question(full_text(program, includes), None if head is None else parse_head(head), engine)
        call = Call("POST", ("query", "explain"), value=body, is_safe=True)
        return [self._reader.plan(value) for value in self._service.read_all(call)]
