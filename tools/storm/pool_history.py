"""The history of a pool: its journal done again, and what every worker was told compared with it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tools.storm.attempts import Attempt
from tools.storm.raw_lake import Commit, Entry, PoolFiles, RawLake, optional_id
from tools.storm.zng import Broken

if TYPE_CHECKING:
    from tools.storm.check import Report

MAKES_COMMITS = ("load", "delete", "delete where", "compact", "merge", "revert", "cherry-pick")


class PoolHistory:
    """Branches, tags and commits of a pool. `replay` comes first."""

    def __init__(self, report: Report, lake: RawLake, pool: PoolFiles, attempts: dict[str, Attempt]) -> None:
        self._report = report
        self._lake = lake
        self.pool = pool
        self.attempts = attempts
        self.branches: dict[str, str | None] = {}
        self.tags: dict[str, str] = {}
        self.commits: dict[str, Commit] = {}
        """The reachable commits."""
        self.landed: dict[str, tuple[str, str]] = {}
        """The branch and the commit of each operation that made one."""
        self.mains: list[tuple[int, int, str | None]] = []
        """Position, time and tip of `main`, for each entry that set it."""
        self._rebased: set[str] = set()
        """Branches that were rebased since they were created."""
        self._dropped: dict[str, int] = {}
        """Where branches were dropped last."""
        self._vacuumed = 0
        self._cache: dict[str, Commit | None] = {}
        self._chains: list[tuple[Entry, str, str | None, str]] = []

    def find(self, ident: str) -> Commit | None:
        """A commit; None if it is not in the store."""
        if ident not in self._cache:
            try:
                self._cache[ident] = self._lake.commit(self.pool.id, ident)
            except FileNotFoundError:
                self._cache[ident] = None
            except Broken as e:
                self._report.require(False, str(e))
                self._cache[ident] = None
        return self._cache[ident]

    def replay(self, entries: list[Entry]) -> None:
        """Follow the entries, find what is reachable at the end, and check how branches moved."""
        for entry in entries:
            for key, value in entry.changes.items():
                kind, _, name = key.partition("/")
                if kind == "branch":
                    self._set_branch(entry, name, value)
                elif kind == "tag":
                    self._set_tag(entry, name, value)
                elif kind == "vacuum":
                    self._vacuumed = entry.position
                else:
                    self._report.require(False, f"{self._where(entry)}: the key {key!r}, which no worker sets")
        for tip in (*self.branches.values(), *self.tags.values()):
            self._reach(tip)
        for chain in self._chains:
            self._check_move(*chain)

    def _where(self, entry: Entry) -> str:
        return f"{self.pool.name}: entry {entry.position}"

    def _set_branch(self, entry: Entry, name: str, value: Any) -> None:
        if value is None:
            self._expect(entry, "drop branch", name in self.branches)
            self.branches.pop(name, None)
            self._rebased.discard(name)
            self._dropped[name] = entry.position
            return
        commit = optional_id(value["commit"])
        if name in self.branches:
            if self._is_rebase(entry):
                self._rebased.add(name)
            if commit is not None:
                self._chains.append((entry, name, self.branches[name], commit))
        else:
            self._expect(entry, "branch", True)
        self.branches[name] = commit
        if name == "main":
            self.mains.append((entry.position, entry.at, commit))

    def _is_rebase(self, entry: Entry) -> bool:
        attempt = self.attempts.get(entry.op)
        return attempt is not None and attempt.kind == "rebase"

    def _set_tag(self, entry: Entry, name: str, value: Any) -> None:
        if value is None:
            self._expect(entry, "drop tag", name in self.tags)
            self.tags.pop(name, None)
        else:
            self._expect(entry, "tag", name not in self.tags)
            self.tags[name] = optional_id(value["commit"]) or ""

    def _expect(self, entry: Entry, kind: str, is_possible: bool) -> None:
        attempt = self.attempts.get(entry.op)
        is_first = entry.position == 1 and kind == "branch"  # `main`, which comes with the pool
        is_known = is_first or (attempt is not None and attempt.kind == kind)
        self._report.require(is_known, f"{self._where(entry)}: a {kind} that no worker asked for")
        self._report.require(is_possible, f"{self._where(entry)}: a {kind} that was not possible")

    def _reach(self, tip: str | None) -> None:
        waiting = [tip]
        while waiting:
            ident = waiting.pop()
            if ident is None or ident in self.commits:
                continue
            commit = self.find(ident)
            name = f"{self.pool.name}: commit {ident}"
            if self._report.require(commit is not None, f"{name} is reachable and not in the store") and commit:
                self.commits[ident] = commit
                waiting += [commit.parent, commit.merged]

    def _check_move(self, entry: Entry, branch: str, before: str | None, after: str) -> None:
        """A branch moves by new commits on its tip, one for each operation of the entry, or by a rebase."""
        where = f"{self._where(entry)} moves {branch}"
        if self._is_rebase(entry):
            self._report.require(self.attempts[entry.op].branch == branch, f"{where}: a rebase of another branch")
            return
        expected = entry.group or {entry.op: after}
        for op, ident in expected.items():
            self._report.require(op not in self.landed, f"{where}: operation {op} has landed before")
            self.landed[op] = branch, ident
        chain: list[Commit] = []
        tip: str | None = after
        while tip != before and len(chain) <= len(expected):
            commit = None if tip is None else self.find(tip)
            if commit is None:
                self._check_missing(where, tip)
                return
            chain.append(commit)
            tip = commit.parent
        self._report.require(tip == before, f"{where} to {after}, which does not continue {before}")
        actual = {commit.op: commit.id for commit in chain}
        self._report.require(actual == expected, f"{where}: the commits are {actual}, the entry says {expected}")
        for commit in chain:
            is_later = commit.position < entry.position
            self._report.require(is_later, f"{where}: commit {commit.id} was made after its entry")
            known = self.attempts.get(commit.op)
            is_ours = known is None or (known.branch == branch and known.kind in MAKES_COMMITS)
            self._report.require(is_ours, f"{where}: {commit.op} was to be a {known and known.kind} elsewhere")

    def _check_missing(self, where: str, ident: str | None) -> None:
        """Only what nothing reaches may be gone, and only if there was a vacuum."""
        is_allowed = ident is not None and ident not in self.commits and self._vacuumed > 0
        self._report.require(is_allowed, f"{where}: commit {ident} is gone")

    # ---- what workers were told

    def check_outcomes(self, entries: list[Entry]) -> None:
        """Acknowledged: there once, with the commit that was told. Refused: not there. Unknown: at most once."""
        positions: dict[str, list[Entry]] = {}
        for entry in entries:
            for op in entry.ops:
                positions.setdefault(op, []).append(entry)
        chains = {branch: self._chain(tip) for branch, tip in self.branches.items()}
        for op, attempt in self.attempts.items():
            if attempt.kind in ("manage", "vacuum"):
                continue
            at = positions.get(op, [])
            what = f"{self.pool.name}: {attempt.kind} {op} on {attempt.branch}"
            acknowledged = attempt.acknowledged
            if acknowledged is not None:
                if self._report.require(len(at) == 1, f"{what} was acknowledged, and is in {len(at)} entries"):
                    self._check_acknowledged(what, attempt, acknowledged.get("commit"), at[0], chains)
            elif attempt.is_refused:
                reason = attempt.outcomes[-1].get("error")
                self._report.require(not at, f"{what} was refused ({reason}), and is in the journal")
            else:
                self._report.require(len(at) <= 1, f"{what} is in {len(at)} entries")
                self._report.counts["unknown, done"] += len(at)

    def _chain(self, tip: str | None) -> list[Commit]:
        chain: list[Commit] = []
        while tip is not None and tip in self.commits:
            chain.append(self.commits[tip])
            tip = chain[-1].parent
        return chain

    def _check_acknowledged(
        self, what: str, attempt: Attempt, told: Any, entry: Entry, chains: dict[str, list[Commit]]
    ) -> None:
        if attempt.kind not in MAKES_COMMITS:
            return
        _, commit = self.landed.get(attempt.op, ("", ""))
        self._report.require(commit == told, f"{what} was acknowledged as {told}, and is {commit}")
        if self._dropped.get(attempt.branch, 0) > entry.position or attempt.branch not in chains:
            return
        count = sum(each.op == attempt.op for each in chains[attempt.branch])
        if attempt.branch not in self._rebased:
            self._report.require(count == 1, f"{what} was acknowledged, and is {count} times in its branch")
        elif attempt.kind == "load" and count == 0:
            known = any(self.commits[c].op == attempt.op for c in self.ancestors(self.branches[attempt.branch]))
            self._report.require(known, f"{what} was acknowledged, and the rebase of its branch has lost it")

    def ancestors(self, tip: str | None) -> set[str]:
        """A commit and all that it knows of, as far as they are reachable."""
        out: set[str] = set()
        waiting = [tip]
        while waiting:
            ident = waiting.pop()
            if ident is not None and ident in self.commits and ident not in out:
                out.add(ident)
                waiting += [self.commits[ident].parent, self.commits[ident].merged]
        return out
