"""How far a sync is: for each partition where the branch is, where the topic ends, and what is missing."""

from __future__ import annotations

import time
from collections.abc import Iterator
from itertools import islice

from shoal.api.infos import CommitInfo
from shoal.api.lake import Lake
from shoal.connect.kafka.config import FromKafka, Input
from shoal.connect.kafka.connection import Connection
from shoal.connect.kafka.positions import UNREAD, Positions, parse_positions, read_positions
from shoal.model import types as t
from shoal.model.fields import time_value
from shoal.model.node import frozen
from shoal.model.values import NULL, Value, int64, record, string

_RECENT = 20
"""Commits by which the rate is judged."""
_SECOND = 10**9


@frozen
class Pace:
    """How fast a branch has grown lately."""

    rate: float | None
    """Records in a second, over the last commits; None if there are too few."""
    last: int | None
    """When the last commit was made, in nanoseconds since 1970."""


def status(lake: Lake, connection: Connection, config: FromKafka) -> Iterator[Value]:
    """A record for each partition, by pool, topic and partition."""
    there = connection.partitions()
    for (pool, branch), sources in _by_branch(config).items():
        target = lake.pool(pool).branch(branch)
        positions, pace = read_positions(target).positions, _pace(target.log())
        places = [
            (topic, number)
            for topic in sorted(there)
            for number in range(there[topic])
            if any(source.takes(topic) for source in sources)
        ]
        ends = connection.ends(places)
        begins = connection.ends(places, "begin")
        for place in places:
            yield _row(f"{pool}@{branch}", place, positions, begins[place], ends[place], pace)


def _by_branch(config: FromKafka) -> dict[tuple[str, str], list[Input]]:
    grouped: dict[tuple[str, str], list[Input]] = {}
    for each in config.inputs:
        grouped.setdefault((each.pool, each.branch), []).append(each)
    return grouped


def _row(name: str, place: tuple[str, int], positions: Positions, begin: int, end: int, pace: Pace) -> Value:
    position = positions.topic(place[0]).of(place[1])
    lag = end - max(begin, position if position != UNREAD else begin)
    return record([
        ("pool", string(name)),
        ("topic", string(place[0])),
        ("partition", int64(place[1])),
        ("next", NULL if position == UNREAD else int64(position)),
        ("end", int64(end)),
        ("lag", int64(max(0, lag))),
        ("rate", Value(t.FLOAT64, pace.rate)),
        ("last_commit", Value(t.TIME, None) if pace.last is None else time_value(pace.last)),
        ("bad", int64(positions.bad)),
    ])  # fmt: skip


def _pace(log: Iterator[CommitInfo]) -> Pace:
    """How fast a branch grows, by its last commits of a sync."""
    points: list[tuple[int, int]] = []
    for commit in islice(log, 10 * _RECENT):
        positions = parse_positions(commit.meta)
        if positions is not None:
            points.append((commit.ts, positions.seqno))
        if len(points) == _RECENT:
            break
    if not points:
        return Pace(None, None)
    (last, most), (first, least) = points[0], points[-1]
    now = max(last, time.time_ns()) if last - first < _SECOND else last
    rate = (most - least) * _SECOND / max(1, now - first)
    return Pace(round(rate, 1) if len(points) > 1 else None, last)
