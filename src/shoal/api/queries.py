"""Requests that run a program or a SQL statement."""

from __future__ import annotations

from collections.abc import Callable

from shoal.api.options import Memory, Watch
from shoal.api.requests import NO_NOTE, Note, Op, Request
from shoal.api.results import Results
from shoal.model.node import frozen
from shoal.model.values import Value


@frozen
class Query(Request[Results]):
    """Run a program over the lake."""

    program: str
    head: str | None = None
    """The `pool@branch` that a program without a source reads."""
    includes: tuple[str, ...] = ()
    """Files with program text to prepend."""
    memory: Memory | None = None
    statistics: bool = False
    on_debug: Callable[[Value], None] | None = None
    on_warning: Callable[[str], None] | None = None
    watch: Watch | None = None
    engine: str | None = None
    on_output: Callable[[str, Value], None] | None = None
    """Called with a channel and each value that `output` sends to it, except for `main`."""


@frozen
class Sql(Request[Results]):
    """Run a statement in SQL over the pools of the lake. One that changes a pool makes a commit."""

    statement: str
    engine: str | None = None
    on_warning: Callable[[str], None] | None = None
    note: Note = NO_NOTE
    op: Op = None
