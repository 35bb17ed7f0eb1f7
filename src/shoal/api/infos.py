"""Result types: pools, branches, commits, objects, plans. Ids are strings of 27 letters and digits."""

from __future__ import annotations

from datetime import UTC, datetime

from shoal.api.pool_settings import NO_SETTINGS, PoolSettings
from shoal.model.node import frozen
from shoal.model.values import NULL, Value

MAIN = "main"
"""The branch that every pool has."""


@frozen
class PlaceInfo:
    """A branch of a transaction over several pools, as it was when the transaction began."""

    place: str
    """Its name, as `pool@branch`."""
    pool: str
    """The id of the pool."""
    branch: str
    base: str | None
    """The commit that it was at."""
    position: int
    """Where the journal of the pool stood."""


@frozen
class PoolInfo:
    """A pool: its name and its fixed settings."""

    name: str
    id: str
    paths: tuple[tuple[str, ...], ...]
    """The sort keys; an empty path is the value itself."""
    order: str
    object_size: int
    seek_stride: int
    ts: int = 0
    """When it was created or renamed, in nanoseconds since 1970."""
    settings: PoolSettings = NO_SETTINGS

    @property
    def key(self) -> tuple[str, ...]:
        """The sort keys as `a.b`; `this` is the value itself."""
        return tuple(".".join(path) or "this" for path in self.paths)


@frozen
class RefInfo:
    """A branch or a tag."""

    name: str
    commit: str | None
    """None: it has no commits yet."""
    ts: int = 0
    """When it was last set, in nanoseconds since 1970."""


@frozen
class RecordCounts:
    """What a commit did in records."""

    added: int
    deleted: int
    updated: int


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
    """The commit of another branch that this one merges."""
    retries: int = 0
    brought: tuple[CommitInfo, ...] = ()
    """The commits that a merge brought in, newest first, if the log was asked for them."""
    records: RecordCounts | None = None
    """What it did in records; None if that is not known, as of commits of older versions."""
    is_maintenance: bool = False
    """Whether it only moved records, as a compaction does."""
    transaction: str | None = None
    """The transaction over several pools that it is part of."""
    is_listed: bool = True
    """False: it was not asked for, and is there because a graph leads past it."""

    @property
    def date(self) -> datetime:
        """When it was created, to the microsecond."""
        return datetime.fromtimestamp(self.ts / 1e9, UTC)

    def __repr__(self) -> str:
        subject = self.message.strip().partition("\n")[0]
        return f"<commit {self.id} by {self.author}, {self.date:%Y-%m-%dT%H:%M:%SZ}: {subject}>"


@frozen
class ObjectInfo:
    """A data object."""

    id: str
    min: Value
    max: Value
    count: int
    size: int


@frozen
class AttachedFile:
    """A Parquet file that is attached in place, or could be."""

    uri: str
    """Its absolute path, or its URL."""
    records: int
    """None are there in a file that would be left out."""
    size: int
    shape: str
    """The type of its records, in ZSON."""
    min: Value
    """Its keys are not less than this, as far as its footer tells; nor more than `max`."""
    max: Value


@frozen
class PartitionInfo:
    """A partition of a pool."""

    value: Value | None
    """None: data objects of which the partition is not known."""
    objects: int
    records: int
    size: int
    """Bytes of the data objects."""


@frozen
class Diff:
    """The objects that differ between two commits."""

    added: tuple[ObjectInfo, ...]
    removed: tuple[ObjectInfo, ...]


@frozen
class FieldChange:
    """A field that a commit introduces, or that has types from it on that it did not have before."""

    path: str
    types: tuple[str, ...]
    """The new ones."""
    before: tuple[str, ...] = ()
    """Those that it had; none for a new field."""


@frozen
class CommitReport:
    """What a commit adds to a branch."""

    commit: str
    records: int
    size: int
    """Bytes in the store."""
    objects: int
    shapes: int
    """Different types of values."""
    errors: int
    """Values that are errors."""
    fields: tuple[FieldChange, ...]
    """In the order of their paths."""
    is_compared: bool = True
    """False: there are too many shapes to compare the fields."""
    has_key: bool = True
    """False: no record that it adds has the pool key."""
    bad: int = 0
    """Records of the input that could not be read: those that were kept as errors, and those that were skipped."""
    skipped: int = 0
    """Those that were skipped."""


@frozen
class Compaction:
    """The outcome of compacting one run of data objects."""

    objects: int
    """The number of objects in the run."""
    commit: str | None
    """None: they were not compacted."""
    error: str = ""
    """Why not."""


@frozen
class Vacuumed:
    """What a vacuum deleted, or would delete."""

    objects: int
    """Data objects."""
    size: int
    """Bytes of all deleted objects, metadata included."""
    ids: tuple[str, ...] = ()
    """The ids of the data objects."""


@frozen
class LakeStatus:
    """The location and format of a lake."""

    uri: str
    id: str
    version: int
    features: tuple[str, ...]
    pools: int


@frozen
class ScanPlan:
    """How a query would scan a pool and run the operators after the scan."""

    pool: str
    commit: str
    objects: int
    """Data objects to read."""
    total: int
    """All data objects of the commit."""
    pruned_by_key: int
    pruned_by_zone_map: int
    size: int
    """Bytes of the data objects to read."""
    engine: str
    why: str
    """Why this engine was chosen."""
    queries: tuple[str, ...]
    """The SQL of the engine, one statement per layout; empty for the interpreter."""
    interpreted: tuple[str, ...]
    """The operators that are left to the interpreter."""
    pruned_by_partition: int = 0

    def pruning(self) -> str:
        """`1 of 60 (59 pruned: key 40, zone map 19)`."""
        reasons = (
            ("key", self.pruned_by_key),
            ("partition", self.pruned_by_partition),
            ("zone map", self.pruned_by_zone_map),
        )
        shown = [f"{name} {count}" for name, count in reasons if count]
        pruned = f" ({self.total - self.objects} pruned: {', '.join(shown)})" if shown else ""
        return f"{self.objects} of {self.total}{pruned}"


@frozen
class ReadPool:
    """A pool that a query reads."""

    name: str
    id: str
    is_inferred: bool
    """Whether the program has no source, so that it reads the pool in use."""


@frozen
class Channel:
    """A stream of results."""

    name: str
    keys: tuple[tuple[str, ...], ...] | None
    """The fields that it is grouped by; None if it is not grouped."""
    order: tuple[tuple[str, tuple[str, ...]], ...] | None
    """The directions and fields that it is sorted by; None if unknown."""


@frozen
class Description:
    """The pools and channels of a query, without running it."""

    pools: tuple[ReadPool, ...]
    channels: tuple[Channel, ...]
