"""The lake and the pool that the flags of a command name, and what they say of a commit."""

from __future__ import annotations

from shoal.api.branch import Branch
from shoal.api.lake import Lake
from shoal.api.pool import Pool
from shoal.api.requests import NoteArgs
from shoal.cli.flags import Parsed
from shoal.cli.head import head_of
from shoal.cli.lake_flags import lake_location
from shoal.client import opening
from shoal.errors import InvalidInput
from shoal.model.parse import parse_value
from shoal.model.values import Value


def open_lake(args: Parsed) -> Lake:
    """The lake."""
    return opening.open(lake_location(args), config=args["configdir"])


def open_pool(args: Parsed) -> tuple[Pool, str]:
    """The pool to work on, and the branch or commit in it, which may not be there."""
    head = head_of(args)
    return open_lake(args).pool(head.pool), head.commitish


def open_branch(args: Parsed) -> Branch:
    """The branch to work on, which may not be there."""
    pool, branch = open_pool(args)
    return pool.branch(branch)


def read_note(args: Parsed) -> NoteArgs:
    """Author, message and metadata of a commit, from the flags."""
    return NoteArgs(author=args["user"], message=args["message"], meta=_meta(args["meta"]))


def _meta(text: str | None) -> Value | None:
    try:
        return None if text is None else parse_value(text)
    except InvalidInput as e:
        raise InvalidInput(f"-meta: {e}") from None
