"""Change events of Debezium: pools equal their tables, at every commit of the source."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import shoal
from shoal.api.lake import Lake
from shoal.connect.etl.cdc import Cdc, commit_at, parse_cdc
from shoal.connect.kafka.events import Event
from shoal.connect.settings import Section

Record = tuple[str, int, Any, Any]
"""Topic, offset, key and value."""
RECORDED: list[Record] = [
    tuple(json.loads(line)) for line in Path(__file__).with_name("debezium-events.jsonl").read_text().splitlines()
]
TABLES = {"public.orders": "orders", "public.customers": "customers"}


def new_lake(tables: Mapping[str, str] = TABLES) -> Lake:
    lake = shoal.create("memory://")
    lake.create("raw", key="seqno")
    for pool in tables.values():
        lake.create(pool, key="id", primary="id")
    return lake


def load_raw(lake: Lake, records: Iterable[Record], first: int = 1) -> None:
    rows = [
        {"seqno": first + n, "kafka": {"topic": topic, "partition": 0, "offset": offset, "key": key}, "value": value}
        for n, (topic, offset, key, value) in enumerate(records)
    ]
    lake.pool("raw").load("\n".join(map(json.dumps, rows)).encode(), format="ndjson")


def settings(tables: Mapping[str, str] = TABLES, **others: Any) -> Section:
    transform = {"type": "cdc", "source": "shop", "tables": dict(tables)} | others.pop("transform", {})
    return Section("test", {"etl": {"name": "shop", "input": "raw", "transforms": [transform], **others}})


def job(lake: Lake, events: list[Event] | None = None, **others: Any) -> Cdc:
    return Cdc(lake, parse_cdc(settings(**others)), (events if events is not None else []).append)


def run(lake: Lake, **others: Any) -> None:
    job(lake, **others).run(lambda: False, once=True)


def rows(lake: Lake, pool: str, at: str | None = None) -> dict[int, Any]:
    source = pool if at is None else f"{pool}@{at}"
    return {row["id"]: row for row in lake.query(f"from {source} | sort id").to_list()}


# ---- events that were recorded

ENDS = {733: 26401456, 734: 26401912, 736: 26403072, 738: 26405528, 739: 26406024}


def test_recorded_events_give_the_tables_that_they_came_from() -> None:
    lake = new_lake()
    load_raw(lake, RECORDED)
    run(lake)
    assert rows(lake, "customers") == {
        1: {"id": 1, "name": "Ann", "email": "a@x", "vip": True},
        2: {"id": 2, "name": "Bob", "email": "b@x"},
    }
    assert {key: row["st"] for key, row in rows(lake, "orders").items()} == {1: "paid", 2: "paid"}


def test_each_commit_of_the_source_is_a_commit_of_its_pools() -> None:
    lake = new_lake()
    load_raw(lake, RECORDED)
    run(lake)
    states = {
        lsn: {pool: commit_at(lake.pool(pool), lsn) for pool in TABLES.values()} for lsn in (26400232, *ENDS.values())
    }
    orders = [{key: row["st"] for key, row in rows(lake, "orders", at["orders"]).items()} for at in states.values()]
    new, paid = "new", "paid"
    assert orders == [
        {1: new, 2: new},
        dict.fromkeys(range(1, 8), new),
        {1: paid, 2: paid, 3: paid, 4: new, 5: new, 6: new, 7: new},
        {1: paid, 2: paid, 3: paid, 5: new, 6: new, 7: new},
        {1: paid, 2: paid, 3: paid, 5: new, 6: new, 7: new},
        {1: paid, 2: paid},
    ]
    assert [list(rows(lake, "customers", at["customers"])) for at in states.values()] == [
        [1, 2], [1, 2, 3], [1, 2, 3], [1, 2, 3], [1, 2, 3], [1, 2],
    ]  # fmt: skip
    assert commit_at(lake.pool("orders"), 26400231) is None
