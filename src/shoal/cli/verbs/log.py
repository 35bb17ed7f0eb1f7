"""`shoal log`: list the commits of a branch."""

from __future__ import annotations

from collections.abc import Iterator

from shoal.api.pool import Pool
from shoal.cli.command import Verb
from shoal.cli.flags import Parsed
from shoal.cli.head import head_of
from shoal.cli.lake import open_lake, write_meta
from shoal.cli.lake_flags import LAKE_FLAGS, USE_FLAGS
from shoal.cli.output import output_flags, output_format
from shoal.errors import InvalidInput
from shoal.ids import parse
from shoal.model import types as t
from shoal.model.values import Value, record, string

VERB = Verb(
    "log [flags]",
    "list the commits of a branch, newest first",
    (*output_flags("lake"), *USE_FLAGS, *LAKE_FLAGS),
    "Formats other than lake list the branches first, each with its newest commit.",
    ("shoal log", "shoal log -use logs@experiment -f zson"),
)


def run(args: Parsed) -> None:
    """Run the command."""
    if args.words:
        raise InvalidInput("no arguments allowed (name a branch with -use pool@branch)")
    head = head_of(args)
    lake = open_lake(args)
    pool = lake.pool(head.pool)
    pool.resolve(head.commitish)
    # Only the format lake shows tags; elsewhere they would be extra values in the log.
    tips = _tips(pool) if output_format(args, terminal=False)[0] == "lake" else ()
    write_meta(args, lake, "from HEAD:log", head, mark=head.commitish, before=tips)


def _tips(pool: Pool) -> Iterator[Value]:
    """The tags of commits, as records for the format lake."""
    for tag in pool.tags():
        if tag.commit is not None:
            tip = record([("Name", string(tag.name)), ("Commit", Value(t.BYTES, parse(tag.commit)))])
            yield Value(t.named("lake.TagTip", tip.type), tip.data)
