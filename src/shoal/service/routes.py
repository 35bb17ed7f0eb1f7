"""Every operation of the service, in one table: most are derived from the request types of `shoal.api`.

The router, the checks of access, the description in `/openapi.json` and the tests of all of them are made from it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from shoal.api.changes import Changes
from shoal.api.options import read_params
from shoal.api.pool import DiffObjects
from shoal.api.requests import VERBS, Method, Need, Param, Request, body_of, params_of
from shoal.service.answers import Answer
from shoal.service.calls import Call
from shoal.service.handlers import about, access, lake_transactions, pools, queries, transactions
from shoal.service.handlers.verbs import carry_out, load

Handler = Callable[[Call], Answer]
BodyKind = Literal["none", "record", "data"]


@dataclass(frozen=True, slots=True)
class Route:
    """One operation."""

    method: Method
    path: str
    name: str
    need: Need
    handler: Handler
    body: BodyKind = "none"
    fields: tuple[tuple[str, str], ...] = ()
    """The fields of a record in the body, with their JSON types."""
    params: tuple[Param, ...] = ()
    is_empty: bool = False
    """Whether it is answered without a body."""
    may_be_empty: bool = False
    is_instant: bool = False
    """Whether the event loop answers it by itself, without waiting for a thread, a store or a lock."""
    request: type[Request[Any]] | None = None
    """The request that it carries out, if it is derived from one."""
    media_types: tuple[str, ...] = ()
    """What it answers, if not values in any format."""
    default_format: str = ""
    """The format for clients that accept anything, if not that of the service."""

    @property
    def about(self) -> str:
        """One line on what it does."""
        source = self.handler if self.request is None else self.request
        return (source.__doc__ or "").strip().partition("\n")[0]

    @property
    def mutates(self) -> bool:
        """Whether it changes the lake: it may be given an idempotency key."""
        return self.method != "GET" and self.need in (Need.WRITE, Need.PLACES, Need.ADMIN, Need.LAKE)


_HANDLERS: dict[type[Request[Any]], Handler] = {Changes: queries.changes, DiffObjects: pools.diff}
"""Handlers that do more than to carry a request out."""


def route_of(request: type[Request[Any]]) -> Route:
    """The route of a request type."""
    http = request.http
    body = body_of(request)
    return Route(
        http.method,
        http.path,
        http.name,
        http.need,
        _HANDLERS.get(request) or carry_out(request),
        "record" if body else "none",
        tuple((field.name, field.schema) for field in body.values()),
        tuple(params_of(request).values()),
        is_empty=http.result.is_empty,
        request=request,
    )


_POOL = "/pool/{pool}"
_BRANCH = _POOL + "/branch/{branch}"
_REVISION = _POOL + "/revision/{revision}"
_TRANSACTION = _BRANCH + "/transaction/{id}"
_OVER = "/transaction/{id}"
_PLACE = Param("place", "the branch of the transaction, such as orders or items@dev")
_OPTIONAL = Param("optional", "T to end a transaction that changed nothing, without a commit and an answer", "boolean")
_IDS = (("object_ids", "array"),)
_DELETION = (*_IDS, ("where", "string"))
_QUESTION = (("query", "string"), ("head", "object"), ("engine", "string"))
_ENGINE = Param("engine", "interp, duckdb, spark or auto")
_SCHEMAS: dict[type, Literal["string", "number", "boolean"]] = {str: "string", int: "number", bool: "boolean"}
_DATA = (
    *(Param(name, about, _SCHEMAS[kind]) for name, (about, kind) in read_params().items()),
    Param("format", "name of the format of the body; else by Content-Type, else detected"),
)
_KEYED = (
    Param("mode", "load, upsert or delete: whether data of a keyed pool is added, replaces records, or is keys"),
    Param("on_conflict", "fail, ours, theirs or newest:FIELD, for records that others have changed meanwhile"),
)
_EXPECT = Param("expect", "commit since which the branch must not have changed, maintenance aside; zeros for none")
_CTRL = Param("ctrl", "T for control messages in ZNG and ZJSON", "boolean")
_COLUMNS = Param("columns", "T for values in columns among the control messages of ZNG", "boolean")
_WARNINGS = Param("warnings", "T for warnings among the control messages", "boolean")
_VACUUM = (Param("dryrun", "T to remove nothing", "boolean"), Param("grace", "seconds that garbage stays", "number"))
_GRANT = (("subject", "string"), ("pool", "string"), ("verb", "string"))
_TEXT = ("text/plain",)
_JSON = ("application/json",)

_OWN: tuple[Route, ...] = (
    Route("GET", "/", "root", Need.NOTHING, about.root, media_types=_TEXT, is_instant=True),
    Route("GET", "/version", "version", Need.NOTHING, about.version),
    Route("GET", "/status", "status", Need.NOTHING, about.health, media_types=_TEXT, is_instant=True),
    Route("GET", "/metrics", "metrics", Need.IDENTITY, about.metrics, media_types=_TEXT),
    Route("GET", "/events", "events", Need.IDENTITY, about.events, media_types=("text/event-stream",)),
    Route("GET", "/auth/method", "authMethod", Need.NOTHING, access.method, default_format="json"),
    Route("GET", "/auth/identity", "authIdentity", Need.IDENTITY, access.identity, default_format="json"),
    Route("GET", "/auth/grants", "listGrants", Need.IDENTITY, access.grants),
    Route("POST", "/auth/grants", "grant", Need.GRANT, access.grant, "record", _GRANT),
    Route("DELETE", "/auth/grants", "revoke", Need.GRANT, access.revoke, "record", _GRANT, is_empty=True),
    Route("GET", "/auth/tokens", "listTokens", Need.LAKE, access.tokens),
    Route("POST", "/auth/tokens", "createToken", Need.LAKE, access.create_token, "record",
          (("name", "string"), ("subject", "string"), ("expires", "number"))),
    Route("DELETE", "/auth/tokens/{name}", "revokeToken", Need.LAKE, access.revoke_token, is_empty=True),
    Route("POST", "/pool", "createPool", Need.LAKE, pools.create_pool, "record",
          (("name", "string"), ("layout", "object"), ("seek_stride", "integer"), ("thresh", "integer"),
           ("settings", "object"))),
    Route("GET", _POOL + "/stats", "poolStats", Need.READ, pools.pool_stats, may_be_empty=True),
    Route("GET", _BRANCH, "showBranch", Need.READ, pools.show_branch),
    Route("POST", _BRANCH, "load", Need.WRITE, load, "data", params=(*_DATA, _ENGINE, *_KEYED, _EXPECT)),
    Route("POST", _BRANCH + "/transaction", "begin", Need.WRITE, transactions.begin, "record",
          (("isolation", "string"), ("expires", "number"))),
    Route("POST", _TRANSACTION + "/load", "stageLoad", Need.WRITE, transactions.load, "data",
          params=(*_DATA, _KEYED[0]), is_empty=True),
    Route("POST", _TRANSACTION + "/delete", "stageDelete", Need.WRITE, transactions.delete, "record", _DELETION,
          is_empty=True),
    Route("POST", _TRANSACTION + "/update", "stageUpdate", Need.WRITE, transactions.update, "record",
          (("where", "string"), ("program", "string")), is_empty=True),
    Route("POST", _TRANSACTION + "/query", "queryStaged", Need.WRITE, transactions.query, "record",
          (("query", "string"),), (_CTRL,)),
    Route("POST", _TRANSACTION + "/sql", "sqlStaged", Need.WRITE, transactions.sql, "record",
          (("statement", "string"),), (_CTRL, _COLUMNS)),
    Route("POST", _TRANSACTION + "/commit", "commit", Need.WRITE, transactions.commit, params=(
        Param("position", "as `begin` gave it: where to look for the commit if the service restarted", "number"),
        _OPTIONAL)),
    Route("DELETE", _TRANSACTION, "abandon", Need.WRITE, transactions.abandon, is_empty=True),
    Route("POST", "/transaction", "beginOver", Need.PLACES, lake_transactions.begin, "record",
          (("pools", "array"), ("isolation", "string"), ("expires", "number"))),
    Route("GET", "/transaction", "listTransactions", Need.IDENTITY, lake_transactions.show_all),
    Route("GET", _OVER, "showTransaction", Need.IDENTITY, lake_transactions.show),
    Route("POST", _OVER + "/load", "stageLoadOver", Need.PLACES, transactions.load, "data",
          params=(*_DATA, _KEYED[0], _PLACE), is_empty=True),
    Route("POST", _OVER + "/delete", "stageDeleteOver", Need.PLACES, transactions.delete, "record", _DELETION,
          (_PLACE,), is_empty=True),
    Route("POST", _OVER + "/update", "stageUpdateOver", Need.PLACES, transactions.update, "record",
          (("where", "string"), ("program", "string")), (_PLACE,), is_empty=True),
    Route("POST", _OVER + "/query", "queryStagedOver", Need.PLACES, transactions.query, "record",
          (("query", "string"),), (_CTRL, _PLACE)),
    Route("POST", _OVER + "/sql", "sqlStagedOver", Need.PLACES, transactions.sql, "record",
          (("statement", "string"),), (_CTRL, _COLUMNS, _PLACE)),
    Route("POST", _OVER + "/commit", "commitOver", Need.PLACES, lake_transactions.commit, "record",
          (("places", "array"),), (_OPTIONAL,), may_be_empty=True),
    Route("DELETE", _OVER, "abandonOver", Need.PLACES, transactions.abandon, is_empty=True),
    Route("POST", _REVISION + "/vacuum", "vacuum", Need.ADMIN, pools.vacuum_revision, params=_VACUUM),
    Route("POST", _REVISION + "/vector", "addVectors", Need.WRITE, pools.vectors, "record", _IDS),
    Route("DELETE", _REVISION + "/vector", "deleteVectors", Need.WRITE, pools.vectors, "record", _IDS),
    Route("POST", "/query", "query", Need.IDENTITY, queries.query, "record", _QUESTION, (
        _CTRL, Param("statistics", "T to count what is read; on with ctrl unless it is F", "boolean"), _WARNINGS,
        _COLUMNS)),
    Route("POST", "/query/describe", "describe", Need.IDENTITY, queries.describe, "record", _QUESTION,
          media_types=_JSON),
    Route("POST", "/query/sql", "sql", Need.IDENTITY, queries.sql, "record",
          (("statement", "string"), ("engine", "string")), (_CTRL, _WARNINGS, _COLUMNS)),
    Route("GET", "/query/status/{request}", "queryStatus", Need.IDENTITY, queries.status),
    Route("POST", "/compile", "compile", Need.IDENTITY, queries.compile_program, "record", (("query", "string"),),
          media_types=_JSON),
)  # fmt: skip
"""What does not travel in the common way: streams, data, text for other programs, older forms of a verb."""

ROUTES: tuple[Route, ...] = (*_OWN, *map(route_of, VERBS))
