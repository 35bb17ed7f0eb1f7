"""A database in memory whose changes Debezium would turn into events: what these have to give is known.

Transactions overlap in the log, and are sent one after the other, in the order of their commits. Each topic keeps its
order; how topics mix is up to the reader. A crash sends some records once more, or begins with a snapshot again; then
what happened meanwhile is never sent.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import islice
from operator import length_hint
from typing import Any

Row = dict[str, Any]
Table = dict[tuple[int, ...], Row]
Record = tuple[str, Any, Any]
"""Topic, key and value."""
SOURCE = "shop"
KEYS = {"public.orders": ("id",), "public.customers": ("id",), "public.lines": ("order", "line")}
UNAVAILABLE = "__debezium_unavailable_value"
_STEP = 1000
"""Between the ends of two transactions, in the log."""


@dataclass
class Database:
    """Some tables, what they were after each transaction, and the records that Debezium sent."""

    chance: random.Random
    tables: dict[str, Table] = field(default_factory=lambda: {table: {} for table in KEYS})
    states: dict[int, dict[str, Table]] = field(default_factory=dict)
    """By the place in the log of the commit."""
    transactions: list[list[Record]] = field(default_factory=list)
    sent: list[Record] = field(default_factory=list)
    has_markers: bool = True
    truncates: bool = True
    partitions: int = 1
    """Of the topic of each table; a row is in that of its key."""
    gaps: list[int] = field(default_factory=list)
    """The places of snapshots that were repeated: what was before them need not be visible."""

    def __post_init__(self) -> None:
        for table, names in KEYS.items():
            for number in range(self.chance.randint(1, 3)):
                key = (number,) * len(names)
                self.tables[table][key] = self._row(names, key)
        self.states[self.lsn] = self._copy()

    @property
    def lsn(self) -> int:
        """The end of the last transaction."""
        return _STEP * (len(self.transactions) + 10)

    def _copy(self) -> dict[str, Table]:
        return {table: dict(rows) for table, rows in self.tables.items()}

    def _row(self, names: Sequence[str], key: tuple[int, ...]) -> Row:
        row: Row = dict(zip(names, key, strict=True))
        row["n"], row["big"] = self.chance.randint(0, 9), f"big {self.chance.randint(0, 9)}"
        if len(self.transactions) > 4:
            row["added"] = self.chance.choice([None, True])
        return row

    # ---- what happens

    def transact(self) -> None:
        """Make a transaction."""
        number, before = len(self.transactions), self.lsn
        lsn = before - _STEP * self.chance.randint(0, 2) + 1 + number % 7
        records: list[Record] = []
        counts: dict[str, int] = {}
        for _ in range(self.chance.choice([0, 1, 1, 2, 4, 6])):
            table = self.chance.choice(list(KEYS))
            lsn += 10
            for op, key, old, after in self._change(table):
                counts[table] = counts.get(table, 0) + 1
                place = number, lsn, before if number else None, sum(counts.values())
                records.append(self._event(table, op, key, old, after, place))
                if op == "d":
                    records.append((records[-1][0], records[-1][1], None))
        self.transactions.append(self._marked(number, records, counts))
        self.states[self.lsn] = self._copy()

    def _change(self, table: str) -> list[tuple[str, tuple[int, ...], Row | None, Row | None]]:
        """Change a row. The first one always stays, so that a snapshot has one."""
        names, rows = KEYS[table], self.tables[table]
        key = tuple(self.chance.randint(1, 5) for _ in names)
        action = self.chance.random()
        if self.truncates and action < 0.03:
            first = self._row(names, (0,) * len(names))
            self.tables[table] = {(0,) * len(names): first}
            return [("t", (), None, None), ("c", (0,) * len(names), None, first)]
        if key not in rows:
            rows[key] = self._row(names, key)
            return [("c", key, None, rows[key])]
        old = rows[key]
        if action < 0.3:
            del rows[key]
            return [("d", key, old, None)]
        row = self._row(names, key)
        hidden = dict(row)
        if action < 0.6:
            row["big"], hidden["big"] = old["big"], UNAVAILABLE
        if action > 0.85:
            moved = tuple(self.chance.randint(1, 5) for _ in names)
            if moved not in rows:
                del rows[key]
                rows[moved] = {**old, **dict(zip(names, moved, strict=True))}
                sent = {**rows[moved], "big": UNAVAILABLE} if self.has_markers else rows[moved]
                return [("d", key, old, None), ("c", moved, None, sent)]
        rows[key] = row
        return [("u", key, None, hidden)]

    # ---- what Debezium sends

    def _event(
        self, table: str, op: str, key: tuple[int, ...], old: Row | None, after: Row | None,
        place: tuple[int, int, int | None, int],
    ) -> Record:  # fmt: skip
        number, lsn, last, order = place
        names = KEYS[table]
        before = None if old is None else {name: old[name] if name in names else None for name in old}
        value = self._envelope(table, op, before, after, lsn, "false")
        value["source"] |= {"txId": 700 + number, "sequence": json.dumps([last and str(last), str(lsn)])}
        if self.has_markers:
            value["transaction"] = {"id": f"{700 + number}:{lsn}", "total_order": order, "data_collection_order": 1}
        return f"{SOURCE}.{table}", dict(zip(names, key, strict=False)) or None, value

    def _envelope(self, table: str, op: str, before: Any, after: Any, lsn: int, snapshot: str) -> Row:
        schema, name = table.split(".")
        source = {"connector": "postgresql", "ts_ms": lsn, "snapshot": snapshot, "schema": schema, "table": name}
        source |= {"lsn": lsn, "txId": 1, "sequence": f'[null,"{lsn}"]'}
        return {"before": before, "after": after, "source": source, "transaction": None, "op": op, "ts_ms": lsn}

    def _marked(self, number: int, records: list[Record], counts: dict[str, int]) -> list[Record]:
        if not self.has_markers:
            return records
        collections = [{"data_collection": table, "event_count": count} for table, count in counts.items()]
        begin, end = f"{700 + number}:{self.lsn}", f"{700 + number}:{self.lsn + _STEP}"
        topic = f"{SOURCE}.transaction"
        first = {"status": "BEGIN", "id": begin, "event_count": None, "data_collections": None, "ts_ms": 1}
        last = {"status": "END", "id": end, "event_count": sum(counts.values()), "data_collections": collections}
        return [(topic, {"id": begin}, first), *records, (topic, {"id": end}, {**last, "ts_ms": self.lsn})]

    def snapshot(self) -> list[Record]:
        """The rows of all tables, as a snapshot sends them."""
        rows = [(table, key, row) for table in sorted(KEYS) for key, row in self.tables[table].items()]
        tables = [table for table, _, _ in rows]
        records = []
        for n, (table, key, row) in enumerate(rows):
            is_first, is_last = table not in tables[:n], table not in tables[n + 1 :]
            marker = "last" if n == len(rows) - 1 else "first" if n == 0 else "last_in_data_collection"
            if n and not is_last:
                marker = "first_in_data_collection" if is_first else "true"
            value = self._envelope(table, "r", None, row, self.lsn, marker)
            records.append((f"{SOURCE}.{table}", dict(zip(KEYS[table], key, strict=True)), value))
        return records

    def run(self, transactions: int, *, crashes: bool = False, snapshots: bool = False) -> None:
        """Send a snapshot and make transactions; a crash now and then sends something once more."""
        self.sent += self.snapshot()
        if snapshots and self.chance.random() < 0.5:
            del self.sent[self.chance.randint(0, len(self.sent)) :]
            self._repeat_snapshot()
        for _ in range(transactions):
            self.transact()
            self.sent += self.transactions[-1]
            if crashes and self.chance.random() < 0.3:
                self._send_again()
            if snapshots and self.chance.random() < 0.15:
                self._repeat_snapshot()

    def _send_again(self) -> None:
        """Lose the end of what was sent, or not, and send from somewhere before it on."""
        first = self.chance.randint(max(0, len(self.transactions) - 4), len(self.transactions) - 1)
        again = [record for records in self.transactions[first:] for record in records]
        self.sent += again[self.chance.randint(0, len(self.transactions[first])) :]

    def _repeat_snapshot(self) -> None:
        """Begin with a snapshot again. What comes after it may begin with transactions that are in it."""
        if self.chance.random() < 0.5 and self.transactions and self.sent[-1] == self.transactions[-1][-1]:
            del self.sent[len(self.sent) - self.chance.randint(0, len(self.transactions[-1])) :]
        for _ in range(self.chance.randint(0, 2)):
            self.transact()
        self.gaps.append(self.lsn)
        self.sent += self.snapshot()
        for records in self.transactions[len(self.transactions) - self.chance.randint(0, 2) :]:
            self.sent += records

    def mixed(self) -> list[Record]:
        """What was sent as a reader gets it: each partition in its order, and partitions mixed."""
        queues: dict[tuple[str, int], list[Record]] = {}
        for record in self.sent:
            queues.setdefault((record[0], partition_of(record, self.partitions)), []).append(record)
        waiting = {place: iter(records) for place, records in queues.items()}
        mixed: list[Record] = []
        while waiting:
            place = self.chance.choice(sorted(waiting))
            mixed += islice(waiting[place], self.chance.choice([1, 2, 5, 30]))
            if not length_hint(waiting[place]):
                del waiting[place]
        return mixed


def partition_of(record: Record, partitions: int) -> int:
    """Where a record is in its topic."""
    topic, key, _ = record
    return 0 if key is None or topic.endswith(".transaction") else sum(key.values()) % partitions


def raw_rows(records: Iterable[Record], first: int = 1, partitions: int = 1) -> list[Row]:
    """Records as a raw pool has them."""
    offsets: dict[tuple[str, int], int] = {}
    rows = []
    for number, record in enumerate(records, first):
        topic, key, value = record
        place = topic, partition_of(record, partitions)
        offset = offsets[place] = offsets.get(place, -1) + 1
        kafka = {"topic": topic, "partition": place[1], "offset": offset, "key": key}
        rows.append({"seqno": number, "kafka": kafka, "value": value})
    return rows
