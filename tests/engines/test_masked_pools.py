"""Pools with masks and inline data give the answers of the same values loaded plainly, on every engine."""

from __future__ import annotations

import random

import pytest

from shoal.lake import lake
from shoal.local.lake import LocalLake
from shoal.storage.memory import MemoryStore
from shoal.testing.tiers import IS_LONG

SEEDS = range(200 if IS_LONG else 6)
QUESTIONS = (
    "from {p} | sort id", "from {p} | count()", "from {p} | sum(v), min(id), max(id) by g | sort g",
    "from {p} | k > 10 and k < 30 | sort id | cut id, k", "from {p} | where v == null | count()",
    "from {p} | g == 'a' | sort -r id | head 5", "from {p} | count() by typeof(this) | sort count",
)  # fmt: skip
SQL = (
    "SELECT count(*) AS n, sum(v) AS s FROM {p}", "SELECT g, count(id) AS n FROM {p} GROUP BY g ORDER BY g",
    "SELECT id, k FROM {p} WHERE k >= 5 AND k < 20 ORDER BY id",
)  # fmt: skip


def some_records(dice: random.Random, begin: int, count: int) -> list[dict[str, object]]:
    out: list[dict[str, object]] = []
    for ident in range(begin, begin + count):
        one: dict[str, object] = {"k": dice.randrange(40), "id": ident, "g": dice.choice("abc")}
        one["v"] = dice.choice([None, ident, ident + 1])
        if dice.random() < 0.2:
            one["more"] = str(ident)
        out.append(one)
    return out


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("engine", ["interp", "duckdb"])
def test_answers_are_those_of_plain_data(seed: int, engine: str, monkeypatch: pytest.MonkeyPatch) -> None:
    dice = random.Random(seed)
    monkeypatch.setattr("shoal.lake.masks.MOST_INSIDE", dice.choice([8, 4096]))
    there = LocalLake(lake.create(MemoryStore()))
    masked = there.create("masked", key="k", inline=dice.choice([0, 2048]), seek_stride=dice.choice([1, 4096]))
    plain = there.create("plain", key="k", inline=0)
    left: list[dict[str, object]] = []
    for _ in range(dice.randrange(2, 7)):
        new = some_records(dice, 1000 * dice.randrange(1, 1000), dice.choice([3, 40, 200]))
        masked.load(new)
        left += new
        low = dice.randrange(40)
        where = f"k == {low} or id % 17 == {dice.randrange(17)}"
        digit = int(where.rpartition(" ")[2])
        kept = [one for one in left if one["k"] != low and int(str(one["id"])) % 17 != digit]
        if len(kept) < len(left):
            masked.delete(where=where)
        left = kept
    plain.load(left)
    for question in QUESTIONS:
        answers = [list(there.query(question.format(p=p), engine=engine)) for p in ("masked", "plain")]
        assert answers[0] == answers[1], f"seed {seed}: {question}"
    for question in SQL if engine == "duckdb" else ():
        answers = [list(there.sql(question.format(p=p), engine=engine)) for p in ("masked", "plain")]
        assert answers[0] == answers[1], f"seed {seed}: {question}"
