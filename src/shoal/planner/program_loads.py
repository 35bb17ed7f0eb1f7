"""The operator `load`: what a program commits. Several of them in one program commit together, or not at all.

In a transaction nothing is committed: what a program loads is staged once the program has ended.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from shoal.access.view import Pools, author_of, pool_to_load
from shoal.errors import InvalidInput
from shoal.ids import Id, new
from shoal.lake import changes, pool_transactions
from shoal.lake.branches import MAIN
from shoal.lake.commits import Note
from shoal.lake.committer import Change
from shoal.lake.objects import DataObject
from shoal.lake.pool_transactions import Participant
from shoal.lake.pools import Pool
from shoal.lake.rewriting import remove
from shoal.lang import plan, walk
from shoal.model.fields import id_value
from shoal.model.parse import parse_value
from shoal.model.values import NULL, Value
from shoal.planner.pool_partitions import with_partitions

Loading = Callable[[plan.Load, Iterator[Value]], Iterator[Value]]


def loads_of(program: plan.Program) -> list[plan.Load]:
    """The loads of a program."""
    return [node for node in walk.nodes(program) if isinstance(node, plan.Load)]


def loading(
    lake: Pools, program: plan.Program, staging: Staging | None = None
) -> tuple[Loading, Callable[[Iterator[Value]], Iterator[Value]]]:
    """How a program loads, and what becomes of its results: the ids of commits that are made at its end come last.

    With `staging` there are no commits: a transaction takes what is loaded.
    """
    loads = loads_of(program)
    if staging is not None:
        for op in loads:
            staging.require_part(pool_to_load(lake, op.pool), op.branch or MAIN)
    elif len(loads) < 2:
        return (lambda op, values: _load(lake, op, values)), lambda results: results
    together = _Together(lake, staging)
    return together.stage, together.results


@dataclass(slots=True)
class Write:
    """What the loads of a program have written for one branch."""

    pool: Pool
    branch: str
    note: Note
    begun: int
    objects: list[DataObject] = field(default_factory=list)


class Staging(Protocol):
    """A transaction, which takes what a program loads."""

    def require_part(self, pool: Pool, branch: str, /) -> None:
        """InvalidInput unless it changes this branch."""

    def stage_loads(self, writes: Sequence[Write], /) -> None:
        """Stage all, or nothing."""


def _write(lake: Pools, op: plan.Load, values: Iterator[Value]) -> Write:
    """Write the values of a `load`, which nobody sees yet."""
    lake.require_writable()
    pool = pool_to_load(lake, op.pool)
    branch = op.branch or MAIN
    pool.refs().branch(branch)
    note = Note(op.author or author_of(lake), op.message, parse_value(op.meta) if op.meta else NULL)
    begun = pool.journal.known.position
    return Write(pool, branch, note, begun, with_partitions(pool).writer().write_all(values))


def _load(lake: Pools, op: plan.Load, values: Iterator[Value]) -> Iterator[Value]:
    """Commit all values at once and give the id of the commit; without values, nothing."""
    written = _write(lake, op, values)
    if written.objects:
        yield id_value(written.pool.committer.join(_change(written)))


def _change(written: Write) -> Change:
    return changes.load_into(written.pool, written.branch, written.objects, written.note, begun=written.begun)


class _Together:
    """The loads of one program: each writes what it gets, and all are committed or staged when it has ended."""

    def __init__(self, lake: Pools, staging: Staging | None) -> None:
        self._lake = lake
        self._staging = staging
        self._begun = self._ended = 0
        self._writes: dict[tuple[Id, str], Write] = {}

    def stage(self, op: plan.Load, values: Iterator[Value]) -> Iterator[Value]:
        """Write the values; the id of their commit comes at the end of the program."""
        self._begun += 1
        written = _write(self._lake, op, values)
        first = self._writes.setdefault((written.pool.config.id, written.branch), written)
        if first is not written:
            first.objects += written.objects
        self._ended += 1
        yield from ()

    def results(self, results: Iterator[Value]) -> Iterator[Value]:
        """The results of the program, and then the ids of the commits."""
        try:
            yield from results
            if self._ended < self._begun:
                raise InvalidInput("a load of this program was cut off, so nothing was loaded")
        except BaseException:
            self._discard()
            raise
        yield from map(id_value, self._commit())

    def _commit(self) -> Iterable[Id]:
        writes = [each for each in self._writes.values() if each.objects]
        if self._staging is not None:
            self._staging.stage_loads(writes)
            return ()
        if not writes:
            return ()
        if len(writes) > 1:
            pool_transactions.require_transactions(self._lake.info, self._lake.store.uri)
        members = [Participant(each.pool, _change(each)) for each in writes]
        commits = pool_transactions.commit(self._lake.decisions, new(), members, writes[0].note)
        return [commits[each.place] for each in members]

    def _discard(self) -> None:
        """Remove what was written, as far as that can be done: no commit has named it."""
        for each in self._writes.values():
            remove(each.pool, each.objects)
