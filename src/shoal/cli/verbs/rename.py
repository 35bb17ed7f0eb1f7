"""`shoal rename`: rename a pool."""

from __future__ import annotations

from dataclasses import replace

from shoal.cli.command import Verb, say
from shoal.cli.flags import Parsed, UsageError
from shoal.cli.head import read_head, write_head
from shoal.cli.lake import open_lake
from shoal.cli.lake_flags import LAKE_FLAGS

VERB = Verb("rename [flags] OLD NEW", "rename a pool", LAKE_FLAGS, examples=("shoal rename logs old-logs",))


def run(args: Parsed) -> None:
    """Run the command."""
    if len(args.words) != 2:
        raise UsageError("two pool names must be provided: the old one and the new one")
    old, new = args.words
    pool = open_lake(args).rename(old, new)
    head = read_head(args)
    if head is not None and head.pool == old:
        write_head(args, replace(head, pool=new))
    say(args, f"pool {pool.id} renamed from {old} to {new}")
