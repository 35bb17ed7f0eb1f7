"""A lake behind a service: requests travel over HTTP as their types say."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from os import PathLike
from typing import TYPE_CHECKING, Any

from shoal.api.branch import Load
from shoal.api.changes import NO_CHANGES, Changes
from shoal.api.codecs import SIDES, Reader, read_pool
from shoal.api.infos import PoolInfo
from shoal.api.lake import CreatePool, Describe, DropPool, Explain, GetPool, Lake, RenamePool
from shoal.api.lake_transaction import BeginOver, Resume
from shoal.api.pool import DiffValues
from shoal.api.pool_settings import settings_record
from shoal.api.queries import Query, Sql
from shoal.api.requests import R, Request
from shoal.api.results import Results
from shoal.api.transaction import Begin
from shoal.client.access import JsonCalls
from shoal.client.address import service_url
from shoal.client.credentials import check_token, find_token
from shoal.client.lake_transactions import begin_over, resume
from shoal.client.queries import answered, ask, full_text, question, told
from shoal.client.requests import call_of, carry_out, note_headers
from shoal.client.service import Call, Service, decode, make_key
from shoal.client.transactions import begin, load
from shoal.client.transport import Access
from shoal.errors import NotFound, ShoalError, Unsupported
from shoal.lazy import lazy
from shoal.local.pools import new_config
from shoal.model import types as t
from shoal.model.values import Value, int64, record, string

if TYPE_CHECKING:
    from shoal.client import zed_lake
else:
    zed_lake = lazy("shoal.client.zed_lake")

_PATHS = t.array(t.array(t.STRING))


def open_remote(uri: str, token: str | None, config: str | PathLike[str] | None) -> Lake:
    """The lake behind the service at a URL, which has to answer. A Zed service is known by what it lacks."""
    url = service_url(uri)
    access = Access(url, find_token(url, config) if token is None else check_token(token))
    lake = RemoteLake(access)
    try:
        lake.status()
    except NotFound:
        version = _zed_version(access)
        if version is None:
            raise
        return zed_lake.ZedLake(access, version)
    return lake


def _zed_version(access: Access) -> str | None:
    """The version of a Zed service; None if there is none at this URL."""
    try:
        answer = JsonCalls(access)("GET", "/version")
    except ShoalError:
        return None
    version = answer.get("version") if isinstance(answer, dict) else None
    return version if isinstance(version, str) else None


class RemoteLake(Lake):
    """A lake that a service gives access to."""

    def __init__(self, access: Access) -> None:
        self._service = Service(access)

    def __reduce__(self) -> tuple[Any, ...]:
        return RemoteLake, (self._service.access,)

    @property
    def uri(self) -> str:
        return self._service.url

    def do(self, request: Request[R]) -> R:
        act = _OWN_WAY.get(type(request))
        if act is not None:
            result: R = act(self._service, request)
            return result
        if not hasattr(type(request), "http"):
            raise Unsupported(f"{type(request).__name__} does not go through a service (open the lake itself)")
        return carry_out(self._service, request)


# ---- requests that travel in a way of their own


def create_call(request: CreatePool, has_settings: bool = True) -> Call:
    """The call that creates a pool."""
    config = new_config(request)
    paths = tuple(path or ("this",) for path in config.key.paths)
    layout = record([("order", string(config.key.order)), ("keys", Value(_PATHS, paths))])
    sizes = [("seek_stride", int64(config.seek_stride)), ("thresh", int64(config.object_size))]
    settings = [("settings", settings_record(request.settings))] if has_settings else []
    body = record([("name", string(request.name)), ("layout", layout), *sizes, *settings])
    return Call("POST", ("pool",), value=body, key=make_key(request.op))


def _create(service: Service, request: CreatePool) -> PoolInfo:
    answer = service.change(create_call(request))
    assert answer is not None
    reader = Reader(service.url)
    return read_pool(reader, reader.field(answer, "pool"))


def _rename(service: Service, request: RenamePool) -> PoolInfo:
    pool = carry_out(service, GetPool(request.pool))
    carry_out(service, RenamePool(pool.id, request.name, request.op))
    return carry_out(service, GetPool(pool.id))


def _drop(service: Service, request: DropPool) -> PoolInfo:
    pool = carry_out(service, GetPool(request.pool))
    carry_out(service, DropPool(pool.id, request.op))
    return pool


def _query(service: Service, request: Query) -> Results:
    """The limits of memory are those of the service."""
    text = full_text(request.program, request.includes)
    body = question(text, request.head, request.engine)
    return ask(
        service,
        ("query",),
        body,
        text,
        statistics=request.statistics,
        on_debug=request.on_debug,
        on_warning=request.on_warning,
        on_output=request.on_output,
    )


_CHANGING = re.compile(r"\b(?:insert|update|delete|merge|create)\b", re.IGNORECASE)
"""One of these words is in each statement that changes something: without them, asking twice is safe."""


def _sql(service: Service, request: Sql) -> Results:
    fields = [("statement", string(request.statement))]
    if request.engine is not None:
        fields.append(("engine", string(request.engine)))
    text, body, warn = request.statement, record(fields), request.on_warning
    if _CHANGING.search(text) is None:
        return ask(service, ("query", "sql"), body, text, on_warning=warn, is_safe=True)
    key, headers = make_key(request.op), note_headers(request.note)
    return told(ask(service, ("query", "sql"), body, text, on_warning=warn, headers=headers, key=key), text)


def _explain(service: Service, request: Explain) -> Any:
    body = question(full_text(request.program, request.includes), request.head, request.engine)
    values = service.read_all(Call("POST", ("query", "explain"), value=body, is_safe=True))
    return Explain.http.result.decode(Reader(service.url), iter(values))


def _describe(service: Service, request: Describe) -> Any:
    raise Unsupported("a description is for other clients: GET /query/describe of the service")


def _diff_values(service: Service, request: DiffValues) -> Iterator[tuple[str, Value]]:
    choices = {"old": request.old, "new": request.new, "values": "T"}
    answer = service.send(Call("GET", ("pool", request.pool, "diff"), choices, is_safe=True))
    return SIDES.decode(Reader(service.url), decode(answer))


def _changes(service: Service, request: Changes) -> Results:
    call = call_of(request)
    call = replace(call, choices={**call.choices, "ctrl": "T", "warnings": "T"})
    warn = request.on_warning
    return answered(service, call, "changes", on_warning=warn, has_beats=request.follow, shape=NO_CHANGES)


_OWN_WAY: dict[type[Request[Any]], Callable[[Service, Any], Any]] = {
    Begin: begin,
    BeginOver: begin_over,
    Changes: _changes,
    CreatePool: _create,
    Describe: _describe,
    DiffValues: _diff_values,
    DropPool: _drop,
    Explain: _explain,
    Load: load,
    Query: _query,
    RenamePool: _rename,
    Resume: resume,
    Sql: _sql,
}
