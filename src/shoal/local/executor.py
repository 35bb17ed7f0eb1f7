"""Executes requests on a store. Each request type has one implementation, in the modules of this package."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from shoal.access.records import default_author
from shoal.access.view import Pools
from shoal.api.branch import Branch
from shoal.api.lake import Lake
from shoal.api.requests import Note, Op, R, Request, require_names
from shoal.errors import Unsupported
from shoal.frames.python_values import from_python
from shoal.ids import Id, parse, to_text
from shoal.lake import commits, lake, pools
from shoal.lake.branches import Altered
from shoal.lazy import lazy
from shoal.model.values import NULL

if TYPE_CHECKING:
    from shoal.planner import pool_partitions
else:
    pool_partitions = lazy("shoal.planner.pool_partitions")

_MOST_POOLS = 1000

Act = TypeVar("Act", bound=Callable[..., Any])
_IMPLEMENTATIONS: dict[type[Request[Any]], Callable[..., Any]] = {}


def implements(request: type[Request[Any]]) -> Callable[[Act], Act]:
    """Register a function of a lake and a request as the implementation of a request type."""

    def register(act: Act) -> Act:
        _IMPLEMENTATIONS[request] = act
        return act

    return register


def is_implemented(request: type[Request[Any]]) -> bool:
    """Whether the module that implements a request type has been loaded."""
    return request in _IMPLEMENTATIONS


class StoreExecutor(Lake):
    """A lake in a store."""

    def __init__(self, root: Pools) -> None:
        self.root = root
        """The lake in its store, or the view that a caller has of it."""
        self._pools: dict[str, pools.Pool] = {}

    @property
    def uri(self) -> str:
        return self.root.store.uri

    def do(self, request: Request[R]) -> R:
        act = _IMPLEMENTATIONS.get(type(request))
        if act is None:
            raise Unsupported(f"a lake in a store does not implement {type(request).__name__}")
        require_names(request)
        try:
            result: R = act(self, request)
        except Altered as e:
            self._pools.clear()
            self.root.settle_pool(e.pool)  # who has altered the pool may not have come so far
            raise
        return result

    def find(self, name: str) -> pools.Pool:
        """A pool by its name or id, looked up in the journal of the lake."""
        return self.keep(self.root.pool(name))

    def keep(self, pool: pools.Pool) -> pools.Pool:
        """Cache an open pool, which can be written to; returns it."""
        if pool.config.settings.partition:
            pool = pool_partitions.with_partitions(pool)
        if len(self._pools) >= _MOST_POOLS:
            self._pools.clear()
        self._pools[to_text(pool.config.id)] = pool
        return pool

    def forget(self, ident: str) -> None:
        """Look a pool up again when it is needed next."""
        self._pools.pop(ident, None)

    def opened(self, name: str) -> pools.Pool:
        """A pool by its name or id, from the cache if it was opened before by this id."""
        return self._pools.get(name) or self.find(name)

    def writable(self, name: str, to_free: bool = False) -> pools.Pool:
        """A pool to change, if the lake can be written to; `to_free` is for changes that only remove."""
        self.root.require_writable(to_free)
        return self.opened(name)


def whole(local: StoreExecutor) -> lake.Lake:
    """The lake in its store, without a view."""
    assert isinstance(local.root, lake.Lake)
    return local.root


def stored(handle: Branch) -> pools.Pool:
    """The pool behind a handle, in its store."""
    assert isinstance(handle.lake, StoreExecutor)
    return handle.lake.opened(handle.pool_id)


# ---- from request types to those of the lake


def operation(op: Op) -> Id | None:
    """The operation id of a request."""
    text = op() if callable(op) else op
    return None if text is None else parse(text)


def text_of(ident: Id | None) -> str | None:
    """An id as text."""
    return None if ident is None else to_text(ident)


def stored_note(note: Note) -> commits.Note:
    """The note of a commit, with a default author and Python objects converted to values."""
    author = default_author() if note.author is None else note.author
    return commits.Note(author, note.message, NULL if note.meta is None else from_python(note.meta))
