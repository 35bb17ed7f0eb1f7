"""An aggregation in two steps: partial results where the data lies, final ones where they come together."""

from __future__ import annotations

from shoal.lang import plan


def split_aggregates(op: plan.Summarize) -> tuple[plan.Summarize, plan.Summarize]:
    """The partial and the final half of a summarize.

    The partial half computes the keys; the final half finds them under the names they were given.
    """
    partial = plan.Summarize(op.aggs, op.keys, op.limit, op.partials_in, partials_out=True)
    keys = tuple((path, plan.This(path)) for path, _ in op.keys)
    aggs = tuple((path, plan.Agg(agg.name, plan.This(path))) for path, agg in op.aggs)
    return partial, plan.Summarize(aggs, keys, op.limit, partials_in=True, partials_out=op.partials_out)
