"""Where the reading of partitions starts: where the branch is, or, if it knows nothing yet, where the settings say."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

from shoal.connect.kafka.config import Begin, FromKafka, Input
from shoal.connect.kafka.connection import Connection
from shoal.connect.kafka.positions import UNREAD, Positions
from shoal.connect.kafka.targets import Place, recreated
from shoal.errors import InvalidInput
from shoal.model.node import frozen


@frozen
class Start:
    """Where a partition is read from."""

    offset: int
    begin: int
    """The branch has all before it, or is to do without."""
    topic_id: str = ""
    replaces: str = ""
    """The id of the topic that the branch has read, if this one stands in for it."""


def find_starts(
    connection: Connection, positions: Positions, places: Mapping[Place, Input], config: FromKafka
) -> dict[Place, Start]:
    """Where each of some partitions is read from; InvalidInput if records in between are lost."""
    ids = connection.topic_ids({topic for topic, _ in places})
    begins, ends = connection.ends(places, "begin"), connection.ends(places)
    known: dict[Place, int] = {}
    replaces: dict[str, str] = {}
    for topic, partition in places:
        position, ident = positions.topic(topic), ids.get(topic, "")
        if position.id not in ("", ident):
            if config.on_recreate != "restart":
                raise recreated(topic, position.id, ident)
            replaces[topic] = position.id
        elif position.of(partition) != UNREAD:
            known[topic, partition] = position.of(partition)
        elif any(offset != UNREAD for offset in position.next):
            known[topic, partition] = begins[topic, partition]  # a partition that was added
    firsts = _firsts(connection, {p: s for p, s in places.items() if p not in known}, begins, replaces)
    starts = {}
    for place in places:
        offset = known.get(place, firsts.get(place, 0))
        readable = _readable(place, offset, begins[place], ends[place], config)
        starts[place] = Start(readable, offset, ids.get(place[0], ""), replaces.get(place[0], ""))
    return starts


def _readable(place: Place, offset: int, begin: int, end: int, config: FromKafka) -> int:
    """The offset from which a partition can be read on."""
    if begin <= offset <= end:
        return offset
    if config.on_loss != "skip":
        topic, partition = place
        lost = (
            f"records from offset {offset} to {begin - 1} are gone (retention has deleted them)"
            if offset < begin
            else f"it ends at offset {end}, and the branch has read up to {offset} (it was truncated)"
        )
        raise InvalidInput(f"topic {topic!r}, partition {partition}: {lost} (go on without them with -on-loss skip)")
    return min(max(offset, begin), end)


def _firsts(
    connection: Connection, places: Mapping[Place, Input], begins: Mapping[Place, int], replaced: Mapping[str, str]
) -> dict[Place, int]:
    """Where partitions begin of which a branch knows nothing."""
    firsts: dict[Place, int] = {}
    by_time: dict[str | int, list[Place]] = defaultdict(list)
    for place, source in places.items():
        begin = Begin() if place[0] in replaced else source.begin
        if begin.offsets:
            firsts[place] = dict(begin.offsets).get(place, begins[place])
        elif begin.at == "begin":
            firsts[place] = begins[place]
        else:
            by_time[begin.at].append(place)
    for at, chosen in by_time.items():
        firsts |= connection.ends(chosen, at)
    return firsts
