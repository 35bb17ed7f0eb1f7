"""A scan learns which fields are used after it, so that a source with columns need not read the others."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from shoal.lang import plan
from shoal.lang.walk import nodes, rewrite_sequences


def project_fields(program: plan.Program) -> plan.Program:
    """`file f | cut a | ...` needs `a` alone."""

    def project(seq: plan.Seq) -> plan.Seq:
        match seq[0] if seq else None:
            case plan.DefaultScan() | plan.FileScan() | plan.HttpScan() | plan.PoolScan() as scan:
                fields = used_fields(seq[1:])
                if fields is not None and scan.filter is not None:
                    fields = joined(fields, paths_in(scan.filter))
                return (dataclasses.replace(scan, fields=fields), *seq[1:])
        return seq

    return rewrite_sequences(program, project)


def used_fields(seq: plan.Seq) -> tuple[plan.Path, ...] | None:
    """The paths of the input that operators use; None if they may use all of it."""
    used: tuple[plan.Path, ...] | None = ()
    for op in seq:
        match op:
            case plan.Filter(expr):
                used = joined(used, paths_in(expr))
            case plan.Sort(keys) if keys:
                for key in keys:
                    used = joined(used, paths_in(key.expr))
            case plan.TopK(_, plan.Sort(keys)) if keys:
                for key in keys:
                    used = joined(used, paths_in(key.expr))
            case plan.Head() | plan.Tail() | plan.Pass():
                pass
            case plan.Cut(args):
                computed = [a.target for a in args if not isinstance(a.target, plan.This)]
                return _all_of(used, [*computed, *(a.expr for a in args)])
            case plan.Yield(exprs):
                return _all_of(used, exprs)
            case plan.Summarize(aggs, groups):
                inner = [e for _, agg in aggs for e in (agg.expr, agg.where) if e is not None]
                return _all_of(used, [*(expr for _, expr in groups), *inner])
            case _:
                return None
        if used is None:
            return None
    return None


def _all_of(used: tuple[plan.Path, ...] | None, exprs: Sequence[plan.Expr]) -> tuple[plan.Path, ...] | None:
    for expr in exprs:
        used = joined(used, paths_in(expr))
    return used


def paths_in(expr: plan.Expr) -> tuple[plan.Path, ...] | None:
    """The paths of `this` in an expression; None if it uses the whole value."""
    paths: list[plan.Path] = []
    for node in nodes(expr):
        if isinstance(node, plan.Subquery | plan.MapCall):
            return None
        if isinstance(node, plan.This):
            if not node.path:
                return None
            paths.append(node.path)
    return tuple(paths)


def joined(a: tuple[plan.Path, ...] | None, b: tuple[plan.Path, ...] | None) -> tuple[plan.Path, ...] | None:
    """Both sets of paths, without those that lie inside others."""
    if a is None or b is None:
        return None
    paths = sorted(set(a) | set(b))
    return tuple(p for p in paths if not any(p != q and p[: len(q)] == q for q in paths))
