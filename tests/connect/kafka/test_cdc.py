"""Change events of Debezium: pools equal their tables, at every commit of the source."""

from __future__ import annotations

import json
import random
import threading
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import hypothesis
import pytest
from hypothesis import given
from hypothesis import strategies as st

import shoal
from shoal.api.lake import Lake
from shoal.connect.etl.cdc import Cdc, commit_at, parse_cdc, parse_lsn
from shoal.connect.kafka.events import Event
from shoal.connect.settings import Section
from shoal.errors import InvalidInput
from shoal.testing.cdc_model import KEYS, Database, raw_rows

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


def test_several_transactions_can_be_one_commit() -> None:
    lake = new_lake()
    load_raw(lake, RECORDED)
    run(lake, batch={"transactions": 100})
    assert len(list(lake.pool("orders").log())) == 2  # the snapshot, and all that came after it
    assert list(rows(lake, "orders")) == [1, 2]


def test_pools_are_created_with_the_key_of_the_events() -> None:
    lake = new_lake({})
    load_raw(lake, RECORDED)
    run(lake, transform={"tables": {"public.orders": None, "public.customers": "people"}, "create": True})
    assert list(rows(lake, "orders")) == [1, 2]
    assert lake.pool("people").info().settings.primary == (("id",),)


def test_rows_can_go_into_another_branch() -> None:
    lake = new_lake()
    lake.pool("customers").create_branch("dev")
    load_raw(lake, RECORDED)
    run(lake, tables={"public.customers": "customers@dev"})
    assert rows(lake, "customers") == {}
    assert list(rows(lake, "customers", "dev")) == [1, 2]


# ---- generated transactions

POOLS = {table: table.partition(".")[2] for table in KEYS}


def keyed_lake() -> Lake:
    lake = shoal.create("memory://")
    lake.create("raw", key="seqno")
    for table, names in KEYS.items():
        lake.create(POOLS[table], key=names, primary=names)
    return lake


def table_at(lake: Lake, table: str, lsn: int) -> Any:
    """A table as it was at a place in the log of its source."""
    commit = commit_at(lake.pool(POOLS[table]), lsn)
    assert commit is not None, (table, lsn)
    read = lake.query(f"from {POOLS[table]}@{commit}").to_list()
    return {tuple(row[name] for name in KEYS[table]): row for row in read}


@hypothesis.settings(max_examples=hypothesis.settings().max_examples // 15)
@given(st.integers(0, 1 << 30), st.integers(1, 3), st.booleans())
def test_pools_equal_a_database_at_every_commit(seed: int, together: int, snapshots: bool) -> None:
    chance = random.Random(seed)
    database, lake = Database(chance), keyed_lake()
    database.run(6, crashes=True, snapshots=snapshots)
    raw = raw_rows(database.mixed())
    options: dict[str, Any] = {"tables": POOLS, "batch": {"transactions": together, "records": 40}}
    jobs = [job(lake, **options) for _ in range(2)]
    while raw:
        size = chance.choice([5, 20, 60])
        lake.pool("raw").load("\n".join(map(json.dumps, raw[:size])).encode(), format="ndjson")
        raw = raw[size:]
        each = chance.randrange(2)
        if chance.random() < 0.3:
            jobs[each] = job(lake, **options)  # the process before it was killed
        while jobs[each].round(lambda: chance.random() < 0.3) is not None:
            each = chance.randrange(2)  # both run
    for table in KEYS:
        for lsn, state in database.states.items():
            is_visible = lsn >= max(database.gaps, default=0) and (together == 1 or lsn == database.lsn)
            if is_visible:
                assert table_at(lake, table, lsn) == state[table], (table, lsn)


def test_two_jobs_that_apply_the_same_transaction_do_it_once() -> None:
    lake = new_lake()
    load_raw(lake, RECORDED[:-14])
    jobs = [job(lake) for _ in range(2)]
    for each in jobs:
        each.round()  # both know the snapshot, and gather the rest
    load_raw(lake, RECORDED[-14:], len(RECORDED) - 13)
    before = {pool: len(list(lake.pool(pool).log())) for pool in TABLES.values()}
    threads = [threading.Thread(target=each.run, args=(lambda: False,), kwargs={"once": True}) for each in jobs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    after = {pool: len(list(lake.pool(pool).log())) for pool in TABLES.values()}
    assert {pool: after[pool] - before[pool] for pool in before} == {"orders": 4, "customers": 4}
    assert list(rows(lake, "orders")) == [1, 2]


# ---- what goes wrong


def test_an_event_that_cannot_be_read_stops_the_job_or_is_set_aside() -> None:
    records = [*RECORDED[:8], ("shop.public.orders", 1, {"id": 9}, {"op": "z"}), *RECORDED[8:]]
    lake = new_lake()
    load_raw(lake, records)
    with pytest.raises(InvalidInput, match=r"^shop.public.orders, partition 0, offset 1: not a change event .*expire"):
        run(lake)
    assert rows(lake, "orders") == {}
    lake.create("expired", key="seqno")
    for _ in range(2):
        run(lake, expire={"pool": "expired"})
    assert [row["seqno"] for row in lake.query("from expired").to_list()] == [9]
    assert list(rows(lake, "orders")) == [1, 2]


def test_a_transaction_goes_on_without_an_event_that_was_set_aside() -> None:
    records = list(RECORDED)
    topic, offset, key, value = records[12]  # the insertion of order 6, in transaction 733
    records[12] = (topic, offset, key, {**value, "op": "?"})
    lake = new_lake()
    lake.create("expired", key="seqno")
    load_raw(lake, records)
    run(lake, expire={"pool": "expired"})
    at = commit_at(lake.pool("orders"), ENDS[733])
    assert list(rows(lake, "orders", at)) == [1, 2, 3, 4, 5, 7]
    assert list(rows(lake, "orders")) == [1, 2]


def test_keys_may_have_been_read_as_text() -> None:
    lake = new_lake()
    load_raw(lake, [(topic, offset, json.dumps(key), value) for topic, offset, key, value in RECORDED])
    run(lake)
    assert list(rows(lake, "orders")) == [1, 2]


def test_events_without_ends_of_transactions_are_reported() -> None:
    lake = new_lake()
    load_raw(lake, [record for record in RECORDED if "transaction" not in record[0]])
    events: list[Event] = []
    job(lake, events).run(lambda: False, once=True)
    assert [event.kind for event in events] == ["commit", "warning"]
    assert "sync shop.transaction, too" in events[1].facts["error"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"tables": {"orders": "orders"}}, r"'orders' has no schema \(such as public.orders\)"),
        ({"tables": {"public.a": "raw"}}, "raw@main is used twice"),
        ({"tables": {"public.a": "orders", "public.b": "orders"}}, "orders@main is used twice"),
        ({"tables": {}}, "tables is missing"),
        ({"cretae": True}, "no setting named 'cretae'"),
    ],
)
def test_settings_that_make_no_sense_are_errors(change: Any, message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        parse_cdc(settings(transform=change))


def test_a_pool_needs_the_key_of_its_table() -> None:
    lake = new_lake({})
    lake.create("plain", key="id")
    with pytest.raises(InvalidInput, match=r"plain: this pool has no primary key.*shoal create"):
        job(lake, tables={"public.orders": "plain"})
    lake.create("other", key="cust", primary="cust")
    load_raw(lake, RECORDED)
    with pytest.raises(InvalidInput, match=r"its primary key is cust, and that of public.orders is id \(create"):
        run(lake, tables={"public.orders": "other"})


def test_a_job_whose_history_was_cut_asks_where_to_go_on() -> None:
    lake = new_lake()
    load_raw(lake, RECORDED)
    run(lake)
    orders = lake.pool("orders")
    orders.load([{"id": 77}])
    orders.vacate(str(orders.resolve()))
    with pytest.raises(InvalidInput, match=r"its history ends before the last commit of the job shop \(say `after: "):
        run(lake)
    run(lake, transform={"after": len(RECORDED)})
    assert list(rows(lake, "orders")) == [1, 2, 77]


def test_places_in_the_log_are_read_as_postgres_writes_them() -> None:
    assert parse_lsn("0/192D7B0") == 26400688
    assert parse_lsn("26400688") == 26400688
    with pytest.raises(InvalidInput, match="not a place in the log"):
        parse_lsn("0/xyz")
