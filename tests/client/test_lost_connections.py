"""Connections that are lost at every place: each change happens once, and what is not known is said to be so."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import shoal
from shoal.api.protocol import Lake, Pool
from shoal.client import service, uploads
from shoal.errors import OutcomeUnknown, StorageFailure
from shoal.testing.cutting_proxy import CuttingProxy, cutting
from shoal.testing.services import Served


@pytest.fixture
def proxy(empty_service: Served) -> Iterator[CuttingProxy]:
    with cutting(empty_service.url) as made:
        yield made


@pytest.fixture(autouse=True)
def _in_a_hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(service, "_FIRST_PAUSE", 0.001)


@pytest.fixture
def lake(proxy: CuttingProxy) -> Lake:
    return shoal.open(proxy.url)


@pytest.fixture
def pool(lake: Lake) -> Pool:
    return lake.create("logs", key="ts")


class Pipe(io.RawIOBase):
    """Bytes that can be read once."""

    def __init__(self, data: bytes) -> None:
        self._inner = io.BytesIO(data)

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        return self._inner.read(size)


def numbers(lake: Lake) -> list[Any]:
    return lake.query("from logs | yield ts").to_list()


LOADS: dict[str, Callable[[Path], Any]] = {
    "bytes": lambda folder: b"{ts:1}",
    "values": lambda folder: [{"ts": 1}],
    "an iterator": lambda folder: iter([{"ts": 1}]),
    "a path": lambda folder: folder / "a.zson",
    "an open file": lambda folder: (folder / "a.zson").open("rb"),
    "a pipe": lambda folder: Pipe(b"{ts:1}"),
}


@pytest.mark.parametrize("times", [1, 3])
@pytest.mark.parametrize("kind", LOADS)
def test_a_load_whose_answer_is_lost_is_there_once(
    kind: str, times: int, lake: Lake, pool: Pool, proxy: CuttingProxy, tmp_path: Path
) -> None:
    (tmp_path / "a.zson").write_text("{ts:1}")
    data = LOADS[kind](tmp_path)
    proxy.cut("answer", times)
    commit = pool.load(data)
    if hasattr(data, "close"):
        data.close()
    assert proxy.cuts == times
    assert numbers(lake) == [1]
    assert [c.id for c in pool.log()] == [commit]
