"""Updates: records that match a filter are changed by a program, and written again in place of the old ones."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import count

import numpy as np

from shoal.api.branch import Update
from shoal.engines.interp.engine import evaluate, run_program
from shoal.errors import Conflict, InvalidInput
from shoal.ids import Id, to_text
from shoal.lake import keyed_changes, rewriting
from shoal.lake.actions import Effect, Patch, patch_to
from shoal.lake.changes import with_message
from shoal.lake.commits import Note
from shoal.lake.committer import Change
from shoal.lake.fitting import fit, planned_at
from shoal.lake.masks import hidden_rows
from shoal.lake.objects import DataObject
from shoal.lake.pools import Pool
from shoal.lake.record_changes import ByKey
from shoal.lake.row_masking import hide_rows, only
from shoal.lake.scans import read_object
from shoal.lake.tallies import Tally
from shoal.lang import plan
from shoal.lang.compile import compile_program
from shoal.local.executor import StoreExecutor, implements, operation, stored_note
from shoal.model.values import Value
from shoal.planner.predicates import Predicate, parse_predicate

_ATTEMPTS = 10
"""How often an update of a pool without primary key is planned again, if others change the records meanwhile."""


@implements(Update)
def update(lake: StoreExecutor, request: Update) -> str:
    """Change the records that match a filter."""
    pool, op = lake.writable(request.pool), operation(request.op)
    predicate, program = parse_predicate(request.where), parse_update(request.program)
    resolution = keyed_changes.parse_resolution(request.on_conflict)
    is_keyed = bool(pool.config.settings.primary)
    require_unmerged(pool)
    if request.on_conflict is not None and not is_keyed:
        raise InvalidInput(f"{pool.config.name}: on conflict needs a primary key (shoal create -primary)")

    def plan_at(base: Id | None) -> tuple[Patch, Note]:
        patch = updating(pool, base, predicate, program)
        if patch.is_empty:
            raise InvalidInput("empty transaction")
        return patch, with_message(stored_note(request.note), f"updated records where {request.where}")

    def act() -> Id:
        return commit_planned(pool, request.branch, plan_at, "update", op, resolution)

    return to_text(pool.committer.once(op, request.branch, act))


def require_unmerged(pool: Pool) -> None:
    """InvalidInput if records of a pool are merged when they are read."""
    if pool.config.settings.policy:
        raise InvalidInput(
            f"{pool.config.name} has a merge policy, by which stored records are merged later: they cannot be updated "
            "one by one (load new records, which the policy merges, or delete old ones: shoal delete -where)"
        )


def commit_planned(
    pool: Pool,
    branch: str,
    plan_at: Callable[[Id | None], tuple[Patch, Note]],
    what: str,
    op: Id | None,
    resolution: keyed_changes.Resolution | None = None,
    is_strict: bool = False,
    counted: Callable[[], Tally] | None = None,
    base_of: Callable[[], Id | None] | None = None,
) -> Id:
    """Commit a change of records that is planned at the tip; it is planned again where others were first.

    In a keyed pool it follows the records by their keys instead, unless it is strict: then it stands on the very tip.
    `counted` knows what the plan does in records, if not their keys are to tell. `base_of` reads the tip to plan at,
    for a plan that reads more than that.
    """
    is_keyed = bool(pool.config.settings.primary) and not is_strict
    for attempt in count(1):
        base = pool.refs().branch(branch).commit if base_of is None else base_of()
        patch, note = plan_at(base)

        def build(tip: Id | None, patch: Patch = patch, base: Id | None = base) -> Patch:
            if is_strict and tip != base:
                raise Conflict(f"{what}: another commit was first, {_ATTEMPTS} times in a row (try again)")
            if is_keyed and tip != base:
                return keyed_changes.fit_by_key(pool, patch, tip, what, resolution)
            return fit(pool, patch, planned_at(base), tip, what)

        count_records = _Planned(pool, patch, None if counted is None else counted())

        try:
            return pool.committer.commit(Change(branch, build, note, op, is_fresh=True, count=count_records))
        except Conflict:
            rewriting.remove(pool, patch.adds)
            if is_keyed or attempt == _ATTEMPTS or pool.refs().branch(branch).commit == base:
                raise
    raise AssertionError


class _Planned:
    """Counts what a plan does: what is known of it, if it lands as it was planned."""

    def __init__(self, pool: Pool, patch: Patch, tally: Tally | None) -> None:
        self._patch, self._tally = patch, tally
        self._by_key = ByKey(pool)

    def __call__(self, landed: Patch) -> Tally:
        return self._by_key(landed) if self._tally is None or landed != self._patch else self._tally


def parse_update(text: str) -> plan.Program:
    """The program of an update, which gets the records and returns them changed."""
    program = compile_program(text, evaluate)
    if not program.body or not isinstance(program.body[0], plan.DefaultScan):
        raise InvalidInput("an update changes the records that match, so its program has no source of its own")
    return program


def updating(pool: Pool, commit: Id | None, predicate: Predicate, program: plan.Program) -> Patch:
    """What an update changes at a commit: the old records are hidden, and the new ones added."""
    found: list[tuple[DataObject, np.ndarray]] = []
    purged = frozenset(pool.refs().purged())
    for o in predicate.objects(pool, commit):
        rows = _rows(pool, predicate, o) if o.id not in purged else np.zeros(0, np.int64)
        if len(rows):
            found.append((o, rows))
    if not found:
        return Patch()
    hidden = [hide_rows(pool, o, rows) for o, rows in found]

    def values() -> Iterator[Value]:
        for o, rows in found:
            yield from read_object(pool.store, pool.prefix, pool.config.key, only(pool, o, rows))

    objects = pool.writer().write_all(run_program(program, values()))
    patch = patch_to([*(Effect(None, o) for o in objects), *hidden])
    if pool.config.settings.primary:
        keyed_changes.require_free(pool, commit, patch, objects, "update")
    return patch


def _rows(pool: Pool, predicate: Predicate, o: DataObject) -> np.ndarray:
    if predicate.covers(pool, o):
        return np.setdiff1d(np.arange(o.rows), hidden_rows(pool.store, pool.prefix, o))
    return predicate.rows(pool, o)
