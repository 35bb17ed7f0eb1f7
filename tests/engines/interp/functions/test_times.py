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


STRFTIME_CASES = [
    ("strftime", '"%Y-%a" 2024-07-30T06:15:01.062681Z', '"2024-Tue"'),
    ("strftime", '"%A %B %C %h %d %e %j" 2024-07-05T00:00:00Z', '"Friday July 20 Jul 05  5 187"'),
    (
        "strftime",
        '"%c|%D|%F|%x|%v" 2024-07-05T14:30:15Z',
        '"Fri Jul  5 14:30:15 2024|07/05/24|2024-07-05|07/05/24| 5-Jul-2024"',
    ),
    ("strftime", '"%H %I %k %l %M %S %p" 2024-07-05T00:03:09Z', '"00 12  0 12 03 09 AM"'),
    ("strftime", '"%R|%r|%T|%X" 2024-07-05T18:50:58Z', '"18:50|06:50:58 PM|18:50:58|18:50:58"'),
    ("strftime", '"%U %W %V %u %w" 2023-01-01T00:00:00Z', '"01 00 52 7 0"'),
    ("strftime", '"%U %W %V %u %w" 2024-01-01T00:00:00Z', '"00 01 01 1 1"'),
    ("strftime", '"%y%n%t%%%Z%z" 2024-07-05T00:00:00Z', '"24\\n\\t%UTC+0000"'),
    ("strftime", '"%Y" 1969-12-31T23:59:59.5Z', '"1969"'),
    ("strftime", '"" 2024-07-05T00:00:00Z', '""'),
    ("strftime", '"%Y" null(time)', "null(string)"),
    ("strftime", "1 2024-07-30T06:15:01Z", 'error({message:"strftime: string value required for format arg",on:1})'),
    ("strftime", '"%H" "foo"', 'error({message:"strftime: time value required for time arg",on:"foo"})'),
    (
        "strftime",
        '"a%" 2024-07-05T00:00:00Z',
        'error({message:"strftime: failed to compile format: stray % at the end of pattern",on:"a%"})',
    ),
    (
        "strftime",
        '"%1" 2024-07-05T00:00:00Z',
        (
            'error({message:"strftime: failed to compile format: pattern compilation failed: '
            'lookup failed: \'%1\' was not found in specification set",on:"%1"})'
        ),
    ),
]


@pytest.mark.parametrize("name, args, expected", STRFTIME_CASES)
def test_directives(call: Callable[[str, str], str], name: str, args: str, expected: str) -> None:
    assert call(name, args) == expected
