"""A round costs what is new, however many there were before."""

from __future__ import annotations

import statistics
from pathlib import Path

import pytest
from bench.etl import measure

from shoal.connect.etl import Etl
from shoal.testing.etl_scenes import WHOLE, Scene
from shoal.testing.tiers import IS_LONG


@pytest.mark.inline
@pytest.mark.timeout(7200 if IS_LONG else 300)
def test_the_last_rounds_cost_what_the_first_ones_cost(tmp_path: Path) -> None:
    if not IS_LONG:
        pytest.skip("10,000 rounds belong to the long tier")
    first, last = measure(10_000, tmp_path)
    work = [statistics.median(worked for _, worked in times) for times in (first, last)]
    assert work[1] < 1.5 * work[0]


def test_a_round_reads_nothing_but_what_is_new_and_what_goes_on(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also if an old transaction holds the cursor."""
    scene.add(("A", {"txn": "old", "done": False}), ("A", {"txn": "also", "done": False}))
    etl = scene.etl(WHOLE, {"in": "X", "zed": "pass", "out": "x"})
    for n in range(5):
        scene.add(("B", {"txn": n, "done": True}), ("B", {"txn": n + 1, "done": False}))
        etl.round()
    texts: list[str] = []
    query = type(scene.lake).query

    def watched(lake: object, program: str, **options: object) -> object:
        texts.append(program)
        return query(scene.lake, program, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(type(scene.lake), "query", watched)
    scene.add(("A", {"txn": "old", "done": False}))
    assert etl.round() is not None
    ranges = ["seqno>=13 and seqno<=13", "seqno>=1 and seqno<=1"]
    assert len(texts) == 3  # what is new, its groups, the group that goes on: nothing for the topic X
    assert [text for text in texts if any(each in text for each in ranges)] == [texts[1], texts[2]]
    monkeypatch.undo()
    opened: list[Etl] = []
    monkeypatch.setattr(Etl, "_open", lambda self, raw: opened.append(self))
    scene.add(("A", {"txn": "old", "done": True}))
    assert etl.round() is not None
    assert opened == []
