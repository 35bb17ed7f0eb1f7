"""The scans of pools that joins bring together with the one that a sequence begins with."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from shoal.lang import plan


def joined_scans(ops: plan.Seq) -> Iterator[plan.PoolScan]:
    """The scans that sides of joins begin with, also of joins on these sides."""
    for op, following in pairwise(ops):
        if isinstance(op, plan.Fork) and isinstance(following, plan.Join):
            for leg in op.legs:
                if leg and isinstance(leg[0], plan.PoolScan):
                    yield leg[0]
                yield from joined_scans(leg)


def from_left_side(seq: plan.Seq) -> plan.Seq:
    """`from ( pool p | a pool q | b ) | join` as `from p | a | join ( from q | b )`, which is the same."""
    match seq:
        case (plan.Fork(((plan.PoolScan(), *_) as left, right)), plan.Join() as join, *rest):
            return (*left, plan.Fork(((plan.Pass(),), right)), join, *rest)
    return seq
