"""The change feed of a lake in its store. To follow a branch is to look at its tip, again and again."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from threading import Event
from typing import TYPE_CHECKING

from shoal.access.view import VisibleLake
from shoal.api.changes import NO_CHANGES, Changes
from shoal.api.options import Statistics
from shoal.engines.stopping import Stop, current, results_stopped_by
from shoal.errors import NotFound, Stopped
from shoal.formats.columns.batches import EMPTY, Piece
from shoal.frames.results import Endless, Results
from shoal.ids import to_text
from shoal.lake.change_feed import (
    CommitChanges,
    Shape,
    as_it_is,
    changes_between,
    following,
    parse_position,
    show_change,
    uniform,
)
from shoal.lake.moments import commit_at
from shoal.lake.pools import Pool
from shoal.lazy import lazy
from shoal.local.executor import StoreExecutor, implements

if TYPE_CHECKING:
    from shoal.planner import merge_policies
else:
    merge_policies = lazy("shoal.planner.merge_policies")

_SHORTEST, _LONGEST = 0.1, 1.0
"""Seconds between two looks at a branch."""


@implements(Changes)
def changes(lake: StoreExecutor, request: Changes) -> Results:
    """The changes of records, as records."""
    pool, branch, warn, closed = lake.opened(request.pool), request.branch_name, request.on_warning, Event()
    since = parse_position(pool, request.since, warn)
    group = merge_policies.group_of(pool.config) if pool.config.settings.policy else None
    parts: Iterator[CommitChanges | None]
    if request.follow:
        shape = uniform(pool, since, pool.resolve(branch)) if request.uniform else as_it_is
        parts = following(pool, branch, since, _waiting(lake, pool, current(), closed), warn, group)
    else:
        until = pool.resolve(branch, warn) if not request.until else commit_at(pool, "until", request.until, warn)
        shape = uniform(pool, since, until) if request.uniform else as_it_is
        parts = changes_between(pool, since, until, warn, group)
    pieces = results_stopped_by(current(), _pieces(parts, shape))
    return Results("changes", Endless(pieces, closed.set), Statistics(), in_pieces=True, shape=NO_CHANGES)


def _pieces(parts: Iterator[CommitChanges | None], shape: Shape) -> Generator[Piece, None, None]:
    """Records, and an empty batch where no more have come yet."""
    for part in parts:
        if part is None:
            yield EMPTY
        else:
            for change in part.changes:
                yield show_change(change, part.commit, shape)


def _waiting(lake: StoreExecutor, pool: Pool, stop: Stop, closed: Event) -> Callable[[], None]:
    """Waits a while, or until the feed is closed. Who may no longer see the pool is not told any more."""
    seconds = _SHORTEST

    def wait() -> None:
        nonlocal seconds
        stop.check()
        if closed.wait(seconds):
            raise Stopped("the feed was closed")
        seconds = min(2 * seconds, _LONGEST)
        if isinstance(lake.root, VisibleLake):
            _require_visible(lake.root, pool)

    return wait


def _require_visible(lake: VisibleLake, pool: Pool) -> None:
    try:
        lake.pool(to_text(pool.config.id))
    except NotFound:
        raise NotFound(f"{pool.config.name}: pool not found (dropped, or you may no longer read it)") from None
