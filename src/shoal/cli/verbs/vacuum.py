"""`shoal vacuum`: remove what nothing reaches."""

from __future__ import annotations

from shoal.api.lake import Lake
from shoal.api.pool import Pool
from shoal.cli.command import Verb, plural, say
from shoal.cli.confirm import confirm
from shoal.cli.flags import Flag, Parsed
from shoal.cli.lake import open_lake, open_pool
from shoal.cli.lake_flags import FORCE_FLAG, LAKE_FLAGS, USE_FLAGS
from shoal.errors import InvalidInput

VERB = Verb(
    "vacuum [flags]",
    "remove the data objects of a pool that no branch, tag or commit reaches",
    (
        Flag("grace", "duration", None, "keep what is younger than this (default 168h)"),
        Flag("dryrun", bool, False, "remove nothing, tell how much it would be"),
        Flag("all", bool, False, "vacuum all pools, and what crashes left outside of them"),
        FORCE_FLAG,
        *USE_FLAGS,
        *LAKE_FLAGS,
    ),
    "A grace period shorter than a load takes removes what that load has written so far.",
    ("shoal vacuum -dryrun", "shoal vacuum -use logs -grace 24h", "shoal vacuum -all -f"),
)


def run(args: Parsed) -> None:
    """Run the command."""
    if args.words:
        raise InvalidInput("no arguments allowed (name a pool with -use)")
    place, name = _place(args)
    if not args["dryrun"]:
        confirm(args, f'vacuum data objects from "{name}"')
    done = place.vacuum(grace=args["grace"], dry_run=args["dryrun"])
    say(args, f"{'would vacuum' if args['dryrun'] else 'vacuumed'} {plural(done.objects, 'object')}")


def _place(args: Parsed) -> tuple[Lake | Pool, str]:
    """What to vacuum, and what to call it."""
    if args["all"]:
        lake = open_lake(args)
        return lake, lake.uri
    pool, commitish = open_pool(args)
    return pool, f"{pool.name}@{commitish}"
