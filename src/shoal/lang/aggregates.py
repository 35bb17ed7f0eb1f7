"""The aggregate functions by name, and what each asks of its call. Engines bring the code for each name."""

from __future__ import annotations

from typing import NamedTuple

from shoal.lang import plan


class Signature(NamedTuple):
    """How an aggregate is called."""

    name: str
    needs_argument: bool = True


AGGREGATES: dict[str, Signature] = {
    signature.name: signature
    for signature in (
        Signature("and"),
        Signature("any"),
        Signature("avg"),
        Signature("collect"),
        Signature("collect_map"),
        Signature("count", needs_argument=False),
        Signature("dcount"),
        Signature("fuse"),
        Signature("max"),
        Signature("min"),
        Signature("or"),
        Signature("sum"),
        Signature("union"),
    )
}


def is_aggregate(name: str) -> bool:
    """Whether an aggregate has this name."""
    return name in AGGREGATES


def split_aggregates(op: plan.Summarize) -> tuple[plan.Summarize, plan.Summarize]:
    """The partial half of a summarize, for each share of the data, and the final half, for all partial results.

    The partial half computes the keys; the final half reads them as fields.
    """
    partial = plan.Summarize(op.aggs, op.keys, op.limit, op.partials_in, partials_out=True)
    keys = tuple((path, plan.This(path)) for path, _ in op.keys)
    aggs = tuple((path, plan.Agg(agg.name, plan.This(path))) for path, agg in op.aggs)
    return partial, plan.Summarize(aggs, keys, op.limit, partials_in=True, partials_out=op.partials_out)
