"""`shoal vacuum`: delete unreachable data."""

from __future__ import annotations

from shoal.api.lake import Lake
from shoal.api.pool import Pool
from shoal.cli.command import Verb, plural, say
from shoal.cli.flags import Flag, Parsed, UsageError
from shoal.cli.lake import confirm, open_lake, open_pool
from shoal.cli.lake_flags import FORCE_FLAG, LAKE_FLAGS, USE_FLAGS

VERB = Verb(
    "vacuum [flags]",
    "delete the data objects of a pool that no branch, tag or commit reaches",
    (
        Flag("grace", "duration", None, "keep objects younger than this (default 168h)"),
        Flag("dryrun", bool, False, "delete nothing, only print how many objects would go"),
        Flag("all", bool, False, "vacuum all pools, and leftovers of crashes outside of them"),
        FORCE_FLAG,
        *USE_FLAGS,
        *LAKE_FLAGS,
    ),
    "A grace period that is shorter than a running load deletes what that load has written so far.",
    ("shoal vacuum -dryrun", "shoal vacuum -use logs -grace 24h", "shoal vacuum -all -f"),
)


def run(args: Parsed) -> None:
    """Run the command."""
    if args.words:
        raise UsageError("no arguments allowed (name a pool with -use)")
    target, name = _target(args)
    if not args["dryrun"]:
        confirm(args, f'vacuum data objects from "{name}"')
    done = target.vacuum(grace=args["grace"], dry_run=args["dryrun"])
    say(args, f"{'would vacuum' if args['dryrun'] else 'vacuumed'} {plural(done.objects, 'object')}")


def _target(args: Parsed) -> tuple[Lake | Pool, str]:
    """The lake or pool to vacuum, and its name in messages."""
    if args["all"]:
        lake = open_lake(args)
        return lake, lake.uri
    pool, commitish = open_pool(args)
    return pool, f"{pool.name}@{commitish}"
