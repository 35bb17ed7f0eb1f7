"""What each kind of transform makes of raw records."""

from __future__ import annotations

from typing import Any

import pytest

from shoal.testing.etl_scenes import EXPIRE, WHOLE, Scene, finish

STATELESS = {"type": "stateless", "in": "A", "zed": "yield {n:value.n}", "out": "ns"}


def denorm(**settings: Any) -> dict[str, Any]:
    return {"type": "denorm", "out": "pairs", "zed": "yield {i:Invoices.value.n,s:Statuses.value.n}", **settings}


# ---- stateless


def test_a_stateless_transform_takes_one_record_at_a_time(scene: Scene) -> None:
    scene.add(("A", {"n": 1}), ("B", {"n": 2}), ("A", {"n": 3}))
    assert finish(scene.etl(STATELESS))
    assert scene.rows() == [
        '{seqno:1,kafka:{topic:"ns",offset:1},value:{n:1}}',
        '{seqno:3,kafka:{topic:"ns",offset:2},value:{n:3}}',
    ]


def test_a_program_may_give_no_value_or_several_of_any_type(scene: Scene) -> None:
    scene.add(("A", {"n": 1, "all": [1, "two"]}), ("A", {"n": 2, "all": []}), ("A", {"n": 3, "all": [[4]]}))
    assert finish(scene.etl({**STATELESS, "zed": "over value.all | yield this,null"}))
    assert scene.values() == [1, None, "two", None, [4], None]
    assert [row.partition(",kafka")[0] for row in scene.rows("has(kafka)")] == ["{seqno:1"] * 4 + ["{seqno:3"] * 2


def test_a_program_sees_each_record_alone(scene: Scene) -> None:
    scene.add(("A", {"n": 1}), ("A", {"n": 2}))
    assert finish(
        scene.etl({**STATELESS, "zed": "const one = 1 // for this\nyield {count:int64(count())+one} // all of it"})
    )
    assert scene.values() == [{"count": 2}, {"count": 2}]


def test_errors_are_values(scene: Scene) -> None:
    scene.add(("A", {"n": "one"}), ("A", {"m": 1}))
    assert finish(scene.etl({**STATELESS, "zed": "yield value.n+1"}))
    assert scene.rows() == [
        '{seqno:1,kafka:{topic:"ns",offset:1},value:error("incompatible types")}',
        '{seqno:2,kafka:{topic:"ns",offset:2},value:error("missing")}',
    ]


@pytest.mark.parametrize(
    "expression",
    [
        "value.n+1",
        "quiet(value.m)",
        "{a:value,...value}",
        "error(value)",
        "f'{value.n}'",
        "value.n in [1] ? null : value",
    ],
)
def test_an_expression_gives_what_a_program_gives(scene: Scene, expression: str) -> None:
    scene.add(("A", {"n": 1}), ("A", {"n": "b", "m": 2}), ("A", {"n": None}), ("A", 7))
    programs = {"one": f"yield {expression}", "short": expression, "two": f"pass | yield {expression}"}
    for name, zed in programs.items():
        scene.lake.pool("staging").create_branch(name)
        assert finish(scene.etl({**STATELESS, "zed": zed, "out": "o"}, name=name, output=f"staging@{name}"))
    one, short, two = (scene.lake.query(f"from staging@{name} | has(kafka.offset)").to_zson() for name in programs)
    assert one == short == two != ""


def test_a_key_is_computed_from_the_result(scene: Scene) -> None:
    scene.add(("A", {"n": 1}), ("A", {"n": "b"}))
    assert finish(scene.etl({**STATELESS, "key": "n // the key"}))
    assert scene.rows() == [
        '{seqno:1,kafka:{topic:"ns",offset:1,key:1},value:{n:1}}',
        '{seqno:2,kafka:{topic:"ns",offset:2,key:"b"},value:{n:"b"}}',
    ]


def test_the_first_transform_that_matches_takes_a_record(scene: Scene) -> None:
    scene.add(("A", {"n": 1}), ("A", {"n": 2}), ("A", {"m": 3}), ("B", {"n": 1}), ("A", {"n": "x"}))
    etl = scene.etl(
        {**STATELESS, "where": "value.n>1", "out": "large"},
        {**STATELESS, "where": "value.n", "out": "never"},
        {**STATELESS, "zed": "yield value", "out": "rest"},
        {"where": 'kafka.topic!="B" or value.n==1', "zed": "yield value", "out": "others"},
    )
    assert finish(etl)
    assert scene.values(topic="large") == [{"n": 2}]
    assert scene.values(topic="rest") == [{"n": 1}, {"m": 3}, {"n": "x"}]
    assert scene.values(topic="others") == [{"n": 1}]
    assert scene.values(topic="never") == []


def test_left_is_another_word_for_in(scene: Scene) -> None:
    scene.add(("A", {"n": 1}), ("B", {"n": 2}))
    assert finish(scene.etl({"type": "stateless", "left": "B", "zed": "yield value", "out": "o"}))
    assert scene.values() == [{"n": 2}]


# ---- transactions


def test_a_transaction_is_gathered_until_it_is_done(scene: Scene) -> None:
    etl = scene.etl(WHOLE)
    scene.add(("A", {"txn": 1, "done": False}), ("B", {"txn": 2, "done": False}))
    done = etl.round()
    assert done is not None
    assert (done.commit, done.cursor, done.pending) == (None, 1, 2)
    scene.add(("A", {"txn": 2, "done": True}))
    done = etl.round()
    assert done is not None
    assert (done.cursor, done.pending, done.outputs) == (1, 1, 1)
    scene.add(("A", {"txn": 1, "done": True}))
    done = etl.round()
    assert done is not None
    assert (done.cursor, done.pending) == (4, 0)
    assert scene.values() == [{"txn": 2, "seqno": 3, "n": 2}, {"txn": 1, "seqno": 4, "n": 2}]


def test_the_program_sees_the_records_in_order(scene: Scene) -> None:
    zed = "yield {done,last:seqno,ns:(over records | collect(value.n)),first:records[0].value.n}"
    etl = scene.etl({**WHOLE, "zed": zed})
    for n in range(5):
        scene.add(("A", {"txn": "x", "n": n, "done": n == 4}), ("A", {"txn": "y", "n": 9, "done": False}))
        etl.round()
    assert scene.values() == [{"done": True, "last": 9, "ns": [0, 1, 2, 3, 4], "first": 0}]


@pytest.mark.parametrize(
    "done",
    [
        "count()==3",
        "or(value.n==1) and or(value.n==2) and or(value.n==3)",
        "or(value.n==3) and (or(value.n==2) and or(value.n==1))",
        "sum(value.n)==6 ? count()>2 : false",
        "(count() where value.n>1)==2 and or(value.n==1)",
        'len(union(value.n))==3 // "all" of them',
    ],
)
@pytest.mark.parametrize("order", [(1, 2, 3), (3, 2, 1), (2, 3, 1)])
def test_done_is_any_expression_of_aggregates(scene: Scene, done: str, order: tuple[int, ...]) -> None:
    scene.add(*(("A", {"txn": 1, "n": n}) for n in order), ("A", {"txn": 2, "n": 1}))
    assert finish(scene.etl({**WHOLE, "done": done}))
    assert scene.values() == [{"txn": 1, "seqno": 3, "n": 3}]


def test_ids_of_any_type_are_apart(scene: Scene) -> None:
    for _ in range(2):
        etl = scene.etl({**WHOLE, "done": "count()==2", "zed": "yield txn"})
        scene.add(*(("A", {"txn": txn}) for txn in (1, "1", 1.5, None, {"a": 1}, [1])), ("A", {}))
        etl.round()
    values = [row.partition("value:")[2] for row in scene.rows()]
    assert values == ["1}", '"1"}', "1.5}", "null}", "{a:1}}", "[1]}", 'error("missing")}']


def test_without_expiry_an_id_begins_again(scene: Scene) -> None:
    scene.add(*(("A", {"txn": 1, "done": n % 2 == 1}) for n in range(5)))
    done = finish(scene.etl(WHOLE))
    assert done is not None
    assert (done.pending, done.cursor) == (1, 5)
    assert [value["seqno"] for value in scene.values()] == [2, 4]


def test_a_transaction_may_read_some_topics_only(scene: Scene) -> None:
    scene.add(*((topic, {"txn": 1, "done": topic == "C"}) for topic in "ABC"))
    assert finish(scene.etl({**WHOLE, "in": ["A", "C"]}))
    assert scene.values() == [{"txn": 1, "seqno": 3, "n": 2}]


# ---- denorm

ON = {"on": {"Invoices": "value.id", "Statuses": "value.invoice"}}


@pytest.mark.parametrize(
    "settings",
    [
        ON,
        *(
            {"left": "Invoices", "right": "Statuses", "join-on": text}
            for text in (
                "Invoices.value.id=Statuses.value.invoice",
                "Statuses.value.invoice == Invoices.value.id",
                "left.value.id=right.value.invoice",
            )
        ),
    ],
)
def test_records_of_two_topics_are_joined_by_their_keys(scene: Scene, settings: dict[str, Any]) -> None:
    scene.add(
        ("Invoices", {"id": 1, "n": 10}),
        ("Statuses", {"invoice": 2, "n": 20}),
        ("Statuses", {"invoice": 1, "n": 21}),
        ("Invoices", {"id": 2, "n": 11}),
        ("Invoices", {"id": 3, "n": 12}),
    )
    done = finish(scene.etl(denorm(**settings)))
    assert done is not None
    assert (done.pending, done.cursor) == (1, 5)
    assert scene.values() == [{"i": 10, "s": 21}, {"i": 11, "s": 20}]


def test_every_combination_is_given_and_then_a_key_waits_again(scene: Scene) -> None:
    invoice, status = ("Invoices", {"id": 1, "n": 1}), ("Statuses", {"invoice": 1, "n": 2})
    scene.add(status, ("Statuses", {"invoice": 1, "n": 3}), invoice, status, invoice, invoice)
    done = finish(scene.etl(denorm(**ON)))
    assert scene.values() == [{"i": 1, "s": 2}, {"i": 1, "s": 3}, {"i": 1, "s": 2}]
    assert done is not None
    assert done.cursor == 6


def test_a_key_may_come_again_many_times_in_one_round(scene: Scene) -> None:
    pair = ("Invoices", {"id": 1, "n": 1}), ("Statuses", {"invoice": 1, "n": 2})
    scene.add(*(pair * 1001))
    assert finish(scene.etl(denorm(**ON)))
    assert scene.values() == [{"i": 1, "s": 2}] * 1001


def test_three_topics_are_joined(scene: Scene) -> None:
    on = {"A": "value.k", "B": "value.k", "the third": "value.k"}
    zed = 'yield [A.value.n,B.value.n,this["the third"].value.n]'
    scene.add(
        ("B", {"k": 1, "n": 1}), ("A", {"k": 1, "n": 2}), ("B", {"k": 1, "n": 3}), ("the third", {"k": 1, "n": 4})
    )
    assert finish(scene.etl(denorm(on=on, zed=zed, key="this[0]")))
    assert scene.values() == [[2, 1, 4], [2, 3, 4]]


def test_what_never_matches_expires(scene: Scene) -> None:
    scene.add(("Invoices", {"id": 1, "n": 1}), *(("X", {}) for _ in range(101)))
    done = finish(scene.etl(denorm(**ON), expire=EXPIRE))
    assert done is not None
    assert (done.cursor, done.pending) == (102, 0)
    assert scene.rows("yield {seqno,reason,txn,n:len(records)}", "expired") == ['{seqno:1,reason:"records",txn:1,n:1}']
