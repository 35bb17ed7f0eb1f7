"""Events in any order, with repetitions and crashes, become the steps from each state of the tables to the next."""

from __future__ import annotations

import json
import random
from dataclasses import dataclass, field

from hypothesis import given
from hypothesis import strategies as st

import shoal
from shoal.connect.etl.cdc.assembling import Assembler, Step
from shoal.connect.etl.cdc.effects import Effect, complete, effects_of
from shoal.connect.etl.cdc.events import Bad, End, Key, Reader
from shoal.connect.etl.cdc.positions import Position
from shoal.formats.json.reader import decode_record
from shoal.model.values import Value
from shoal.testing.cdc_model import KEYS, SOURCE, Database, Table, raw_rows


@dataclass
class Pools:
    """What pools would have, and say."""

    rows: dict[str, dict[Key, Value]] = field(default_factory=lambda: {table: {} for table in KEYS})
    positions: dict[str, Position | None] = field(default_factory=dict)
    cursor: int = 1
    states: dict[str, list[tuple[int, Table]]] = field(default_factory=lambda: {table: [] for table in KEYS})

    def apply(self, step: Step, cursor: int) -> None:
        effects = effects_of(step.changes)
        if step.only is not None:
            table, keys = step.only
            effect = effects.setdefault(table, Effect())
            effect.deletes.update({key: row for key, row in self.rows[table].items() if key not in keys})
        for table, effect in effects.items():
            if effect.is_empty:
                continue
            old = dict(self.rows[table])
            complete(effect, lambda keys, old=old: {key.data: old[key.data] for key in keys if key.data in old})  # type: ignore[misc]
            kept = {} if effect.clears else {key: row for key, row in old.items() if key not in effect.deletes}
            self.rows[table] = kept | effect.rows
            self.positions[table], self.cursor = step.positions[table], max(cursor, self.cursor)
            if step.stamp.lsn is not None:
                self.states[table].append((step.stamp.lsn, self.table(table)))

    def table(self, table: str) -> Table:
        """The rows of a table, in the form of the model, whose keys are in the order of names, too."""
        values = [shoal.to_python(row) for row in self.rows[table].values()]
        return {tuple(row[name] for name in KEYS[table]): row for row in values}

    def at(self, table: str, lsn: int) -> Table | None:
        return next((state for at, state in reversed(self.states[table]) if at <= lsn), None)


def replay(database: Database, chance: random.Random, *, crashes: bool) -> Pools:
    """Read what a database sent, in pieces; a crash forgets what was not applied."""
    reader, pools = Reader(SOURCE, list(KEYS)), Pools()
    raw = [
        decode_record(json.dumps(row).encode()) for row in raw_rows(database.mixed(), partitions=database.partitions)
    ]
    assembler, read = Assembler(KEYS, pools.positions), 0
    while read < len(raw):
        piece = raw[read : read + chance.choice([1, 3, 10, 40])]
        for row in piece:
            event = reader.read(row)
            assert not isinstance(event, Bad), event
            if event is not None:
                assembler.add(event)
        read += len(piece)
        for step in assembler.take():
            pools.apply(step, assembler.first or read + 1)
            if crashes and chance.random() < 0.15:
                assembler, read = Assembler(KEYS, pools.positions), pools.cursor - 1
                for event in map(reader.read, raw[:read]):
                    if isinstance(event, End):
                        assembler.remember(event)
                break
    assert assembler.first is None or database.gaps, "something waits that is whole"
    return pools


def require_equal(database: Database, pools: Pools) -> None:
    """Pools have what tables have, and had it at each commit; not at those that a repeated snapshot left out."""
    first = max(database.gaps, default=0)
    for table, rows in database.tables.items():
        assert pools.table(table) == rows, table
        for lsn, state in database.states.items():
            if lsn >= first:
                assert pools.at(table, lsn) == state[table], (table, lsn)
        lsns = [lsn for lsn, _ in pools.states[table]]
        assert lsns == sorted(lsns)


@given(st.integers(0, 1 << 30), st.booleans(), st.booleans())
def test_pools_equal_tables_at_every_commit(seed: int, repeats: bool, crashes: bool) -> None:
    chance = random.Random(seed)
    database = Database(chance)
    database.run(12, crashes=repeats)
    require_equal(database, replay(database, chance, crashes=crashes))


@given(st.integers(0, 1 << 30), st.booleans())
def test_a_repeated_snapshot_takes_rows_away_that_are_gone(seed: int, crashes: bool) -> None:
    chance = random.Random(seed)
    database = Database(chance)
    database.run(10, crashes=True, snapshots=True)
    require_equal(database, replay(database, chance, crashes=crashes))


@given(st.integers(0, 1 << 30), st.booleans())
def test_events_without_transactions_give_the_same_tables_at_the_end(seed: int, crashes: bool) -> None:
    chance = random.Random(seed)
    database = Database(chance, has_markers=False)
    database.run(12, crashes=True)
    pools = replay(database, chance, crashes=crashes)
    assert {table: pools.table(table) for table in KEYS} == database.tables


@given(st.integers(0, 1 << 30), st.booleans())
def test_topics_with_several_partitions_give_the_same_tables_at_the_end(seed: int, crashes: bool) -> None:
    chance = random.Random(seed)
    database = Database(chance, truncates=False, partitions=3)
    database.run(10, crashes=True, snapshots=True)
    pools = replay(database, chance, crashes=crashes)
    assert {table: pools.table(table) for table in KEYS} == database.tables
