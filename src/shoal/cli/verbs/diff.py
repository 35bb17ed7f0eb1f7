"""`shoal diff`: compare two commits."""

from __future__ import annotations

from collections.abc import Iterator

from shoal.api.infos import ObjectInfo
from shoal.api.pool import Pool
from shoal.cli.command import Verb
from shoal.cli.flags import Flag, Parsed, UsageError
from shoal.cli.head import Head, head_of, parse_head
from shoal.cli.lake import open_lake
from shoal.cli.lake_flags import LAKE_FLAGS, USE_FLAGS
from shoal.cli.output import open_writer, output_flags
from shoal.ids import parse
from shoal.model import types as t
from shoal.model.values import Value, int64, record, string

VERB = Verb(
    "diff [flags] OLD [NEW]",
    "show the data objects, or with -values the records, that differ between two commits",
    (
        Flag("values", bool, False, "show records instead of data objects"),
        *output_flags("lake"),
        *USE_FLAGS,
        *LAKE_FLAGS,
    ),
    "OLD and NEW are branches, tags, commit ids or times, with or without a pool in front. NEW defaults to HEAD, or\n"
    "to -use. Records that were only rewritten, such as by a compaction, do not differ.",
    ("shoal diff v1 main", "shoal diff -values logs@main logs@experiment"),
)

_KSUID = t.named("ksuid.KSUID", t.BYTES)


def run(args: Parsed) -> None:
    """Run the command."""
    old, new = _sides(args)
    pool = open_lake(args).pool(new.pool)
    changes = _values(pool, old, new) if args["values"] else _objects(pool, old, new)
    with open_writer(args) as writer:
        for mark, value in changes:
            writer.write(_change(mark, value))


def _sides(args: Parsed) -> tuple[Head, Head]:
    if len(args.words) not in (1, 2):
        raise UsageError("one or two commits must be given (write: shoal diff OLD [NEW])")
    new = _head(args, args.words[1]) if len(args.words) == 2 else head_of(args)
    old = _head(args, args.words[0])
    if old.pool != new.pool:
        raise UsageError(f"{old} and {new} are in different pools (compare commits of one pool)")
    return old, new


def _head(args: Parsed, word: str) -> Head:
    """A commitish in the pool that it names, or in the pool in use."""
    has_pool = "@" in word and not word.startswith("@")
    return parse_head(word, args) if has_pool else Head(head_of(args).pool, word.removeprefix("@"))


def _objects(pool: Pool, old: Head, new: Head) -> Iterator[tuple[str, Value]]:
    diff = pool.diff(old.commitish, new.commitish)
    for mark, side in (("-", diff.removed), ("+", diff.added)):
        yield from ((mark, _object(o)) for o in side)


def _values(pool: Pool, old: Head, new: Head) -> Iterator[tuple[str, Value]]:
    return pool.diff_values(old.commitish, new.commitish)


def _change(mark: str, value: Value) -> Value:
    change = record([("mark", string(mark)), ("value", value)])
    return Value(t.named("lake.Change", change.type), change.data)


def _object(o: ObjectInfo) -> Value:
    fields = record([
        ("id", Value(_KSUID, parse(o.id))),
        ("min", o.min),
        ("max", o.max),
        ("count", Value(t.UINT64, o.count)),
        ("size", int64(o.size)),
    ])  # fmt: skip
    return Value(t.named("data.Object", fields.type), fields.data)
