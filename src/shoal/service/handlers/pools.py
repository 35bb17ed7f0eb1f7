"""What clients of the Zed lake API ask about pools in forms of their own, beside the common verbs."""

from __future__ import annotations

from typing import Any

from shoal.api.codecs import SIDES, commit_response, show_ids, show_pool, show_ref
from shoal.api.infos import MAIN, ObjectInfo
from shoal.api.lake import CreatePool
from shoal.api.pool import DiffObjects, DiffValues, ListBranches, VacuumPool
from shoal.api.pool_settings import settings_of
from shoal.errors import InvalidInput, NotFound
from shoal.model import types as t
from shoal.model.fields import named
from shoal.model.values import Value, int64
from shoal.service.answers import Answer
from shoal.service.calls import Call, id_texts
from shoal.service.handlers.verbs import carry_out
from shoal.suggestions import did_you_mean


def create_pool(call: Call) -> Answer:
    """Create a pool and its branch `main`."""
    body = call.record({"name": str, "layout": dict, "seek_stride": int, "thresh": int, "settings": dict})
    key, order = _sort_key(body.get("layout"))
    request = CreatePool(
        body.get("name", ""),
        key,
        order,
        body.get("thresh") or None,
        body.get("seek_stride") or None,
        settings_of(body.get("settings") or {}),
        call.operation(),
    )
    info = call.lake.do(request)
    call.service.publish("pool-new", info.id)
    (main,) = (ref for ref in call.lake.do(ListBranches(info.id)) if ref.name == MAIN)
    return named("lake.BranchMeta", ("pool", show_pool(info)), ("branch", show_ref(main)))


def _sort_key(layout: dict[str, Any] | None) -> tuple[str | tuple[str, ...], str | None]:
    if not layout:
        return "ts", "desc"
    keys, order = layout.get("keys") or [["ts"]], layout.get("order") or "asc"
    is_list = isinstance(keys, list) and all(isinstance(k, list) and all(isinstance(n, str) for n in k) for k in keys)
    if not is_list or not isinstance(order, str):
        raise InvalidInput('the layout of a pool is {order:"asc"|"desc",keys:[["a","b"],...]}')
    return tuple(".".join(path) for path in keys), order


def pool_stats(call: Call) -> Answer:
    """Show the size of the main branch and, for keys of time, its span; nothing if it is empty."""
    objects = list(call.pool().objects(MAIN))
    if not objects:
        return None
    return named("exec.PoolStats", ("size", int64(sum(o.size for o in objects))), ("span", _span(objects)))


def _span(objects: list[ObjectInfo]) -> Value:
    """The times of the keys of all objects; null if there are none."""
    duration = t.named("nano.Duration", t.INT64)
    typ = t.named("nano.Span", t.record((("ts", t.TIME), ("dur", duration))))
    ends = [bound.data for o in objects for bound in (o.min, o.max) if bound.type.under is t.TIME]
    times = [ns for ns in ends if ns is not None]
    return Value(typ, (min(times), max(times) - min(times) + 1) if times else None)


def show_branch(call: Call) -> Answer:
    """Show the commit that a branch points at."""
    name = call.path["branch"]
    refs = {ref.name: ref for ref in call.pool().branches()}
    if name not in refs:
        raise NotFound(f'"{name}": branch not found{did_you_mean(name, refs)}')
    return commit_response(refs[name].commit, call.warnings)


_diff_objects = carry_out(DiffObjects)


def diff(call: Call) -> Answer:
    """List the data objects that one commitish has and another has not; with `values`, the values that differ."""
    if "old" not in call.params or "new" not in call.params:
        raise InvalidInput("the parameters old and new have to name two commits")
    if not call.is_set("values"):
        return _diff_objects(call)
    return SIDES.encode(call.lake.do(DiffValues(call.pool().id, call.params["old"], call.params["new"])))


def vacuum_revision(call: Call) -> Answer:
    """Vacuum the pool; the ids of the data objects that go."""
    pool = call.pool()
    pool.resolve(call.path["revision"])
    vacuumed = call.lake.do(VacuumPool(pool.id, call.number("grace"), call.is_set("dryrun")))
    return show_ids(vacuumed.ids)


def vectors(call: Call) -> Answer:
    """Check that data objects exist. They are columns already: there is nothing to add or to remove."""
    ids = id_texts(call.record({"object_ids": list}).get("object_ids", []))
    pool, revision = call.pool(), call.path["revision"]
    present = {o.id for o in pool.objects(revision)} if ids else set()
    unknown = next((ident for ident in ids if ident not in present), None)
    if unknown is not None:
        raise NotFound(f"{unknown}: not found (no such data object in {pool.name}@{revision})")
    return commit_response(pool.resolve(revision), [*call.warnings, "data objects are columns already"])
