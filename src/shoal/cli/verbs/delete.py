"""`shoal delete`: remove data from a branch."""

from __future__ import annotations

from itertools import islice

from shoal.api.pool import Pool
from shoal.cli.command import Verb, plural, say
from shoal.cli.flags import Flag, Parsed, UsageError
from shoal.cli.lake import open_pool, read_note
from shoal.cli.lake_flags import COMMIT_FLAGS, KEYED_FLAGS, LAKE_FLAGS, USE_FLAGS
from shoal.cli.query_flags import WORK_FLAGS

VERB = Verb(
    "delete [flags] ID... | -where FILTER | -keys FILE | -partition VALUE",
    "delete data objects, records by a filter or by primary keys, or a partition, from a branch",
    (
        Flag("where", str, None, "delete the records that match this filter", "FILTER"),
        Flag("keys", str, None, "delete the records with the primary keys in this file (- for stdin)", "FILE"),
        Flag("partition", str, None, "delete the partition with this value, without reading it", "VALUE"),
        *KEYED_FLAGS,
        *WORK_FLAGS,
        *COMMIT_FLAGS,
        *USE_FLAGS,
        *LAKE_FLAGS,
    ),
    "A commit id stands for the data objects that the commit added. History keeps the data: revert brings it back,\n"
    "purge removes it for good. Unless ids are named, prints how many records were deleted. A partition is named\n"
    "by its value as in ZSON: 2024-01-01T00:00:00Z, '\"web\"', null or missing.",
    ("shoal delete 2Z8NPvEDsqN6ZWjNUWxv9PzxvzV", "shoal delete -where 'ts < 2024-01-01T00:00:00Z'"),
)


def run(args: Parsed) -> None:
    """Run the command."""
    where, keys, partition = args["where"], args["keys"], args["partition"]
    if sum((where is not None, keys is not None, partition is not None, bool(args.words))) > 1:
        raise UsageError("delete by ids, by -where, by -keys or by -partition, and not by two of them")
    if where is None and keys is None and partition is None and not args.words:
        raise UsageError("no data object IDs specified (see: shoal query -f lake 'from HEAD:objects')")
    note = read_note(args)
    pool, branch = open_pool(args)
    target = pool.branch(branch)
    if keys is not None:
        commit = target.delete(keys=keys, on_conflict=args["on-conflict"], **note)
    else:
        commit = target.delete(args.words, where=where, partition=partition, engine=args["engine"], **note)
    say(args, f"{commit} delete committed")
    if not args.words and not args["q"]:
        say(args, f"{plural(_deleted_records(pool, commit), 'record')} deleted")


def _deleted_records(pool: Pool, commit: str) -> int:
    """How many records fewer a commit has than its parent, from the counts of added and removed objects."""
    (parent,) = (info.parent for info in islice(pool.log(commit), 1))
    if parent is None:
        return 0
    diff = pool.diff(parent, commit)
    return sum(o.count for o in diff.removed) - sum(o.count for o in diff.added)
