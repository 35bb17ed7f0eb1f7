"""`shoal rewrite`: replace the records of a partition by what a program makes of them."""

from __future__ import annotations

from shoal.cli.command import Verb, one_word, say
from shoal.cli.flags import Flag, Parsed, UsageError
from shoal.cli.lake import open_pool, read_note
from shoal.cli.lake_flags import COMMIT_FLAGS, LAKE_FLAGS, USE_FLAGS
from shoal.cli.query_flags import ENGINE_FLAGS

VERB = Verb(
    "rewrite [flags] -partition VALUE PROGRAM",
    "replace the records of a partition by what a program makes of them",
    (
        Flag("partition", str, None, "the partition with this value", "VALUE"),
        *ENGINE_FLAGS,
        *COMMIT_FLAGS,
        *USE_FLAGS,
        *LAKE_FLAGS,
    ),
    "What the program gives has to belong to the same partition. It is one commit; if records of the partition came\n"
    "meanwhile, it is refused and can be repeated. A value is written as in ZSON.",
    ("shoal rewrite -partition 2024-01-01T00:00:00Z 'put bytes := in + out'",),
)


def run(args: Parsed) -> None:
    """Run the command."""
    program = one_word(args, "rewrite requires one argument: the program")
    if args["partition"] is None:
        raise UsageError(
            "no partition given (write: shoal rewrite -partition VALUE PROGRAM; see: shoal ls -partitions)"
        )
    note = read_note(args)
    pool, branch = open_pool(args)
    commit = pool.branch(branch).rewrite(args["partition"], program, engine=args["engine"], **note)
    say(args, f"{commit} rewrite committed")
