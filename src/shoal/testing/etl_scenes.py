"""An ETL job on a lake, whose raw records are loaded by hand instead of from Kafka."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

from shoal.api.lake import Lake
from shoal.connect.etl import Done, Etl, EtlConfig, parse_etl
from shoal.connect.settings import Section

WHOLE: dict[str, Any] = {
    "type": "transaction",
    "id": "value.txn",
    "done": "or(value.done)",
    "zed": "yield {txn,seqno,n:len(records)}",
    "out": "whole",
}
"""A transform that counts the records of transactions."""
EXPIRE = {"after": "10m", "records": 100, "pool": "expired"}


class Scene:
    """A raw pool, pools for what comes of it, and jobs that read it."""

    def __init__(self, lake: Lake) -> None:
        self.lake = lake
        self.raw = lake.create("raw", key="seqno:asc")
        for name in ("staging", "other", "expired"):
            lake.create(name, key="seqno:desc")
        self.number = 0

    def add(self, *records: tuple[str, Any], at: int | None = None) -> None:
        """Load records, each a topic and a value, with the next numbers. `at` is their time in seconds."""
        self.raw.load([self._fields(topic, value, at) for topic, value in records])

    def _fields(self, topic: str, value: Any, at: int | None) -> dict[str, Any]:
        self.number += 1
        kafka: dict[str, Any] = {"topic": topic, "partition": 0, "offset": self.number}
        if at is not None:
            kafka["timestamp"] = datetime.fromtimestamp(at, UTC)
        return {"seqno": self.number, "kafka": kafka, "value": value}

    def config(self, *transforms: dict[str, Any], **settings: Any) -> EtlConfig:
        """A job with some transforms."""
        section = {"input": "raw", "output": "staging", "transforms": list(transforms), **settings}
        return parse_etl(Section("etl.yaml", {"etl": section}))

    def etl(self, *transforms: dict[str, Any], engine: str | None = None, **settings: Any) -> Etl:
        """A job in a process that has just begun."""
        return Etl(self.lake, self.config(*transforms, **settings), engine=engine)

    def rows(self, where: str = "has(kafka.offset)", pool: str = "staging") -> list[str]:
        """Records of a pool as ZSON, in order of their numbers; the results, if nothing else is asked for."""
        return self.lake.query(f"from {pool} | {where} | sort seqno,kafka.offset").to_zson().splitlines()

    def values(self, pool: str = "staging", topic: str | None = None) -> list[Any]:
        """The values of the results, in order of their offsets."""
        which = "has(kafka.offset)" if topic is None else f'kafka.topic=="{topic}"'
        return self.lake.query(f"from {pool} | {which} | sort kafka.offset | yield value").to_list()


def rounds(etl: Etl) -> Iterator[Done]:
    """The rounds of a job, until there is nothing new."""
    while (done := etl.round()) is not None:
        yield done


def finish(etl: Etl) -> Done | None:
    """Go on until there is nothing new; the last round."""
    last = list(rounds(etl))[-1:]
    return last[0] if last else None
