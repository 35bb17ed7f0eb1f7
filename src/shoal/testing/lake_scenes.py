"""Small lakes, each with one operation that is about to be done: for tests that let it go wrong.

An operation begins with opening the lake, as by a client that has just started. What a repeat has in common with
the first attempt (ids, a session, the configuration of a pool) is in the facts of the scene, and nothing else.
"""

from __future__ import annotations

import time
from atexit import register
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from shoal import ids
from shoal.api.pool_settings import PoolSettings
from shoal.errors import ShoalError, StorageFailure
from shoal.formats.columns.batches import Part, Rows
from shoal.formats.columns.physical import from_arrow
from shoal.ids import Id, new, to_text
from shoal.lake import (
    attaching,
    changes,
    checkpoints,
    claims,
    clocks,
    column_registry,
    commits,
    committer,
    history,
    journal,
    lake,
    masks,
    names,
    pool_transactions,
    rewriting,
    row_masking,
    sessions,
    settling,
    snapshots,
    vacuum,
)
from shoal.lake.actions import patch_of, patch_to
from shoal.lake.claims import Patience
from shoal.lake.commits import Note
from shoal.lake.keys import parse_sort_key
from shoal.lake.objects import DataObject
from shoal.lake.partition_changes import WholePartitions, replace_partitions, view_of
from shoal.lake.pool_config import PoolConfig
from shoal.lake.pool_partitions import Division
from shoal.lake.pools import Pool
from shoal.lake.scans import scan_objects
from shoal.lake.sessions import Session
from shoal.model.node import frozen
from shoal.model.values import NULL, Value, int64, record, string
from shoal.planner.merge_policies import policy_of
from shoal.sources.in_place import find_files
from shoal.storage import memory
from shoal.storage import store as stores
from shoal.storage.store import ObjectStore

THE_OPERATION = "the operation"
"""The message of the commit that a scene is about."""
POOL, OTHER = "logs", "other"


@dataclass(frozen=True, slots=True)
class Facts:
    """What the clients of a scene know beforehand."""

    pool: Id
    op: Id = field(default_factory=new)
    commits: Mapping[str, Id] = field(default_factory=dict)
    """By their messages."""
    session: Session | None = None
    parts: tuple[tuple[str, Session], ...] = ()
    """Of a transaction over several pools: the names of pools, each with what is staged there."""
    planned: PoolConfig = field(default_factory=lambda: small_pool("planned"))
    """A pool that is not there yet."""


Act = Callable[[ObjectStore, Facts], object]


@dataclass(frozen=True, slots=True)
class Scene:
    """A lake and an operation on it."""

    name: str
    act: Act
    setup: Callable[[ObjectStore], Facts]
    rival: Act | None = None
    """What another client does just before the operation claims its slot for the first time."""
    is_named: bool = False
    """Whether a repeat has the id of the first attempt, so that it can be done blindly."""
    moves: tuple[str, ...] = ()
    """Branches that need not descend from what they pointed at before."""
    after: tuple[type[ShoalError], ...] = ()
    """Errors that may come although the operation was done."""


class Stage:
    """A clock that nobody waits for and ids that are the same each time: two runs that do the same leave the same."""

    def __init__(self) -> None:
        self._began = time.time()
        self._waited = 0.0
        self._calls = 0
        self.tokens = 0
        """How many ids there are so far."""

    def rewind(self, tokens: int = 0) -> None:
        """Begin a run: ids go on after the number of `tokens`, and the time is that of all other runs."""
        self._waited, self._calls, self.tokens = 0.0, 0, tokens

    def sleep(self, seconds: float) -> None:
        """Wait, in no time."""
        self._waited += seconds

    def monotonic(self) -> float:
        """Only waiting takes time."""
        return self._waited

    def time_ns(self) -> int:
        """A little later with every call."""
        self._calls += 1
        return int(self._began * 1e9) + self._calls * 1000

    def time(self) -> float:
        """The time in seconds."""
        return self.time_ns() / 1e9

    def urandom(self, size: int) -> bytes:
        """What stands in for chance."""
        self.tokens += 1
        return sha256(b"%d" % self.tokens).digest()[:size]


def in_miniature(monkeypatch: pytest.MonkeyPatch, patience: Patience | None = None) -> Stage:
    """Hints and checkpoints every few commits, pages of two, and nobody ever waits."""
    stage = Stage()
    monkeypatch.setattr(journal, "HEAD_EVERY", 2)
    monkeypatch.setattr(journal, "SNAPSHOT_EVERY", 4)
    monkeypatch.setattr(snapshots, "CHECKPOINT_EVERY", 4)
    monkeypatch.setattr(checkpoints, "PAGE", 2)
    monkeypatch.setattr(committer, "AT_ONCE", 1)
    monkeypatch.setattr(pool_transactions, "AT_ONCE", 1)
    for module in (
        changes,
        claims,
        clocks,
        column_registry,
        commits,
        history,
        ids,
        journal,
        lake,
        memory,
        names,
        sessions,
        settling,
        vacuum,
    ):
        monkeypatch.setattr(module, "time", stage, raising=False)
    monkeypatch.setattr(ids, "urandom", stage.urandom)
    monkeypatch.setattr(stores, "urandom", stage.urandom)
    if patience is not None:
        with_patience(monkeypatch, patience)
    return stage


def with_patience(monkeypatch: pytest.MonkeyPatch, patience: Patience) -> None:
    """Make this the default patience with the store."""
    monkeypatch.setattr(Patience.__init__, "__defaults__", (patience.deadline, patience.refusals))
    _, *others = journal.Journal.__init__.__defaults__ or ()
    monkeypatch.setattr(journal.Journal.__init__, "__defaults__", (patience, *others))


# ---- what the lakes are made of


def small_pool(name: str, object_size: int = 1 << 20, inline: int = 0) -> PoolConfig:
    """A pool whose objects have a seek index from a few values on."""
    settings = PoolSettings(inline=inline)
    return PoolConfig(new(), name, parse_sort_key("k"), object_size, seek_stride=40, settings=settings)


def number(k: int) -> Value:
    """A record with a key."""
    return record([("k", int64(k)), ("s", string(f"number {k}"))])


def load(pool: Pool, keys: Iterable[int], message: str, branch: str = "main", op: Id | None = None) -> Id:
    """Load records with these keys."""
    writer = dividing(pool).writer()
    for k in keys:
        writer.write(number(k))
    return pool.committer.commit(changes.load(branch, writer.close(), Note("test", message), op))


def added(pool: Pool, commit: Id) -> list[Id]:
    """The objects that a commit added."""
    return [o.id for o in pool.commits.read(commit).adds]


def pond(store: ObjectStore, inline: int = 0) -> Facts:
    """Three branches, a tag, a deletion in the past, one hint and one checkpoint; and a pool that nobody touches.

    The next entry of the pool's journal, the 13th, is one that leaves no hints.
    """
    created = lake.create(store)
    pool = created.create_pool(small_pool(POOL, inline=inline))
    load(created.create_pool(small_pool(OTHER)), range(3), "elsewhere")
    commits = {"one": load(pool, (1, 2), "one"), "two": load(pool, range(3, 9), "two")}
    commits["deletion"] = changes.delete(pool, "main", added(pool, commits["one"]), Note("test", "deletion"))
    commits["four"] = load(pool, (9,), "four")
    pool.names.create_tag("v1", commits["four"])
    pool.names.create_branch("side", commits["four"])
    pool.names.create_branch("spare", commits["four"])
    commits["five"] = load(pool, (10, 11), "five")
    commits["side one"] = load(pool, (20, 21), "side one", "side")
    commits["side two"] = load(pool, (22,), "side two", "side")
    commits["spare"] = load(pool, (30,), "spare", "spare")
    return Facts(pool.config.id, commits=commits)


def copied_pond(store: ObjectStore) -> Facts:
    """A pool with a merge policy, that has some records twice."""
    created = lake.create(store)
    pool = created.create_pool(replace(small_pool(POOL), settings=PoolSettings(policy="dedupe")))
    load(created.create_pool(small_pool(OTHER)), (1,), "elsewhere")
    commits = {"one": load(pool, (1, 2), "one"), "two": load(pool, range(3, 9), "two")}
    commits["copies"] = load(pool, range(5, 12), "copies")
    return Facts(pool.config.id, commits=commits)


def inline_pond(store: ObjectStore) -> Facts:
    """The pond with data that is part of commits."""
    return pond(store, inline=4096)


def hide(pool: Pool, commit: Id, rows: Sequence[int], message: str, branch: str = "main") -> Id:
    """Hide rows of the first object that a commit added, by masks that are objects of their own."""
    ident = pool.commits.read(commit).adds[0].id
    base = pool.refs().branch(branch).commit
    with patch("shoal.lake.masks.MOST_INSIDE", 0):
        effect = row_masking.hide_rows(pool, pool.snapshot(base).find([ident])[ident], np.array(rows, np.int64))
        return changes.rewrite(pool, branch, base, patch_to([effect]), Note("test", message), "delete")


def masked(store: ObjectStore) -> Facts:
    """Branches that have hidden rows of one object, each other ones; and masks of a branch that was dropped."""
    facts = pond(store)
    pool = _open(store, facts)
    two = facts.commits["two"]
    commits = {"mask": hide(pool, two, (0,), "mask"), "side mask": hide(pool, two, (1,), "side mask", "side")}
    pool.names.create_branch("gone", commits["mask"])
    hide(pool, two, (3,), "mask that goes", "gone")
    pool.names.drop_branch("gone")
    return replace(facts, commits={**facts.commits, **commits})


def _open(store: ObjectStore, facts: Facts) -> Pool:
    masks.forget()
    return lake.open_lake(store).pool(to_text(facts.pool))


def empty(store: ObjectStore) -> Facts:
    """Nothing at all."""
    return Facts(new())


def puddle(store: ObjectStore) -> Facts:
    """Two pools with hardly anything in them."""
    created = lake.create(store)
    pool = created.create_pool(small_pool(POOL))
    load(created.create_pool(small_pool(OTHER)), (1,), "elsewhere")
    return Facts(pool.config.id, commits={"one": load(pool, (1, 2), "one")})


def hints_due(store: ObjectStore) -> Facts:
    """The next entry leaves a snapshot of the journal and HEAD."""
    facts = pond(store)
    pool = _open(store, facts)
    commits = {f"more {k}": load(pool, (40 + k,), f"more {k}") for k in range(3)}
    return replace(facts, commits={**facts.commits, **commits})


def checkpoint_due(store: ObjectStore) -> Facts:
    """The next commit is to leave a checkpoint, on top of one with pages of pages."""
    pool = lake.create(store).create_pool(small_pool(POOL, object_size=1))
    commits = {f"first {i}": load(pool, range(10 * i, 10 * i + 4), f"first {i}") for i in range(4)}
    gone = added(pool, commits["first 1"])[:2]
    commits["gap"] = changes.delete(pool, "main", gone, Note("test", "gap"))
    commits |= {f"then {i}": load(pool, (15 + 10 * i,), f"then {i}") for i in range(2)}
    return Facts(pool.config.id, commits=commits)


def staged(store: ObjectStore) -> Facts:
    """A session that has loaded, and deleted what was there."""
    facts = pond(store)
    pool = _open(store, facts)
    session = sessions.begin(pool, "main")
    writer = pool.writer()
    for k in (50, 51):
        writer.write(number(k))
    session = sessions.stage(session, patch_of(writer.close(), pool.commits.read(facts.commits["five"]).adds))
    return replace(facts, op=session.id, session=session)


def staged_everywhere(store: ObjectStore) -> Facts:
    """A transaction over two branches of a pool and another pool, which loads into all, and deletes in one."""
    facts, txn = staged(store), new()
    assert facts.session is not None
    parts = [(POOL, facts.session)]
    opened = lake.open_lake(store)
    for name, branch, key in ((POOL, "side", 60), (OTHER, "main", 70)):
        pool = opened.pool(name)
        writer = pool.writer()
        writer.write(number(key))
        parts.append((name, sessions.stage(sessions.begin(pool, branch), patch_of(writer.close()))))
    return replace(facts, op=txn, parts=tuple((name, replace(session, id=txn)) for name, session in parts))


def littered(store: ObjectStore) -> Facts:
    """A lake where something can be vacuumed: the history of a branch that was dropped, and data of no commit.

    Of another branch that was dropped a tag keeps the history.
    """
    facts = pond(store)
    pool = _open(store, facts)
    pool.names.create_tag("kept", facts.commits["spare"])
    pool.names.drop_branch("spare")
    pool.names.drop_branch("side")
    writer = pool.writer()
    writer.write(number(60))
    writer.close()
    return replace(facts, commits={m: c for m, c in facts.commits.items() if not m.startswith("side")})


def museum(store: ObjectStore) -> Facts:
    """One or more of everything that lies in a lake: checkpoints with and without pages, data in columns, in rows with
    and without seek index, journals with HEAD and with several snapshots."""
    facts = hints_due(store)
    pool = lake.open_lake(store).create_pool(small_pool("grains", object_size=1))
    for i in range(6):
        load(pool, range(10 * i, 10 * i + 4), f"grains {i}")
    with patch("shoal.lake.object_writer.MOST_SHAPES", 0):
        load(_open(store, facts), range(100, 106), "late, in rows with a seek index", "side")
        load(_open(store, facts), (110,), "late, in rows", "side")
    late = [load(_open(store, facts), (120 + i,), f"late {i}", "side") for i in range(8)]
    for pair in (late[:2], late[2:4]):
        _compact_apart(_open(store, facts), "side", pair)
    return facts


def _compact_apart(pool: Pool, branch: str, commits: Sequence[Id]) -> object:
    """Compact what commits have added; the lineage of the result is an object of its own."""
    objects = [ident for commit in commits for ident in added(pool, commit)]
    with patch("shoal.lake.lineage.MOST_INSIDE", 0):
        return rewriting.compact(pool, branch, objects, Note("test", f"compaction of {len(objects)}"))


def vacated(store: ObjectStore) -> Facts:
    """A lake whose history begins with a later commit, and what came before has not gone yet."""
    facts = pond(store)
    vacuum.vacate(_open(store, facts), facts.commits["four"])
    cut = ("one", "two", "deletion")
    return replace(facts, commits={m: c for m, c in facts.commits.items() if m not in cut})


# ---- the operations

_NOTE = Note("test", THE_OPERATION)
_UNTIL = 2.0
"""Seconds that others wait for the decision of a transaction."""


def _init(store: ObjectStore, facts: Facts) -> object:
    return lake.create(store).info.id


def _create_pool(store: ObjectStore, facts: Facts) -> object:
    return lake.open_lake(store).create_pool(facts.planned).config.id


def _load(store: ObjectStore, facts: Facts) -> object:
    return load(_open(store, facts), (70, 71), THE_OPERATION)


def load_new_columns(store: ObjectStore, facts: Facts) -> object:
    """Load records with a field, and with types of fields, that the pool does not have yet."""
    pool = _open(store, facts)
    writer = pool.writer()
    writer.write(record([("k", int64(72)), ("s", int64(72)), ("extra", record([("S", string("x"))]))]))
    writer.write(record([("k", int64(73)), ("s", string("y"))]))
    return pool.committer.commit(changes.load("main", writer.close(), Note("test", THE_OPERATION)))


def _load_named(store: ObjectStore, facts: Facts) -> object:
    return load(_open(store, facts), (70, 71), THE_OPERATION, op=facts.op)


def _load_aside(store: ObjectStore, facts: Facts) -> object:
    return load(_open(store, facts), (70, 71), THE_OPERATION, "side")


def _delete(store: ObjectStore, facts: Facts) -> object:
    pool = _open(store, facts)
    return changes.delete(pool, "main", added(pool, facts.commits["two"]), _NOTE)


class _Even:
    """Even numbers are to go."""

    def objects(self, pool: Pool, commit: Id | None) -> list[DataObject]:
        return list(pool.snapshot(commit).objects())

    def covers(self, pool: Pool, o: DataObject) -> bool:
        return False

    def rows(self, pool: Pool, o: DataObject) -> Rows:
        values = enumerate(scan_objects(pool, [o]))
        return np.array([i for i, value in values if value.data[0] % 2 == 0 and value.data[0] <= 1000], np.int64)


def _delete_where(store: ObjectStore, facts: Facts) -> object:
    return rewriting.delete_where(_open(store, facts), "main", _Even(), _NOTE)


@frozen
class ByString:
    """Divides records by their field `s`."""

    def partition_of(self, value: Value) -> Value:
        """The partition of a value."""
        return value.field("s") or NULL

    def divide(self, part: Part) -> Division:
        """The partitions of the rows of one shape."""
        values = [self.partition_of(Value(part.shape, data)) for data in from_arrow(part.shape, part.column)]
        return Division(values, np.arange(len(values)))


def divided(store: ObjectStore) -> Facts:
    """A pool with a partition for each number."""
    config = small_pool(POOL)
    pool = lake.create(store).create_pool(replace(config, settings=PoolSettings(partition="s")))
    return Facts(pool.config.id, commits={m: load(pool, k, m) for m, k in (("one", (1, 2)), ("two", (2, 3)))})


def dividing(pool: Pool) -> Pool:
    """The pool, able to write."""
    return replace(pool, divider=ByString()) if pool.config.settings.partition else pool


def _is_two(partition: Value) -> bool:
    return partition == string("number 2")


def _load_divided(store: ObjectStore, facts: Facts) -> object:
    return load(_open(store, facts), (2, 4), THE_OPERATION)


def _delete_partition(store: ObjectStore, facts: Facts) -> object:
    return rewriting.delete_where(_open(store, facts), "main", WholePartitions("2", _is_two), _NOTE)


def _delete_partition_named(store: ObjectStore, facts: Facts) -> object:
    whole = WholePartitions("2", _is_two)
    return _once(store, facts, "main", lambda pool, op: rewriting.delete_where(pool, "main", whole, _NOTE, op=op))


def _rewrite_partition_named(store: ObjectStore, facts: Facts) -> object:
    return _once(store, facts, "main", _rewrite)


def _rewrite(pool: Pool, op: Id | None) -> Id:
    """Both records of a partition become one."""
    base = pool.refs().branch("main").commit
    old = WholePartitions("2", _is_two).objects(pool, base)
    view_of(pool, old)
    writer = dividing(pool).writer()
    writer.write(next(scan_objects(pool, old)))
    return replace_partitions(pool, "main", base, old, writer.close(), _is_two, _NOTE, op)


def _mask(store: ObjectStore, facts: Facts) -> object:
    return hide(_open(store, facts), facts.commits["two"], (2, 5), THE_OPERATION)


def _rival_mask(store: ObjectStore, facts: Facts) -> object:
    return hide(_open(store, facts), facts.commits["two"], (4, 5), "rival")


def _merge_masks(store: ObjectStore, facts: Facts) -> object:
    with patch("shoal.lake.masks.MOST_INSIDE", 0):
        return _merge(store, facts)


def _revert_mask(store: ObjectStore, facts: Facts) -> object:
    pool = _open(store, facts)
    with patch("shoal.lake.masks.MOST_INSIDE", 0):
        return changes.revert(pool, "main", facts.commits["mask"], _NOTE)


def _merge(store: ObjectStore, facts: Facts) -> object:
    return changes.merge(_open(store, facts), "side", "main", _NOTE)


def _rebase(store: ObjectStore, facts: Facts) -> object:
    return changes.rebase(_open(store, facts), "side", "main")


def _revert(store: ObjectStore, facts: Facts) -> object:
    pool = _open(store, facts)
    ident = pool.resolve(to_text(facts.commits["deletion"]))
    assert ident is not None
    return changes.revert(pool, "main", ident, _NOTE)


def _cherry_pick(store: ObjectStore, facts: Facts) -> object:
    pool = _open(store, facts)
    ident = pool.resolve(to_text(facts.commits["side one"]))
    assert ident is not None
    return changes.cherry_pick(pool, "main", ident, _NOTE)


@cache
def _attached_file() -> str:
    """A Parquet file that is not sorted, outside of all lakes."""
    folder = TemporaryDirectory(prefix="shoal-attached-")
    register(folder.cleanup)
    path = Path(folder.name) / "x.parquet"
    pq.write_table(pa.table({"k": [97, 95, 96], "s": [1, 2, 3]}), path)
    return str(path)


def _attach(store: ObjectStore, facts: Facts, op: Id | None = None) -> Id:
    pool = _open(store, facts)
    candidates = attaching.read_candidates(list(find_files(_attached_file())))
    objects = [attaching.describe(candidate, {}, pool.config.key) for candidate in candidates]
    return attaching.attach(pool, "main", objects, _NOTE, op)


def _attach_named(store: ObjectStore, facts: Facts) -> object:
    return _once(store, facts, "main", lambda pool, op: _attach(store, facts, op))


def _compact(store: ObjectStore, facts: Facts) -> object:
    pool = _open(store, facts)
    objects = [ident for message in ("two", "four", "five") for ident in added(pool, facts.commits[message])]
    return rewriting.compact(pool, "main", objects, _NOTE)


def _compact_with_lineage(store: ObjectStore, facts: Facts) -> object:
    with patch("shoal.lake.lineage.MOST_INSIDE", 0):
        return _compact(store, facts)


def _rival_compaction(store: ObjectStore, facts: Facts) -> object:
    pool = _open(store, facts)
    objects = [ident for message in ("two", "four") for ident in added(pool, facts.commits[message])]
    return rewriting.compact(pool, "main", objects, Note("test", "rival"))


def _merge_copies(store: ObjectStore, facts: Facts) -> object:
    pool = _open(store, facts)
    objects = [ident for message in ("two", "copies") for ident in added(pool, facts.commits[message])]
    return rewriting.compact(pool, "main", objects, _NOTE, policy=policy_of(pool.config))


def _vacuum(store: ObjectStore, facts: Facts) -> object:
    vacuum.collect(_open(store, facts), 0.0)
    return None


def _vacate(store: ObjectStore, facts: Facts) -> object:
    vacuum.vacate(_open(store, facts), facts.commits["four"])
    return None


def _purge(store: ObjectStore, facts: Facts) -> object:
    return tuple(vacuum.purge(_open(store, facts), [facts.commits["one"]]))


def _rename(store: ObjectStore, facts: Facts) -> object:
    return lake.open_lake(store).rename_pool(POOL, "renamed")


def _drop_pool(store: ObjectStore, facts: Facts) -> object:
    return lake.open_lake(store).drop_pool(POOL)


def _create_branch(store: ObjectStore, facts: Facts) -> object:
    pool = _open(store, facts)
    pool.names.create_branch("new", pool.resolve(to_text(facts.commits["side one"])))
    return None


def _drop_branch(store: ObjectStore, facts: Facts) -> object:
    return _open(store, facts).names.drop_branch("spare")


def _create_tag(store: ObjectStore, facts: Facts) -> object:
    pool = _open(store, facts)
    pool.names.create_tag("v2", pool.resolve(to_text(facts.commits["two"])))
    return None


def _drop_tag(store: ObjectStore, facts: Facts) -> object:
    return _open(store, facts).names.drop_tag("v1")


def _commit_session(store: ObjectStore, facts: Facts) -> object:
    assert facts.session is not None
    return sessions.commit(_open(store, facts), facts.session, _NOTE)


def _commit_everywhere(store: ObjectStore, facts: Facts) -> object:
    opened = lake.open_lake(store)
    parts = ((opened.pool(name), session) for name, session in facts.parts)
    members = pool_transactions.participants_of(opened, parts, _NOTE)
    commits_made = pool_transactions.commit(opened.decisions, facts.op, members, _NOTE, _UNTIL)
    return tuple(sorted(commits_made.values()))


# These operations by clients with an operation id, so that they can repeat them blindly.


def _once(store: ObjectStore, facts: Facts, branch: str, act: Callable[[Pool, Id], Id]) -> object:
    pool = _open(store, facts)
    return pool.committer.once(facts.op, branch, lambda: act(pool, facts.op))


def _delete_named(store: ObjectStore, facts: Facts) -> object:
    two = facts.commits["two"]
    return _once(store, facts, "main", lambda pool, op: changes.delete(pool, "main", added(pool, two), _NOTE, op))


def _delete_where_named(store: ObjectStore, facts: Facts) -> object:
    return _once(store, facts, "main", lambda pool, op: rewriting.delete_where(pool, "main", _Even(), _NOTE, op=op))


def _merge_named(store: ObjectStore, facts: Facts) -> object:
    return _once(store, facts, "main", lambda pool, op: changes.merge(pool, "side", "main", _NOTE, op))


def _revert_named(store: ObjectStore, facts: Facts) -> object:
    deletion = facts.commits["deletion"]
    return _once(store, facts, "main", lambda pool, op: changes.revert(pool, "main", deletion, _NOTE, op))


def _cherry_pick_named(store: ObjectStore, facts: Facts) -> object:
    side = facts.commits["side one"]
    return _once(store, facts, "main", lambda pool, op: changes.cherry_pick(pool, "main", side, _NOTE, op))


def _rebase_named(store: ObjectStore, facts: Facts) -> object:
    return changes.rebase(_open(store, facts), "side", "main", facts.op)


def _create_pool_named(store: ObjectStore, facts: Facts) -> object:
    return lake.open_lake(store).create_pool(facts.planned, facts.op).config.id


def _rename_named(store: ObjectStore, facts: Facts) -> object:
    return lake.open_lake(store).rename_pool(POOL, "renamed", facts.op)


def _drop_pool_named(store: ObjectStore, facts: Facts) -> object:
    return lake.open_lake(store).drop_pool(POOL, facts.op)


def _create_branch_named(store: ObjectStore, facts: Facts) -> object:
    _open(store, facts).names.create_branch("new", facts.commits["side one"], facts.op)
    return None


def _drop_branch_named(store: ObjectStore, facts: Facts) -> object:
    return _open(store, facts).names.drop_branch("spare", facts.op)


def _create_tag_named(store: ObjectStore, facts: Facts) -> object:
    _open(store, facts).names.create_tag("v2", facts.commits["two"], facts.op)
    return None


def _drop_tag_named(store: ObjectStore, facts: Facts) -> object:
    return _open(store, facts).names.drop_tag("v1", facts.op)


def _rival_load(store: ObjectStore, facts: Facts) -> object:
    return load(_open(store, facts), (81,), "rival")


def _rival_load_divided(store: ObjectStore, facts: Facts) -> object:
    return load(_open(store, facts), (81,), "rival")


def _rival_load_new_columns(store: ObjectStore, facts: Facts) -> object:
    pool = _open(store, facts)
    writer = pool.writer()
    writer.write(record([("k", int64(81)), ("s", int64(81)), ("EXTRA", int64(1))]))
    return pool.committer.commit(changes.load("main", writer.close(), Note("test", "rival")))


def _rival_load_aside(store: ObjectStore, facts: Facts) -> object:
    return load(_open(store, facts), (81,), "rival", "side")


def _rival_delete(store: ObjectStore, facts: Facts) -> object:
    pool = _open(store, facts)
    return changes.delete(pool, "main", added(pool, facts.commits["four"]), Note("test", "rival"))


SCENES = (
    Scene("init", _init, empty),
    Scene("create pool", _create_pool, pond),
    Scene("rename pool", _rename, pond),
    # The journal says that the pool is gone, and then its objects go one by one.
    Scene("drop pool", _drop_pool, puddle, after=(StorageFailure,)),
    Scene("load", _load, pond),
    Scene("load with an id", _load_named, pond, is_named=True),
    Scene("load, another load being first", _load, pond, rival=_rival_load),
    Scene("load with an id, another load being first", _load_named, pond, rival=_rival_load, is_named=True),
    Scene("load into a branch, another load there being first", _load_aside, pond, rival=_rival_load_aside),
    Scene("load into a branch, a load into another being first", _load_aside, pond, rival=_rival_load),
    Scene("load that leaves a snapshot of the journal and HEAD", _load, hints_due),
    Scene("load that leaves a checkpoint", _load, checkpoint_due),
    Scene("load that brings new columns", load_new_columns, pond),
    Scene(
        "load that brings new columns, another one being first", load_new_columns, pond, rival=_rival_load_new_columns
    ),
    Scene("delete", _delete, pond),
    Scene("delete, another delete being first", _delete, pond, rival=_rival_delete),
    Scene("delete where", _delete_where, pond),
    Scene("delete where, a load being first", _delete_where, pond, rival=_rival_load),
    Scene("load into partitions", _load_divided, divided),
    Scene("delete partition", _delete_partition, divided),
    Scene("delete partition, a load being first", _delete_partition, divided, rival=_rival_load_divided),
    Scene("merge", _merge, pond),
    Scene("merge, a load being first", _merge, pond, rival=_rival_load),
    Scene("rebase", _rebase, pond, moves=("side",)),
    Scene("rebase, a load being first", _rebase, pond, rival=_rival_load, moves=("side",)),
    Scene("revert", _revert, pond),
    Scene("revert, a load being first", _revert, pond, rival=_rival_load),
    Scene("cherry-pick", _cherry_pick, pond),
    Scene("cherry-pick, a load being first", _cherry_pick, pond, rival=_rival_load),
    Scene("attach", _attach, pond),
    Scene("attach, a load being first", _attach, pond, rival=_rival_load),
    Scene("attach with an id", _attach_named, pond, is_named=True),
    Scene("compact", _compact, pond),
    Scene("compact, a load being first", _compact, pond, rival=_rival_load),
    Scene("compact with a lineage of its own", _compact_with_lineage, pond),
    Scene("compact, rows being hidden first", _compact, masked, rival=_rival_mask),
    Scene("revert, a compaction being first", _revert, pond, rival=_rival_compaction),
    Scene("merge, a compaction being first", _merge, pond, rival=_rival_compaction),
    Scene("compact with a merge policy", _merge_copies, copied_pond),
    # What goes is what nobody sees: some of it may be gone.
    Scene("vacuum", _vacuum, littered, after=(StorageFailure,)),
    Scene("vacuum of a vacated history", _vacuum, vacated, after=(StorageFailure,)),
    Scene("vacate", _vacate, pond),
    # The journal says that the data is gone, and then it goes.
    Scene("purge", _purge, pond, after=(StorageFailure,)),
    Scene("create branch", _create_branch, pond),
    Scene("drop branch", _drop_branch, pond),
    Scene("create tag", _create_tag, pond),
    Scene("drop tag", _drop_tag, pond),
    Scene("delete with an id", _delete_named, pond, is_named=True),
    Scene("delete where with an id", _delete_where_named, pond, is_named=True),
    Scene("delete partition with an id", _delete_partition_named, divided, is_named=True),
    Scene("rewrite partition with an id", _rewrite_partition_named, divided, is_named=True),
    Scene(
        "rewrite partition with an id, a load of another being first",
        _rewrite_partition_named,
        divided,
        rival=_rival_load_divided,
        is_named=True,
    ),
    Scene("merge with an id", _merge_named, pond, is_named=True),
    Scene("merge with an id, a load being first", _merge_named, pond, rival=_rival_load, is_named=True),
    Scene("revert with an id", _revert_named, pond, is_named=True),
    Scene("cherry-pick with an id", _cherry_pick_named, pond, is_named=True),
    Scene("rebase with an id", _rebase_named, pond, is_named=True, moves=("side",)),
    Scene("create pool with an id", _create_pool_named, pond, is_named=True),
    Scene("rename pool with an id", _rename_named, pond, is_named=True),
    Scene("drop pool with an id", _drop_pool_named, puddle, is_named=True, after=(StorageFailure,)),
    Scene("create branch with an id", _create_branch_named, pond, is_named=True),
    Scene("drop branch with an id", _drop_branch_named, pond, is_named=True),
    Scene("create tag with an id", _create_tag_named, pond, is_named=True),
    Scene("drop tag with an id", _drop_tag_named, pond, is_named=True),
    Scene("hide rows", _mask, pond),
    Scene("hide more rows", _mask, masked),
    Scene("hide rows, others being hidden first", _mask, masked, rival=_rival_mask),
    Scene("revert of a mask", _revert_mask, masked),
    Scene("revert of a mask, other rows being hidden first", _revert_mask, masked, rival=_rival_mask),
    Scene("merge of masks", _merge_masks, masked),
    Scene("merge of masks, other rows being hidden first", _merge_masks, masked, rival=_rival_mask),
    Scene("vacuum of masks", _vacuum, masked, after=(StorageFailure,)),
    Scene("load of inline data", _load, inline_pond),
    Scene("load of inline data, another load being first", _load, inline_pond, rival=_rival_load),
    Scene("hide rows of inline data", _mask, inline_pond),
    Scene("merge of inline data", _merge, inline_pond),
    Scene("compact inline data", _compact, inline_pond),
    Scene("vacuum beside inline data", _vacuum, inline_pond, after=(StorageFailure,)),
    Scene("purge of inline data", _purge, inline_pond, after=(StorageFailure,)),
    Scene("session", _commit_session, staged, is_named=True),
    Scene("session, a load being first", _commit_session, staged, rival=_rival_load, is_named=True),
    Scene("transaction", _commit_everywhere, staged_everywhere, is_named=True),
    Scene("transaction, a load being first", _commit_everywhere, staged_everywhere, rival=_rival_load, is_named=True),
)
