"""The command `shoal`: finds the verb and runs it. Each verb is a module of this package."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

from shoal.cli.flags import parse, split_leading, usage
from shoal.cli.lake_flags import LAKE_FLAGS
from shoal.cli.output import print_error
from shoal.cli.verbs import version_line
from shoal.errors import InvalidInput, ShoalError, StorageFailure
from shoal.lazy import lazy

if TYPE_CHECKING:
    from shoal.cli import (
        auth,
        branch,
        compact,
        create,
        delete,
        diff,
        drop,
        explain,
        grant,
        info,
        init,
        load,
        log,
        ls,
        manage,
        merge,
        purge,
        query,
        rebase,
        rename,
        revert,
        revoke,
        serve,
        sql,
        tag,
        tokens,
        use,
        vacate,
        vacuum,
        version,
        warmup,
        zq,
    )
else:
    auth = lazy("shoal.cli.auth")
    branch = lazy("shoal.cli.branch")
    compact = lazy("shoal.cli.compact")
    create = lazy("shoal.cli.create")
    delete = lazy("shoal.cli.delete")
    diff = lazy("shoal.cli.diff")
    drop = lazy("shoal.cli.drop")
    explain = lazy("shoal.cli.explain")
    grant = lazy("shoal.cli.grant")
    info = lazy("shoal.cli.info")
    init = lazy("shoal.cli.init")
    load = lazy("shoal.cli.load")
    log = lazy("shoal.cli.log")
    ls = lazy("shoal.cli.ls")
    manage = lazy("shoal.cli.manage")
    merge = lazy("shoal.cli.merge")
    purge = lazy("shoal.cli.purge")
    query = lazy("shoal.cli.query")
    rebase = lazy("shoal.cli.rebase")
    rename = lazy("shoal.cli.rename")
    revert = lazy("shoal.cli.revert")
    revoke = lazy("shoal.cli.revoke")
    serve = lazy("shoal.cli.serve")
    sql = lazy("shoal.cli.sql")
    tag = lazy("shoal.cli.tag")
    tokens = lazy("shoal.cli.tokens")
    use = lazy("shoal.cli.use")
    vacate = lazy("shoal.cli.vacate")
    vacuum = lazy("shoal.cli.vacuum")
    version = lazy("shoal.cli.version")
    warmup = lazy("shoal.cli.warmup")
    zq = lazy("shoal.cli.zq")


class VerbModule(Protocol):
    """What the module of a verb has."""

    SUMMARY: str

    def run(self, argv: Sequence[str]) -> int:
        """Run the command; the exit status."""


VERBS: dict[str, VerbModule] = {
    "init": init,
    "create": create,
    "drop": drop,
    "rename": rename,
    "ls": ls,
    "use": use,
    "branch": branch,
    "tag": tag,
    "load": load,
    "query": query,
    "sql": sql,
    "explain": explain,
    "log": log,
    "diff": diff,
    "merge": merge,
    "rebase": rebase,
    "revert": revert,
    "delete": delete,
    "compact": compact,
    "manage": manage,
    "vacuum": vacuum,
    "vacate": vacate,
    "purge": purge,
    "info": info,
    "serve": serve,
    "auth": auth,
    "grant": grant,
    "revoke": revoke,
    "tokens": tokens,
    "version": version,
    "warmup": warmup,
    "zq": zq,
}
"""The module of each verb, with its `SUMMARY` and `run`, in the order of `shoal -help`."""


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
    return VERBS[verb].run(argv)


def _usage() -> str:
    summaries = {verb: module.SUMMARY for verb, module in VERBS.items()}
    verbs = "\n".join(f"  {verb.ljust(8)} {summary}" for verb, summary in summaries.items())
    return (
        "shoal: a Git-like data lake for data of any shape\n\n"
        f"usage: shoal [flags] COMMAND [flags] [arguments]\n\n{verbs}\n\n"
        f"{usage(LAKE_FLAGS)}\n\n"
        "`shoal COMMAND -help` tells more of a command."
    )
