"""The command `shoal`: finds the verb and runs it."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import Protocol

from shoal.cli.command import Verb, print_error, version_line
from shoal.cli.flags import Parsed, UsageError, parse, split_leading, usage
from shoal.cli.lake_flags import LAKE_FLAGS
from shoal.cli.terminal import print_text
from shoal.errors import ShoalError, StorageFailure
from shoal.lazy import lazy_modules
from shoal.suggestions import did_you_mean


class VerbModule(Protocol):
    """The module of a verb."""

    VERB: Verb

    def run(self, args: Parsed) -> None:
        """Run the command."""


VERBS: dict[str, VerbModule] = lazy_modules("shoal.cli.verbs")
"""The modules of `shoal.cli.verbs` by command name, imported on first use."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit status."""
    words = list(sys.argv[1:] if argv is None else argv)
    try:
        return _dispatch(words)
    except ShoalError as e:
        return print_error(e)
    except OSError as e:
        # The reader of our output has closed the pipe, or the output cannot be written.
        if not isinstance(e, BrokenPipeError):
            print_error(StorageFailure(f"{e.filename or 'output'}: {(e.strerror or str(e)).lower()}"))
        _drop_output()
        return 1
    except KeyboardInterrupt:
        return 130


def _drop_output() -> None:
    """Redirect stdout to the null device, so that Python does not fail when it flushes at exit."""
    if sys.stdout is not None:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _dispatch(words: list[str]) -> int:
    leading, rest = split_leading(LAKE_FLAGS, words)
    args = parse(LAKE_FLAGS, leading)
    if args["version"]:
        print_text(version_line())
        return 0
    if rest[:1] == ["help"] and len(rest) > 1:
        return _run(rest[1], ["-help"])
    if not rest or rest[0] == "help" or args["help"] or args["h"]:
        print_text(_usage())
        return 0
    return _run(rest[0], [*leading, *rest[1:]])


def _run(verb: str, argv: list[str]) -> int:
    if verb not in VERBS:
        raise UsageError(f"shoal: unknown command {verb!r}{did_you_mean(verb, VERBS) or ' (see: shoal -help)'}")
    module = VERBS[verb]
    return module.VERB.execute(argv, module.run)


def _usage() -> str:
    summaries = {verb: module.VERB.summary for verb, module in VERBS.items()}
    width = max(map(len, summaries))
    verbs = "\n".join(f"  {verb.ljust(width)} {summary}" for verb, summary in summaries.items())
    return (
        "shoal: a Git-like data lake for data of any shape\n\n"
        f"usage: shoal [flags] COMMAND [flags] [arguments]\n\n{verbs}\n\n"
        f"{usage(LAKE_FLAGS)}\n\n"
        "`shoal COMMAND -help` shows the flags of a command and examples."
    )
