"""Codecs of results for HTTP: the service encodes with them, and the client decodes.

The forms are those of the Zed lake API, as far as it defines them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import fields
from typing import Any, Generic, TypeAlias, TypeVar

from shoal.api.infos import (
    AttachedFile,
    CommitInfo,
    CommitReport,
    Compaction,
    Diff,
    FieldChange,
    LakeStatus,
    ObjectInfo,
    PartitionInfo,
    PlaceInfo,
    PoolInfo,
    RecordCounts,
    RefInfo,
    ScanPlan,
    Vacuumed,
)
from shoal.api.pool_settings import read_settings, show_settings
from shoal.errors import StorageFailure
from shoal.ids import Id, parse, to_text
from shoal.model import types as t
from shoal.model.fields import KSUID, NO_ID, get_or, id_value, named, time_value
from shoal.model.node import frozen
from shoal.model.values import NULL, Value, array, int64, record, string

R = TypeVar("R")
T = TypeVar("T")
Encoded: TypeAlias = "Value | list[Value] | Iterator[Value] | None"
"""One value, a list, a stream, or none."""


class Reader:
    """Reads the values in a response; `where` is the URL of the service, for errors."""

    def __init__(self, where: str) -> None:
        self.where = where

    def field(self, value: Value, name: str) -> Value:
        """A required field."""
        field = value.field(name)
        if field is None:
            raise StorageFailure(
                f"{self.where}: the response lacks the field {name!r} (does the service have another version?)"
            )
        return field

    def data(self, value: Value, name: str) -> Any:
        """The data of a required field that is not null."""
        data = self.field(value, name).data
        if data is None:
            raise StorageFailure(
                f"{self.where}: the field {name!r} of the response is null (does the service have another version?)"
            )
        return data

    def id(self, value: Value, name: str) -> str:
        """A field that is an id, as text or as bytes."""
        ident = self.optional_id(value, name)
        if ident is None:
            raise StorageFailure(
                f"{self.where}: the response lacks the id {name!r} (does the service have another version?)"
            )
        return ident

    def optional_id(self, value: Value, name: str) -> str | None:
        """A field that may be an id; None if it is null, absent or all zeros."""
        field = value.field(name)
        if field is None or field.data is None:
            return None
        ident = _id(field)
        return None if ident == NO_ID else to_text(ident)

    def ids(self, value: Value) -> list[str]:
        """The ids in an array."""
        typ = value.type.under
        assert isinstance(typ, t.Array)
        return [to_text(_id(Value(typ.elem, data))) for data in value.data or ()]

    def elements(self, value: Value, name: str) -> list[Value]:
        """The elements of a field that is an array; none if it is absent."""
        field = value.field(name)
        elem = None if field is None else t.inner_of(field.type)
        return [] if field is None or elem is None else [Value(elem, data).under() for data in field.data or ()]


def _id(value: Value) -> Id:
    return parse(value.data) if value.type.under is t.STRING else Id(value.data)


def id_of(text: str | None) -> Value:
    """An id as a value; None is all zeros."""
    return id_value(NO_ID if text is None else parse(text))


def texts(items: Iterable[str]) -> Value:
    """An array of strings, which may be empty."""
    return Value(t.array(t.STRING), tuple(items))


# ---- items


def show_pool(pool: PoolInfo) -> Value:
    """A pool, as `pools.Config`."""
    order = Value(t.named("order.Which", t.STRING), pool.order)
    paths = t.named("field.List", t.array(t.named("field.Path", t.array(t.STRING))))
    layout = named("order.SortKey", ("order", order), ("keys", Value(paths, pool.paths)))
    return named(
        "pools.Config",
        ("ts", time_value(pool.ts)),
        ("name", string(pool.name)),
        ("id", id_of(pool.id)),
        ("layout", layout),
        ("seek_stride", int64(pool.seek_stride)),
        ("threshold", int64(pool.object_size)),
        *show_settings(pool.settings),
    )


def read_pool(reader: Reader, value: Value) -> PoolInfo:
    """The pool in a `pools.Config`."""
    layout = reader.field(value, "layout")
    return PoolInfo(
        reader.data(value, "name"),
        reader.id(value, "id"),
        tuple(tuple(path) for path in reader.data(layout, "keys")),
        reader.data(layout, "order"),
        reader.data(value, "threshold"),
        reader.data(value, "seek_stride"),
        reader.data(value, "ts"),
        read_settings(value),
    )


def show_ref(ref: RefInfo) -> Value:
    """A branch or a tag, as `branches.Config`."""
    return named(
        "branches.Config", ("ts", time_value(ref.ts)), ("name", string(ref.name)), ("commit", id_of(ref.commit))
    )


def read_ref(reader: Reader, value: Value) -> RefInfo:
    """The branch or tag in a `branches.Config`."""
    return RefInfo(reader.data(value, "name"), reader.optional_id(value, "commit"), get_or(value, "ts", 0))


def show_place(place: PlaceInfo) -> Value:
    """A branch of a transaction over several pools."""
    return record(
        [
            ("place", string(place.place)),
            ("pool", id_of(place.pool)),
            ("branch", string(place.branch)),
            ("base", id_of(place.base)),
            ("position", int64(place.position)),
        ]
    )


def read_place(reader: Reader, value: Value) -> PlaceInfo:
    """A branch of a transaction over several pools."""
    place, branch, position = (reader.data(value, name) for name in ("place", "branch", "position"))
    return PlaceInfo(place, reader.id(value, "pool"), branch, reader.optional_id(value, "base"), position)


def show_commit(commit: CommitInfo) -> Value:
    """A commit, as `Commit`. A merge has a field `merged`, and `brought` if its commits are known."""
    merged = [] if commit.merged is None else [("merged", id_of(commit.merged))]
    if commit.brought:
        merged.append(("brought", array(map(show_commit, commit.brought))))
    if commit.records is not None:
        merged.append(("records", show_counts(commit.records)))
    if commit.is_maintenance:
        merged.append(("maintenance", Value(t.BOOL, True)))
    if commit.transaction is not None:
        merged.append(("transaction", id_of(commit.transaction)))
    if not commit.is_listed:
        merged.append(("hidden", Value(t.BOOL, True)))
    return named(
        "Commit",
        ("id", id_of(commit.id)),
        ("parent", id_of(commit.parent)),
        ("retries", Value(t.UINT8, min(commit.retries, 255))),
        ("author", string(commit.author)),
        ("date", time_value(commit.ts)),
        ("message", string(commit.message)),
        ("meta", commit.meta),
        *merged,
    )


def read_commit(reader: Reader, value: Value) -> CommitInfo:
    """The commit in a `Commit`."""
    return CommitInfo(
        reader.id(value, "id"),
        reader.optional_id(value, "parent"),
        reader.data(value, "author"),
        reader.data(value, "date"),
        reader.data(value, "message"),
        value.field("meta") or NULL,
        reader.optional_id(value, "merged"),
        get_or(value, "retries", 0),
        tuple(read_commit(reader, each) for each in reader.elements(value, "brought")),
        read_counts(reader, value.field("records")),
        get_or(value, "maintenance", False),
        reader.optional_id(value, "transaction"),
        not get_or(value, "hidden", False),
    )


_COUNTED = t.record((("added", t.UINT64), ("deleted", t.UINT64), ("updated", t.UINT64)))


def show_counts(counts: RecordCounts | None) -> Value:
    """How many records were added, deleted and updated."""
    return Value(_COUNTED, None if counts is None else (counts.added, counts.deleted, counts.updated))


def read_counts(reader: Reader, value: Value | None) -> RecordCounts | None:
    """How many records were added, deleted and updated; None if that is not known."""
    if value is None or value.data is None:
        return None
    return RecordCounts(*(reader.data(value, name) for name in ("added", "deleted", "updated")))


def show_object(o: ObjectInfo) -> Value:
    """A data object, as `data.Object`."""
    types = (("id", KSUID), ("min", o.min.type), ("max", o.max.type), ("count", t.UINT64), ("size", t.INT64))
    return Value(t.named("data.Object", t.record(types)), (parse(o.id), o.min.data, o.max.data, o.count, o.size))


def read_object(reader: Reader, value: Value) -> ObjectInfo:
    """The data object in a `data.Object`."""
    low, high = (reader.field(value, name) for name in ("min", "max"))
    return ObjectInfo(reader.id(value, "id"), low, high, reader.data(value, "count"), reader.data(value, "size"))


def show_partition(partition: PartitionInfo) -> Value:
    """A partition, as `lake.Partition`; without a field `value` if that is not known."""
    value = [] if partition.value is None else [("value", partition.value)]
    counts = ("objects", partition.objects), ("count", partition.records), ("size", partition.size)
    return named("lake.Partition", *value, *((name, int64(count)) for name, count in counts))


def read_partition(reader: Reader, value: Value) -> PartitionInfo:
    """The partition in a `lake.Partition`."""
    counts = (reader.data(value, name) for name in ("objects", "count", "size"))
    return PartitionInfo(value.field("value"), *counts)


def show_compaction(compaction: Compaction) -> Value:
    """The outcome for one run of objects."""
    return record(
        [
            ("objects", int64(compaction.objects)),
            ("commit", id_of(compaction.commit)),
            ("error", string(compaction.error)),
        ]
    )


def read_compaction(reader: Reader, value: Value) -> Compaction:
    """The outcome for one run of objects."""
    return Compaction(reader.data(value, "objects"), reader.optional_id(value, "commit"), get_or(value, "error", ""))


def show_attached(file: AttachedFile) -> Value:
    """A file that could be attached."""
    return record(
        [
            ("uri", string(file.uri)),
            ("records", int64(file.records)),
            ("size", int64(file.size)),
            ("shape", string(file.shape)),
            ("min", file.min),
            ("max", file.max),
        ]
    )


def read_attached(reader: Reader, value: Value) -> AttachedFile:
    """A file that could be attached."""
    uri, records, size, shape = (reader.data(value, name) for name in ("uri", "records", "size", "shape"))
    return AttachedFile(uri, records, size, shape, reader.field(value, "min"), reader.field(value, "max"))


def show_report(report: CommitReport) -> Value:
    """What a commit adds, as a record."""
    flags = (("is_compared", report.is_compared), ("has_key", report.has_key))
    return record(
        [
            ("commit", string(report.commit)),
            *((name, int64(getattr(report, name))) for name in _COUNTS),
            ("fields", array(map(_show_change, report.fields))),
            *((name, Value(t.BOOL, flag)) for name, flag in flags),
            *((name, int64(getattr(report, name))) for name in _BAD_COUNTS),
        ]
    )


def _show_change(change: FieldChange) -> Value:
    return record([("path", string(change.path)), ("types", texts(change.types)), ("before", texts(change.before))])


def read_report(reader: Reader, value: Value) -> CommitReport:
    """The report in a record."""
    changes = tuple(
        FieldChange(path, tuple(types), tuple(before or ())) for path, types, before in reader.data(value, "fields")
    )
    rest = {name: reader.data(value, name) for name in (*_COUNTS, "is_compared", "has_key")}
    bad = {name: get_or(value, name, 0) for name in _BAD_COUNTS}
    return CommitReport(commit=reader.id(value, "commit"), fields=changes, **rest, **bad)


_COUNTS = ("records", "size", "objects", "shapes", "errors")
_BAD_COUNTS = ("bad", "skipped")
"""Services of version 0.1.0 do not tell them."""


def show_plan(plan: ScanPlan) -> Value:
    """A plan as a record of its fields."""
    return record([(field.name, _plain(getattr(plan, field.name))) for field in fields(plan)])


def _plain(data: str | int | tuple[str, ...]) -> Value:
    if isinstance(data, tuple):
        return texts(data)
    return string(data) if isinstance(data, str) else int64(data)


def read_plan(reader: Reader, value: Value) -> ScanPlan:
    """The plan in a record."""
    data = {field.name: reader.data(value, field.name) for field in fields(ScanPlan)}
    return ScanPlan(**{**data, "queries": tuple(data["queries"]), "interpreted": tuple(data["interpreted"])})


def commit_response(commit: str | None, warnings: Iterable[str] = ()) -> Value:
    """`api.CommitResponse`, the response to a request that commits. Without warnings their list is null."""
    texts = tuple(warnings)
    return named("api.CommitResponse", ("commit", id_of(commit)), ("warnings", Value(t.array(t.STRING), texts or None)))


# ---- results


@frozen
class Codec(Generic[R]):
    """Encodes and decodes a result."""

    encode: Callable[[R], Encoded]
    decode: Callable[[Reader, Iterator[Value]], R]
    is_stream: bool = False
    """Whether the result is a stream that is read as it arrives."""
    is_empty: bool = False
    """Whether there is no body: status 204."""


def _one(show: Callable[[T], Value], read: Callable[[Reader, Value], T]) -> Codec[T]:
    return Codec(show, lambda reader, values: read(reader, _only(reader, values)))


def _list(show: Callable[[T], Value], read: Callable[[Reader, Value], T]) -> Codec[list[T]]:
    return Codec(
        lambda items: [show(item) for item in items], lambda reader, values: [read(reader, value) for value in values]
    )


def _stream(show: Callable[[T], Value], read: Callable[[Reader, Value], T]) -> Codec[Iterator[T]]:
    return Codec(
        lambda items: map(show, items), lambda reader, values: (read(reader, value) for value in values), is_stream=True
    )


def _only(reader: Reader, values: Iterator[Value]) -> Value:
    received = list(values)
    if len(received) != 1:
        raise StorageFailure(
            f"{reader.where}: not the service of a lake (it answers with {len(received)} values, not one)"
        )
    return received[0]


def _show_diff(diff: Diff) -> list[Value]:
    sides = [("+", o) for o in diff.added] + [("-", o) for o in diff.removed]
    return [record([("side", string(side)), ("object", show_object(o))]) for side, o in sides]


def _read_diff(reader: Reader, values: Iterator[Value]) -> Diff:
    sides: dict[str, list[ObjectInfo]] = {"+": [], "-": []}
    for value in values:
        sides[reader.data(value, "side")].append(read_object(reader, reader.field(value, "object")))
    return Diff(tuple(sides["+"]), tuple(sides["-"]))


def _show_status(status: LakeStatus) -> Value:
    return record(
        [
            ("id", id_of(status.id)),
            ("version", int64(status.version)),
            ("features", texts(status.features)),
            ("pools", int64(status.pools)),
        ]
    )


def _read_status(reader: Reader, value: Value) -> LakeStatus:
    return LakeStatus(
        reader.where,
        reader.id(value, "id"),
        reader.data(value, "version"),
        tuple(reader.data(value, "features")),
        reader.data(value, "pools"),
    )


def _show_done(commit: str | None) -> Value:
    return record([("commit", id_of(commit)), ("is_done", Value(t.BOOL, commit is not None))])


def _read_done(reader: Reader, value: Value) -> str | None:
    return reader.id(value, "commit") if reader.data(value, "is_done") else None


def _show_vacuumed(vacuumed: Vacuumed) -> Value:
    return record([("objects", int64(vacuumed.objects)), ("size", int64(vacuumed.size))])


def _read_vacuumed(reader: Reader, value: Value) -> Vacuumed:
    return Vacuumed(reader.data(value, "objects"), reader.data(value, "size"))


def show_side(side: tuple[str, Value]) -> Value:
    """A value that differs, with the side that has it."""
    return record([("side", string(side[0])), ("value", side[1])])


def read_side(reader: Reader, value: Value) -> tuple[str, Value]:
    """A value that differs, with the side that has it."""
    return reader.data(value, "side"), reader.field(value, "value")


def show_ids(ids: Iterable[str]) -> Value:
    """Ids of data objects."""
    return record([("object_ids", array(map(id_of, ids)))])


CHANGES: Codec[Any] = Codec(lambda results: iter(results), lambda reader, values: values, is_stream=True)
"""Records as they are; the service and the client stream them as they do the results of queries."""
NOTHING: Codec[None] = Codec(lambda result: None, lambda reader, values: None, is_empty=True)
COMMIT: Codec[str] = _one(commit_response, lambda reader, value: reader.id(value, "commit"))
OPTIONAL_COMMIT: Codec[str | None] = _one(
    lambda commit: record([("commit", id_of(commit))]), lambda reader, value: reader.optional_id(value, "commit")
)
DONE: Codec[str | None] = _one(_show_done, _read_done)
STATUS: Codec[LakeStatus] = _one(_show_status, _read_status)
POOL: Codec[PoolInfo] = _one(show_pool, read_pool)
POOLS: Codec[list[PoolInfo]] = _list(show_pool, read_pool)
REF: Codec[RefInfo] = _one(show_ref, read_ref)
REFS: Codec[list[RefInfo]] = _list(show_ref, read_ref)
COMMITS: Codec[Iterator[CommitInfo]] = _stream(show_commit, read_commit)
OBJECTS: Codec[Iterator[ObjectInfo]] = _stream(show_object, read_object)
PARTITIONS: Codec[Iterator[PartitionInfo]] = _stream(show_partition, read_partition)
DIFF: Codec[Diff] = Codec(_show_diff, _read_diff)
SIDES: Codec[Iterator[tuple[str, Value]]] = _stream(show_side, read_side)
ATTACHED: Codec[list[AttachedFile]] = _list(show_attached, read_attached)
COMPACTIONS: Codec[Iterator[Compaction]] = _stream(show_compaction, read_compaction)
RUNS: Codec[list[list[str]]] = _list(lambda run: array(map(id_of, run)), lambda reader, value: reader.ids(value))
VACUUMED: Codec[Vacuumed] = _one(_show_vacuumed, _read_vacuumed)
REPORT: Codec[CommitReport] = _one(show_report, read_report)
IDS: Codec[list[str]] = _one(show_ids, lambda reader, value: reader.ids(reader.field(value, "object_ids")))
PLANS: Codec[list[ScanPlan]] = _list(show_plan, read_plan)
