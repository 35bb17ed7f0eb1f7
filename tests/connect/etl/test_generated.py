"""Rounds, restarts and engines make no difference: a job gives what one pass in plain Python gives."""

from __future__ import annotations

from itertools import count
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import shoal
from shoal.connect.etl import Etl
from shoal.testing.etl_model import TRANSFORMS, Given, Model, Raw, raw_records
from shoal.testing.etl_scenes import Scene, finish
from shoal.testing.tiers import examples

_numbers = count()


def new_scene() -> Scene:
    return Scene(shoal.create(f"memory://etl-{next(_numbers)}"))


def expire_of(after: int | None, patience: int | None) -> dict[str, Any]:
    if patience is None:
        return {}
    times = {} if after is None else {"after": f"{after}s"}
    return {"expire": {**times, "records": patience, "pool": "expired"}}


def given_by(scene: Scene, cursor: int, pending: int) -> tuple[Given, int]:
    """What the pools have; and how many records are unfinished."""
    found = Given(cursor=cursor)
    program = "has(kafka.offset) | sort kafka.offset | yield {topic:kafka.topic,offset:kafka.offset,seqno,value}"
    for pool in ("staging", "other"):
        for row in scene.lake.query(f"from {pool} | {program}").to_list():
            topic = found.outputs.setdefault(row["topic"], [])
            topic.append((row["seqno"], row["value"]))
            assert row["offset"] == len(topic)
    rows = scene.lake.query("from expired | yield {seqno,reason,txn,numbers:(over records | collect(seqno))}").to_list()
    found.expired = sorted((row["seqno"], row["reason"], row["txn"], tuple(row["numbers"])) for row in rows)
    return found, pending


def check(scene: Scene, records: list[Raw], expected: Given, last: Any) -> None:
    assert last is not None
    found, pending = given_by(scene, last.cursor, last.pending)
    assert found.outputs == expected.outputs
    assert found.expired == expected.expired
    assert (found.cursor, pending) == (expected.cursor, len(expected.pending))
    _check_bookkeeping(scene, len(records), expected)


def _check_bookkeeping(scene: Scene, read: int, expected: Given) -> None:
    """All that is done is below the cursor or marked, and nothing else is, by the commits that there are."""
    cursors = scene.lake.query('from staging | nameof(this)=="cursor" | max(seqno)').to_list()
    if not cursors:
        assert len(expected.pending) == read
        return
    marks = scene.lake.query('from staging | nameof(this)=="done" | yield {first,seqno}').to_list()
    marked = {n for mark in marks for n in range(mark["first"], mark["seqno"] + 1)}
    done = marked | set(range(1, cursors[0]))
    assert done == set(range(1, read + 1)) - expected.pending


@settings(max_examples=examples(12))
@given(
    raw_records(),
    st.lists(st.integers(1, 12), max_size=8),
    st.integers(1, 20),
    st.lists(st.booleans(), min_size=1, max_size=6),
    st.sampled_from([(None, None), (None, 6), (4, 12), (2, 5)]),
    st.sampled_from(["interp", "duckdb"]),
)
def test_rounds_restarts_and_engines_make_no_difference(
    records: list[Raw],
    loads: list[int],
    batch: int,
    restarts: list[bool],
    limits: tuple[int | None, int | None],
    engine: str,
) -> None:
    scene = new_scene()
    after, patience = limits

    def start() -> Etl:
        return scene.etl(*TRANSFORMS, engine=engine, batch={"records": batch}, **expire_of(after, patience))

    etl, last, at = start(), None, 0
    for number, size in enumerate([*loads, len(records)]):
        some = records[at : at + size]
        if some:
            scene.raw.load([each.fields(at + n) for n, each in enumerate(some, 1)])
        at += len(some)
        if restarts[number % len(restarts)]:
            etl = start()
        done = etl.round() if number % 2 else finish(etl)
        last = done or last
    last = finish(etl) or last
    check(scene, records, Model(after, patience).run(records), last)


@pytest.mark.parametrize("batch", [1, 7, 1000])
def test_one_history_gives_the_same_in_rounds_of_any_size(batch: int) -> None:
    records = [Raw("TUAB"[n % 4], n // 3 % 4, n % 5, 10 + n // 2) for n in range(60)]
    scene = new_scene()
    scene.raw.load([each.fields(n) for n, each in enumerate(records, 1)])
    last = finish(scene.etl(*TRANSFORMS, batch={"records": batch}, **expire_of(6, 20)))
    check(scene, records, Model(6, 20).run(records), last)
