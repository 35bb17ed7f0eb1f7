"""`shoal purge`: remove data from all history."""

from __future__ import annotations

from shoal.cli.command import Verb, plural, say
from shoal.cli.flags import Parsed, UsageError
from shoal.cli.lake import confirm, open_pool
from shoal.cli.lake_flags import FORCE_FLAG, LAKE_FLAGS, USE_FLAGS

VERB = Verb(
    "purge [flags] ID...",
    "remove data objects from all history, for good",
    (FORCE_FLAG, *USE_FLAGS, *LAKE_FLAGS),
    "A commit id stands for the data objects that the commit added. Delete them from all branches first. Queries of\n"
    "old commits skip purged objects, with a warning.",
    ("shoal purge 2Z8NPvEDsqN6ZWjNUWxv9PzxvzV",),
)


def run(args: Parsed) -> None:
    """Run the command."""
    if not args.words:
        raise UsageError("no data object IDs specified (see: shoal query -f lake 'from HEAD:rawlog')")
    pool, _ = open_pool(args)
    confirm(args, f'purge {" ".join(args.words)} from all history of pool "{pool.name}"')
    say(args, f"purged {plural(len(pool.purge(args.words)), 'object')}")
