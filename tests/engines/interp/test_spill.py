"""What does not fit in memory goes to disk, and the answer stays the same."""

from __future__ import annotations

import random
import tempfile
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.api.options import Memory
from shoal.engines.interp import spill
from shoal.engines.interp.engine import run_program
from shoal.engines.interp.environment import Run
from shoal.engines.interp.spill import Workspace
from shoal.errors import InvalidInput, StorageFailure
from shoal.model import types as t
from shoal.model.text import format_value
from shoal.model.values import Value
from shoal.testing.queries import answer, compile_program, parse_values
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
    monkeypatch.setattr(spill, "QUEUE_LENGTH", 5)
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


@given(st.lists(st.booleans(), max_size=60), st.integers(1, 4))
def test_a_queue_is_a_queue_however_little_it_keeps_in_memory(pushes: list[bool], length: int) -> None:
    workspace = Workspace()
    with mock_length(length):
        queue, model = spill.SpillingQueue(workspace), deque[Value]()
        for i, is_push in enumerate(pushes):
            if is_push or not model:
                value = Value(t.INT64, i)
                queue.push(value)
                model.append(value)
            else:
                assert queue.pop() == model.popleft()
            assert len(queue) == len(model)
            assert len(queue._front) <= length
        assert [queue.pop() for _ in range(len(queue))] == list(model)
    workspace.close()


@contextmanager
def mock_length(length: int) -> Iterator[None]:
    usual, spill.QUEUE_LENGTH = spill.QUEUE_LENGTH, length
    try:
        yield
    finally:
        spill.QUEUE_LENGTH = usual


def test_many_runs_are_merged_some_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spill, "MOST_RUNS", 3)
    tiny = Memory(sort=1, fuse=1, groups=1)
    for program in ("sort k, s, n", "count() by k, s | sort k, s", "collect(n) by k | sort k"):
        assert answer(program, ROWS, tiny) == answer(program, ROWS)


def test_values_that_hold_types_come_back_from_disk() -> None:
    workspace = Workspace()
    values = every_kind()
    assert list(spill.SpillFile(workspace, values)) == values
    workspace.close()


def test_a_failing_input_leaves_no_file_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))

    def failing() -> Iterator[Value]:
        yield from parse_values(ROWS)
        raise InvalidInput("no more")

    for program in ("sort n", "sort n | tail 1", "fuse", "count() by n", "fork (=> sort n => tail 1)"):
        with pytest.raises(InvalidInput, match="no more"):
            list(run_program(compile_program(program), failing(), Run(memory=TINY)))
        assert list(tmp_path.iterdir()) == []


def test_a_full_disk_is_a_storage_failure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "full").symlink_to("/dev/full")
    monkeypatch.setattr(Workspace, "new_file", lambda self: tmp_path / "full")
    with pytest.raises(StorageFailure, match="no space left"):
        answer("sort n", ROWS * 10, TINY)
