from __future__ import annotations

import inspect

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from shoal.engines.interp.functions.table import FUNCTIONS
from shoal.lang.functions import SIGNATURES, Signature
from shoal.model import types as t
from shoal.model.values import Value, array, error, record, string
from shoal.model.zcode import decode, encode
from shoal.testing.strategies import data_of, types, values
from shoal.testing.tiers import examples

MANY = 4
"""How many arguments a function that takes any number is tried with."""


def counts(found: Signature) -> range:
    """How many arguments an implementation gets: the default has been put in by then."""
    most = MANY if found.max_args is None else found.max_args
    if found.default is None:
        return range(found.min_args, most + 1)
    return range(found.min_args + 1, max(found.min_args + 1, most) + 1)


def test_every_function_but_map_is_implemented() -> None:
    assert set(FUNCTIONS) == set(SIGNATURES) - {"map"}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_an_implementation_takes_as_many_arguments_as_its_signature_says(name: str) -> None:
    for count in counts(SIGNATURES[name]):
        inspect.signature(FUNCTIONS[name]).bind(*range(count))


@pytest.mark.parametrize("name", FUNCTIONS)
def test_an_implementation_says_what_it_does(name: str) -> None:
    assert FUNCTIONS[name].__doc__


_texts = st.one_of(
    st.sampled_from(["", "%", "%Y%", "(", "a*", "$1", "%{INT:a}", "A b", "a.b", "http://[", "{a:1", "<", "int64"]),
    st.text(st.characters(exclude_categories=["Cs"]), max_size=8),
)
_fitting = st.sampled_from([t.STRING, t.INT64, t.UINT8, t.FLOAT64, t.TIME, t.DURATION, t.IP, t.NET, t.TYPE, t.BYTES])
_arguments = st.one_of(
    values(),
    _texts.map(string),
    _fitting.flatmap(lambda typ: data_of(typ).map(lambda data: Value(typ, data))),
    types(4).map(lambda typ: Value(t.TYPE, typ)),
)


@pytest.mark.parametrize("name", FUNCTIONS)
@settings(max_examples=examples(20), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data())
def test_no_values_make_a_function_raise_and_its_result_is_valid(name: str, data: st.DataObject) -> None:
    for count in counts(SIGNATURES[name]):
        made = FUNCTIONS[name](*data.draw(st.lists(_arguments, min_size=count, max_size=count)))
        assert Value(made.type, decode(made.type, encode(made.type, made.data))) == made


def deepest() -> list[Value]:
    """Values that nest as deep as values may."""
    typ: t.Type = t.STRING
    data: object = "a"
    while typ.depth < t.MAX_DEPTH:
        typ, data = t.array(typ), (data,)
    made = [Value(typ, data), Value(t.TYPE, typ)]
    inner = typ.children()[0]
    assert isinstance(data, tuple)
    made.append(Value(t.record([("a.b", inner)]), data))
    made.append(error(Value(inner, data[0])))
    entry = record([("key", string("a")), ("value", Value(inner.children()[0].children()[0], data[0][0][0]))])
    made.append(array([entry]))
    return made


@pytest.mark.parametrize("name", FUNCTIONS)
def test_the_deepest_values_make_no_function_raise(name: str) -> None:
    for value in deepest():
        for count in counts(SIGNATURES[name]):
            made = FUNCTIONS[name](*[value] * count)
            encode(made.type, made.data)
            if name in ("cast", "crop", "fill", "fit", "order", "shape"):
                FUNCTIONS[name](value, Value(t.TYPE, deepest()[0].type))
