"""The legs of a fork or switch over a scan, each as a sequence of its own that scans for itself."""

from __future__ import annotations

import dataclasses

from shoal.lang import plan
from shoal.lang.walk import has_aggregate
from shoal.model.values import FALSE

_NOTHING: plan.Seq = (plan.Filter(plan.Literal(FALSE)),)


def part_legs(
    scan: plan.PoolScan, ops: plan.Seq, funcs: tuple[plan.Func, ...]
) -> tuple[tuple[plan.Seq, ...], plan.Seq] | None:
    """`from p | where x | fork (=> a => b) | c` as the sequences `from p | where x | a` and `from p | where x | b`,
    and what follows them: `c`. None if there is no fork or switch, or more than rows one by one before it.
    """
    place = next((i for i, op in enumerate(ops) if not op.traits.is_row_wise), len(ops))
    if place == len(ops):
        return None
    split, before = ops[place], ops[:place]
    if not isinstance(split, plan.Fork | plan.Switch):
        return None
    return tuple(_pushed(scan, (*before, *leg), funcs) for leg in legs_of(split)), ops[place + 1 :]


def legs_of(split: plan.Fork | plan.Switch) -> tuple[plan.Seq, ...]:
    """What each leg does with all that comes to a fork or switch."""
    if isinstance(split, plan.Fork):
        return split.legs
    return tuple((_only(split, i), *case.body) for i, case in enumerate(split.cases))


def _only(switch: plan.Switch, wanted: int) -> plan.Switch:
    """A switch that lets pass what comes to one of its cases."""
    bodies = [(plan.Pass(),) if i == wanted else _NOTHING for i in range(len(switch.cases))]
    cases = (plan.Case(case.expr, body) for case, body in zip(switch.cases, bodies, strict=True))
    return plan.Switch(switch.expr, tuple(cases))


def _pushed(scan: plan.PoolScan, ops: plan.Seq, funcs: tuple[plan.Func, ...]) -> plan.Seq:
    """A scan and what follows it; the filters right after it are part of it."""
    for place, op in enumerate(ops):
        if not isinstance(op, plan.Filter) or has_aggregate(op.expr, funcs):
            return (scan, *ops[place:])
        both = op.expr if scan.filter is None else plan.Binary("and", scan.filter, op.expr)
        scan = dataclasses.replace(scan, filter=both)
    return (scan,)
