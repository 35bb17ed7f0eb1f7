from __future__ import annotations

import copy
import gc
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.errors import InvalidInput
from shoal.model import types as t
from shoal.model.parse import parse_type
from shoal.model.text import format_type
from shoal.testing.strategies import types


@given(types())
def test_equal_types_are_one_object(typ: t.Type) -> None:
    assert parse_type(format_type(typ)) is typ
    assert copy.deepcopy(typ) is typ


def test_the_order_of_fields_is_part_of_a_record_type() -> None:
    assert parse_type("{a:int64,b:string}") is not parse_type("{b:string,a:int64}")


def test_the_order_and_repetition_of_union_members_is_not() -> None:
    assert parse_type("(string,int64,string)") is parse_type("(int64,string)")


def test_a_name_makes_a_type_of_its_own_and_can_stand_for_several() -> None:
    port, other = parse_type("port=uint16"), parse_type("port=string")
    assert port is not t.UINT16
    assert port is not other
    assert port.under is t.UINT16
    assert parse_type("a=b=uint16").under is t.UINT16


def test_names_may_be_redefined_from_left_to_right() -> None:
    typ = parse_type("{a:n=int64,b:n,c:n=string,d:n}")
    assert isinstance(typ, t.Record)
    a, b, c, d = typ.children()
    assert (a is b, c is d, a is c) == (True, True, False)
    assert format_type(typ) == "{a:n=int64,b:n,c:n=string,d:n}"


def test_types_that_nobody_uses_are_forgotten() -> None:
    gc.collect()
    before = len(t._interned)
    for i in range(1000):
        t.record(((f"field {i}", t.INT64),))
    gc.collect()
    assert len(t._interned) < before + 100


def test_threads_agree_on_types() -> None:
    made: list[list[t.Type]] = [[] for _ in range(8)]
    start = threading.Barrier(8)

    def make(out: list[t.Type]) -> None:
        start.wait()
        for i in range(300):
            out.append(t.array(t.record(((f"x{i}", t.array(t.INT64)),))))

    threads = [threading.Thread(target=make, args=(out,)) for out in made]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(x is y for out in made[1:] for x, y in zip(made[0], out, strict=True))


@pytest.mark.parametrize("make", [t.array, t.set_of, t.error, lambda x: t.map_of(x, x), lambda x: t.union([x])])
def test_depth_is_capped(make: object) -> None:
    def nest() -> None:
        typ: t.Type = t.INT64
        for _ in range(t.MAX_DEPTH + 1):
            typ = make(typ)  # type: ignore[operator]

    with pytest.raises(InvalidInput, match=r"nests deeper|parts"):
        nest()


def test_nonsense_is_refused() -> None:
    with pytest.raises(InvalidInput, match="duplicate field 'a'"):
        t.record((("a", t.INT64), ("a", t.STRING)))
    with pytest.raises(InvalidInput, match="primitive type name"):
        t.named("int64", t.STRING)
    with pytest.raises(InvalidInput, match="duplicate symbol"):
        t.enum(["a", "a"])
    with pytest.raises(InvalidInput, match="at least one"):
        t.union([])


@given(st.lists(types(), max_size=6))
def test_types_have_a_total_order(some: list[t.Type]) -> None:
    ordered = t.unique_types(some)
    assert ordered == t.unique_types(reversed(some))
    for i, a in enumerate(ordered):
        for b in ordered[i + 1 :]:
            assert t.compare_types_totally(a, b) < 0
            assert t.compare_types_totally(b, a) > 0
