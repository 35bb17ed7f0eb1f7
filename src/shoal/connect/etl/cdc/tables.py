"""The pools of the tables, and the commits that change them: each moves the position of its pools in the same step.

Two processes may run one job. A commit is made only if its pools are where this process believes them to be, so one of
them wins, and the other reads again where they are. One that only puts rows into one pool says which commit it expects
there; any other one looks where the pools are when it begins, and reads them, so that later commits are conflicts.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress

from shoal.api.branch import NO_COMMIT, Branch, Load
from shoal.api.lake import GetPool, Lake
from shoal.api.requests import Note, NoteArgs
from shoal.api.transaction import Transaction
from shoal.connect.etl.cdc.config import CdcConfig
from shoal.connect.etl.cdc.effects import Effect, complete
from shoal.connect.etl.cdc.events import Key, field_names, in_order, key_of
from shoal.connect.etl.cdc.positions import Position, Stamp, format_meta, read_said
from shoal.connect.etl.places import Place
from shoal.errors import AlreadyExists, Conflict, InvalidInput, NotFound
from shoal.model import types as t
from shoal.model.literals import quote
from shoal.model.node import frozen
from shoal.model.values import Value

_AT_ONCE = 100
"""Keys that are looked up in one query."""


@frozen
class Commit:
    """What is to be committed."""

    stamp: Stamp
    effects: Mapping[str, Effect]
    positions: Mapping[str, Position]
    cursor: int
    message: str


class Tables:
    """The pools of a job."""

    def __init__(self, lake: Lake, config: CdcConfig, note: NoteArgs) -> None:
        self._lake = lake
        self._config = config
        self._note = note
        self._places = dict(config.tables)
        self._branches: dict[str, Branch] = {}
        self._primary: dict[str, tuple[str, ...]] = {}
        self._tips: dict[str, str | None] = {}
        self._said: dict[str, str | None] = {}
        """The newest commit of the job in each pool."""
        for table, place in config.tables:
            try:
                self._open(table, place)
            except NotFound:
                if not config.creates:
                    raise

    def _open(self, table: str, place: Place) -> Branch:
        pool = self._lake.pool(place.pool)
        primary = self._lake.do(GetPool(pool.id)).settings.primary
        if not primary:
            raise InvalidInput(
                f"{place.pool}: this pool has no primary key, so it cannot follow the table {table} "
                "(create one with: shoal create -orderby KEY -primary KEY NAME)"
            )
        branch = self._branches[table] = pool.branch(place.branch)
        self._primary[table] = tuple(".".join(path) for path in primary)
        return branch

    def _require(self, table: str, effect: Effect) -> None:
        """Create the pool of a table if need be; InvalidInput if its key is not that of the events."""
        if not effect.keys:
            return
        names = field_names(next(iter(effect.keys.values())))
        if table not in self._branches:
            self._create(table, names)
        if set(names) != set(self._primary[table]):
            key = ",".join(names)
            raise InvalidInput(
                f"{self._places[table].pool}: its primary key is {','.join(self._primary[table])}, and that of "
                f"{table} is {key} (create a pool with: shoal create -orderby {key} -primary {key} NAME)"
            )

    def _create(self, table: str, names: tuple[str, ...]) -> None:
        place = self._places[table]
        with suppress(AlreadyExists):  # another process has
            self._lake.create(place.pool, key=names, primary=names)
        self._tips[table] = self._open(table, place).resolve()
        if self._tips[table] is not None:
            raise Conflict(f"another process has begun with {place}")
        self._said[table] = None

    # ---- where they are

    def read(self) -> tuple[dict[str, Position | None], int]:
        """How far each pool is, and the first raw record that may not be applied."""
        positions: dict[str, Position | None] = {}
        cursor = 0
        for table, branch in self._branches.items():
            tip = branch.resolve()
            said = read_said(branch, self._config.name, table, tip, self._config.after)
            self._tips[table], self._said[table] = tip, None if said is None else said.commit
            if said is not None:
                positions[table] = said.position
                cursor = max(cursor, said.cursor)
        if cursor == 0 and self._config.after is not None:
            cursor = self._config.after + 1
        return positions, cursor

    def keys(self, table: str) -> list[Value]:
        """The primary keys of all rows of a table."""
        if table not in self._branches or self._tips[table] is None:
            return []
        names = self._primary[table]
        with self._branches[table].query(
            "yield {" + ",".join(f"{quote(n)}:this[{quote(n)}]" for n in names) + "}"
        ) as rows:
            return [in_order(row) for row in rows]

    # ---- what is new

    def commit(self, commit: Commit) -> None:
        """Change the pools, together; Conflict if another process was first."""
        for table, effect in commit.effects.items():
            self._require(table, effect)
        effects = {name: each for name, each in commit.effects.items() if not each.is_empty and name in self._branches}
        if len(effects) == 1:
            ((table, effect),) = effects.items()
            if effect.is_upsert:
                self._upsert(table, effect, commit)
            else:
                self._commit_one(table, effect, commit)
        elif effects:
            self._commit_several(effects, commit)

    def _upsert(self, table: str, effect: Effect, commit: Commit) -> None:
        branch, tip = self._branches[table], self._tips[table] or NO_COMMIT
        rows, note = list(effect.rows.values()), self._note_of(commit)
        request = Load(branch.pool_id, branch.branch_name, rows, mode="upsert", note=note, expect=tip)
        self._landed(table, self._lake.do(request))

    def _commit_one(self, table: str, effect: Effect, commit: Commit) -> None:
        part = self._branches[table].begin(isolation="serializable")
        try:
            self._stage(table, part, effect)
            self._landed(table, part.end(self._note_of(commit), if_changed=True))
        except BaseException:
            part.give_up()
            raise

    def _commit_several(self, effects: Mapping[str, Effect], commit: Commit) -> None:
        places = {table: str(self._places[table]) for table in effects}
        whole = self._lake.begin(list(places.values()), isolation="serializable")
        try:
            for table, effect in effects.items():
                self._stage(table, whole.part(places[table]), effect)
            commits = whole.end(self._note_of(commit), if_changed=True) or {}
        except BaseException:
            whole.give_up()
            raise
        for table in effects:
            self._landed(table, commits.get(places[table]))

    def _stage(self, table: str, part: Transaction, effect: Effect) -> None:
        self._require_known(table, part.base)
        with part.query("where false") as nothing:
            list(nothing)  # from now on it is a conflict if another writer commits
        complete(effect, lambda keys: self._rows(part, keys))
        if effect.clears:
            part.delete(where="where true")
        elif effect.deletes:
            part.delete(keys=list(effect.deletes.values()))
        if effect.rows:
            part.upsert(list(effect.rows.values()))

    def _require_known(self, table: str, base: str | None) -> None:
        """Conflict if the newest commit of the job is another one than this process knows."""
        if base == self._tips[table]:
            return
        said = read_said(self._branches[table], self._config.name, table, base, self._config.after)
        if (None if said is None else said.commit) != self._said[table]:
            raise Conflict(f"another process runs the job {self._config.name} (it has changed {self._places[table]})")

    def _rows(self, part: Transaction, keys: Iterable[Value]) -> Mapping[Key, Value]:
        """The rows of a pool that have some keys."""
        wanted, rows = list(keys), {}
        for start in range(0, len(wanted), _AT_ONCE):
            some = wanted[start : start + _AT_ONCE]
            with part.query("where " + " or ".join(_has_key(key) for key in some)) as results:
                for row in results:
                    key = key_of(row, field_names(some[0]))
                    if key is not None:
                        rows[key.data] = row
        return rows

    def _landed(self, table: str, commit: str | None) -> None:
        """Note the commit of a table; None if nothing has changed, as where rows came and went in one transaction."""
        if commit is not None:
            self._tips[table] = self._said[table] = commit

    def _note_of(self, commit: Commit) -> Note:
        config = self._config
        meta = format_meta(config.name, config.source, commit.stamp, commit.cursor, commit.positions)
        return Note(self._note.get("author"), self._note.get("message") or commit.message, meta)


def _has_key(key: Value) -> str:
    """A condition: the row with a key."""
    assert isinstance(key.type, t.Record)
    pieces = []
    for each, data in zip(key.type.fields, key.data, strict=True):
        value = Value(each.type, data).under()
        text = str(data) if isinstance(data, int) and value.type not in (t.DATE, t.TIME, t.DURATION) else repr(value)
        pieces.append(f"this[{quote(each.name)}]=={quote(data) if isinstance(data, str) else text}")
    return "(" + " and ".join(pieces) + ")"
