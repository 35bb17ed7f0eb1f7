"""`shoal revoke`: take back what was granted."""

from __future__ import annotations

from collections.abc import Sequence

from shoal.cli.access import open_access
from shoal.cli.flags import Parsed
from shoal.cli.grant import grant_words
from shoal.cli.lake_flags import LAKE_FLAGS
from shoal.cli.verbs import Verb, say

SUMMARY = "take back what was granted"
VERB = Verb(
    "revoke [flags] SUBJECT read|write|admin POOL|'*'",
    SUMMARY,
    LAKE_FLAGS,
    "Services know within a second. What was granted to the same subject by another verb, or on '*', stays.",
    ("shoal revoke ada write logs", "shoal revoke root admin '*'"),
)


def run(argv: Sequence[str]) -> int:
    """Run the command; the exit status."""
    return VERB.run(argv, _revoke)


def _revoke(args: Parsed) -> None:
    subject, verb, pool = grant_words(args, "revoke")
    open_access(args).revoke(subject, pool, verb)
    say(args, f"revoked {verb} on {pool} from {subject}")
