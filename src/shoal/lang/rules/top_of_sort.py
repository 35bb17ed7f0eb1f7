"""`sort | head n` needs to hold n values, not all of them."""

from __future__ import annotations

from shoal.lang import plan
from shoal.lang.walk import rewrite_sequences

MOST_HELD = 100_000
"""Above this, sorting everything, on disk if need be, is the safer way."""


def top_of_sort(program: plan.Program) -> plan.Program:
    """`sort k | head 10` becomes one operator that keeps ten."""

    def join(seq: plan.Seq) -> plan.Seq:
        out: list[plan.Op] = []
        for op in seq:
            last = out[-1] if out else None
            if isinstance(op, plan.Head) and isinstance(last, plan.Sort) and op.count <= MOST_HELD:
                out[-1] = plan.TopK(op.count, last)
            else:
                out.append(op)
        return tuple(out)

    return rewrite_sequences(program, join)
