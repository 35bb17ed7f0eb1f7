"""`shoal alter`: change the settings of a pool that has data."""

from __future__ import annotations

from shoal.cli.command import Verb, say
from shoal.cli.flags import Flag, Parsed, UsageError
from shoal.cli.lake import open_pool
from shoal.cli.lake_flags import LAKE_FLAGS, USE_FLAGS

VERB = Verb(
    "alter [flags]",
    "give a pool that has data a primary key",
    (
        Flag("primary", str, None, 'fields of the primary key, such as id or a,b.c; "" for none', "FIELDS"),
        *USE_FLAGS,
        *LAKE_FLAGS,
    ),
    "Every record of every branch must have the primary key, and no two of a branch the same. Otherwise the command\n"
    "lists keys that are there more than once, and changes nothing.",
    ("shoal alter -use customers -primary id",),
)


def run(args: Parsed) -> None:
    """Run the command."""
    if args.words:
        raise UsageError("no arguments allowed (name a pool with -use)")
    if args["primary"] is None:
        raise UsageError('alter: what is to change? (-primary FIELDS; -primary "" for none)')
    pool, _ = open_pool(args)
    pool.alter(primary=args["primary"])
    say(args, f"{pool.name}: {'primary key ' + args['primary'] if args['primary'] else 'no primary key'}")
