"""A lake in memory, and short words for what tests do with it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from shoal.ids import Id, new
from shoal.lake import changes, lake
from shoal.lake.commits import Note
from shoal.lake.keys import parse_sort_key
from shoal.lake.lake import Lake
from shoal.lake.pool_config import PoolConfig
from shoal.lake.pools import Pool
from shoal.lake.scans import scan
from shoal.model.text import format_value
from shoal.storage.memory import MemoryStore
from shoal.testing.clocks import Machine
from shoal.testing.queries import parse_values

Load = Callable[..., Id]
Read = Callable[..., list[str]]


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore()


@pytest.fixture
def made(store: MemoryStore) -> Lake:
    return lake.create(store)


@pytest.fixture
def pool(made: Lake) -> Pool:
    return made.create_pool(PoolConfig(new(), "logs", parse_sort_key("k")))


@pytest.fixture
def other(made: Lake) -> Pool:
    return made.create_pool(PoolConfig(new(), "items", parse_sort_key("k")))


@pytest.fixture
def load(pool: Pool) -> Load:
    """Loads ZSON text onto a branch."""

    def run(text: str, branch: str = "main", into: Pool | None = None, op: Id | None = None) -> Id:
        target = into or pool
        writer = target.writer()
        for value in parse_values(text):
            writer.write(value)
        return target.committer.commit(changes.load(branch, writer.close(), Note("tester"), op))

    return run


@pytest.fixture
def read(pool: Pool) -> Read:
    """The values at a commitish as ZSON texts, in the order of the pool."""

    def run(commitish: str | Id | None = "main", of: Pool | None = None) -> list[str]:
        target = of or pool
        commit = target.resolve(commitish) if isinstance(commitish, str) else commitish
        return [format_value(value) for value in scan(target, commit)]

    return run


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Machine:
    """The clocks of all processes."""
    machine = Machine()
    for module in ("clocks", "journal", "lake", "sessions"):
        monkeypatch.setattr(f"shoal.lake.{module}.time", machine)
    monkeypatch.setattr("shoal.ids.time", machine)
    return machine
