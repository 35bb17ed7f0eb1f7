"""Queries that run or have ended of late, by the ids of their requests, for those who ask how they ended."""

from __future__ import annotations

from dataclasses import dataclass, field
from threading import Event, Lock

from shoal.errors import NotFound

_KEPT = 1000


@dataclass(eq=False, slots=True)
class _Query:
    ended: Event = field(default_factory=Event)
    error: str = ""


class Running:
    """The queries."""

    def __init__(self) -> None:
        self._queries: dict[tuple[str, str], _Query] = {}
        """By caller and id: a client may choose the ids of its own requests, not those of others."""
        self._lock = Lock()

    def begin(self, ident: str, subject: str) -> None:
        """A query begins; the oldest that has ended is forgotten."""
        with self._lock:
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

    def wait(self, ident: str, subject: str, seconds: float) -> str:
        """The error of a query, once it has ended; "" if there is none."""
        query = self._queries.get((subject, ident))
        if query is None:
            raise NotFound(f"{ident}: query not found")
        query.ended.wait(seconds)
        return query.error
