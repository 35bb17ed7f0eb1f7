"""`shoal delete`: remove data from a branch."""

from __future__ import annotations

from itertools import islice

from shoal.api.pool import Pool
from shoal.cli.command import Verb, plural, say
from shoal.cli.flags import Flag, Parsed
from shoal.cli.lake import open_pool, read_note
from shoal.cli.lake_flags import COMMIT_FLAGS, LAKE_FLAGS, USE_FLAGS
from shoal.cli.query_flags import WORK_FLAGS
from shoal.errors import InvalidInput

VERB = Verb(
    "delete [flags] ID... | -where FILTER",
    "remove data from a branch: data objects, or records that a filter is true for",
    (
        Flag("where", str, None, "remove the records that this filter is true for", "FILTER"),
        *WORK_FLAGS,
        *COMMIT_FLAGS,
        *USE_FLAGS,
        *LAKE_FLAGS,
    ),
    "The id of a commit stands for the data objects that it added. History keeps what was deleted: revert brings it\n"
    "back, purge takes it away for good. With -where a second line tells how many records went.",
    ("shoal delete 2Z8NPvEDsqN6ZWjNUWxv9PzxvzV", "shoal delete -where 'ts < 2024-01-01T00:00:00Z'"),
)


def run(args: Parsed) -> None:
    """Run the command."""
    where = args["where"]
    if where is not None and args.words:
        raise InvalidInput("too many arguments: delete by ids or by -where, not both")
    if where is None and not args.words:
        raise InvalidInput("no data object IDs specified (see: shoal query -f lake 'from HEAD:objects')")
    note = read_note(args)
    pool, branch = open_pool(args)
    commit = pool.branch(branch).delete(args.words, where=where, engine=args["engine"], **note)
    say(args, f"{commit} delete committed")
    if where is not None and not args["q"]:
        say(args, f"{plural(_records_gone(pool, commit), 'record')} deleted")


def _records_gone(pool: Pool, commit: str) -> int:
    """How many records a commit has less than its parent, by the objects that came and went."""
    (parent,) = (made.parent for made in islice(pool.log(commit), 1))
    if parent is None:
        return 0
    found = pool.diff(parent, commit)
    return sum(o.count for o in found.removed) - sum(o.count for o in found.added)
