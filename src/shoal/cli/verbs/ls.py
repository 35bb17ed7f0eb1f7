"""`shoal ls`: list pools, branches or partitions."""

from __future__ import annotations

from shoal.api.codecs import show_partition
from shoal.api.commitish import parse_head
from shoal.cli.command import Verb, optional_word
from shoal.cli.flags import Flag, Parsed, UsageError
from shoal.cli.head import Head
from shoal.cli.lake import open_lake, write_meta
from shoal.cli.lake_flags import LAKE_FLAGS
from shoal.cli.output import open_writer, output_flags

VERB = Verb(
    "ls [flags] [POOL]",
    "list the pools of a lake, or the branches or partitions of a pool",
    (
        Flag("partitions", bool, False, "list the partitions of a pool: value, data objects, records, bytes"),
        *output_flags("lake"),
        *LAKE_FLAGS,
    ),
    examples=("shoal ls", "shoal ls -f csv logs", "shoal ls -partitions logs@main"),
)


def run(args: Parsed) -> None:
    """Run the command."""
    pool = optional_word(args)
    if args["partitions"]:
        _write_partitions(args, pool)
    elif pool is None:
        write_meta(args, open_lake(args), "from :pools")
    else:
        write_meta(args, open_lake(args), "from HEAD:branches", Head(pool))


def _write_partitions(args: Parsed, text: str | None) -> None:
    if text is None:
        raise UsageError("-partitions needs a pool (write: shoal ls -partitions POOL)")
    name, commitish = parse_head(text)
    partitions = open_lake(args).pool(name).partitions(commitish)
    with open_writer(args) as writer:
        for partition in partitions:
            writer.write(show_partition(partition))
