"""Records that come late or never: the data decides, and not when rounds were run."""

from __future__ import annotations

import pytest

from shoal.connect.etl.expiry import Clock, Limits
from shoal.testing.etl_scenes import EXPIRE, WHOLE, Scene, finish


def open_(txn: int) -> tuple[str, dict[str, object]]:
    return "A", {"txn": txn, "done": False}


def done_(txn: int) -> tuple[str, dict[str, object]]:
    return "A", {"txn": txn, "done": True}


def expired(scene: Scene) -> list[str]:
    return scene.rows("yield {seqno,kafka:kafka.offset,reason,txn,of:(over records | collect(seqno))}", "expired")


def test_a_transaction_expires_by_the_time_of_other_records(scene: Scene) -> None:
    etl = scene.etl(WHOLE, expire=EXPIRE)
    scene.add(open_(1), at=1000)
    scene.add(open_(1), at=1300)
    scene.add(("B", {"txn": 2, "done": False}), at=1900)
    done = finish(etl)
    assert done is not None
    assert done.pending == 3  # 10 minutes are not over
    scene.add(("C", {"txn": 3, "done": True}), at=1901)
    done = finish(etl)
    assert done is not None
    assert (done.cursor, done.pending) == (3, 1)
    assert expired(scene) == ['{seqno:2,kafka:1,reason:"after",txn:1,of:[1,2]}']


def test_an_expired_record_is_kept_whole(scene: Scene) -> None:
    scene.add(open_(1), *(("X", {"txn": None, "done": None}) for _ in range(1)), at=5)
    scene.add(("B", {"txn": 2, "done": True}), at=9999)
    assert finish(scene.etl({**WHOLE, "where": "has(value.txn) and value.txn!=null"}, expire=EXPIRE))
    raw = '{seqno:1,kafka:{topic:"A",partition:0,offset:1,timestamp:1970-01-01T00:00:05Z},value:{txn:1,done:false}}'
    kafka = '{topic:"A",partition:0,offset:1,timestamp:1970-01-01T00:00:05Z}'
    assert scene.rows("pass", "expired") == [f'{{seqno:1,kafka:{kafka},reason:"after",txn:1,records:[{raw}]}}']


def test_a_transaction_expires_by_the_number_of_records(scene: Scene) -> None:
    etl = scene.etl(WHOLE, expire={"records": 3, "pool": "expired"})
    scene.add(open_(1), *(("B", {"txn": n, "done": True}) for n in (7, 8, 9)))
    done = finish(etl)
    assert done is not None
    assert done.pending == 1
    scene.add(open_(1))  # too late: it begins the transaction again
    done = finish(etl)
    assert done is not None
    assert (done.cursor, done.pending) == (5, 1)
    assert expired(scene) == ['{seqno:1,kafka:1,reason:"records",txn:1,of:[1]}']


@pytest.mark.parametrize("batch", [1, 2, 100])
def test_a_late_record_of_a_complete_transaction_is_given_up(scene: Scene, batch: int) -> None:
    scene.add(open_(1), done_(1), open_(1), ("B", {"txn": 5, "done": True}), done_(1))
    done = finish(scene.etl(WHOLE, expire=EXPIRE, batch={"records": batch}))
    assert done is not None
    assert (done.cursor, done.pending) == (5, 0)
    assert scene.values() == [{"txn": 1, "seqno": 2, "n": 2}, {"txn": 5, "seqno": 4, "n": 1}]
    assert expired(scene) == [
        '{seqno:3,kafka:3,reason:"late",txn:1,of:[3]}',
        '{seqno:5,kafka:5,reason:"late",txn:1,of:[5]}',
    ]


def test_a_late_record_is_recognised_by_another_process(scene: Scene) -> None:
    scene.add(open_(1), done_(1))
    assert finish(scene.etl(WHOLE, expire=EXPIRE))
    scene.add(open_(1))
    assert finish(scene.etl(WHOLE, expire=EXPIRE))
    assert expired(scene) == ['{seqno:3,kafka:3,reason:"late",txn:1,of:[3]}']


@pytest.mark.parametrize("batch", [1, 3, 100])
def test_an_id_is_forgotten_after_some_records(scene: Scene, batch: int) -> None:
    scene.add(done_(1), done_(2), done_(3), done_(1), done_(2), done_(9), done_(9), done_(2))
    assert finish(scene.etl(WHOLE, expire={"records": 3, "pool": "expired"}, batch={"records": batch}))
    assert [(v["txn"], v["seqno"]) for v in scene.values()] == [(1, 1), (2, 2), (3, 3), (9, 6), (2, 8)]
    assert [row[:9] for row in expired(scene)] == ["{seqno:4,", "{seqno:5,", "{seqno:7,"]


def test_transforms_do_not_share_ids(scene: Scene) -> None:
    etl = scene.etl({**WHOLE, "in": "A"}, {**WHOLE, "in": "B", "out": "others"}, expire=EXPIRE)
    scene.add(done_(1))
    assert finish(etl)
    scene.add(("B", {"txn": 1, "done": True}))
    assert finish(scene.etl({**WHOLE, "in": "A"}, {**WHOLE, "in": "B", "out": "others"}, expire=EXPIRE))
    assert expired(scene) == []
    assert scene.values(topic="others") == [{"txn": 1, "seqno": 2, "n": 1}]


def test_a_record_without_a_time_never_expires_by_time(scene: Scene) -> None:
    scene.add(open_(1))
    scene.add(("B", {"txn": 2, "done": True}), at=10**9)
    done = finish(scene.etl(WHOLE, expire=EXPIRE))
    assert done is not None
    assert done.pending == 1


# ---- pure


def test_a_clock_is_past_a_time_at_the_first_record_that_is() -> None:
    clock = Clock(10, 100, [(105, 30), (100, 20), (103, 5)])
    assert [clock.passes(time) for time in (9, 10, 19, 20, 29, 30)] == [100, 100, 100, 105, 105, None]
    assert clock.now == 30
    assert Clock(None, 1, [(4, 2)]).passes(1) == 4
    assert Clock().passes(0) is None


def test_the_sooner_limit_is_the_reason() -> None:
    clock = Clock(None, 1, [(1, 0), (8, 100)])
    assert Limits(50, 3).end([(1, 0)], clock) == (5, "records")
    assert Limits(50, 7).end([(1, 0)], clock) == (8, "after")
    assert Limits(50, 6).end([(1, 0)], clock) == (8, "after")
    assert Limits(50, None).end([(9, 0)], clock) == (10, "after")  # at the next record
    assert Limits(100, None).end([(1, 0)], clock) is None
    assert Limits(50, None).end([(1, None)], clock) is None


def test_a_gap_is_where_the_records_before_it_had_expired() -> None:
    clock = Clock(None, 1, [(1, 0), (5, 100)])
    assert Limits(50, None).gap([(1, 0), (4, 0), (5, 0)], clock) == (2, "after")
    assert Limits(50, None).gap([(1, 0), (4, 60), (6, 0)], clock) is None
    assert Limits(None, 2).gap([(1, 0), (3, 0), (6, 0)], clock) == (2, "records")
    assert Limits().gap([(1, 0), (99, 0)], clock) is None
