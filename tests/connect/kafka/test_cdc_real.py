"""Tables of a real PostgreSQL, through Debezium and a broker, into pools that equal them at any place in the log."""

from __future__ import annotations

import hashlib
import json
import random
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

import shoal
from shoal.api.lake import Lake
from shoal.connect.etl.cdc import Cdc, commit_at, parse_cdc
from shoal.connect.kafka.config import parse_from_kafka
from shoal.connect.kafka.connection import Connection
from shoal.connect.kafka.decoders import open_decoder
from shoal.connect.kafka.from_kafka import Worker
from shoal.connect.settings import Section
from shoal.testing.kafka.broker import Broker
from shoal.testing.kafka.debezium import Capture, Debezium
from shoal.testing.kafka.postgres import Postgres

pytestmark = pytest.mark.inline
TABLES = ("orders", "customers", "lines")
SCHEMA = """
    create table orders (id int primary key, n int, price numeric(12, 2), at timestamptz, big text);
    alter table orders alter column big set storage external;
    create table customers (id bigint primary key, name text, born date);
    create table lines (ord int, line int, n int, primary key (ord, line));
    insert into orders values (0, 1, 1.50, '2020-01-02 03:04:05.678901Z', null), (1, 2, -7, null, 'small');
    insert into customers values (0, 'Ann', '1990-02-03');
    insert into lines values (0, 0, 1), (0, 1, 2), (1, 0, 3);
"""
COLUMNS = {
    "orders": "id, n, price::text, (extract(epoch from at) * 1000000)::bigint as at, md5(big) as big",
    "customers": "id, name, born::text",
    "lines": "ord, line, n",
}
ADDED = {"orders": ", vip", "customers": "", "lines": ""}
SAME = {
    "orders": "put price:=price==null ? null : string(price), at:=at==null ? null : int64(at)/1000",
    "customers": "put born:=born==null ? null : string(born)",
    "lines": "pass",
}
"""What makes records of pools comparable with rows of tables."""


@dataclass
class Source:
    """The database, and what its tables were at some places in the log."""

    postgres: Postgres
    database: str
    chance: random.Random
    columns: dict[str, str] = field(default_factory=lambda: dict(COLUMNS))
    states: dict[int, dict[str, Any]] = field(default_factory=dict)

    def transact(self, transactions: int) -> None:
        """Two clients make transactions at the same time, of rows of their own."""
        scripts = [self._script(transactions // 2, first) for first in (0, 50)]
        threads = [threading.Thread(target=self.postgres.execute, args=(each, self.database)) for each in scripts]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def _script(self, transactions: int, first: int) -> str:
        pieces = []
        for _ in range(transactions):
            changes = " ".join(self._change(first) for _ in range(self.chance.choice([1, 1, 2, 5])))
            pieces.append(f"begin; {changes} {'rollback' if self.chance.random() < 0.15 else 'commit'};")
        return "\n".join(pieces)

    def _change(self, first: int) -> str:
        key, other, n = (self.chance.randint(first, first + 20) for _ in range(3))
        big = self.chance.choice(
            ["null", "'small'", "(select string_agg(md5(random()::text), '') from generate_series(1, 99))"]
        )
        return self.chance.choice([
            f"insert into orders values ({key}, {n}, {n}.25, now(), {big}) on conflict do nothing;",
            f"insert into orders values ({key}, {n}, {n}.25, now(), {big}) on conflict do nothing;",
            f"update orders set n = {n} where id = {key};",
            f"update orders set n = {n}, big = {big} where id = {key};",
            f"delete from orders where id = {key};",
            f"update orders set id = {other} where id = {key} and not exists (select from orders where id = {other});",
            (f"insert into customers values ({key}, 'name {n}', '2001-01-01'::date + {n}) "
             "on conflict (id) do update set name = excluded.name;"),
            f"delete from customers where id = {key};",
            f"insert into lines select {key}, g, {n} from generate_series(1, 3) g on conflict do nothing;",
            f"update lines set n = n + 1 where ord between {key} and {key + 3} and ord < {first + 30};",
            f"delete from lines where ord = {key} and line = {n % 4};",
        ])  # fmt: skip

    def add_column(self) -> None:
        self.postgres.execute("alter table orders add column vip boolean", self.database)
        self.columns["orders"] += ", vip"

    def note(self) -> None:
        """Remember the tables as they are. Nobody changes them meanwhile."""
        queries = ["select pg_current_wal_lsn() - '0/0'"]
        for table in TABLES:
            queries.append(
                f"select coalesce(jsonb_agg(to_jsonb(t)), '[]') from (select {self.columns[table]} from {table}) t"
            )
        lsn, *tables = (row[0] for row in self.postgres.execute("; ".join(queries), self.database))
        self.states[int(lsn)] = {name: _keyed(json.loads(text)) for name, text in zip(TABLES, tables, strict=True)}


def _keyed(rows: Any) -> dict[str, Any]:
    """Rows without nulls, which a row from before a column was added does not have, by themselves as text."""
    plain = [{name: item for name, item in row.items() if item is not None} for row in rows]
    return {json.dumps(row, sort_keys=True): row for row in plain}


@dataclass
class Pipeline:
    """From topics into a raw pool, and from there into pools of tables."""

    lake: Lake
    broker: Broker
    capture: Capture
    seconds: float = 0.0
    """Spent in applying transactions."""
    transactions: int = 0

    def run(self, **others: Any) -> None:
        topics = [*map(self.capture.topic, TABLES), self.capture.transactions]
        source = {"topics": topics, "pool": "raw", "key": "debezium", "value": "debezium"}
        config = parse_from_kafka(Section("test", {"from-kafka": {"inputs": [source]}}))
        kafka = Connection({"bootstrap.servers": self.broker.bootstrap})
        Worker(self.lake, kafka, config, open_decoder, share=(0, 1)).run(_deadline(120), once=True)
        transform = {"type": "cdc", "source": self.capture.name, "create": True}
        transform["tables"] = {f"public.{table}": table for table in TABLES}
        section = Section("test", {"etl": {"input": "raw", "transforms": [transform], **others}})
        job, start = Cdc(self.lake, parse_cdc(section)), time.monotonic()
        while (done := job.round()) is not None:
            self.transactions += done.transactions
            assert done.pending == 0
        self.seconds += time.monotonic() - start

    def table(self, table: str, lsn: int) -> Any:
        commit = commit_at(self.lake.pool(table), lsn)
        assert commit is not None, (table, lsn)
        rows = self.lake.query(f"from {table}@{commit} | {SAME[table]}").to_list()
        if table == "orders":
            for row in rows:
                big = row.get("big")
                row["big"] = None if big is None else _md5(big)
        return _keyed(rows)


def _md5(text: str) -> str:
    return hashlib.md5(text.encode(), usedforsecurity=False).hexdigest()


def _deadline(seconds: float) -> Any:
    until = time.monotonic() + seconds
    return lambda: time.monotonic() > until


def follow(
    debezium: Debezium, database: str, folder: Path, transactions: int, seed: int, *, kills: int = 0
) -> Pipeline:
    """Make transactions in ten pieces, and require that pools had what tables had after each of them."""
    source = Source(debezium.postgres, database, random.Random(seed))
    source.postgres.execute(SCHEMA, database)
    lake = shoal.create(str(folder / "lake"))
    lake.create("raw", key="seqno")
    with debezium.capturing(database, TABLES, with_schemas=True, tombstones_on_delete="true") as capture:
        pipeline = Pipeline(lake, debezium.broker, capture)
        source.note()
        for piece in range(10):
            if piece == 5:
                source.add_column()
            source.transact(transactions // 10)
            source.note()
            if kills and piece % 4 == 3:
                debezium.kill()
                source.transact(20)
                debezium.restart()
            if piece % 3 == 2:
                capture.settle()
                pipeline.run()
        capture.settle()
        pipeline.run()
    for lsn, tables in source.states.items():
        if lsn >= max(_snapshots(lake)):
            for table, rows in tables.items():
                assert pipeline.table(table, lsn) == rows, (table, lsn)
    return pipeline


def _snapshots(lake: Lake) -> Iterator[int]:
    """Where snapshots were taken: what came between the last one and a crash before it need not be visible."""
    rows = lake.query('from raw | value.op=="r" | lsn:=value.source.lsn | sort lsn | yield lsn')
    lsns = sorted({value.data for value in rows})
    yield from lsns[1:] or [0]


@pytest.mark.timeout(300)
def test_pools_equal_tables_at_places_in_the_log(debezium: Debezium, database: str, tmp_path: Path) -> None:
    pipeline = follow(debezium, database, tmp_path, 60, 1)
    assert pipeline.transactions > 30


@pytest.mark.long
@pytest.mark.timeout(900)
def test_debezium_that_is_killed_changes_nothing(debezium: Debezium, database: str, tmp_path: Path) -> None:
    follow(debezium, database, tmp_path, 100, 2, kills=2)


@pytest.mark.long
@pytest.mark.timeout(7200)
def test_ten_thousand_transactions(debezium: Debezium, database: str, tmp_path: Path) -> None:
    pipeline = follow(debezium, database, tmp_path, 10_000, 3)
    assert pipeline.transactions > 5000
    print(f"{pipeline.transactions / pipeline.seconds:.0f} transactions/s")
