"""Readers: they read tips, tags, old commits and times of any pool by all engines of a process, and log the totals."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import Any

import shoal
from shoal.api.pool import Pool
from shoal.api.results import Results
from shoal.errors import CorruptData, InvalidInput, NotFound, ShoalError, StorageFailure
from tools.storm.rows import KEYS, Filter, Total
from tools.storm.work import BRANCHES, TAGS, WRECK, Worker

ENGINES = ("interp", "duckdb", "sql", "auto")
EVERYTHING = Filter()


def _has_moved(pool: Pool, name: str, commit: str | None) -> bool:
    """Whether a name does not stand for a commit any more."""
    try:
        return pool.resolve(name) != commit
    except NotFound:
        return True


class Reader(Worker):
    """A process that reads."""

    def step(self) -> None:
        """One read."""
        chance = self.chance
        current = self.plan.current_pool()
        name = chance.choices((current, f"p{chance.randint(0, int(current[1:]))}", WRECK), (70, 15, 15))[0]
        low = chance.randrange(KEYS)
        filtered = EVERYTHING if chance.random() < 0.5 else Filter(low, low + chance.choice((5, 200, 3_000)))
        try:
            pool = self.pool(name)
            kind, at, fields = self._choose(pool)
        except (NotFound, StorageFailure):
            return
        except CorruptData as e:
            self.log.write("trouble", pool=name, error=f"{e.kind}: {e}")
            return
        self.read(pool, kind, at, filtered, chance.choice(ENGINES), fields)

    def _choose(self, pool: Pool) -> tuple[str, str, dict[str, Any]]:
        """What to read: how the checker finds the commit, the commitish, and what is known of it."""
        chance = self.chance
        match chance.choice(("main", "main", "name", "old", "old", "time")):
            case "name":
                name = chance.choice((*BRANCHES[3:], *TAGS))
                return "name", name, {"commit": pool.resolve(name)}
            case "old":
                commit = self._some_commit(pool, chance.choice(BRANCHES))
                return ("id", commit, {"commit": commit}) if commit else self._main(pool)
            case "time":
                at = datetime.fromtimestamp(time.time() - chance.choice((0.1, 1, 5, 30)), UTC)
                ns = int(at.timestamp()) * 10**9 + at.microsecond * 1000
                return "time", at.strftime("%Y-%m-%dT%H:%M:%S.%fZ"), {"ns": ns, "before": pool.resolve("main")}
            case _:
                return self._main(pool)

    def _main(self, pool: Pool) -> tuple[str, str, dict[str, Any]]:
        return "main", "main", {"before": pool.resolve("main")}

    def read(self, pool: Pool, kind: str, at: str, filtered: Filter, engine: str, fields: dict[str, Any]) -> None:
        """Read, and log what came of it."""
        began = time.time()
        known = {"pool": pool.name, "at": at, "engine": engine, "where": filtered, "began": began}
        try:
            result, is_unsorted = self.totals(pool, at, filtered, engine)
            if kind in ("main", "time"):
                fields["after"] = pool.resolve("main")
            elif kind == "name" and pool.resolve(at) != fields["commit"]:
                return  # it has moved meanwhile
        except ShoalError as e:
            is_excused = isinstance(e, StorageFailure) and not self.plan.is_local
            is_excused = is_excused or (isinstance(e, NotFound) and kind in ("name", "time"))
            is_excused = is_excused or (kind == "name" and _has_moved(pool, at, fields["commit"]))
            fields.setdefault("after", fields.get("before"))
            known |= {"error": f"{e.kind}: {e}", "is_excused": is_excused}
        except Exception as e:
            self.log.write("broken", error=f"read of {pool.name}@{at} by {engine}: {type(e).__name__}: {e}"[:2000])
            return
        else:
            known |= {"result": result, "is_unsorted": is_unsorted}
        self.log.write("read", kind="id" if kind == "name" else kind, **known, **fields)

    def read_tip(self, pool: Pool, branch: str) -> None:
        """Read all of a branch, by two engines."""
        commit = pool.resolve(branch)
        for engine in ("interp", "duckdb") if commit else ():
            self.read(pool, "id", commit or "", EVERYTHING, engine, {"commit": commit})

    def totals(self, pool: Pool, at: str, filtered: Filter, engine: str) -> tuple[Total, bool]:
        """The total of the records that match, and whether they came in the wrong order."""
        source, where = f"from '{pool.name}'@{at}", filtered.text()
        if engine == "sql":
            table, text = f'"{pool.name}@{at}"', where.replace("==", "=")
            try:
                results = self.lake.sql(f"select count(*) n, sum(w) w, sum(k) k from {table} where {text}")
            except InvalidInput as e:
                if 'Candidate bindings: "$value"' not in str(e):
                    raise
                return Total(0, 0, 0), False  # a pool without records has no columns
            return self._sums(results), False
        if engine == "interp" or self.chance.random() < 0.3:
            results = self.lake.query(f"{source} | {where} | cut k,w", engine=engine)
            rows = [(value.data[0], value.data[1]) for value in results]
            keys = [key for key, _ in rows]
            is_descending = pool.info().order == "desc"
            is_unsorted = engine == "interp" and keys != sorted(keys, reverse=is_descending)
            return Total(len(rows), sum(w for _, w in rows), sum(keys)), is_unsorted
        program = f"{source} | {where} | summarize n:=count(),w:=sum(w),k:=sum(k)"
        return self._sums(self.lake.query(program, engine=engine)), False

    def _sums(self, results: Results) -> Total:
        sums = [shoal.to_python(value) for value in results]
        return Total(*(int(sums[0][name] or 0) for name in ("n", "w", "k"))) if sums else Total(0, 0, 0)
