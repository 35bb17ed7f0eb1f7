from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from shoal.engines.interp.functions.times import now
from shoal.model import types as t

CASES = [
    ("bucket", "2020-05-26T15:27:47Z 1h", "2020-05-26T15:00:00Z"),
    ("bucket", "2020-05-26T15:27:47Z 3600", "2020-05-26T15:00:00Z"),
    ("bucket", "5d10h 1d", "5d"),
    ("bucket", "-90s 1m", "-1m"),
    ("bucket", "1969-12-31T23:59:30Z 1m", "1970-01-01T00:00:00Z"),
    ("bucket", "1h 0s", "1h"),
    ("bucket", "null(time) 1h", "null(time)"),
    ("bucket", "1h null(duration)", "null(time)"),
    ("bucket", "1h(=d) 1m", "1h"),
    ("bucket", '"x" 1h', 'error({message:": first argument is not a time",on:"x"})'),
    ("every", '1h "x"', 'error({message:"every: second argument is not a duration or number",on:"x"})'),
    ("every", 'error("missing") 1h', 'error({message:"every: first argument is not a time",on:error("missing")})'),
]


@pytest.mark.parametrize("name, args, expected", CASES)
def test_buckets(call: Callable[[str, str], str], name: str, args: str, expected: str) -> None:
    assert call(name, args) == expected


def test_now_is_a_time() -> None:
    before = time.time_ns()
    made = now()
    assert made.type is t.TIME
    assert before <= made.data <= time.time_ns()
