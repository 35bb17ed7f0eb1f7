r"""Draws the graph of commits beside the log, as `git log --graph` does.

Commits come newest first, a commit after all that know of it. A lane stands for a commit that is to come:

    *   merge       the lane of a merge splits in two: its parent and the commit that it merged
    |\
    | * merged
    * | parent      lanes of the same commit end in one
    |/
    * ancestor
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain, zip_longest

_LANE, _COMMIT, _LEFT, _RIGHT = "|", "*", "/", "\\"


class Graph:
    """The lanes at the current line."""

    def __init__(self) -> None:
        self._lanes: list[str] = []

    def draw(self, commit: str, parents: Sequence[str], lines: Sequence[str]) -> list[str]:
        """The lines of a commit beside the graph."""
        before = self._join(commit)
        at = self._lanes.index(commit)
        node = _row({2 * lane: _COMMIT if lane == at else _LANE for lane in range(len(self._lanes))})
        after = self._follow(at, parents)
        steady = _row({2 * lane: _LANE for lane in range(len(self._lanes))})
        rows = [node, *after, *[steady] * (len(lines) - 1 - len(after))]
        width = max(map(len, rows))
        beside = zip_longest(rows, lines, fillvalue="")
        return [*before, *(f"{row.ljust(width)} {line}".rstrip() for row, line in beside)]

    def skip(self, commit: str, parents: Sequence[str]) -> list[str]:
        """What leads past a commit that is not shown."""
        before = self._join(commit)
        return [*before, *self._follow(self._lanes.index(commit), parents)]

    def _join(self, commit: str) -> list[str]:
        """Bring all lanes of a commit together in the first of them; a commit without one begins one."""
        if commit not in self._lanes:
            self._lanes.append(commit)
        rows = []
        first = self._lanes.index(commit)
        for last in range(len(self._lanes) - 1, first, -1):
            if self._lanes[last] == commit:
                rows.append(self._close(last))
                for crossed in range(last - 1, first, -1):
                    lanes = {2 * lane: _LANE for lane in range(len(self._lanes))}
                    rows.append(_row({**lanes, 2 * crossed - 1: _LEFT}))
        return rows

    def _close(self, lane: int, bends: bool = True) -> str:
        """End a lane; those right of it move to the left. If it bends, it leads to the lane left of it."""
        stay = {2 * each: _LANE for each in range(lane)}
        move = {2 * each - 1: _LEFT for each in range(lane if bends else lane + 1, len(self._lanes))}
        del self._lanes[lane]
        return _row({**stay, **move})

    def _follow(self, lane: int, parents: Sequence[str]) -> list[str]:
        """Let a lane lead to the parents of its commit."""
        if not parents:
            is_last = lane == len(self._lanes) - 1
            row = self._close(lane, bends=False)
            return [] if is_last else [row]
        self._lanes[lane] = parents[0]
        rows = []
        for parent in parents[1:]:
            stay = {2 * each: _LANE for each in range(lane + 1)}
            move = {2 * each + 1: _RIGHT for each in range(lane, len(self._lanes))}
            rows.append(_row({**stay, **move}))
            self._lanes.insert(lane + 1, parent)
        return rows


def _row(marks: dict[int, str]) -> str:
    """A row with marks at positions."""
    return "".join(marks.get(at, " ") for at in range(max(chain(marks, (-1,))) + 1))
