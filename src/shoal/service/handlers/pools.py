"""Pools: list, create, show, rename, drop, measure."""

from __future__ import annotations

from typing import Any

from shoal.access.reserved import shown_pools
from shoal.errors import InvalidInput
from shoal.ids import to_text
from shoal.lake import branches
from shoal.lake.branches import MAIN
from shoal.lake.pool_config import show_config
from shoal.local.pool import LocalPool
from shoal.model import types as t
from shoal.model.fields import named
from shoal.model.values import Value, int64
from shoal.service.answers import Answer
from shoal.service.calls import Call


def list_pools(call: Call) -> Answer:
    """The pools that the caller may read."""
    return [show_config(config) for config in shown_pools(call.lake.inner)]


def create_pool(call: Call) -> Answer:
    """A new pool and its branch."""
    asked = call.record({"name": str, "layout": dict, "seek_stride": int, "thresh": int})
    key, order = _sort_key(asked.get("layout"))
    pool = call.lake.create(
        asked.get("name", ""),
        key=key,
        order=order,
        object_size=asked.get("thresh") or None,
        seek_stride=asked.get("seek_stride") or None,
        id=call.operation(),
    )
    call.service.publish("pool-new", pool.id)
    main = branches.show_ref(pool.inner.refs().branch(MAIN))
    return named("lake.BranchMeta", ("pool", show_config(pool.inner.config)), ("branch", main))


def _sort_key(layout: dict[str, Any] | None) -> tuple[str | list[str], str | None]:
    if not layout:
        return "ts", "desc"
    keys, order = layout.get("keys") or [["ts"]], layout.get("order") or "asc"
    is_list = isinstance(keys, list) and all(isinstance(k, list) and all(isinstance(n, str) for n in k) for k in keys)
    if not is_list or not isinstance(order, str):
        raise InvalidInput('the layout of a pool is {order:"asc"|"desc",keys:[["a","b"],...]}')
    return [".".join(path) for path in keys], order


def show_pool(call: Call) -> Answer:
    """What is fixed about a pool."""
    return show_config(call.pool().inner.config)


def rename_pool(call: Call) -> None:
    """Another name."""
    name = call.record({"name": str}).get("name", "")
    info = call.lake.rename(call.pool().id, name, id=call.operation())
    call.service.publish("pool-update", info.id)


def rename_again(call: Call, op: str) -> None:
    """NotFound, unless the pool was renamed by this operation."""
    call.service.lake.rename(call.path["pool"], call.record({"name": str}).get("name", ""), id=op)


def drop_again(call: Call, op: str) -> None:
    """NotFound, unless the pool was dropped by this operation."""
    call.service.lake.drop(call.path["pool"], id=op)


def drop_pool(call: Call) -> None:
    """Remove a pool with all that is in it."""
    pool = call.pool()
    call.lake.drop(pool.id, id=call.operation())
    call.service.publish("pool-delete", pool.id)


def pool_stats(call: Call) -> Answer:
    """How large the main branch is, and for keys of time from when to when; nothing if it is empty."""
    pool = call.pool()
    objects = list(pool.objects(MAIN))
    if not objects:
        return None
    return named("exec.PoolStats", ("size", int64(sum(o.size for o in objects))), ("span", _span(pool)))


def _span(pool: LocalPool) -> Value:
    """The times of the keys of all objects; null if there are none."""
    duration = t.named("nano.Duration", t.INT64)
    typ = t.named("nano.Span", t.record((("ts", t.TIME), ("dur", duration))))
    ends = [bound.data for o in pool.objects(MAIN) for bound in (o.min, o.max) if bound.type.under is t.TIME]
    known = [ns for ns in ends if ns is not None]
    return Value(typ, (min(known), max(known) - min(known) + 1) if known else None)


def branch_update(call: Call, pool: LocalPool, branch: str, commit: str) -> None:
    """Tell that a branch has a new commit."""
    parent = pool.inner.commits.read(branches.as_id(commit)).parent  # type: ignore[arg-type] # it is an id
    told = {"branch": branch, "commit_id": commit, "parent": "" if parent is None else to_text(parent)}
    call.service.publish("branch-commit", pool.id, **told)
