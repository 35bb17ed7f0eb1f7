"""`shoal grant`: grant rights to a pool, or list grants."""

from __future__ import annotations

from shoal.access.records import show_grant
from shoal.cli.command import Verb, say
from shoal.cli.flags import Parsed, UsageError
from shoal.cli.lake import open_access
from shoal.cli.lake_flags import LAKE_FLAGS
from shoal.cli.output import open_writer, output_flags

VERB = Verb(
    "grant [flags] [SUBJECT read|write|admin POOL|'*']",
    "grant the right to read, write or administer a pool, or list all grants",
    (*output_flags("table"), *LAKE_FLAGS),
    "SUBJECT is a user: the subject of a token of the lake, or the `sub` claim of a token of an identity provider.\n"
    "write includes read, and admin includes write. '*' is all pools and the lake itself: admin on '*' creates pools\n"
    "and tokens. A service that requires tokens enforces grants; direct access to the store is not limited by them.",
    ("shoal grant", "shoal grant ada write logs", "shoal grant root admin '*'"),
)


def run(args: Parsed) -> None:
    """Run the command."""
    if not args.words:
        grants = open_access(args).grants()
        with open_writer(args) as writer:
            for grant in grants:
                writer.write(show_grant(grant))
        return
    subject, verb, pool = grant_words(args, "grant")
    granted = open_access(args).grant(subject, pool, verb)
    say(args, f"granted {granted.verb} on {granted.pool} to {granted.subject}")


def grant_words(args: Parsed, command: str) -> tuple[str, str, str]:
    """Subject, verb and pool."""
    if len(args.words) != 3:
        raise UsageError(f"a subject, a verb and a pool must be given (such as: shoal {command} ada write logs)")
    subject, verb, pool = args.words
    return subject, verb, pool
