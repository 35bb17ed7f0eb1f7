"""Some fields of JSON lines are those of the whole lines, and lines that are refused are refused all the same."""

from __future__ import annotations

import io
import json
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.api.options import ReadOptions
from shoal.errors import InvalidInput
from shoal.formats.columns.batches import Batch, values_of
from shoal.formats.json import column_reader
from shoal.formats.json import reader as json_reader
from shoal.formats.json.fields import FieldReader
from shoal.model.text import format_value
from shoal.model.values import Value
from shoal.testing import strategies

NAMES = ("a", "b", "ts")
FILLER = "x" * (column_reader._FEW // 100)
"""Lines of this length are enough of them for columns."""


def field_texts(values: list[Value], names: Sequence[str]) -> list[list[str]]:
    """What the values have at some names."""
    return [[format_value(item) if (item := v.field(name)) is not None else "-" for name in names] for v in values]


def outcome(pieces: Any, names: Sequence[str]) -> tuple[list[list[str]], str]:
    """The fields of the values, and what the input is refused with after them."""
    values: list[Value] = []
    try:
        for value in values_of(pieces):
            values.append(value)
    except InvalidInput as e:
        return field_texts(values, names), str(e)
    return field_texts(values, names), ""


def assert_same(data: bytes, names: Sequence[str]) -> None:
    paths = tuple((name,) for name in names)
    fields = column_reader.read_fields(io.BytesIO(data), ReadOptions(), paths)
    assert outcome(fields, names) == outcome(json_reader.read(io.BytesIO(data)), names)


plain = st.one_of(
    st.none(),
    st.integers(-(2**63), 2**63 - 1),
    st.sampled_from([1, 2.5, 3.0, 1e20, 2**53, -0.0, 2**64, "text", "2024-01-01T00:00:00Z", "é", True, False]),
)
columns = st.lists(st.one_of(plain, st.just(...)), min_size=1, max_size=5)


@given(st.fixed_dictionaries(dict.fromkeys(NAMES, columns)), st.lists(st.sampled_from(NAMES), unique=True))
def test_fields_of_plain_values_are_those_of_the_lines(choices: dict[str, list[Any]], names: list[str]) -> None:
    lines = []
    for i in range(120):
        record = {name: items[i % len(items)] for name, items in choices.items() if items[i % len(items)] is not ...}
        lines.append(json.dumps({"filler": FILLER, **record}))
    assert_same("\n".join(lines).encode(), names)


@given(st.lists(strategies.json_values, min_size=1, max_size=8), st.lists(st.sampled_from(NAMES), unique=True))
def test_fields_of_any_lines_are_those_of_the_lines(values: list[Any], names: list[str]) -> None:
    lines = [json.dumps(value) for value in values] + [json.dumps({"filler": FILLER})] * 120
    assert_same("\n".join(lines).encode(), names)


BAD = [
    '{"u":1,"a":"x",}',
    '{"u":NaN,"a":"x"}',
    '{"u": -Infinity ,"a":"x"}',
    '{"u":[1, Infinity],"a":"x"}',
    '{"u":1e999,"a":"x"}',
    '{"u":%s,"a":"x"}' % ("1234567890" * 31),
    '{"u":"\x01","a":"x"}',
    '{"u":01,"a":"x"}',
    '{"a":"x"',
    "{'a':1}",
]
ODD = [
    '{"u":"\\ud800","a":"x"}',
    '{"a":"y","a":"x"}',
    '{"u":1,"u":2,"a":"x"}',
    '{"a":"x"}{"a":"y"}',
    "",
    "  ",
    "5",
    '[{"a":"x"}]',
    '{"\\u0061":"x"}',
    '{"A":"x"}',
    '{"u":"NaN, Infinity","a":": NaN"}',
    '{"u":%s,"a":"x"}' % ("1234567890" * 20),
    '{"u":12345678901234567890,"a":"x"}',
    '{"a":12345678901234567890}',
    '{"a":{"b":1}}',
    '{"a":[1,"x"]}',
    '{"u":' * 40 + "1" + "}" * 40,
]


@pytest.mark.parametrize("line", BAD + ODD)
@pytest.mark.parametrize("names", [(), ("a",), ("u", "a")])
def test_an_odd_line_is_read_or_refused_as_by_rows(line: str, names: tuple[str, ...]) -> None:
    usual = json.dumps({"filler": FILLER, "u": 1, "a": "x"})
    data = "\n".join([*[usual] * 120, line, *[usual] * 120]).encode()
    assert_same(data, names)
    assert (line in BAD) == bool(outcome(json_reader.read(io.BytesIO(data)), ())[1])


def test_no_column_is_made_of_a_field_that_is_not_used() -> None:
    lines = [json.dumps({"filler": FILLER, "a": i, "b": {"c": str(i)}}) + "\n" for i in range(200)]
    data = "".join(lines).encode()
    (batch,) = column_reader.read_fields(io.BytesIO(data), ReadOptions(), (("a",),))
    assert isinstance(batch, Batch)
    (part,) = batch.parts
    assert [f.name for f in part.shape.fields] == ["a"]  # type: ignore[attr-defined]
    assert part.column.flatten()[0].to_pylist() == list(range(200))


def test_lines_of_other_types_than_the_first_are_decoded_as_a_whole() -> None:
    reader = FieldReader(["a"])
    first, second = ([json.dumps({"a": a}) + "\n" for a in items] for items in ([1, 2], ["x", "y"]))
    assert [part.shape for part in reader.parts(_texts(first)) or ()]
    assert reader.parts(_texts(second)) is None
    assert [part.column.to_pylist() for part in reader.parts(_texts(second)) or ()] == [[{"a": "x"}, {"a": "y"}]]
    reader.close()


def _texts(lines: list[str]) -> Any:
    return column_reader._Chunk("".join(lines).encode(), 1).texts()
