from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import shoal
from shoal.api.lake import Lake
from shoal.errors import Conflict, NotFound, StorageFailure
from shoal.lake import changes
from shoal.local.manage import Policy, PoolPolicy, manage, monitor, parse_policy

Lines = list[tuple[str, str, dict[str, Any]]]


class Recorder:
    """Keeps what is logged."""

    def __init__(self) -> None:
        self.lines: Lines = []

    def __call__(self, level: str, message: str, **fields: Any) -> None:
        self.lines.append((level, message, fields))

    def messages(self, least: str = "info") -> list[str]:
        levels = ["debug", "info", "warn", "error"]
        return [message for level, message, _ in self.lines if levels.index(level) >= levels.index(least)]


@pytest.fixture
def lake() -> Lake:
    made = shoal.create("memory://")
    for name in ("a", "b"):
        pool = made.create(name, key="ts")
        for i in range(3):
            pool.load([{"ts": i}, {"ts": i + 5}])
    return made


def count(lake: Lake, pool: str) -> int:
    return len(list(lake.pool(pool).objects()))


def test_a_policy_is_plain_data() -> None:
    assert parse_policy(None) == parse_policy({}) == Policy((), 60.0)
    assert parse_policy({"interval": "1m30s", "pools": [{"pool": "a"}, {"pool": "b", "branch": "x"}]}) == Policy(
        (PoolPolicy("a"), PoolPolicy("b", "x")), 90.0
    )
    assert parse_policy({"pools": None, "interval": None}) == Policy()


def test_a_round_compacts_what_is_worth_it(lake: Lake) -> None:
    log = Recorder()
    manage(lake, Policy(), log)
    assert (count(lake, "a"), count(lake, "b")) == (1, 1)
    assert log.messages() == ["updating pool", "compaction completed"] * 2
    assert log.lines[2][2]["runs_found"] == 1


def test_a_pool_that_fails_does_not_keep_the_others_from_their_turn(lake: Lake) -> None:
    log = Recorder()
    with pytest.raises(NotFound, match="branch not found"):
        manage(lake, Policy((PoolPolicy("a", "nope"), PoolPolicy("b"))), log)
    assert (count(lake, "a"), count(lake, "b")) == (3, 1)
    assert log.messages("error") == ["update error"]


def test_objects_that_another_writer_took_are_left_for_the_next_round(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = Recorder()

    def refuse(*args: Any) -> str:
        raise Conflict("compact: another was first")

    with monkeypatch.context() as patch:
        patch.setattr(changes, "rewrite", refuse)
        manage(lake, Policy((PoolPolicy("a"),)), log)
    assert log.messages("warn") == ["left for the next round"]
    manage(lake, Policy((PoolPolicy("a"),)), log)
    assert count(lake, "a") == 1


def test_a_round_ends_between_two_compactions(lake: Lake) -> None:
    log = Recorder()
    manage(lake, Policy(), log, lambda: True)
    assert count(lake, "a") == 3


def test_a_monitor_repeats_a_round_that_failed(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    log = Recorder()
    failures: Iterator[bool] = iter([True, False, False, False, False])
    pools = lake.pools

    def failing() -> Any:
        if next(failures):
            raise StorageFailure("the store is down")
        return pools()

    waits: list[float] = []

    def wait(seconds: float) -> bool:
        waits.append(seconds)
        return seconds > 0 and waits.count(seconds) == 2

    monkeypatch.setattr(lake, "pools", failing)
    monitor(lake, Policy(interval=7.0), log, wait)
    assert waits.count(7.0) == 2
    assert log.messages()[:2] == ["monitoring", "round failed, will retry"]
    assert log.messages()[-1] == "monitoring ended"
    assert (count(lake, "a"), count(lake, "b")) == (1, 1)
