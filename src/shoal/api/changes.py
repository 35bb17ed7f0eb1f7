"""The change feed of a branch: its request, and the stream of changes that it gives.

A change has a position, by which a consumer goes on: `since=change.position` gives all that comes after this change, no
more and no less, whatever was interrupted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Self

from shoal.api.codecs import CHANGES
from shoal.api.commitish import split_position
from shoal.api.infos import MAIN
from shoal.api.requests import WHEN, Need, Request, in_query, require_texts, verb
from shoal.api.results import Results
from shoal.errors import InvalidInput
from shoal.ids import Id, to_text
from shoal.model import types as t
from shoal.model.fields import KSUID, NO_ID
from shoal.model.node import frozen
from shoal.model.values import Value

if TYPE_CHECKING:
    import pyarrow

NO_CHANGES = t.record(
    (
        ("change", t.STRING),
        ("before", t.NULL),
        ("after", t.NULL),
        ("commit", KSUID),
        ("author", t.STRING),
        ("ts", t.TIME),
    )
)
"""The type of changes where there are none, for formats that begin with their columns."""
_FIELDS = tuple(field.name for field in NO_CHANGES.fields)


@verb("GET", "/pool/{pool}/changes", Need.READ, CHANGES)
class Changes(Request[Results]):
    """List the changes of records, commit by commit, oldest first."""

    pool: str
    branch: str | None = in_query("branch", "the branch; main if it is not given")
    since: str | None = in_query("since", f"{WHEN}, or COMMIT/NUMBER: the changes after it")
    until: str | None = in_query("until", f"{WHEN}: the changes up to it, and with it")
    follow: bool = in_query("follow", "T to go on with the changes of commits to come", "boolean")
    uniform: bool = in_query("uniform", "T to give before and after one type in all changes", "boolean")
    on_warning: Callable[[str], None] | None = None

    def __post_init__(self) -> None:
        require_texts(self)
        if self.follow and self.until is not None:
            raise InvalidInput("changes: to follow a branch goes without an end (leave until or follow out)")

    @property
    def branch_name(self) -> str:
        """The branch that is meant."""
        return self.branch or MAIN


@frozen
class Change:
    """A record before and after a commit."""

    change: str
    """`insert`, `update` or `delete`."""
    before: Value | None
    """None for an insertion."""
    after: Value | None
    """None for a deletion."""
    commit: str
    author: str
    ts: int
    """When the commit was made, in nanoseconds since 1970."""
    number: int
    """Which change of its commit it is, from 1."""

    @property
    def position(self) -> str:
        """Where to go on after this change."""
        return f"{self.commit}/{self.number}"


class ChangeStream(Iterator[Change]):
    """Changes, read as they are asked for, once. Its other methods take all that has not been read yet."""

    def __init__(self, results: Results, since: str | None) -> None:
        self._results = results
        self._values: Iterator[Value] | None = None
        self._last = split_position(since or "") or (NO_ID, 0)

    def __next__(self) -> Change:
        if self._values is None:
            self._values = iter(self._results)
        value = next(self._values)
        kind, before, after, commit, author, ts = (field_of(value, name) for name in _FIELDS)
        ident = Id(commit.data)
        number = self._last[1] + 1 if ident == self._last[0] else 1
        self._last = ident, number
        return Change(kind.data, _present(before), _present(after), to_text(ident), author.data, ts.data, number)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *failure: object) -> None:
        self.close()

    def close(self) -> None:
        """Stop reading."""
        self._results.close()

    def pieces(self) -> Iterator[Any]:
        """The changes as records; of a stream that follows its branch, empty batches where no more have come yet."""
        return self._results.pieces()

    def to_arrow(self) -> pyarrow.Table:
        """An Arrow table with the columns change, before, after, commit, author and ts."""
        return self._results.to_arrow()

    def to_batches(self, rows: int = 10_000) -> Iterator[pyarrow.RecordBatch]:
        """Arrow record batches with the columns of `to_arrow`, each of the types of what is in it.

        Of a stream that follows its branch, a batch comes as soon as there is nothing more for the moment.
        """
        return self._results.to_batches(rows)


def field_of(value: Value, name: str) -> Value:
    """A field of a change."""
    field = value.field(name)
    if field is None:
        raise InvalidInput(f"changes: a record lacks the field {name!r} (does the service have another version?)")
    return field


def _present(side: Value) -> Value | None:
    return None if side.type is t.NULL or side.data is None else side
