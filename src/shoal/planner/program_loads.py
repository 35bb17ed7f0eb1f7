"""The operator `load`: what a program commits. Several of them in one program commit together, or not at all."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

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


def loading(lake: Pools, program: plan.Program) -> tuple[Loading, Callable[[Iterator[Value]], Iterator[Value]]]:
    """How a program loads, and what becomes of its results: the ids of commits that are made at its end come last."""
    count = sum(1 for node in walk.nodes(program) if isinstance(node, plan.Load))
    if count < 2:
        return (lambda op, values: _load(lake, op, values)), lambda results: results
    together = _Together(lake)
    return together.stage, together.results


@dataclass(slots=True)
class _Write:
    """What one `load` has written."""

    pool: Pool
    branch: str
    note: Note
    begun: int
    objects: list[DataObject] = field(default_factory=list)


def _write(lake: Pools, op: plan.Load, values: Iterator[Value]) -> _Write:
    """Write the values of a `load`, which nobody sees yet."""
    lake.require_writable()
    pool = pool_to_load(lake, op.pool)
    branch = op.branch or MAIN
    pool.refs().branch(branch)
    note = Note(op.author or author_of(lake), op.message, parse_value(op.meta) if op.meta else NULL)
    begun = pool.journal.known.position
    return _Write(pool, branch, note, begun, with_partitions(pool).writer().write_all(values))


def _load(lake: Pools, op: plan.Load, values: Iterator[Value]) -> Iterator[Value]:
    """Commit all values at once and give the id of the commit; without values, nothing."""
    written = _write(lake, op, values)
    if written.objects:
        yield id_value(written.pool.committer.join(_change(written)))


def _change(written: _Write) -> Change:
    return changes.load_into(written.pool, written.branch, written.objects, written.note, begun=written.begun)


class _Together:
    """The loads of one program: each stages what it gets, and all are committed when the program has ended."""

    def __init__(self, lake: Pools) -> None:
        self._lake = lake
        self._begun = self._ended = 0
        self._writes: dict[tuple[Id, str], _Write] = {}

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
