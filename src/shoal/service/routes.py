"""Every operation of the service, in one table.

The router, the checks of access, the description in `/openapi.json` and the tests of all of them are made from it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Literal

from shoal.service.answers import Answer
from shoal.service.calls import Call
from shoal.service.handlers import about, access, loads, maintenance, pools, queries, revisions, transactions

Handler = Callable[[Call], Answer]
BodyKind = Literal["none", "record", "data"]


class Need(Enum):
    """What a caller must be allowed to do."""

    NOTHING = "open to everybody"
    IDENTITY = "any caller who is known; what is read is checked by the pools that it is in"
    READ = "read the pool"
    WRITE = "write to the pool"
    ADMIN = "administer the pool"
    LAKE = "administer the lake"
    GRANT = "administer the pool that the body names"


@dataclass(frozen=True, slots=True)
class Param:
    """A parameter in the query of a URL."""

    name: str
    about: str
    schema: Literal["string", "number", "boolean"] = "string"


@dataclass(frozen=True, slots=True)
class Route:
    """One operation."""

    method: Literal["GET", "POST", "PUT", "DELETE"]
    path: str
    name: str
    need: Need
    handler: Handler
    body: BodyKind = "none"
    fields: tuple[tuple[str, str], ...] = ()
    """The fields of a record in the body, with their types in words of JSON."""
    params: tuple[Param, ...] = ()
    is_empty: bool = False
    """Whether it is answered without a body."""
    may_be_empty: bool = False
    waits: bool = False
    """Whether it waits for something else to end."""
    again: Callable[[Call, str], None] | None = None
    """What to do if the pool is no longer there under its name, and the operation of this id was to see to that."""
    media_types: tuple[str, ...] = ()
    """What it answers, if not values in any format."""

    @property
    def about(self) -> str:
        """One line on what it does."""
        return (self.handler.__doc__ or "").strip().partition("\n")[0]

    @property
    def mutates(self) -> bool:
        """Whether it changes the lake: it may be given an idempotency key."""
        return self.method != "GET" and self.need in (Need.WRITE, Need.ADMIN, Need.LAKE)


_POOL = "/pool/{pool}"
_BRANCH = _POOL + "/branch/{branch}"
_REVISION = _POOL + "/revision/{revision}"
_TRANSACTION = _BRANCH + "/transaction/{id}"
_IDS = (("object_ids", "array"),)
_DELETION = (*_IDS, ("where", "string"))
_QUESTION = (("query", "string"), ("head", "object"), ("engine", "string"))
_ENGINE = Param("engine", "interp, duckdb, spark or auto")
_FORMAT = Param("format", "name of the format of the body; else by Content-Type, else found out")
_DATA = (Param("csv.delim", "what is between the cells of a line of CSV"), _FORMAT)
_VACUUM = (Param("dryrun", "T to remove nothing", "boolean"), Param("grace", "seconds that garbage stays", "number"))
_VECTORS = (Param("vectors", "accepted for clients that give it", "boolean"),)

_GRANT = (("subject", "string"), ("pool", "string"), ("verb", "string"))
_TEXT = ("text/plain",)
_JSON = ("application/json",)

ROUTES: tuple[Route, ...] = (
    Route("GET", "/", "root", Need.NOTHING, about.root, media_types=_TEXT),
    Route("GET", "/version", "version", Need.NOTHING, about.version),
    Route("GET", "/status", "status", Need.NOTHING, about.health, media_types=_TEXT),
    Route("GET", "/metrics", "metrics", Need.IDENTITY, about.metrics, media_types=_TEXT),
    Route("GET", "/lake", "lake", Need.IDENTITY, about.lake),
    Route("GET", "/events", "events", Need.IDENTITY, about.events, media_types=("text/event-stream",)),
    Route("GET", "/auth/method", "authMethod", Need.NOTHING, access.method, media_types=_JSON),
    Route("GET", "/auth/identity", "authIdentity", Need.IDENTITY, access.identity, media_types=_JSON),
    Route("GET", "/auth/grants", "listGrants", Need.IDENTITY, access.grants),
    Route("POST", "/auth/grants", "grant", Need.GRANT, access.grant, "record", _GRANT),
    Route("DELETE", "/auth/grants", "revoke", Need.GRANT, access.revoke, "record", _GRANT, is_empty=True),
    Route("GET", "/auth/tokens", "listTokens", Need.LAKE, access.tokens),
    Route("POST", "/auth/tokens", "createToken", Need.LAKE, access.create_token, "record",
          (("name", "string"), ("subject", "string"), ("expires", "number"))),
    Route("DELETE", "/auth/tokens/{name}", "revokeToken", Need.LAKE, access.revoke_token, is_empty=True),
    Route("GET", "/pool", "listPools", Need.IDENTITY, pools.list_pools),
    Route("POST", "/pool", "createPool", Need.LAKE, pools.create_pool, "record",
          (("name", "string"), ("layout", "object"), ("seek_stride", "integer"), ("thresh", "integer"))),
    Route("GET", _POOL, "showPool", Need.READ, pools.show_pool),
    Route("PUT", _POOL, "renamePool", Need.ADMIN, pools.rename_pool, "record", (("name", "string"),), is_empty=True,
          again=pools.rename_again),
    Route("DELETE", _POOL, "dropPool", Need.ADMIN, pools.drop_pool, is_empty=True, again=pools.drop_again),
    Route("GET", _POOL + "/stats", "poolStats", Need.READ, pools.pool_stats, may_be_empty=True),
    Route("GET", _POOL + "/branch", "listBranches", Need.READ, revisions.list_branches),
    Route("POST", _POOL, "createBranch", Need.WRITE, revisions.create_branch, "record",
          (("name", "string"), ("commit", "string"))),
    Route("GET", _BRANCH, "showBranch", Need.READ, revisions.show_branch),
    Route("DELETE", _BRANCH, "dropBranch", Need.WRITE, revisions.drop_branch, is_empty=True),
    Route("GET", _POOL + "/tag", "listTags", Need.READ, revisions.list_tags),
    Route("POST", _POOL + "/tag", "createTag", Need.WRITE, revisions.create_tag, "record",
          (("name", "string"), ("commit", "string"))),
    Route("DELETE", _POOL + "/tag/{tag}", "dropTag", Need.WRITE, revisions.drop_tag, is_empty=True),
    Route("GET", _REVISION, "resolve", Need.READ, revisions.resolve),
    Route("GET", _REVISION + "/log", "log", Need.READ, revisions.log),
    Route("GET", _REVISION + "/objects", "objects", Need.READ, revisions.objects),
    Route("GET", _POOL + "/diff", "diff", Need.READ, revisions.diff, params=(
        Param("old", "a commitish"), Param("new", "a commitish"), Param("values", "T for values", "boolean"))),
    Route("POST", _BRANCH, "load", Need.WRITE, loads.load, "data", params=(*_DATA, _ENGINE)),
    Route("POST", _BRANCH + "/delete", "delete", Need.WRITE, loads.delete, "record", _DELETION, (_ENGINE,)),
    Route("POST", _BRANCH + "/compact", "compact", Need.WRITE, loads.compact, "record", _IDS, (_ENGINE, *_VECTORS)),
    Route("POST", _BRANCH + "/manage", "manage", Need.WRITE, loads.compact_all, params=(_ENGINE,)),
    Route("GET", _BRANCH + "/runs", "runs", Need.READ, loads.runs),
    Route("POST", _BRANCH + "/merge/{child}", "merge", Need.WRITE, revisions.merge),
    Route("POST", _BRANCH + "/revert/{commit}", "revert", Need.WRITE, revisions.revert),
    Route("POST", _BRANCH + "/rebase/{onto}", "rebase", Need.WRITE, revisions.rebase),
    Route("GET", _BRANCH + "/commit/{id}", "commitStatus", Need.READ, revisions.commit_status),
    Route("POST", _BRANCH + "/transaction", "begin", Need.WRITE, transactions.begin, "record",
          (("isolation", "string"), ("expires", "number"))),
    Route("POST", _TRANSACTION + "/load", "stageLoad", Need.WRITE, transactions.load, "data", params=_DATA,
          is_empty=True),
    Route("POST", _TRANSACTION + "/delete", "stageDelete", Need.WRITE, transactions.delete, "record", _DELETION,
          is_empty=True),
    Route("POST", _TRANSACTION + "/query", "queryStaged", Need.WRITE, transactions.query, "record",
          (("query", "string"),), (Param("ctrl", "T for control messages in ZNG and ZJSON", "boolean"),)),
    Route("POST", _TRANSACTION + "/commit", "commit", Need.WRITE, transactions.commit, params=(
        Param("position", "as `begin` gave it: where to look for the commit if the service began anew", "number"),
        Param("optional", "T to end a transaction that changed nothing, without a commit and an answer", "boolean"))),
    Route("DELETE", _TRANSACTION, "abandon", Need.WRITE, transactions.abandon, is_empty=True),
    Route("POST", "/vacuum", "vacuumLake", Need.LAKE, maintenance.vacuum_lake, params=_VACUUM),
    Route("POST", _POOL + "/vacuum", "vacuumPool", Need.ADMIN, maintenance.vacuum_pool, params=_VACUUM),
    Route("POST", _REVISION + "/vacuum", "vacuum", Need.ADMIN, maintenance.vacuum_revision, params=_VACUUM),
    Route("POST", _POOL + "/vacate/{commit}", "vacate", Need.ADMIN, maintenance.vacate, is_empty=True),
    Route("POST", _POOL + "/purge", "purge", Need.ADMIN, maintenance.purge, "record", _IDS),
    Route("POST", _REVISION + "/vector", "addVectors", Need.WRITE, loads.vectors, "record", _IDS),
    Route("DELETE", _REVISION + "/vector", "deleteVectors", Need.WRITE, loads.vectors, "record", _IDS),
    Route("POST", "/query", "query", Need.IDENTITY, queries.query, "record", _QUESTION, (
        Param("ctrl", "T for control messages in ZNG and ZJSON", "boolean"),
        Param("statistics", "T to count what is read", "boolean"))),
    Route("POST", "/query/describe", "describe", Need.IDENTITY, queries.describe, "record", _QUESTION,
          media_types=_JSON),
    Route("POST", "/query/explain", "explain", Need.IDENTITY, queries.explain, "record", _QUESTION),
    Route("POST", "/query/sql", "sql", Need.IDENTITY, queries.sql, "record",
          (("statement", "string"), ("engine", "string")),
          (Param("ctrl", "T for control messages in ZNG and ZJSON", "boolean"),)),
    Route("GET", "/query/status/{request}", "queryStatus", Need.IDENTITY, queries.status, waits=True),
    Route("POST", "/compile", "compile", Need.IDENTITY, queries.compile_program, "record", (("query", "string"),),
          media_types=_JSON),
)  # fmt: skip
