"""What a lake says about itself: pools, branches, commits, objects, plans. Ids are texts of 27 letters and digits."""

from __future__ import annotations

from datetime import UTC, datetime

from shoal.model.node import frozen
from shoal.model.values import NULL, Value

MAIN = "main"
"""The branch that every pool has."""


@frozen
class PoolInfo:
    """A pool: its name and what never changes about it."""

    name: str
    id: str
    paths: tuple[tuple[str, ...], ...]
    """The fields that it is sorted by; an empty path is the value itself."""
    order: str
    object_size: int
    seek_stride: int
    ts: int = 0
    """When it was created or renamed, in nanoseconds since 1970."""

    @property
    def key(self) -> tuple[str, ...]:
        """The fields that it is sorted by, as `a.b`; `this` is the value itself."""
        return tuple(".".join(path) or "this" for path in self.paths)


@frozen
class RefInfo:
    """A branch or a tag."""

    name: str
    commit: str | None
    """None: nothing has been committed there yet."""
    ts: int = 0
    """When it was last set, in nanoseconds since 1970."""


@frozen
class CommitInfo:
    """A commit as the log shows it."""

    id: str
    parent: str | None
    author: str
    ts: int
    """In nanoseconds since 1970."""
    message: str
    meta: Value = NULL
    merged: str | None = None
    """The commit of another branch whose changes this one brings in."""
    retries: int = 0

    @property
    def date(self) -> datetime:
        """When it was made, to the microsecond."""
        return datetime.fromtimestamp(self.ts / 1e9, UTC)


@frozen
class ObjectInfo:
    """A data object."""

    id: str
    min: Value
    max: Value
    count: int
    size: int


@frozen
class Diff:
    """The objects that one commit has and another has not."""

    added: tuple[ObjectInfo, ...]
    removed: tuple[ObjectInfo, ...]


@frozen
class Compaction:
    """The outcome for data objects that were to be compacted together."""

    objects: int
    """How many they were."""
    commit: str | None
    """None: they are as they were."""
    error: str = ""
    """Why."""


@frozen
class Vacuumed:
    """What a vacuum removed, or would remove."""

    objects: int
    """Data objects."""
    size: int
    """Bytes of all that goes, metadata included."""
    ids: tuple[str, ...] = ()
    """Of the data objects."""


@frozen
class LakeStatus:
    """A lake: where it is and which format it has."""

    uri: str
    id: str
    version: int
    features: tuple[str, ...]
    pools: int


@frozen
class ScanPlan:
    """How the scan of a pool, and what follows it, would be run."""

    pool: str
    commit: str
    objects: int
    """Data objects that have to be read."""
    total: int
    """Data objects that there are."""
    pruned_by_key: int
    pruned_by_zone_map: int
    size: int
    """Bytes of the data objects that have to be read."""
    engine: str
    why: str
    """Why this engine."""
    queries: tuple[str, ...]
    """The SQL of the engine, for each layout of objects; none for the interpreter."""
    interpreted: tuple[str, ...]
    """The operators that are left to the interpreter."""

    def pruning(self) -> str:
        """`1 of 60 (59 pruned: key 40, zone map 19)`."""
        reasons = (("key", self.pruned_by_key), ("zone map", self.pruned_by_zone_map))
        shown = [f"{name} {count}" for name, count in reasons if count]
        gone = f" ({self.total - self.objects} pruned: {', '.join(shown)})" if shown else ""
        return f"{self.objects} of {self.total}{gone}"


@frozen
class ReadPool:
    """A pool that a query reads."""

    name: str
    id: str
    is_inferred: bool
    """Whether the program has no source, and the pool is the one in use."""


@frozen
class Channel:
    """A stream of results."""

    name: str
    keys: tuple[tuple[str, ...], ...] | None
    """The fields that it is grouped by; None if it is not grouped."""
    order: tuple[tuple[str, tuple[str, ...]], ...] | None
    """The directions and fields that it is sorted by; None if that is not known."""


@frozen
class Description:
    """What is known about the results of a query before it runs."""

    pools: tuple[ReadPool, ...]
    channels: tuple[Channel, ...]
