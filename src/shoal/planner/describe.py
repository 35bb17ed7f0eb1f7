"""What can be said of the results of a query before it is run: where they come from, and how they are arranged."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from shoal.access.view import Pools
from shoal.api.infos import Channel, Description, ReadPool
from shoal.lang import ast, plan
from shoal.lang.parser import parse_source
from shoal.lang.source import Part, Source
from shoal.lang.walk import nodes
from shoal.planner.execute import Question, compile_question

_MAIN = "main"
"""Operators that change neither the order of values nor the fields that it is by."""


def describe(lake: Pools, question: Question) -> Description:
    """What a query reads, and what comes out."""
    program = compile_question(lake, question)
    is_inferred = question.head is not None and not _has_source(question.program)
    pools = dict.fromkeys(node.pool for node in nodes(program.body) if isinstance(node, plan.PoolScan))
    handles = [lake.pool(name) for name in pools]
    shown = tuple(ReadPool(pool.config.name, pool.prefix, is_inferred) for pool in handles)
    combined: dict[str, Channel] = {}
    for channel, _ in _follow(program.body, Channel(_MAIN, None, None)):
        other = combined.get(channel.name)
        # Streams that meet in one channel come in no order.
        combined[channel.name] = channel if other is None else replace(channel, order=None)
    return Description(shown, tuple(combined.values()))


def _has_source(text: str) -> bool:
    tree = parse_source(Source([Part("", text)]))
    return any(isinstance(node, ast.From | ast.File | ast.Get | ast.Pool) for node in nodes(tree))


_End = tuple[Channel, bool]
"""A channel, and whether it has come to the end of the operators without an `output`: it meets others like it."""


def _follow(ops: plan.Seq, before: Channel) -> Iterator[_End]:
    """The channels in which a sequence of operators ends."""
    at = before
    for index, op in enumerate(ops):
        match op:
            case plan.Fork(legs):
                ends = [each for leg in legs for each in _follow(leg, at)]
                yield from _after_legs(ends, ops[index + 1 :], all(_begins_with_scan(leg) for leg in legs))
                return
            case plan.Switch(_, cases):
                ends = [each for case in cases for each in _follow(case.body, at)]
                yield from _after_legs(ends, ops[index + 1 :], False)
                return
            case plan.Output(name):
                yield replace(at, name=name), False
                return
        at = _after(op, at)
    yield at, True


def _after_legs(ends: list[_End], rest: plan.Seq, are_sources: bool) -> Iterator[_End]:
    """What is left open by legs meets again; what ended in a channel of its own stays there."""
    yield from (end for end in ends if not end[1])
    left = [channel for channel, is_open in ends if is_open]
    if left:
        is_sorted = len(left) == 1 or (are_sources and len({each.order for each in left}) == 1)
        met = left[0] if len(left) == 1 else Channel(_MAIN, None, left[0].order if is_sorted else None)
        yield from _follow(rest, met)


def _begins_with_scan(leg: plan.Seq) -> bool:
    return bool(leg) and isinstance(leg[0], plan.PoolScan)


def _after(op: plan.Op, at: Channel) -> Channel:
    """A channel after one more operator."""
    match op:
        case plan.PoolScan(order=order):
            return replace(at, order=_paths(order), keys=None)
        case plan.Summarize(keys=keys):
            return replace(at, keys=tuple(path for path, _ in keys), order=None)
        case plan.Sort(keys, reverse) | plan.TopK(sort=plan.Sort(keys, reverse)):
            return replace(at, order=None if reverse else _paths(keys))
        case plan.Yield((plan.This((_,)),)) if at.keys == ():
            return at  # a lone aggregate comes out as a value
        case plan.Put(args) if at.order is not None:
            changed = [arg.target.path[:1] for arg in args if isinstance(arg.target, plan.This)]
            stays = len(changed) == len(args) and all(path[:1] not in changed for _, path in at.order)
            return at if stays else replace(at, order=None)
    return at if op.traits.keeps_values else replace(at, order=None, keys=None)


def _paths(keys: tuple[plan.SortKey, ...]) -> tuple[tuple[str, plan.Path], ...] | None:
    paths = tuple((key.order, key.expr.path) for key in keys if isinstance(key.expr, plan.This))
    return paths if paths and len(paths) == len(keys) else None
