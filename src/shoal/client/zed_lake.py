"""A lake behind a real Zed service (v1.18), by the routes that it has; the rest is derived from meta-queries.

Such a service has no idempotency keys, so that a change whose answer is lost is not sent again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from heapq import merge
from typing import TYPE_CHECKING, Any

from shoal.api.branch import (
    CherryPick,
    Compact,
    CompactAll,
    CompactRuns,
    Delete,
    FindDone,
    Load,
    Log,
    Merge,
    Objects,
    Rebase,
    Resolve,
    Revert,
    select_commits,
)
from shoal.api.codecs import COMMIT, IDS, Reader, read_commit, read_object, read_pool, read_ref
from shoal.api.infos import CommitInfo, Compaction, Diff, ObjectInfo, PoolInfo, RefInfo, Vacuumed
from shoal.api.lake import CreatePool, DropPool, Explain, GetPool, GetStatus, Lake, ListPools, RenamePool, VacuumLake
from shoal.api.lake_transaction import BeginOver, Resume
from shoal.api.options import for_load
from shoal.api.pool import (
    CreateBranch,
    CreateTag,
    DiffObjects,
    DiffValues,
    DropBranch,
    DropTag,
    ListBranches,
    ListTags,
    Purge,
    Vacate,
    VacuumPool,
)
from shoal.api.queries import Query, Sql
from shoal.api.requests import R, Request
from shoal.api.results import Results
from shoal.api.transaction import Begin
from shoal.client.queries import ask, full_text, question
from shoal.client.remote_lake import create_call
from shoal.client.requests import call_of, note_headers
from shoal.client.service import MEDIA_TYPE, Call, Service
from shoal.client.transport import Access
from shoal.client.uploads import upload_values
from shoal.errors import InvalidInput, NotFound, ShoalError, Unsupported
from shoal.ids import parse, to_text
from shoal.lazy import lazy
from shoal.model.fields import KSUID, NO_ID, name_of
from shoal.model.literals import quote
from shoal.model.values import Value, array, record
from shoal.suggestions import did_you_mean

if TYPE_CHECKING:
    from shoal.lake import keys, objects, rewriting
else:
    keys = lazy("shoal.lake.keys")
    objects = lazy("shoal.lake.objects")
    rewriting = lazy("shoal.lake.rewriting")


class ZedLake(Lake):
    """A lake that a Zed service gives access to."""

    def __init__(self, access: Access, version: str) -> None:
        self._service = Service(access)
        self._version = version

    def __reduce__(self) -> tuple[Any, ...]:
        return ZedLake, (self._service.access, self._version)

    @property
    def uri(self) -> str:
        return self._service.url

    def do(self, request: Request[R]) -> R:
        act = _WAYS.get(type(request))
        if act is None:
            lacks = _LACKS.get(type(request), type(request).__name__)
            raise Unsupported(f"the service at {self.uri} is Zed {self._version} and has no {lacks}")
        result: R = act(self._service, request)
        return result


# ---- reading


def _meta(service: Service, source: str, rest: str = "") -> list[Value]:
    """The values of a meta-query such as `from logs:branches`."""
    return list(_ask(service, f"from {source}{rest}", None))


def _ask(service: Service, text: str, head: str | None, **asides: Any) -> Results:
    return ask(service, ("query",), question(text, head, None), text, **asides)


def _list_pools(service: Service, request: ListPools) -> list[PoolInfo]:
    reader = Reader(service.url)
    return sorted((read_pool(reader, value) for value in _meta(service, ":pools")), key=lambda pool: pool.name)


def _get_pool(service: Service, request: GetPool) -> PoolInfo:
    pools = _list_pools(service, ListPools())
    for pool in pools:
        if request.pool in (pool.name, pool.id):
            return pool
    raise NotFound(f"{request.pool}: pool not found{did_you_mean(request.pool, (pool.name for pool in pools))}")


def _list_branches(service: Service, request: ListBranches) -> list[RefInfo]:
    reader = Reader(service.url)
    values = _meta(service, f"{quote(request.pool)}:branches")
    refs = (read_ref(reader, reader.field(value, "branch")) for value in values)
    return sorted(refs, key=lambda ref: ref.name)


def _log(service: Service, request: Log) -> Iterator[CommitInfo]:
    """Commits of one branch or of all. A merge of Zed does not refer to the commits that it merged."""
    if request.since is not None or request.path is not None:
        raise Unsupported(f"{service.url}: the log of a Zed service has no since and no path")
    commits = _commits(service, request.pool, request.revision)
    if request.all:
        branches = [ref.name for ref in _list_branches(service, ListBranches(request.pool)) if ref.commit is not None]
        logs = (commits, *(_commits(service, request.pool, name) for name in branches))
        merged = merge(*logs, key=lambda commit: -commit.ts)
        commits = iter({commit.id: commit for commit in merged}.values())
    return select_commits(commits, request)


def _commits(service: Service, pool: str, revision: str) -> Iterator[CommitInfo]:
    reader = Reader(service.url)
    values = _meta(service, f"{quote(pool)}@{quote(revision)}:log")
    return (read_commit(reader, value) for value in values if name_of(value) == "Commit")


def _objects(service: Service, request: Objects) -> Iterator[ObjectInfo]:
    reader = Reader(service.url)
    values = _meta(service, f"{quote(request.pool)}@{quote(request.revision)}:objects", " | sort min, max")
    return (read_object(reader, value) for value in values)


def _diff(service: Service, request: DiffObjects) -> Diff:
    old, new = ({o.id: o for o in _objects(service, Objects(request.pool, at))} for at in (request.old, request.new))
    return Diff(tuple(o for o in new.values() if o.id not in old), tuple(o for o in old.values() if o.id not in new))


def _resolve(service: Service, request: Resolve) -> str | None:
    call = Call("GET", ("pool", request.pool, "branch", request.revision), is_safe=True)
    reader = Reader(service.url)
    try:
        return reader.optional_id(service.read_all(call)[0], "commit")
    except NotFound:
        try:
            parse(request.revision)
        except InvalidInput:
            raise NotFound(f'"{request.revision}": branch not found') from None
        return request.revision


def _query(service: Service, request: Query) -> Results:
    text = full_text(request.program, request.includes)
    return _ask(service, text, request.head, on_debug=request.on_debug, on_output=request.on_output)


# ---- changing


def _send(service: Service, request: Request[R]) -> R:
    """Carry out a request by the route that both kinds of service have."""
    values = service.read_all(_once(call_of(request)))
    result: R = type(request).http.result.decode(Reader(service.url), iter(values))
    return result


def _once(call: Call) -> Call:
    """A call without parameters and keys of our own."""
    return replace(call, choices={}, key=None)


def _create_pool(service: Service, request: CreatePool) -> PoolInfo:
    if not request.settings.is_plain:
        raise Unsupported("a Zed lake has no primary keys, partitions and merge policies")
    answer = service.change(_once(create_call(request, has_settings=False)))
    assert answer is not None
    reader = Reader(service.url)
    return read_pool(reader, reader.field(answer, "pool"))


def _rename_pool(service: Service, request: RenamePool) -> PoolInfo:
    pool = _get_pool(service, GetPool(request.pool))
    _send(service, replace(request, pool=pool.id))
    return replace(pool, name=request.name)


def _drop_pool(service: Service, request: DropPool) -> PoolInfo:
    pool = _get_pool(service, GetPool(request.pool))
    _send(service, replace(request, pool=pool.id))
    return pool


def _create_branch(service: Service, request: CreateBranch) -> RefInfo:
    """The service takes the id of a commit only; zeros stand for none."""
    commit = _resolve(service, Resolve(request.pool, request.commit)) or to_text(NO_ID)
    answer = service.change(_once(call_of(replace(request, commit=commit))))
    assert answer is not None
    reader = Reader(service.url)
    return read_ref(reader, answer.field("branch") or answer)


def _load(service: Service, request: Load) -> str:
    """The data goes as ZNG, in one body: the service knows neither our options nor transactions."""
    if request.mode != "load":
        raise Unsupported("a Zed lake has no primary keys, so nothing is upserted or deleted by them")
    if request.expect is not None:
        raise Unsupported("a Zed lake does not check since when a branch has not changed")
    if request.engine == "spark":
        raise Unsupported("Spark does not load through a service (open the lake itself)")
    upload = upload_values(request.data, request.format, for_load(request.options))
    headers = {**note_headers(request.note), "Content-Type": MEDIA_TYPE}
    try:
        call = Call("POST", ("pool", request.pool, "branch", request.branch), headers=headers, upload=upload)
        return COMMIT.decode(Reader(service.url), iter(service.read_all(call)))
    finally:
        upload.close()


def _compact(service: Service, request: Compact) -> str:
    """Compact objects; the service takes their ids in binary form only."""
    body = record([("object_ids", array(Value(KSUID, parse(ident)) for ident in request.ids))])
    names = ("pool", request.pool, "branch", request.branch, "compact")
    values = service.read_all(Call("POST", names, headers=note_headers(request.note), value=body))
    return COMMIT.decode(Reader(service.url), iter(values))


def _compact_runs(service: Service, request: CompactRuns) -> list[list[str]]:
    pool = _get_pool(service, GetPool(request.pool))
    infos = list(_objects(service, Objects(request.pool, request.branch)))
    key = keys.SortKey(pool.paths, "desc" if pool.order == "desc" else "asc")
    data = [objects.DataObject(parse(o.id), o.min, o.max, o.count, o.size, 0, value_size=o.size) for o in infos]
    return [[to_text(o.id) for o in run] for run in rewriting.choose_runs(key, data, pool.object_size)]


def _compact_all(service: Service, request: CompactAll) -> Iterator[Compaction]:
    for run in _compact_runs(service, CompactRuns(request.pool, request.branch)):
        try:
            yield Compaction(len(run), _compact(service, Compact(request.pool, request.branch, tuple(run))))
        except ShoalError as e:
            yield Compaction(len(run), None, str(e))


def _vacuum_pool(service: Service, request: VacuumPool) -> Vacuumed:
    if request.grace is not None:
        raise Unsupported(f"the service at {service.url} is Zed, whose vacuum has no grace period (leave -grace out)")
    choices = {"dryrun": "T" if request.dry_run else None}
    call = Call("POST", ("pool", request.pool, "revision", "main", "vacuum"), choices)
    ids = IDS.decode(Reader(service.url), iter(service.read_all(call)))
    return Vacuumed(len(ids), 0, tuple(ids))


def _vacuum_lake(service: Service, request: VacuumLake) -> Vacuumed:
    pools = _list_pools(service, ListPools())
    done = [_vacuum_pool(service, VacuumPool(pool.id, request.grace, request.dry_run)) for pool in pools]
    return Vacuumed(sum(each.objects for each in done), 0, tuple(ident for each in done for ident in each.ids))


_WAYS: dict[type[Request[Any]], Callable[[Service, Any], Any]] = {
    Compact: _compact,
    CompactAll: _compact_all,
    CompactRuns: _compact_runs,
    CreateBranch: _create_branch,
    CreatePool: _create_pool,
    Delete: _send,
    DiffObjects: _diff,
    DropBranch: _send,
    DropPool: _drop_pool,
    GetPool: _get_pool,
    ListBranches: _list_branches,
    ListPools: _list_pools,
    ListTags: lambda service, request: [],
    Load: _load,
    Log: _log,
    Merge: _send,
    Objects: _objects,
    Query: _query,
    RenamePool: _rename_pool,
    Resolve: _resolve,
    Revert: _send,
    VacuumLake: _vacuum_lake,
    VacuumPool: _vacuum_pool,
}
_LACKS: dict[type[Request[Any]], str] = {
    Begin: "transactions",
    BeginOver: "transactions",
    CherryPick: "cherry-pick",
    CreateTag: "tags",
    DiffValues: "diff of values",
    DropTag: "tags",
    Explain: "explain",
    FindDone: "ids of operations",
    GetStatus: "status of its lake",
    Purge: "purge",
    Rebase: "rebase",
    Resume: "transactions",
    Sql: "SQL",
    Vacate: "vacate over HTTP",
}
"""What a Zed service does not have, in the words of a message."""
