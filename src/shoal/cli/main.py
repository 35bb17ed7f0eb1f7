"""The command `shoal`: finds the verb and runs it. Each verb is a module of this package."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from importlib import import_module

from shoal.cli.flags import parse, split_leading, usage
from shoal.cli.lake_flags import LAKE_FLAGS
from shoal.cli.output import print_error
from shoal.cli.verbs import version_line
from shoal.errors import InvalidInput, ShoalError, StorageFailure

VERBS = (
    "init", "create", "drop", "rename", "ls", "use", "branch", "tag", "load", "query", "sql", "explain", "log",
    "diff", "merge", "rebase", "revert", "delete", "compact", "manage", "vacuum", "vacate", "purge", "info", "serve",
    "auth", "grant", "revoke", "tokens", "version", "warmup", "zq",
)  # fmt: skip
"""Each is a module with its `SUMMARY` and `run`."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; the exit status."""
    words = list(sys.argv[1:] if argv is None else argv)
    try:
        return _dispatch(words)
    except ShoalError as e:
        print_error(e)
        return 1
    except OSError as e:
        # Whoever read our output has seen enough, or it cannot be written.
        if not isinstance(e, BrokenPipeError):
            print_error(StorageFailure(f"{e.filename or 'output'}: {(e.strerror or str(e)).lower()}"))
        _drop_output()
        return 1
    except KeyboardInterrupt:
        return 130


def _drop_output() -> None:
    """Keep Python from complaining when it flushes what could not be written."""
    if sys.stdout is not None:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _dispatch(words: list[str]) -> int:
    leading, rest = split_leading(LAKE_FLAGS, words)
    args = parse(LAKE_FLAGS, leading)
    if args["version"]:
        print(version_line())
        return 0
    if rest[:1] == ["help"] and len(rest) > 1:
        return _run(rest[1], ["-help"])
    if not rest or rest[0] == "help" or args["help"] or args["h"]:
        print(_usage())
        return 0
    return _run(rest[0], [*leading, *rest[1:]])


def _run(verb: str, argv: list[str]) -> int:
    if verb not in VERBS:
        raise InvalidInput(f"shoal: unknown command {verb!r} (see shoal -help)")
    status: int = import_module(f"shoal.cli.{verb}").run(argv)
    return status


def _usage() -> str:
    summaries = {verb: import_module(f"shoal.cli.{verb}").SUMMARY for verb in VERBS}
    verbs = "\n".join(f"  {verb.ljust(8)} {summary}" for verb, summary in summaries.items())
    return (
        "shoal: a Git-like data lake for data of any shape\n\n"
        f"usage: shoal [flags] COMMAND [flags] [arguments]\n\n{verbs}\n\n"
        f"{usage(LAKE_FLAGS)}\n\n"
        "`shoal COMMAND -help` tells more of a command."
    )
