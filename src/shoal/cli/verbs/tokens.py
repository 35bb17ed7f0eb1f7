"""`shoal tokens`: create, revoke or list the tokens of a lake."""

from __future__ import annotations

from shoal.access.records import show_token
from shoal.cli.command import Verb, say
from shoal.cli.flags import Flag, Parsed, UsageError
from shoal.cli.lake import open_access
from shoal.cli.lake_flags import LAKE_FLAGS
from shoal.cli.output import open_writer, output_flags
from shoal.cli.terminal import print_text

VERB = Verb(
    "tokens [flags] [create NAME | revoke NAME]",
    "create, revoke or list access tokens",
    (
        Flag("expires", "duration", None, "lifetime of the token (default unlimited)"),
        Flag("subject", str, None, "user that the token is for (default its name)", "SUBJECT"),
        *output_flags("table"),
        *LAKE_FLAGS,
    ),
    "create prints the token and nothing else. It is shown only once: the lake stores just a digest. A caller with\n"
    "the token has the rights that `shoal grant` gives its subject. `shoal auth store` stores it for use with a\n"
    "service.",
    ("shoal tokens", "shoal tokens create -expires 720h ci", "shoal tokens revoke ci"),
)


def run(args: Parsed) -> None:
    """Run the command."""
    match args.words:
        case []:
            tokens = open_access(args).tokens()
            with open_writer(args) as writer:
                for token in tokens:
                    writer.write(show_token(token))
        case ["create", name]:
            print_text(open_access(args).create_token(name, args["subject"], args["expires"]).secret)
        case ["revoke", name]:
            open_access(args).revoke_token(name)
            say(args, f"token revoked: {name}")
        case _:
            raise UsageError(
                "invalid arguments (write: shoal tokens, shoal tokens create NAME or shoal tokens revoke NAME)"
            )
