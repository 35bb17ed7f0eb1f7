"""`shoal ls`: list pools or branches."""

from __future__ import annotations

from collections.abc import Sequence

from shoal.cli.flags import Parsed
from shoal.cli.head import Head
from shoal.cli.lake import open_lake
from shoal.cli.lake_flags import LAKE_FLAGS
from shoal.cli.meta_query import write_meta
from shoal.cli.output import output_flags
from shoal.cli.verbs import Verb, optional_word

SUMMARY = "list the pools of a lake, or the branches of a pool"
VERB = Verb(
    "ls [flags] [POOL]",
    SUMMARY,
    (*output_flags("lake"), *LAKE_FLAGS),
    examples=("shoal ls", "shoal ls -f csv logs"),
)


def run(argv: Sequence[str]) -> int:
    """Run the command; the exit status."""
    return VERB.run(argv, _ls)


def _ls(args: Parsed) -> None:
    pool = optional_word(args)
    if pool is None:
        write_meta(args, open_lake(args), "from :pools")
    else:
        write_meta(args, open_lake(args), "from HEAD:branches", Head(pool))
