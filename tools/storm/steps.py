"""Each reachable commit as a step from the state of its parent, checked by what its operation was to do.

A state is a set of data objects, with the rows of each that are hidden. Merges, picks, reverts and rebases move whole
objects and masks; which records these are matters for loads, deletions of records and compactions.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable
from itertools import accumulate
from typing import TYPE_CHECKING

from tools.storm.attempts import Attempt
from tools.storm.pool_history import PoolHistory
from tools.storm.raw_lake import Commit, Description, PoolFiles, RawLake, id_text
from tools.storm.rows import Filter, Row, Total, rows_of, total
from tools.storm.zng import Broken

if TYPE_CHECKING:
    from tools.storm.check import Report

Ident = tuple[int, int]
"""A record: its load and its position there."""
State = dict[str, Description]
"""The objects at a commit, as they are described there."""
Hidden = dict[str, frozenset[int]]
"""The objects at a commit, with the numbers of their hidden rows."""


class Content:
    """What a data object shows, sorted by key."""

    def __init__(self, rows: list[Row]) -> None:
        ordered = sorted(rows, key=lambda row: row["k"])
        self.idents = [(row["load"], row["i"]) for row in ordered]
        self.loads = {row["load"] for row in ordered}
        self.total = total(ordered)
        self._keys = [row["k"] for row in ordered]
        self._weights = list(accumulate((row["w"] for row in ordered), initial=0))
        self._sums = list(accumulate(self._keys, initial=0))

    def within(self, filtered: Filter) -> Total:
        """The total of the records that match a filter."""
        if filtered.load is not None:
            if filtered.load not in self.loads:
                return Total(0, 0, 0)
            return total(row for row in map(row_of, self.idents) if filtered.accepts(row))
        low, high = bisect_left(self._keys, filtered.low), bisect_left(self._keys, filtered.high)
        return Total(high - low, self._weights[high] - self._weights[low], self._sums[high] - self._sums[low])


def row_of(ident: Ident) -> Row:
    """A record as its load has it."""
    return rows_of(ident[0])[ident[1]]


class Steps:
    """The states and contents of a pool's reachable commits."""

    def __init__(self, report: Report, lake: RawLake, pool: PoolFiles, history: PoolHistory) -> None:
        self._report = report
        self._lake = lake
        self.pool = pool
        self.history = history
        self.states: dict[str, State] = {}
        """The objects at each commit."""
        self._plain: dict[str, Description] = {}
        """How each object is described, but for what its mask changes."""
        self._rows: dict[str, list[Row]] = {}
        self._hidden: dict[tuple[str, bytes], frozenset[int]] = {}
        self._contents: dict[tuple[str, frozenset[int]], Content] = {}

    def check(self) -> None:
        """Check all commits, each after its parent."""
        for commit in sorted(self.history.commits.values(), key=lambda each: each.generation):
            self._check_objects(commit)
            state = dict(self.state(commit.parent))
            name = self._name(commit)
            twice = commit.adds.keys() & state.keys()
            self._report.require(not twice, f"{name} adds objects that are there: {sorted(twice)[:3]}")
            before = {**commit.deletes, **{ident: old for ident, (old, _) in commit.masks.items()}}
            absent = [ident for ident, old in before.items() if state.pop(ident, None) != old]
            self._report.require(not absent, f"{name} changes objects that are not there: {sorted(absent)[:3]}")
            state.update(commit.adds)
            state.update({ident: new for ident, (_, new) in commit.masks.items()})
            self.states[commit.id] = state
            self._check_links(commit)
            self._check_operation(commit)

    def _name(self, commit: Commit) -> str:
        attempt = self.history.attempts.get(commit.op)
        return f"{self.pool.name}: commit {commit.id} ({attempt.kind if attempt else 'unknown operation'})"

    def state(self, commit: str | None) -> State:
        """The objects at a commit."""
        return {} if commit is None else self.states.get(commit, {})

    def hidden(self, description: Description) -> frozenset[int]:
        """The hidden rows of an object. What is wrong with its mask has been reported."""
        mask = description.get("mask")
        if mask is None:
            return frozenset()
        name = id_text(description["id"]), bytes(mask["id"]) + mask["data"]
        if name not in self._hidden:
            try:
                self._hidden[name] = self._lake.hidden(self.pool.id, description)
            except (Broken, FileNotFoundError) as e:
                self._report.require(False, f"{self.pool.name}: {e}")
                self._hidden[name] = frozenset()
        return self._hidden[name]

    def _hidden_at(self, commit: str | None) -> Hidden:
        return {ident: self.hidden(each) for ident, each in self.state(commit).items()}

    def content(self, description: Description) -> Content:
        """What an object shows. What is wrong with it has been reported."""
        ident, hidden = id_text(description["id"]), self.hidden(description)
        if (ident, hidden) not in self._contents:
            rows = self._rows_of(ident, description)
            self._contents[ident, hidden] = Content([row for i, row in enumerate(rows) if i not in hidden])
        return self._contents[ident, hidden]

    def _rows_of(self, ident: str, description: Description) -> list[Row]:
        if ident not in self._rows:
            rows: list[Row] = []
            try:
                rows = self._lake.rows(self.pool.id, description)
                self._check_rows(ident, description, rows)
            except FileNotFoundError:
                self._report.require(False, f"{self.pool.name}: data object {ident} is reachable and not in the store")
            except Broken as e:
                self._report.require(False, str(e))
            self._rows[ident] = rows
            self._report.counts["objects"] += 1
        return self._rows[ident]

    def _check_rows(self, ident: str, description: Description, rows: list[Row]) -> None:
        name = f"{self.pool.name}: data object {ident}"
        for row in rows:
            expected = rows_of(row["load"])
            is_right = row["i"] < len(expected) and row == expected[row["i"]]
            if not self._report.require(is_right, f"{name} has a record that nobody loaded: {row}"):
                rows[:] = [each for each in rows if each in rows_of(each["load"])]
                return
        keys = [row["k"] for row in rows]
        is_sorted = keys == sorted(keys, reverse=self.pool.order == "desc")
        self._report.require(is_sorted, f"{name} is not sorted")
        bounds = (min(keys), max(keys)) if keys else ()
        self._report.require(bounds == (description["min"], description["max"]), f"{name} has the keys {bounds}")

    def _check_objects(self, commit: Commit) -> None:
        """All objects of a commit are in the store, whole, and described as everywhere else but for their masks."""
        masked = (each for pair in commit.masks.values() for each in pair)
        for description in (*commit.adds.values(), *commit.deletes.values(), *masked):
            ident, plain = id_text(description["id"]), _without_mask(description)
            known = self._plain.setdefault(ident, plain)
            self._report.require(known == plain, f"{self._name(commit)} describes object {ident} differently")
            self.content(description)

    def _check_links(self, commit: Commit) -> None:
        """Generations grow, and the hints name the commits since a checkpoint."""
        for ident in (commit.parent, commit.merged):
            known = None if ident is None else self.history.commits.get(ident)
            if known is not None:
                is_younger = commit.generation > known.generation
                self._report.require(is_younger, f"{self._name(commit)} is not younger than {ident}")
        tip = commit.parent
        for ident in reversed(commit.since):
            if not self._report.require(ident == tip, f"{self._name(commit)}: `since` is not its history"):
                return
            known = self.history.commits.get(ident)
            tip = known.parent if known else None
        self._report.require(tip == commit.checkpoint, f"{self._name(commit)}: `since` does not begin at a checkpoint")

    # ---- by operation

    def _check_operation(self, commit: Commit) -> None:
        attempt = self.history.attempts.get(commit.op)
        _, landed = self.history.landed.get(commit.op, ("", commit.id))
        if attempt is None:
            self._check_compact(commit, None)  # of `manage`, which chooses its ids itself
        elif landed != commit.id:
            self._check_replayed(commit, landed)
        else:
            checks = {
                "load": self._check_load,
                "delete": self._check_delete,
                "delete where": self._check_delete_where,
                "compact": self._check_compact,
                "merge": self._check_merge,
                "revert": self._check_revert,
                "cherry-pick": self._check_cherry_pick,
            }
            name = f"{self._name(commit)}: made by an operation that makes no commits"
            if self._report.require(attempt.kind in checks, name):
                checks[attempt.kind](commit, attempt)

    def _idents(self, objects: Iterable[Description]) -> Counter[Ident]:
        return Counter(ident for each in objects for ident in self.content(each).idents)

    def _changes(self, commit: Commit) -> tuple[Counter[Ident], Counter[Ident]]:
        """The records that come with a commit, and those that go; records that move do neither."""
        old, new = (self._idents(pair[side] for pair in commit.masks.values()) for side in (0, 1))
        old += self._idents(commit.deletes.values())
        new += self._idents(commit.adds.values())
        return new - old, old - new

    def _check_load(self, commit: Commit, attempt: Attempt | None) -> None:
        assert attempt is not None
        load = attempt.details["load"]
        expected = Counter((load, i) for i in range(len(rows_of(load))))
        is_right = not commit.deletes and not commit.masks and self._idents(commit.adds.values()) == expected
        self._report.require(is_right, f"{self._name(commit)} is not the whole of load {load}, once")

    def _check_delete(self, commit: Commit, attempt: Attempt | None) -> None:
        assert attempt is not None
        is_right = not commit.adds and not commit.masks
        is_right = is_right and sorted(commit.deletes) == sorted(attempt.details["objects"])
        self._report.require(is_right, f"{self._name(commit)} did not delete just what it was to delete")

    def _check_delete_where(self, commit: Commit, attempt: Attempt | None) -> None:
        assert attempt is not None
        filtered = Filter(*attempt.details["where"])
        came, went = self._changes(commit)
        is_right = not came and all(filtered.accepts(row_of(ident)) for ident in went)
        self._report.require(is_right, f"{self._name(commit)} did not keep just the others ({filtered.text()})")
        state = self.states[commit.id]
        present = self._always_present(attempt.details["tip"], commit)
        left = [each for each in present if self.content(state[each]).within(filtered).records]
        self._report.require(not left, f"{self._name(commit)} left records ({filtered.text()}) in {left[:3]}")

    def _always_present(self, tip: str | None, commit: Commit) -> frozenset[str]:
        """The objects of a commit that were there ever since a tip of the past; none if it is not in its history.

        A deletion of records deletes what is there when it begins: loads that come meanwhile stay.
        """
        objects, parent = self.states[commit.id].keys() & self.state(tip).keys(), commit.parent
        while parent != tip:
            if parent is None or parent not in self.history.commits:
                return frozenset()
            objects &= self.state(parent).keys()
            parent = self.history.commits[parent].parent
        return frozenset(objects)

    def _check_compact(self, commit: Commit, attempt: Attempt | None) -> None:
        is_right = not any(self._changes(commit)) and not commit.masks
        self._report.require(is_right, f"{self._name(commit)} changed records, as no compaction may")
        if attempt is not None:
            is_right = sorted(commit.deletes) == sorted(attempt.details["objects"])
            self._report.require(is_right, f"{self._name(commit)} compacted other objects")

    def _check_merge(self, commit: Commit, attempt: Attempt | None) -> None:
        """With one common ancestor the changes follow from three states; with several, less can be said."""
        assert attempt is not None
        ours, theirs = self._hidden_at(commit.parent), self._hidden_at(commit.merged)
        bases = self._common_ancestors(commit.parent, commit.merged)
        if len(bases) < 2:
            base = self._hidden_at(bases.pop() if bases else None)
            is_right = self._hidden_at(commit.id) == _merged(base, ours, theirs)
        else:
            is_right = commit.adds.keys() <= theirs.keys() and not commit.deletes.keys() & theirs.keys()
        self._report.require(is_right, f"{self._name(commit)} is not what {attempt.details['child']} changed")

    def _common_ancestors(self, one: str | None, other: str | None) -> set[str]:
        """The best ones: those that no other common ancestor knows of."""
        common = self.history.ancestors(one) & self.history.ancestors(other)
        known: set[str] = set()
        for ident in sorted(common, key=lambda each: -self.history.commits[each].generation):
            if ident not in known:
                known |= self.history.ancestors(ident) - {ident}
        return common - known

    def _check_revert(self, commit: Commit, attempt: Attempt | None) -> None:
        assert attempt is not None
        of = self.history.find(attempt.details["commit"])
        if of is None:  # nothing reaches it any more
            self._report.counts["unverifiable"] += 1
            return
        is_right = commit.adds.keys() == of.deletes.keys() and commit.deletes.keys() == of.adds.keys()
        is_right = is_right and self._masks_as(commit, of, is_inverse=True)
        self._report.require(is_right, f"{self._name(commit)} is not the opposite of {of.id}")

    def _check_cherry_pick(self, commit: Commit, attempt: Attempt | None) -> None:
        assert attempt is not None
        of = self.history.find(attempt.details["commit"])
        if of is None:
            self._report.counts["unverifiable"] += 1
            return
        self._report.require(self._does(commit, of), f"{self._name(commit)} does not do what {of.id} did")

    def _check_replayed(self, commit: Commit, landed: str) -> None:
        """A commit that a rebase wrote again: the first one, without what was there already."""
        of = self.history.find(landed)
        if of is None:
            attempt = self.history.attempts[commit.op]
            if attempt.kind == "load" and commit.adds:
                self._check_load(commit, attempt)
            return
        self._report.require(self._does(commit, of), f"{self._name(commit)} does not do what {landed} did")

    def _does(self, commit: Commit, of: Commit) -> bool:
        """Whether a commit does what another one did, but for what was there already."""
        there = self.state(commit.parent).keys()
        is_right = commit.adds.keys() == of.adds.keys() - there and commit.deletes.keys() == of.deletes.keys() & there
        return is_right and self._masks_as(commit, of)

    def _masks_as(self, commit: Commit, of: Commit, is_inverse: bool = False) -> bool:
        """Whether a commit hides and shows the rows that another one hid and showed, or the other way round."""
        before, after = self._hidden_at(commit.parent), self._hidden_at(commit.id)
        for ident, (old, new) in of.masks.items():
            one, other = self.hidden(old), self.hidden(new)
            one, other = (other, one) if is_inverse else (one, other)
            if ident in before and after.get(ident) != (before[ident] | (other - one)) - (one - other):
                return False
        return commit.masks.keys() <= of.masks.keys() | of.adds.keys() | of.deletes.keys()


def _without_mask(description: Description) -> Description:
    """A description without what a mask changes: counts and sizes, and the form, which names it."""
    changed = ("mask", "count", "shapes", "form", "value_size")
    return {name: each for name, each in description.items() if name not in changed}


def _merged(base: Hidden, ours: Hidden, theirs: Hidden) -> Hidden:
    """The state that a merge gives: theirs since the base, on top of ours."""
    merged = {ident: hidden for ident, hidden in ours.items() if ident not in base or ident in theirs}
    for ident, hidden in theirs.items():
        if ident in merged:
            before = base.get(ident, frozenset())
            merged[ident] = (merged[ident] | (hidden - before)) - (before - hidden)
        elif ident not in base:
            merged[ident] = hidden
    return merged
