"""Queries that run or ended lately, by the ids of their requests, for callers that ask how they ended.

All of this runs in the event loop: a caller that waits for the end of a query holds no thread.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import anyio

from shoal.errors import NotFound

_KEPT = 1000


@dataclass(eq=False, slots=True)
class _Query:
    ended: anyio.Event = field(default_factory=anyio.Event)
    error: str = ""


class Running:
    """The queries."""

    def __init__(self) -> None:
        self._queries: dict[tuple[str, str], _Query] = {}
        """By caller and id: a client may choose the ids of its own requests, not those of others."""

    def begin(self, ident: str, subject: str) -> None:
        """A query begins; the oldest that has ended is forgotten."""
        self._queries[subject, ident] = _Query()
        if len(self._queries) > _KEPT:
            ended = next((i for i, q in self._queries.items() if q.ended.is_set()), None)
            if ended is not None:
                del self._queries[ended]

    def end(self, ident: str, subject: str, error: str = "") -> None:
        """A query has ended."""
        query = self._queries.get((subject, ident))
        if query is not None:
            query.error = error
            query.ended.set()

    async def wait(self, ident: str, subject: str, seconds: float) -> str:
        """The error of a query, once it has ended; "" if there is none."""
        query = self._queries.get((subject, ident))
        if query is None:
            raise NotFound(f"{ident}: query not found")
        with anyio.move_on_after(seconds):
            await query.ended.wait()
        return query.error
