"""Operators on the fields of records: cut, put, drop, rename. How a type is changed is found once for each type."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from shoal.engines.interp.environment import Cache, Env, Eval
from shoal.engines.interp.expressions.calls import Stream
from shoal.errors import InvalidInput
from shoal.lang.field_paths import check_assignments, check_record, check_rename
from shoal.lang.plan import Path
from shoal.model import types as t
from shoal.model.cast import cast_primitive
from shoal.model.text import format_value
from shoal.model.values import QUIET, Value, is_error, is_quiet, structured_error


class Target:
    """Where an assignment goes: names, some of which may be computed."""

    def __init__(self, parts: Sequence[str | Eval]) -> None:
        self.parts = tuple(parts)
        names = tuple(part for part in parts if isinstance(part, str))
        self.path: Path | None = names if len(names) == len(self.parts) else None

    def find(self, this: Value, env: Env) -> Path:
        """The path for a value; raises InvalidInput if a part of it is not a name."""
        if self.path is not None:
            return self.path
        return tuple([part if isinstance(part, str) else _name(part(this, env)) for part in self.parts])


def _name(value: Value) -> str:
    if is_error(value):
        inner = value.type.under.inner  # type: ignore[attr-defined]
        raise InvalidInput(str(value.data) if inner.under is t.STRING else format_value(Value(inner, value.data)))
    if value.type.under is not t.STRING:
        value = cast_primitive(value, t.STRING)
        if is_error(value):
            raise InvalidInput("field reference is not a string")
    return value.data or ""


def applied(change: Eval) -> Stream:
    """A function of each value; what becomes quiet is dropped."""

    def run(stream: Iterator[Value], env: Env) -> Iterator[Value]:
        env = env.fresh()
        for value in stream:
            result = change(value, env)
            if result is not QUIET and not is_quiet(result):
                yield result

    return run


# ---- cut


def cut(targets: Sequence[Target], exprs: Sequence[Eval]) -> Eval:
    """A record of just these fields; quiet ones are left out."""
    is_static = all(target.path is not None for target in targets)
    static_paths = [target.path or () for target in targets]
    is_flat = is_static and all(len(path) == 1 for path in static_paths)
    names = tuple(path[0] for path in static_paths if path)
    flat_types: Cache[tuple[t.Type, ...], t.Record] = Cache()

    def change(this: Value, env: Env) -> Value:
        members = [expr(this, env) for expr in exprs]
        kinds = tuple([value.type for value in members])
        if is_flat:
            has_quiet = QUIET.type in kinds and any(map(is_quiet, members))
            typ = flat_types.get(kinds)
            if typ is None and not has_quiet:
                typ = flat_types.keep(kinds, t.record(zip(names, kinds, strict=True)))
            if typ is not None and not has_quiet:
                return Value(typ, tuple([value.data for value in members]))
        try:
            paths = static_paths if is_static else [target.find(this, env) for target in targets]
            if not is_static:
                _check_cut(paths)
        except InvalidInput as e:
            return structured_error(f"cut: {e}", this)
        kept = [(path, value) for path, value in zip(paths, members, strict=True) if not is_quiet(value)]
        return nested_record(kept) if kept else QUIET

    return change


def _check_cut(paths: Sequence[Path]) -> None:
    if any(not path for path in paths):
        raise InvalidInput("'this' not allowed (use record literal)")
    check_record(paths)


def nested_record(fields: Sequence[tuple[Path, Value]]) -> Value:
    """A record of values at paths, which must be compatible with each other."""
    tree: dict[str, Any] = {}
    for path, value in fields:
        level = tree
        for name in path[:-1]:
            level = level.setdefault(name, {})
        level[path[-1]] = value
    return _record_of(tree)


def _record_of(tree: dict[str, Any]) -> Value:
    members = [(name, _record_of(item) if isinstance(item, dict) else item) for name, item in tree.items()]
    return Value(t.record((n, v.type) for n, v in members), tuple([v.data for _, v in members]))


# ---- put


def put(targets: Sequence[Target], exprs: Sequence[Eval]) -> Eval:
    """The record with these fields set: in place if they are there, at the end if not."""
    plans: Cache[tuple[Any, ...], tuple[t.Type, list[Any]]] = Cache()

    def change(this: Value, env: Env) -> Value:
        under = this.type.under
        if not isinstance(under, t.Record):
            return this if is_error(this) else structured_error("put: not a record", this)
        members: list[Value] = []
        paths: list[Path] = []
        try:
            for target, expr in zip(targets, exprs, strict=True):
                value = expr(this, env)
                if not is_quiet(value):
                    members.append(value)
                    paths.append(target.find(this, env))
            if not members:
                return this
            key = (under, *[value.type for value in members], *paths)
            planned = plans.get(key)
            if planned is None:
                check_assignments(paths)
                planned = plans.keep(key, _plan_put(under, paths, [value.type for value in members]))
        except InvalidInput as e:
            return structured_error(f"put: {e}", this)
        typ, steps = planned
        return Value(typ, _build(steps, this.data, [value.data for value in members]))

    return change


def _plan_put(typ: t.Record | None, paths: list[Path], kinds: list[t.Type]) -> tuple[t.Type, list[Any]]:
    """The type after the assignments, and the steps that build it: (from input, from values, nested)."""
    fields: dict[str, t.Type] = {}
    steps: list[Any] = []
    for i, f in enumerate(typ.fields if typ is not None else ()):
        which = [k for k, path in enumerate(paths) if path and path[0] == f.name]
        if not which:
            steps.append(("input", i, None))
            fields[f.name] = f.type
        else:
            _assign(f.name, i, f.type.under, which, paths, kinds, fields, steps)
    for path in paths:
        if path and path[0] not in fields:
            which = [k for k, other in enumerate(paths) if other and other[0] == path[0]]
            _assign(path[0], None, None, which, paths, kinds, fields, steps)
    return t.record(fields.items()), steps


def _assign(
    name: str,
    i: int | None,
    old: t.Type | None,
    which: list[int],
    paths: list[Path],
    kinds: list[t.Type],
    fields: dict[str, t.Type],
    steps: list[Any],
) -> None:
    if len(paths[which[0]]) == 1:
        steps.append(("value", which[0], None))
        fields[name] = kinds[which[0]]
        return
    inner = old if isinstance(old, t.Record) else None
    rest = [path[1:] if k in which else () for k, path in enumerate(paths)]
    typ, inner_steps = _plan_put(inner, rest, kinds)
    steps.append(("nested", i if inner is not None else None, inner_steps))
    fields[name] = typ


def _build(steps: list[Any], data: Any, values: list[Any]) -> tuple[Any, ...]:
    out: list[Any] = []
    for kind, i, inner in steps:
        if kind == "input":
            out.append(None if data is None else data[i])
        elif kind == "value":
            out.append(values[i])
        else:
            old = None if i is None or data is None else data[i]
            out.append(None if old is None and not values else _build(inner, old, values))
    return tuple(out)


# ---- drop


def drop(paths: Sequence[Path]) -> Eval:
    """The record without these fields; nothing, if nothing is left of it."""
    plans: Cache[t.Type, tuple[t.Type, list[Any]] | None] = Cache()

    def change(this: Value, env: Env) -> Value:
        typ = this.type
        under = typ.under
        if not isinstance(under, t.Record):
            return this
        if typ not in plans:
            plans.keep(typ, _plan_drop(under, frozenset(paths)))
        entry = plans[typ]
        if entry is None:
            return this
        kept, steps = entry
        if not steps:
            return QUIET
        return Value(kept, None if this.data is None else _build(steps, this.data, []))

    return change


def _plan_drop(typ: t.Record, paths: frozenset[Path], at: Path = ()) -> tuple[t.Type, list[Any]] | None:
    """The type without the fields, and the steps that make it; None if it has none of them."""
    fields: list[tuple[str, t.Type]] = []
    steps: list[Any] = []
    has_any = False
    for i, f in enumerate(typ.fields):
        path = (*at, f.name)
        if path in paths:
            has_any = True
            continue
        under = f.type.under
        inner = _plan_drop(under, paths, path) if isinstance(under, t.Record) else None
        if inner is None:
            fields.append((f.name, f.type))
            steps.append(("input", i, None))
        else:
            has_any = True
            if inner[1]:
                fields.append((f.name, inner[0]))
                steps.append(("nested", i, inner[1]))
    return (t.record(fields), steps) if has_any else None


# ---- rename


def rename(new: Sequence[Target], old: Sequence[Target]) -> Eval:
    """The record with fields renamed, one after the other."""
    types: Cache[tuple[Any, ...], t.Type] = Cache()

    def change(this: Value, env: Env) -> Value:
        under = this.type.under
        if not isinstance(under, t.Record):
            return this
        try:
            pairs: list[tuple[Path, Path]] = []
            for to, source in zip(new, old, strict=True):
                path, name = source.find(this, env), to.find(this, env)
                check_rename(path, name)
                pairs.append((path, name))
            key = (under, *pairs)
            typ = types.get(key)
            if typ is None:
                typ = under
                for path, name in pairs:
                    typ = _renamed(typ, path, name)
                types.keep(key, typ)
        except InvalidInput as e:
            return structured_error(f"rename: {e}", this)
        return Value(typ, this.data)

    return change


def _renamed(typ: t.Type, path: Path, name: Path) -> t.Type:
    if not isinstance(typ, t.Record) or path[0] not in typ.index:
        return typ
    i = typ.index[path[0]]
    inner = typ.fields[i].type
    if len(path) > 1:
        changed = _renamed(inner, path[1:], name[1:])
        if changed is inner and not isinstance(inner, t.Record):
            return typ
        inner = changed
    fields = [(f.name, f.type) for f in typ.fields]
    fields[i] = (name[0], inner)
    if sum(n == name[0] for n, _ in fields) > 1:
        raise InvalidInput(f'duplicate field: "{name[0]}"')
    return t.record(fields)
