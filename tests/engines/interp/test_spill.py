"""What does not fit in memory goes to disk, and the answer stays the same."""

from __future__ import annotations

import random
import tempfile
from pathlib import Path

import pytest

from shoal.engines.interp.engine import compile_program, run_program
from shoal.engines.interp.environment import Memory, Run
from shoal.engines.interp.operators import held
from shoal.model.text import format_value
from shoal.testing.queries import answer, parse_values
from shoal.testing.samples import every_kind

TINY = Memory(sort=4000, aggregate=4000, fuse=4000, groups=7)
ROWS = "".join(f'{{k:{i * 7919 % 41},s:"{i * 31 % 97}",n:{i}}}' for i in range(500))
PROGRAMS = [
    "sort k, s, n",
    "sort -r s, n",
    "sort -nulls first missing_one, k desc, n",
    "fuse",
    "shape",
    "n:=count(), sum(n), avg(n), min(s), max(n), any(s), dcount(n), and(n>0), or(n>1) by k | sort k",
    "count() by k, s | sort k, s",
    "union(s) by k | sort k",
    "collect(n) by k | sort k",
    "collect_map(|{s:n}|) by k | sort k",
    "top 200000 k | sort k, n",
    "join (yield this) on k=k k2:=k | count()",
    "fork (=> sort n | head 3 => count()) | sort this",
]


@pytest.mark.parametrize("program", PROGRAMS)
def test_the_same_answer_with_little_memory(program: str) -> None:
    assert answer(program, ROWS, TINY) == answer(program, ROWS)


def test_values_of_every_kind_sort_alike_on_disk_and_in_memory() -> None:
    values = every_kind() * 2
    random.Random(1).shuffle(values)
    program = compile_program("sort this")
    small = list(run_program(program, values, Run(memory=TINY)))
    assert small == list(run_program(program, values))


def test_keys_of_every_kind_group_alike_on_disk_and_in_memory() -> None:
    values = every_kind() * 3
    program = compile_program("count() by k:=this")
    small = {format_value(v) for v in run_program(program, values, Run(memory=TINY))}
    assert small == {format_value(v) for v in run_program(program, values)}


def test_a_limit_of_groups_sorts_them() -> None:
    assert answer("count() by k with -limit 2", "{k:3}{k:1}{k:2}{k:1}").split("\n") == [
        "{k:1,count:2(uint64)}",
        "{k:2,count:1(uint64)}",
        "{k:3,count:1(uint64)}",
    ]


def test_a_leg_that_waits_keeps_its_values_on_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(held, "QUEUE_LENGTH", 5)
    rows = "".join(f"{i} " for i in range(100))
    assert answer("fork (=> count() => sum(this) => tail 1)", rows).split("\n") == ["100(uint64)", "4950", "99"]


SPILLING = ["sort n", "fuse", "count() by n", "sort n | head 200000", "fork (=> count() => pass)"]


@pytest.mark.parametrize("program", SPILLING)
def test_no_file_is_left_behind(program: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    stream = run_program(compile_program(program), parse_values(ROWS), Run(memory=TINY))
    next(stream)
    stream.close()  # type: ignore[attr-defined]
    assert list(tmp_path.iterdir()) == []
    list(run_program(compile_program(program), parse_values(ROWS), Run(memory=TINY)))
    assert list(tmp_path.iterdir()) == []
