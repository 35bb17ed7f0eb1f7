"""What entries count as made when, after corrections."""

from __future__ import annotations

import pytest

from shoal.errors import CorruptData
from shoal.lake import timelines
from shoal.lake.timelines import CLOCK, Correction, Timeline, format_timeline, timeline_of
from shoal.model.values import int64


def test_a_timeline_without_corrections_leaves_every_entry_its_own_time() -> None:
    assert timeline_of({}) == Timeline()
    assert Timeline().time(1) is None


def test_corrections_are_read_back_as_they_were_written() -> None:
    timeline = Timeline((Correction(3, 5, 100, 900), Correction(7, 7, 200)))
    assert timeline_of({CLOCK: format_timeline(timeline)}) == timeline


def test_what_is_not_a_list_of_corrections_is_corrupt() -> None:
    with pytest.raises(CorruptData, match="corrections"):
        timeline_of({CLOCK: int64(1)})


def test_a_later_correction_overrides_an_earlier_one() -> None:
    timeline = Timeline().going_back(3, 4, 100, None).going_back(2, 6, 50, None)
    assert [timeline.time(position) for position in range(1, 8)] == [None, 50, 50, 50, 50, 50, None]


def test_a_correction_stays_if_as_many_entries_followed_as_it_corrects() -> None:
    timeline = Timeline().going_back(3, 4, 100, 900)
    assert timeline.settled(6, 899) == timeline
    assert timeline.settled(6, 900) == Timeline((Correction(3, 4, 100),))


def test_entries_that_are_fewer_than_those_they_contradict_are_moved_up() -> None:
    timeline = Timeline().going_back(3, 4, 100, 900)
    assert timeline.settled(5, 950) == Timeline((Correction(5, 5, 950),))


def test_moving_entries_up_drops_what_they_corrected_among_themselves() -> None:
    timeline = Timeline().going_back(1, 1, 10, None).going_back(3, 9, 100, 900).going_back(11, 11, 150, 800)
    assert timeline.settled(12, 900) == Timeline((Correction(1, 1, 10), Correction(10, 12, 900)))


def test_a_moment_is_doubtful_while_fewer_entries_contradict_more() -> None:
    timeline = Timeline().going_back(3, 4, 100, 900)
    assert [timeline.is_doubtful(ns, 5) for ns in (99, 100, 899, 900)] == [False, True, True, False]
    assert not timeline.is_doubtful(100, 6)
    assert not Timeline().going_back(3, 4, 100, None).is_doubtful(100, 5)


def test_the_closest_corrections_become_one_if_there_are_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timelines, "MOST", 3)
    timeline = Timeline()
    for first, at in ((1, 10), (3, 30), (5, 31), (7, 70)):
        timeline = timeline.going_back(first, first, at, None)
    assert timeline == Timeline((Correction(1, 1, 10), Correction(3, 5, 31), Correction(7, 7, 70)))


def test_corrections_that_are_overridden_go_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timelines, "MOST", 2)
    timeline = Timeline().going_back(1, 1, 10, None).going_back(3, 3, 30, None).going_back(3, 6, 20, 90)
    assert timeline == Timeline((Correction(1, 1, 10), Correction(3, 6, 20)))
