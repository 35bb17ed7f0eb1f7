"""`shoal tokens`: make tokens for a lake, revoke or list them."""

from __future__ import annotations

from shoal.access.records import show_token
from shoal.cli.access import open_access
from shoal.cli.command import Verb, say
from shoal.cli.flags import Flag, Parsed
from shoal.cli.lake_flags import LAKE_FLAGS
from shoal.cli.output import open_writer, output_flags
from shoal.errors import InvalidInput

VERB = Verb(
    "tokens [flags] [create NAME | revoke NAME]",
    "make a token that proves who asks, revoke one, or list them",
    (
        Flag("expires", "duration", None, "time after which the token is no longer accepted (default never)"),
        Flag("subject", str, None, "whom it is for (default its name)", "SUBJECT"),
        *output_flags("table"),
        *LAKE_FLAGS,
    ),
    "The token is printed, this once, and nothing else: the lake keeps a digest of it. Whoever has it is taken for\n"
    "its subject, whose rights come from `shoal grant`. `shoal auth store` keeps it for use with a service.",
    ("shoal tokens", "shoal tokens create -expires 720h ci", "shoal tokens revoke ci"),
)


def run(args: Parsed) -> None:
    """Run the command."""
    match args.words:
        case []:
            found = open_access(args).tokens()
            with open_writer(args) as writer:
                for each in found:
                    writer.write(show_token(each))
        case ["create", name]:
            print(open_access(args).create_token(name, args["subject"], args["expires"]).secret)
        case ["revoke", name]:
            open_access(args).revoke_token(name)
            say(args, f"token revoked: {name}")
        case _:
            raise InvalidInput("write: shoal tokens, shoal tokens create NAME or shoal tokens revoke NAME")
