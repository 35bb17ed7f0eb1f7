"""JSON arrays of records, read as records."""

from __future__ import annotations

import io
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.api.options import ReadOptions
from shoal.errors import InvalidInput
from shoal.formats.columns.batches import values_of
from shoal.formats.json import arrays
from shoal.formats.json.column_reader import read
from shoal.model.text import format_value

RECORDS = ReadOptions(json_array="records")


class Dripping(io.BytesIO):
    """Gives a few bytes at a time."""

    def __init__(self, data: bytes, size: int) -> None:
        super().__init__(data)
        self._size = size

    def read(self, size: int | None = -1, /) -> bytes:
        return super().read(self._size if size is None or size < 0 else min(size, self._size))


def texts(data: bytes, options: ReadOptions = RECORDS, size: int = 1 << 20) -> list[str]:
    return [format_value(value) for value in values_of(read(Dripping(data, size), options))]


leaves = st.none() | st.booleans() | st.integers(-5, 5) | st.text('\\"[]{},: a\n', max_size=6)
nested = st.recursive(
    leaves,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text('a"\\,]', max_size=2), inner, max_size=3),
)
records = st.dictionaries(st.text("ab", min_size=1, max_size=2), nested, min_size=1, max_size=3)


@given(st.lists(records | nested, max_size=4), records, st.sampled_from([None, 2]), st.integers(1, 40))
def test_elements_are_what_their_lines_would_be(
    rest: list[object], first: object, indent: int | None, size: int
) -> None:
    elements = [first, *rest]
    lines = "\n".join(json.dumps(element) for element in elements)
    data = json.dumps(elements, indent=indent).encode()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(arrays, "_PEEK", max(size, 20))
        patch.setattr(arrays, "_CHUNK", size)
        assert texts(data, size=size) == texts(lines.encode())


def test_arrays_of_other_things_stay_values() -> None:
    assert texts(b"[1,2]") == ["[1,2]"]
    assert texts(b'[[{"a":1}]]') == ["[[{a:1}]]"]
    assert texts(b"[]") == ["[]"]
    assert texts(b'[{"a":1}]', ReadOptions()) == ["[{a:1}]"]
    assert texts(b'{"a":[{"b":1}]}') == ["{a:[{b:1}]}"]


def test_several_arrays_and_a_mark_of_utf8() -> None:
    assert texts(b'\xef\xbb\xbf [{"a":1}, {"a":2}]\n[{"a":3}]\n{"a":4}') == ["{a:1}", "{a:2}", "{a:3}", "{a:4}"]


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b'[{"a":1},', "unexpected end of JSON input: the array has no end"),
        (b'[{"a":1}', "unexpected end of JSON input: the array has no end"),
        (b'[{"a":"x', "unexpected end of JSON input: the array has no end"),
        (b'[{"a":1},,{"a":2}]', "line 1: element 2 of the array: expected a value"),
        (b'[{"a":1},{"a":2},]', "line 1: element 3 of the array: expected a value"),
        (b'[{"a":1} {"a":2}]', "line 1: element 1 of the array: expected one JSON value"),
        (b'[{"a":1},\n{"a":tru}]', "line 2: element 2 of the array: expecting value"),
        (b'[{"a":1}]]', "a bracket closes an array that was not opened"),
        (b'[{"a":1}] x', "line 1: element 2 of the array: expecting value"),
        (b'[{"a":1}],{"a":2}', "line 1: element 2 of the array: expecting value"),
    ],
)
@pytest.mark.parametrize("size", [1, 3, 1000])
def test_what_is_not_json_is_refused(data: bytes, why: str, size: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(arrays, "_PEEK", 12)
        with pytest.raises(InvalidInput) as e:
            texts(data, size=size)
    assert str(e.value) == why


def test_a_choice_that_does_not_exist_is_refused() -> None:
    with pytest.raises(InvalidInput, match=r"json\.array: 'rows' is not one of records, value"):
        ReadOptions(json_array="rows")
