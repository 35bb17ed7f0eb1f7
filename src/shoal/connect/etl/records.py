"""The records that a job writes, as its output pools have them:

    {seqno:3, kafka:{topic:"order",offset:1}, value:{…}}   what a transform gives
    {seqno:2}(=cursor)                                     all raw records below are done
    {seqno:3,first:3}(=done)                               so are these, from `first` to `seqno`
    {seqno:3,name:"order",txn:10000}(=completed)           a transaction whose records would be late from now on

Each commit has a `done` record with the number of the last raw record that was read, if need be for a range of nothing,
whose `first` is greater. So records behind that number are of another process that has gone on: see `staging.py`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from shoal.connect.etl.config import DEFAULT_NAME
from shoal.connect.etl.places import Place
from shoal.connect.etl.seqnos import Run
from shoal.connect.etl.steps import Expired, Output
from shoal.connect.etl.values import part
from shoal.errors import CorruptData
from shoal.model import types as t
from shoal.model.fields import get_or
from shoal.model.fields import named as named_record
from shoal.model.node import frozen
from shoal.model.values import NULL, Value, array, int64, record, string

Topic = tuple[Place, str]
CURSOR, DONE, COMPLETED = "cursor", "done", "completed"
FIRST_OFFSET = 1


@frozen
class Progress:
    """How far a job has come, by its last commit."""

    read: int = 0
    """The number of the last raw record that it has read."""
    cursor: int = 0
    """All records below this are done."""
    time: int | None = None
    """The newest timestamp so far, as the clock has it."""


class Writer:
    """Makes the records of one job."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._own = () if name == DEFAULT_NAME else (("etl", string(name)),)
        self._types: dict[tuple[t.Type, t.Type | None], t.Type] = {}

    def condition(self, kind: str) -> str:
        """A condition: the records of this job of some kind."""
        whose = "missing(etl)" if not self._own else f"etl=={self._own[0][1]!r}"
        return f'nameof(this)=="{kind}" and {whose}'

    def outputs(self, outputs: Iterable[Output], offsets: dict[Topic, int]) -> dict[Place, list[Value]]:
        """What transforms gave, in the order of numbers; the next offsets of their topics are counted up."""
        pools: dict[Place, list[Value]] = {}
        for each in sorted(outputs, key=lambda output: output.seqno):
            topic = each.place, each.topic
            offset = offsets.setdefault(topic, FIRST_OFFSET)
            offsets[topic] = offset + 1
            pools.setdefault(each.place, []).append(self._output(each, offset))
        return pools

    def _output(self, each: Output, offset: int) -> Value:
        kinds = each.value.type, None if each.key is None else each.key.type
        typ = self._types.get(kinds)
        if typ is None:
            key = () if kinds[1] is None else (("key", kinds[1]),)
            kafka = t.record((("topic", t.STRING), ("offset", t.INT64), *key))
            typ = self._types[kinds] = t.record((("seqno", t.INT64), ("kafka", kafka), ("value", kinds[0])))
        about = (each.topic, offset) if each.key is None else (each.topic, offset, each.key.data)
        return Value(typ, (each.seqno, about, each.value.data))

    def cursor(self, number: int) -> Value:
        """Says that all records below a number are done."""
        return named_record(CURSOR, ("seqno", int64(number)), *self._own)

    def done(self, runs: Sequence[Run], read: int) -> list[Value]:
        """Says which records are done, and how far was read."""
        ends = runs if runs and runs[-1][1] == read else (*runs, (read + 1, read))
        return [named_record(DONE, ("seqno", int64(last)), ("first", int64(first)), *self._own) for first, last in ends]

    def completed(self, number: int, name: str, txn: Value) -> Value:
        """Says that a transaction is complete."""
        return named_record(COMPLETED, ("seqno", int64(number)), ("name", string(name)), ("txn", txn), *self._own)


def expired_record(expired: Expired, raw: Sequence[Value]) -> Value:
    """Records that were given up, as the pool of these has them."""
    fields = [("seqno", int64(expired.numbers[-1])), ("kafka", raw[0].field("kafka") or NULL)]
    fields += [("reason", string(expired.reason)), ("txn", expired.txn), ("records", array(raw))]
    return record(fields)


# ---- metadata of commits

_TOPIC = t.record((("pool", t.STRING), ("topic", t.STRING), ("next", t.INT64)))
_META = t.record(
    (
        (
            "etl",
            t.record(
                (
                    ("name", t.STRING),
                    ("cursor", t.INT64),
                    ("read", t.INT64),
                    ("time", t.TIME),
                    ("topics", t.array(_TOPIC)),
                )
            ),
        ),
    )
)


def format_meta(name: str, progress: Progress, offsets: dict[Topic, int]) -> Value:
    """The metadata of a commit."""
    topics = tuple((str(place), topic, offset) for (place, topic), offset in sorted(offsets.items(), key=_by_name))
    return Value(_META, ((name, progress.cursor, progress.read, progress.time, topics),))


def _by_name(item: tuple[Topic, int]) -> tuple[str, str]:
    (place, topic), _ = item
    return str(place), topic


def parse_meta(meta: Value, name: str) -> tuple[Progress, dict[tuple[str, str], int]] | None:
    """What a commit says of a job; None if it is not of that job."""
    if not isinstance(meta.type.under, t.Record) or meta.data is None or meta.field("etl") is None:
        return None
    if meta.type.under is not _META:
        raise CorruptData(
            f"metadata of an etl that cannot be read: {get_or(meta, 'etl', None)!r} (by a newer version?)"
        )
    ((whose, cursor, read, time, topics),) = meta.data
    return (Progress(read, cursor, time), {(pool, topic): n for pool, topic, n in topics}) if whose == name else None


def parse_run(value: Value) -> Run:
    """The range of a record that says what is done."""
    return part(value, "first").data, part(value, "seqno").data


def parse_completed(value: Value) -> tuple[int, str, Value]:
    """The number, transform and id of a completed transaction."""
    return part(value, "seqno").data, part(value, "name").data, part(value, "txn")
