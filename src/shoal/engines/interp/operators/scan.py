"""Scans: where values come in. On demand, what was read and what was kept is counted."""

from __future__ import annotations

from collections.abc import Iterator

from shoal.api.options import Statistics
from shoal.engines.interp.environment import Env
from shoal.engines.interp.expressions.calls import Stream
from shoal.lang import plan
from shoal.model.values import Value
from shoal.model.zcode import encode


def default_scan(keep: Stream) -> Stream:
    """The query's own input, through the filter that was pushed down to it."""
    return lambda values, env: measured(values, keep, env)


def opened_scan(scan: plan.Scan, keep: Stream) -> Stream:
    """A source that the program names, through the filter that was pushed down to it."""
    return lambda values, env: measured(env.run.open_scan(scan), keep, env)


def physical_scan(scan: plan.Physical) -> Stream:
    """The output of another engine, which counts what it reads by itself."""
    return lambda values, env: env.run.stop.checked(env.run.open_scan(scan))


def measured(values: Iterator[Value], keep: Stream, env: Env) -> Iterator[Value]:
    """What the filter keeps of values; both sides of it are counted if the run wants to know."""
    values = env.run.stop.checked(values)
    if not env.run.measure:
        return keep(values, env)
    return _matched(keep(_read(values, env.run.statistics), env), env.run.statistics)


def _read(values: Iterator[Value], statistics: Statistics) -> Iterator[Value]:
    for value in values:
        statistics.records_read += 1
        statistics.bytes_read += len(encode(value.type, value.data) or b"")
        yield value


def _matched(values: Iterator[Value], statistics: Statistics) -> Iterator[Value]:
    for value in values:
        statistics.records_matched += 1
        statistics.bytes_matched += len(encode(value.type, value.data) or b"")
        yield value
