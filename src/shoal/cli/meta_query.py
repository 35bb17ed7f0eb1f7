"""Metadata of a lake, asked for by a query and written as the output flags say."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain

from shoal.api.lake import Lake
from shoal.cli.flags import Parsed
from shoal.cli.head import Head
from shoal.cli.output import open_writer
from shoal.model.values import Value


def write_meta(
    args: Parsed, lake: Lake, program: str, head: Head | None = None, mark: str = "", before: Iterable[Value] = ()
) -> None:
    """The results of a query about `HEAD`; `mark` is the branch or commit to mark as the one in use.

    `before` is written first.
    """
    if head is not None:
        lake.pool(head.pool)  # without a place in a query that nobody wrote, an error is one line
    with lake.query(program, head=None if head is None else str(head)) as results, open_writer(args, mark) as writer:
        for value in chain(before, results):
            writer.write(value)
