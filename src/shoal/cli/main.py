"""The command `shoal`: finds the verb and runs it. Each verb is a module of this package."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from importlib import import_module

from shoal.cli.output import print_error
from shoal.errors import ShoalError, StorageFailure
from shoal.version import VERSION

_VERBS = {"zq": "run a query over files of any format"}


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
    if not words or words[0] in ("-h", "-help", "--help", "help"):
        print(_usage())
        return 0
    if words[0] in ("-version", "--version", "version"):
        print(f"Version: v{VERSION}")
        return 0
    if words[0] not in _VERBS:
        print_error(ShoalError(f"shoal: unknown command {words[0]!r} (see shoal -help)"))
        return 1
    status: int = import_module(f"shoal.cli.{words[0]}").run(words[1:])
    return status


def _usage() -> str:
    verbs = "\n".join(f"  {name.ljust(8)} {text}" for name, text in _VERBS.items())
    return (
        "shoal: a Git-like data lake for data of any shape\n\n"
        f"usage: shoal COMMAND [flags] [arguments]\n\n{verbs}\n\n"
        "`shoal COMMAND -help` tells more. `shoal --version` prints the version."
    )
