"""`shoal ls`: list pools or branches."""

from __future__ import annotations

from shoal.cli.command import Verb, optional_word
from shoal.cli.flags import Parsed
from shoal.cli.head import Head
from shoal.cli.lake import open_lake, write_meta
from shoal.cli.lake_flags import LAKE_FLAGS
from shoal.cli.output import output_flags

VERB = Verb(
    "ls [flags] [POOL]",
    "list the pools of a lake, or the branches of a pool",
    (*output_flags("lake"), *LAKE_FLAGS),
    examples=("shoal ls", "shoal ls -f csv logs"),
)


def run(args: Parsed) -> None:
    """Run the command."""
    pool = optional_word(args)
    if pool is None:
        write_meta(args, open_lake(args), "from :pools")
    else:
        write_meta(args, open_lake(args), "from HEAD:branches", Head(pool))
