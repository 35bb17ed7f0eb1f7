"""The lake that the flags of a command name: opening it and what is in it, commit notes, metadata, confirmation."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from itertools import chain
from typing import TYPE_CHECKING, Any, Literal

from shoal.api.access import AccessControl
from shoal.api.branch import Branch
from shoal.api.lake import Lake
from shoal.api.pool import Pool
from shoal.api.requests import NoteArgs
from shoal.cli.command import optional_word, say
from shoal.cli.flags import Parsed, UsageError
from shoal.cli.head import Head, head_of
from shoal.cli.lake_flags import lake_location
from shoal.cli.output import open_writer
from shoal.cli.terminal import print_text
from shoal.client import opening
from shoal.client.address import is_service, service_url
from shoal.errors import InvalidInput
from shoal.lazy import lazy
from shoal.model.parse import parse_value
from shoal.model.values import Value

if TYPE_CHECKING:
    from shoal.client import access as remote_access
    from shoal.client import credentials, transport
    from shoal.local import access as local_access
    from shoal.local import lake as local_lake
else:  # only the commands about access need these
    remote_access = lazy("shoal.client.access")
    credentials = lazy("shoal.client.credentials")
    transport = lazy("shoal.client.transport")
    local_access = lazy("shoal.local.access")
    local_lake = lazy("shoal.local.lake")


def open_lake(args: Parsed) -> Lake:
    """The lake."""
    return opening.open(lake_location(args), config=args["configdir"])


def open_pool(args: Parsed) -> tuple[Pool, str]:
    """The pool in use, and the name of the branch or commit, which is not checked."""
    head = head_of(args)
    return open_lake(args).pool(head.pool), head.commitish


def open_branch(args: Parsed) -> Branch:
    """The branch in use. Whether it exists is not checked."""
    pool, branch = open_pool(args)
    return pool.branch(branch)


# ---- commits


def read_note(args: Parsed) -> NoteArgs:
    """Author, message and metadata of a commit, from the flags."""
    return NoteArgs(author=args["user"], message=args["message"], meta=_meta(args["meta"]))


def _meta(text: str | None) -> Value | None:
    try:
        return None if text is None else parse_value(text)
    except InvalidInput as e:
        raise UsageError(f"-meta: {e}") from None


# ---- metadata


def write_meta(
    args: Parsed, lake: Lake, program: str, head: Head | None = None, mark: str = "", before: Iterable[Value] = ()
) -> None:
    """Write `before`, then the results of a metadata query. `mark` is the branch or commit to mark as HEAD."""
    if head is not None:
        lake.pool(head.pool)  # fails with one line, where the query would show the user a program they did not write
    with lake.query(program, head=None if head is None else str(head)) as results, open_writer(args, mark) as writer:
        for value in chain(before, results):
            writer.write(value)


def edit_refs(
    args: Parsed,
    noun: Literal["branch", "tag"],
    create: Callable[[Pool, str, str], Any],
    drop: Callable[[Pool, str], None],
) -> None:
    """Create the branch or tag that is named, remove it with -d, or list them all if none is named."""
    name = optional_word(args)
    head = head_of(args)
    lake = open_lake(args)
    if name is None:
        if args["d"]:
            raise UsageError(f"no {noun} given (write: shoal {noun} -d NAME)")
        write_meta(args, lake, "from HEAD:branches" if noun == "branch" else "from HEAD:tags", head, head.commitish)
    elif args["d"]:
        drop(lake.pool(head.pool), name)
        say(args, f"{noun} deleted: {name}")
    else:
        create(lake.pool(head.pool), name, head.commitish)
        say(args, f'"{name}": {noun} created')


# ---- confirmation


def confirm(args: Parsed, action: str) -> None:
    """Return if -f was given or the user confirms at the terminal; otherwise InvalidInput."""
    if args["f"]:
        return
    if not (_is_terminal(sys.stdin) and _is_terminal(sys.stderr)):
        raise InvalidInput(
            f"will not {action} without confirmation, and there is no terminal to ask on (force with -f)"
        )
    print_text(f"Are you sure you want to {action}? There is no going back... [y|n]", sys.stderr)
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        raise InvalidInput("operation canceled")


def _is_terminal(stream: object) -> bool:
    return stream is not None and bool(getattr(stream, "isatty", bool)())


# ---- access


def open_access(args: Parsed) -> AccessControl:
    """Grants and tokens of the lake. With direct access to the store anybody can create the first admin."""
    location = lake_location(args)
    if is_service(location):
        return service_access(args)
    return local_access.LocalAccess(local_lake.open_local(location))


def service_access(args: Parsed) -> remote_access.RemoteAccess:
    """Grants and tokens of a lake behind a service."""
    url = require_service(args)
    token = credentials.find_token(url, args["configdir"])
    return remote_access.RemoteAccess(remote_access.JsonCalls(transport.Access(url, token)))


def require_service(args: Parsed) -> str:
    """The URL of the service; InvalidInput if the lake is not behind one."""
    location = lake_location(args)
    if not is_service(location):
        raise InvalidInput(f"{location}: not a service, so it needs no token (name a service with -lake http://...)")
    return service_url(location)
