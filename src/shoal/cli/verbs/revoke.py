"""`shoal revoke`: take back what was granted."""

from __future__ import annotations

from shoal.cli.access import open_access
from shoal.cli.command import Verb, say
from shoal.cli.flags import Parsed
from shoal.cli.lake_flags import LAKE_FLAGS
from shoal.cli.verbs.grant import grant_words

VERB = Verb(
    "revoke [flags] SUBJECT read|write|admin POOL|'*'",
    "take back what was granted",
    LAKE_FLAGS,
    "Services know within a second. What was granted to the same subject by another verb, or on '*', stays.",
    ("shoal revoke ada write logs", "shoal revoke root admin '*'"),
)


def run(args: Parsed) -> None:
    """Run the command."""
    subject, verb, pool = grant_words(args, "revoke")
    open_access(args).revoke(subject, pool, verb)
    say(args, f"revoked {verb} on {pool} from {subject}")
