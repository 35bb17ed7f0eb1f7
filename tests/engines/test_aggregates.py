"""The table of aggregates: one complete entry for each name of the language."""

from __future__ import annotations

import pytest

from shoal.engines.aggregates import AGGREGATES, Kept, SqlFunction
from shoal.engines.interp.aggregates.contract import Limits, feed
from shoal.lang import aggregates as lang
from shoal.model import types as t
from shoal.testing.queries import parse_values

VALUES = parse_values('1 2.5 true null "a" |{1:2}| 3(uint8) {a:1} [1,2]')


def test_the_names_are_those_of_the_language() -> None:
    assert AGGREGATES.keys() == lang.AGGREGATES.keys()


@pytest.mark.parametrize("name", AGGREGATES)
def test_an_entry_is_complete(name: str) -> None:
    spec = AGGREGATES[name]
    assert isinstance(spec.sql, SqlFunction | Kept)
    values = list(VALUES)
    for count in (0, len(values)):
        state = spec.state(Limits())
        for value in values[:count]:
            feed(state, value)
        partial = state.partial()
        if isinstance(spec.partial, tuple):
            assert isinstance(partial.type, t.Record)
            assert tuple(field.name for field in partial.type.fields) == spec.partial
        else:
            assert partial.type is spec.partial
        merged = spec.state(Limits())
        merged.merge(partial)
        assert merged.result() == state.result()


def test_a_state_that_keeps_all_values_grows() -> None:
    assert {name for name, spec in AGGREGATES.items() if spec.grows} == {"collect", "collect_map", "union"}
