"""`shoal grant`: let somebody do something, or tell who may do what."""

from __future__ import annotations

from shoal.access.records import show_grant
from shoal.cli.access import open_access
from shoal.cli.command import Verb, say
from shoal.cli.flags import Parsed
from shoal.cli.lake_flags import LAKE_FLAGS
from shoal.cli.output import open_writer, output_flags
from shoal.errors import InvalidInput

VERB = Verb(
    "grant [flags] [SUBJECT read|write|admin POOL|'*']",
    "let somebody read, write or administer a pool, or list who may",
    (*output_flags("table"), *LAKE_FLAGS),
    "A subject is what a token proves: the name of a token of the lake, or the `sub` of one of an identity provider.\n"
    "Each verb includes those before it. '*' is all pools, and the lake: admin on it creates pools and tokens. Grants\n"
    "are looked at by a service that asks for tokens; whoever reaches the store of a lake may do everything.",
    ("shoal grant", "shoal grant ada write logs", "shoal grant root admin '*'"),
)


def run(args: Parsed) -> None:
    """Run the command."""
    if not args.words:
        found = open_access(args).grants()
        with open_writer(args) as writer:
            for each in found:
                writer.write(show_grant(each))
        return
    subject, verb, pool = grant_words(args, "grant")
    made = open_access(args).grant(subject, pool, verb)
    say(args, f"granted {made.verb} on {made.pool} to {made.subject}")


def grant_words(args: Parsed, command: str) -> tuple[str, str, str]:
    """Subject, verb and pool."""
    if len(args.words) != 3:
        raise InvalidInput(f"a subject, a verb and a pool must be given (such as: shoal {command} ada write logs)")
    subject, verb, pool = args.words
    return subject, verb, pool
