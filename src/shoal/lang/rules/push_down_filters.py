"""A filter right after a scan becomes part of the scan, which may know how to skip what it drops."""

from __future__ import annotations

import dataclasses

from shoal.lang import plan
from shoal.lang.walk import has_aggregate, rewrite_sequences


def push_down_filters(program: plan.Program) -> plan.Program:
    """`from p | where x` becomes a scan of p that keeps x."""

    def push(seq: plan.Seq) -> plan.Seq:
        if len(seq) < 2 or not isinstance(seq[1], plan.Filter) or has_aggregate(seq[1].expr, program.funcs):
            return seq
        match seq[0]:
            case plan.DefaultScan() | plan.FileScan() | plan.HttpScan() | plan.PoolScan() as scan:
                return (dataclasses.replace(scan, filter=seq[1].expr), *seq[2:])
            case plan.MetaScan(tap=True) as scan:
                return (dataclasses.replace(scan, filter=seq[1].expr), *seq[2:])
        return seq

    return rewrite_sequences(program, push)
