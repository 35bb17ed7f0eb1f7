"""The graph of commits: the order of the log, and what a merge brought in."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from hypothesis import given
from hypothesis import strategies as st

from shoal.ids import Id
from shoal.lake.commits import Commit, Commits, Note
from shoal.lake.history import brought_in, in_order
from shoal.storage.memory import MemoryStore


class Drawn(NamedTuple):
    """A commit by the numbers of its parent and of what it merged, and its date."""

    parent: int | None
    merged: int | None
    date: int


def ident(number: int) -> Id:
    return Id(number.to_bytes(20, "big"))


def stored(graph: Sequence[Drawn]) -> Commits:
    commits = Commits(MemoryStore(), "p", lambda: None)
    generations: list[int] = []
    for number, (parent, merged, date) in enumerate(graph):
        known = [generations[each] for each in (parent, merged) if each is not None]
        generations.append(1 + max(known, default=0))
        parents = [None if each is None else ident(each) for each in (parent, merged)]
        commits.write(
            Commit(ident(number), parents[0], date, Note(), merged=parents[1], generation=generations[number])
        )
    return commits


@st.composite
def graphs(draw: st.DrawFn) -> list[Drawn]:
    """Commits in the order of their creation, with clocks that are right most of the time."""
    graph: list[Drawn] = []
    for number in range(draw(st.integers(1, 14))):
        older = st.integers(max(0, number - 4), number - 1) if number else st.none()
        parent = draw(older if number and draw(st.integers(0, 9)) else st.none())
        merged = draw(older) if parent is not None and draw(st.booleans()) else None
        date = number if draw(st.integers(0, 4)) else draw(st.integers(0, 14))
        graph.append(Drawn(parent, None if merged == parent else merged, date))
    return graph


def known_to(graph: Sequence[Drawn], tips: Sequence[int | None]) -> set[int]:
    known: set[int] = set()
    waiting = [tip for tip in tips if tip is not None]
    while waiting:
        number = waiting.pop()
        if number not in known:
            known.add(number)
            waiting += [each for each in graph[number][:2] if each is not None]
    return known


def numbers(commits: list[Commit]) -> list[int]:
    return [int.from_bytes(commit.id, "big") for commit in commits]


@given(graphs(), st.data())
def test_a_log_has_every_commit_once_and_after_all_that_know_of_it(graph: list[Drawn], data: st.DataObject) -> None:
    tips = data.draw(st.lists(st.integers(0, len(graph) - 1), min_size=1, max_size=4))
    listed = numbers(list(in_order(stored(graph), map(ident, tips), None)))
    assert sorted(listed) == sorted(known_to(graph, tips))
    place = {number: at for at, number in enumerate(listed)}
    for number in listed:
        assert all(place[each] > place[number] for each in graph[number][:2] if each is not None)


@given(graphs())
def test_a_merge_brought_in_what_its_parent_does_not_know_of(graph: list[Drawn]) -> None:
    commits = stored(graph)
    for number, (parent, merged, _) in enumerate(graph):
        brought = numbers(brought_in(commits, commits.read(ident(number))))
        assert sorted(brought) == sorted(known_to(graph, [merged]) - known_to(graph, [parent]))


def test_commits_of_several_branches_are_in_the_order_of_their_dates() -> None:
    graph = [Drawn(None, None, 1), Drawn(0, None, 2), Drawn(0, None, 3), Drawn(1, None, 4), Drawn(2, None, 5)]
    assert numbers(list(in_order(stored(graph), [ident(3), ident(4)], None))) == [4, 3, 2, 1, 0]


def test_a_log_begins_where_history_does() -> None:
    graph = [Drawn(None, None, 1), Drawn(0, None, 2), Drawn(1, None, 3)]
    assert numbers(list(in_order(stored(graph), [ident(2)], ident(1)))) == [2, 1]


def test_the_newest_commits_are_found_without_reading_all() -> None:
    graph = [Drawn(number - 1 if number else None, None, number) for number in range(200)]
    commits = stored(graph)
    fresh = Commits(commits._store, "p", lambda: None)
    assert next(in_order(fresh, [ident(199), ident(150)], None)).id == ident(199)
    assert len(fresh._cache) < 5
