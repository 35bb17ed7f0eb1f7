"""Filters that follow each other become one."""

from __future__ import annotations

from shoal.lang import plan
from shoal.lang.walk import has_aggregate, rewrite_sequences


def join_filters(program: plan.Program) -> plan.Program:
    """`where a | where b` becomes `where a and b`."""

    def join(seq: plan.Seq) -> plan.Seq:
        out: list[plan.Op] = []
        for op in seq:
            last = out[-1] if out else None
            if isinstance(op, plan.Filter) and isinstance(last, plan.Filter) and _is_plain(op, last, program):
                out[-1] = plan.Filter(plan.Binary("and", last.expr, op.expr))
            else:
                out.append(op)
        return tuple(out)

    return rewrite_sequences(program, join)


def _is_plain(a: plan.Filter, b: plan.Filter, program: plan.Program) -> bool:
    """Whether neither filter counts what it sees."""
    return not has_aggregate(a.expr, program.funcs) and not has_aggregate(b.expr, program.funcs)
