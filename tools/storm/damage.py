"""Damage: objects of one pool are flipped, cut, zeroed or removed, read, and restored; hints stay damaged.

The log names each object before it is damaged. A read may give the right values or `corrupt_data`, and nothing else.
"""

from __future__ import annotations

import os
from http.client import HTTPConnection
from pathlib import Path
from typing import Protocol
from urllib.parse import urlsplit

from shoal.api.pool import Pool
from shoal.errors import CorruptData, NotFound, ShoalError, StorageFailure
from shoal.storage.store import ObjectStore
from tools.storm.bucket import request
from tools.storm.reads import ENGINES, EVERYTHING, Reader
from tools.storm.rows import Total, rows_of, total
from tools.storm.work import WRECK, Plan, open_local, open_store

_HINTS = ("/HEAD", ".snap.zng")
_LOADS_KEPT = 12
_MOST_TRIES = 100


class Backdoor(Protocol):
    """Changes objects without the knowledge of any store: as a failing disk does, or another client."""

    def write(self, key: str, data: bytes, is_hidden: bool = False) -> None:
        """Replace an object; `is_hidden` also puts the time of its last change back, where there is one."""

    def remove(self, key: str) -> None:
        """Remove an object."""


class FileBackdoor:
    """Changes the files of a directory in place."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def write(self, key: str, data: bytes, is_hidden: bool = False) -> None:
        path = self._root / key
        before = path.stat() if path.exists() else None
        with path.open("r+b" if before else "wb") as file:
            file.write(data)
            file.truncate()
        if is_hidden and before:
            os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))

    def remove(self, key: str) -> None:
        (self._root / key).unlink(missing_ok=True)


class BucketBackdoor:
    """Changes the objects of a bucket by requests that do not pass the proxy."""

    def __init__(self, endpoint: str, prefix: str) -> None:
        self._host = urlsplit(endpoint).netloc
        self._prefix = prefix

    def write(self, key: str, data: bytes, is_hidden: bool = False) -> None:
        self._request("PUT", key, data)

    def remove(self, key: str) -> None:
        self._request("DELETE", key, b"")

    def _request(self, method: str, key: str, data: bytes) -> None:
        connection = HTTPConnection(self._host, timeout=60)
        try:
            request(connection, method, f"{self._prefix}/{key}", data)
        finally:
            connection.close()


class Damager(Reader):
    """A process that damages. It is not killed, so that all it damages is restored."""

    def __init__(self, plan: Plan, backdoor: Backdoor, number: int) -> None:
        super().__init__(plan, "damager", "", number)
        self._backdoor = backdoor
        self._store: ObjectStore = open_store(plan.uri)
        self._expected = [Total(0, 0, 0)]
        """The totals of the loads in the pool."""

    def step(self) -> None:
        """Damage one object, or add to the pool."""
        pool = self.pool(WRECK)
        try:
            if self.chance.random() < 0.3 or len(self._expected) < 4:
                self._grow(pool)
            elif self.chance.random() < 0.4:
                self._damage_hint()
            else:
                self._damage(pool)
        except (StorageFailure, NotFound):
            if self.plan.is_local:
                raise

    def _grow(self, pool: Pool) -> None:
        load = self.next_load()
        # It is repeated as long as its outcome is unknown: what the pool should hold must be known.
        if self.attempt(pool, "load", "main", {"load": load}, gives_up=0.0, tries=_MOST_TRIES) is None:
            raise StorageFailure("the next step begins with what is there")
        self._expected.append(total(rows_of(load)))
        if len(self._expected) > _LOADS_KEPT:
            objects = [each.id for each in pool.objects()]
            self.attempt(pool, "compact", "main", {"objects": objects})
            self._expected = [sum(self._expected, Total(0, 0, 0))]

    def _keys(self, prefix: str) -> list[str]:
        return sorted(listed.key for listed in self._store.list(prefix))

    def _damage_hint(self) -> None:
        """Hints may be damaged for good, wherever they are."""
        pool = self.pool(self.chance.choice((WRECK, self.plan.current_pool(), self.plan.current_pool())))
        keys = [key for key in self._keys(f"{pool.id}/branches/") if key.endswith(_HINTS)]
        keys += self._keys(f"{pool.id}/checkpoints/")
        if keys:
            key = self.chance.choice(keys)
            how, data = self._worse(self._store.get(key))
            self.log.write("damage", key=key, how=how, stays=True)
            self._apply(key, data)

    def _damage(self, pool: Pool) -> None:
        """Damage, read by every engine, restore, read again."""
        folder = self.chance.choice(("data", "data", "data", "masks", "commits", "branches"))
        keys = [key for key in self._keys(f"{pool.id}/{folder}/") if not key.endswith(_HINTS)]
        tip, expected = pool.resolve("main"), sum(self._expected, Total(0, 0, 0))
        if not keys:
            return
        key = self.chance.choice(keys)
        good = self._store.get(key)
        how, data = self._worse(good)
        self.log.write("damage", key=key, how=how, stays=False)
        self._apply(key, data)
        try:
            for engine in self.chance.sample(ENGINES, 3):
                self._read_damaged(pool, tip or "main", engine, expected, f"{key} ({how})")
        finally:
            self._backdoor.write(key, good)
            self.log.write("restored", key=key)
        self._read_damaged(pool, tip or "main", self.chance.choice(ENGINES), expected, "")

    def _apply(self, key: str, data: bytes | None) -> None:
        if data is None:
            self._backdoor.remove(key)
        else:
            self._backdoor.write(key, data, is_hidden=self.chance.random() < 0.3)

    def _worse(self, good: bytes) -> tuple[str, bytes | None]:
        """An object as it might be after an accident; None if it is gone."""
        chance = self.chance
        match chance.choice(("flip", "flip", "flip", "cut", "zeros", "gone")):
            case "flip":
                at = chance.randrange(len(good))
                flipped = good[at] ^ 1 << chance.randrange(8)
                return f"a bit of byte {at} flipped", good[:at] + bytes((flipped,)) + good[at + 1 :]
            case "cut":
                size = chance.randrange(len(good))
                return f"cut to {size} bytes", good[:size]
            case "zeros":
                at = chance.randrange(len(good))
                size = min(chance.choice((1, 16, 512)), len(good) - at)
                zeros = good[:at] + bytes(size) + good[at + size :]
                return f"{size} zeros at byte {at}", zeros
            case _:
                return "removed", None

    def _read_damaged(self, pool: Pool, at: str, engine: str, expected: Total, damage: str) -> None:
        """The right values, or `corrupt_data` if something is damaged."""
        where = f"{pool.name}@{at} by {engine} after damage to {damage or 'nothing that is left'}"
        kept = self.lake
        try:
            if self.chance.random() < 0.6:
                self.lake = open_local(self.plan.uri)  # nothing is in its cache
            result, _ = self.totals(pool, at, EVERYTHING, engine)
        except CorruptData as e:
            self.log.write("seen" if damage else "wrong", error=f"{where}: {e}")
        except StorageFailure as e:
            self.log.write("trouble" if not self.plan.is_local else "wrong", error=f"{where}: {e}")
        except ShoalError as e:
            self.log.write("wrong", error=f"{where}: {e.kind}: {e}")
        except Exception as e:
            self.log.write("wrong", error=f"{where}: {type(e).__name__}: {e}"[:1000])
        else:
            event = "unharmed" if result == expected else "wrong"
            self.log.write(event, error=f"{where}: {result} instead of {expected}")
        finally:
            self.lake = kept
