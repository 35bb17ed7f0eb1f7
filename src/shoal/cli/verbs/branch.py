"""`shoal branch`: create, remove or list branches."""

from __future__ import annotations

from shoal.api.infos import MAIN
from shoal.api.pool import Pool
from shoal.cli.command import Verb
from shoal.cli.flags import Flag, Parsed
from shoal.cli.lake import edit_refs
from shoal.cli.lake_flags import LAKE_FLAGS, USE_FLAGS
from shoal.cli.output import output_flags
from shoal.errors import InvalidInput

VERB = Verb(
    "branch [flags] [NAME]",
    "create, remove or list branches",
    (Flag("d", bool, False, "remove the branch"), *output_flags("lake"), *USE_FLAGS, *LAKE_FLAGS),
    "Creates a branch at the commit of HEAD, or of -use. With -d, removes the branch; its data stays until the next\n"
    "vacuum. Without a name, lists the branches of the pool.",
    ("shoal branch experiment", "shoal branch -use logs@v1 fix", "shoal branch -d experiment"),
)


def run(args: Parsed) -> None:
    """Run the command."""
    edit_refs(args, "branch", Pool.create_branch, _drop)


def _drop(pool: Pool, name: str) -> None:
    if name == MAIN:
        raise InvalidInput('"main": the main branch cannot be removed (drop the pool, or revert its commits)')
    pool.drop_branch(name)
