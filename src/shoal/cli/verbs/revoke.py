"""`shoal revoke`: revoke a grant."""

from __future__ import annotations

from shoal.cli.command import Verb, say
from shoal.cli.flags import Parsed
from shoal.cli.lake import open_access
from shoal.cli.lake_flags import LAKE_FLAGS
from shoal.cli.verbs.grant import grant_words

VERB = Verb(
    "revoke [flags] SUBJECT read|write|admin POOL|'*'",
    "revoke a grant",
    LAKE_FLAGS,
    "Takes effect on running services within a second. Grants of other verbs, or on '*', to the same subject stay.",
    ("shoal revoke ada write logs", "shoal revoke root admin '*'"),
)


def run(args: Parsed) -> None:
    """Run the command."""
    subject, verb, pool = grant_words(args, "revoke")
    open_access(args).revoke(subject, pool, verb)
    say(args, f"revoked {verb} on {pool} from {subject}")
