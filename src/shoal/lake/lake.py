"""A lake: a store with `lake.zng` in it, and the journal of its pools."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import replace

from shoal.errors import AlreadyExists, CorruptData, InvalidInput, NotFound, ReadOnly, StorageFailure, Unsupported
from shoal.ids import Id, new, to_text
from shoal.lake import branches
from shoal.lake.branches import MAIN, Paths, Refs, as_id, primary_of
from shoal.lake.claims import Patience, claim
from shoal.lake.clocks import Clock
from shoal.lake.decisions import Decisions
from shoal.lake.journal import EMPTY, Changes, Entry, Journal, State
from shoal.lake.pool_config import PoolConfig, check_config, format_config, parse_config
from shoal.lake.pools import Pool, open_pool
from shoal.lake.requests import REQUESTS
from shoal.lake.sealed import seal, unseal
from shoal.model import types as t
from shoal.model.fields import get_data, get_id, get_or, id_value, time_value, uint64
from shoal.model.node import frozen
from shoal.model.values import Value, record, string
from shoal.storage.cache import CachedStore
from shoal.storage.store import Listed, ObjectStore, check_creates, dropping_damage
from shoal.storage.uris import open_store
from shoal.suggestions import did_you_mean

MAGIC = "SHOAL LAKE"
VERSION = 1
SETTINGS = "pool-settings"
TRANSACTIONS = "transactions"
LINEAGES = "lineage"
FEATURES: frozenset[str] = frozenset({"stable-columns", SETTINGS, TRANSACTIONS, LINEAGES})
"""What this version knows beyond the first format; a lake that needs more is not written to."""
_ROOT, _POOLS = "lake.zng", "pools"


@frozen
class LakeInfo:
    """What `lake.zng` says."""

    id: Id
    version: int
    features: frozenset[str]
    created: int


def create(store: ObjectStore) -> Lake:
    """Make a store a lake."""
    check_creates(store)
    info = LakeInfo(new(), VERSION, FEATURES, time.time_ns())
    if not claim(store, _ROOT, seal([_format(info)], _ROOT), Patience()):
        raise AlreadyExists(f"{store.uri}: lake already exists")
    return Lake(store, info)


def open_lake(store: ObjectStore) -> Lake:
    """The lake in a store."""
    try:
        with dropping_damage(store, _ROOT):
            values = unseal(store.get(_ROOT), _ROOT)
    except NotFound:
        if Journal(store, _POOLS).read().position:
            raise CorruptData(f"{_ROOT}: this object is gone, and there are pools (restore it from a backup)") from None
        raise NotFound(f"{store.uri}: lake does not exist (create it with: shoal init)") from None
    info = _parse(values[0] if values else record([]), f"{store.uri}/{_ROOT}")
    if info.version > VERSION:
        raise Unsupported(f"{store.uri}: lake of format version {info.version} (this Shoal knows {VERSION}: update it)")
    return Lake(store, info)


def create_at(uri: str) -> Lake:
    """A new lake at a path or URI."""
    return create(_cached(uri))


def open_at(uri: str) -> Lake:
    """The lake at a path or URI, with a cache of what never changes."""
    return open_lake(_cached(uri))


def _cached(uri: str) -> ObjectStore:
    return CachedStore(open_store(uri), is_immutable)


def is_immutable(key: str) -> bool:
    """Whether an object never changes: all but hints (HEAD, snapshots of journals, checkpoints) and probes."""
    return not key.endswith(("/HEAD", ".snap.zng")) and "/checkpoints/" not in key and not key.startswith("probe/")


def is_lake(store: ObjectStore) -> bool:
    """Whether there is a lake in a store."""
    try:
        store.size(_ROOT)
    except NotFound:
        return False
    return True


class Lake:
    """The pools of a lake."""

    def __init__(self, store: ObjectStore, info: LakeInfo) -> None:
        self.store = store
        self.info = info
        self.clock = Clock(store)
        self._decisions = Decisions(store)
        self._journal = Journal(store, _POOLS)
        self._pools: dict[Id, Pool] = {}
        self._configured: tuple[State, list[PoolConfig]] = EMPTY, []
        """What the journal said when it was last read."""
        self._may_write = False
        self.groups_loads = True
        """Whether loads that come together share an entry of the journal."""
        self._lock = threading.Lock()

    @property
    def decisions(self) -> Decisions:
        """What was decided about transactions over several pools."""
        return self._decisions

    def require_writable(self, to_free: bool = False) -> None:
        """ReadOnly if the lake has features that this version lacks; Unsupported, once, if the store cannot be trusted.

        With `to_free`, a store that fails the trial is accepted: it may just be full.
        """
        unknown = self.info.features - FEATURES
        if unknown:
            raise ReadOnly(
                f"{self.store.uri}: this lake uses {', '.join(sorted(unknown))}, unknown here (update Shoal)"
            )
        if self._may_write:
            return
        try:
            self.clock.learn(check_creates(self.store))
            self._may_write = True
        except StorageFailure:
            if not to_free:
                raise

    def position(self) -> int:
        """Where the journal of pools stands: as long as it does not move, names of pools mean the same."""
        return self._journal.read().position

    def configs(self) -> list[PoolConfig]:
        """All pools, by name."""
        state = self._journal.read()
        configured_at, configs = self._configured
        if configured_at is not state:
            configs = sorted(_configs(state), key=lambda config: config.name)
            self._configured = state, configs
        return list(configs)

    def pool(self, name: str) -> Pool:
        """A pool by its name or id."""
        ident = as_id(name)
        for config in self.configs():
            if config.name == name or config.id == ident:
                return self._handle(config)
        raise unknown_pool(name, self.configs())

    def _handle(self, config: PoolConfig) -> Pool:
        """The pool of a configuration. All handles of a pool share its parts, and so what was read before."""
        with self._lock:
            pool = self._pools.get(config.id)
            if pool is None or pool.config.settings != config.settings:
                pool = self._open(config)
            elif pool.config != config:
                pool = pool.with_config(config)
            self._pools[config.id] = pool
            return pool

    def _open(self, config: PoolConfig) -> Pool:
        """A pool by a handle that has read nothing yet."""
        return open_pool(
            self.store,
            config,
            is_grouping=self.groups_loads,
            clock=self.clock,
            decisions=self._decisions,
            has_lineage=LINEAGES in self.info.features,
        )

    # ---- pools that come, go and change their names; under the id of an operation once

    def create_pool(self, config: PoolConfig, op: Id | None = None) -> Pool:
        """A new pool with an empty branch `main`. If the operation has an id, it is that of the pool."""
        self.require_writable()
        config = check_config(config if op is None else replace(config, id=op))
        if not config.settings.is_plain and SETTINGS not in self.info.features:
            raise Unsupported(
                f"{self.store.uri}: this lake was created by an earlier version, which would ignore the primary key, "
                "partitions or policy of a pool (create a new lake)"
            )
        pool = self._open(replace(config, ts=self.clock.now()))

        def plan(state: State) -> Changes:
            _require_free(state, config)
            # The branch first: a pool that is listed can be used. Its id is the operation, so that it is made once.
            pool.journal.change(config.id, lambda state: branches.set_branch(MAIN, None, self.clock.now()), after=0)
            return {to_text(config.id): format_config(pool.config)}

        created = _set(self._journal.once(op, plan))
        if (created.name, created.key) != (config.name, config.key):
            raise InvalidInput(f"{config.name}: this id is that of another operation (use a new one)")
        with suppress(StorageFailure):  # that it was done is certain, whatever became of it since
            now = next((each for each in self.configs() if each.id == created.id), None)
            return self._open(created) if now is None else self._handle(now)
        return self._handle(created)

    def rename_pool(self, old: str, name: str, op: Id | None = None) -> PoolConfig:
        """Give a pool another name."""
        self.require_writable()

        def plan(state: State) -> Changes:
            renamed = _renamed(state, _find(state, old), name)
            return {to_text(renamed.id): format_config(renamed)}

        renamed = _set(self._journal.once(op, plan))
        if renamed.name != name:
            raise InvalidInput(f"{name}: this id is that of another operation (use a new one)")
        return renamed

    def alter_pool(
        self, name: str, primary: Paths, check: Callable[[Pool, Id | None], None], op: Id | None = None
    ) -> PoolConfig:
        """Give a pool another primary key, if `check` accepts the tips of all branches under it.

        The journal of the pool decides: from its entry on, writers that know another key are refused. Then the
        configuration follows; if that fails, the first client that is refused does it.
        """
        self.require_writable()
        config = _find(self._journal.read(), name)
        altered = check_config(replace(config, settings=replace(config.settings, primary=primary)))
        if SETTINGS not in self.info.features:
            raise Unsupported(
                f"{self.store.uri}: this lake was created by an earlier version, which would ignore the primary key "
                "of a pool (create a new lake)"
            )
        pool = self._handle(config)
        keyed = replace(pool, config=altered)
        checked: set[Id | None] = set()

        def plan(state: State) -> Changes:
            for ref in Refs(state).branches():
                if ref.commit not in checked:
                    check(keyed, ref.commit)
                    checked.add(ref.commit)
            return branches.set_primary(primary)

        entry = pool.journal.once(op, plan)
        branches.require_set(entry.changes, branches.set_primary(primary))
        return self.settle_pool(config.id)

    def settle_pool(self, ident: Id) -> PoolConfig:
        """Let the configuration of a pool have the primary key that its journal says."""

        def plan(state: State) -> Changes:
            config = _find(state, to_text(ident))
            primary = primary_of(self._open(config).journal.read())
            settings = config.settings if primary is None else replace(config.settings, primary=primary)
            return {to_text(ident): format_config(replace(config, settings=settings))}

        return _set(self._journal.change(new(), plan))

    def drop_pool(self, name: str, op: Id | None = None) -> PoolConfig:
        """Remove a pool and all that is in it."""
        self.require_writable(to_free=True)
        entry = self._journal.once(op, lambda state: {to_text(_find(state, name).id): None})
        config = self._dropped(entry)
        with self._lock:
            pool = self._pools.pop(config.id, None) or self._open(config)
        # The journal stays, until a vacuum, and says so: a client that still has a handle cannot commit.
        state = pool.journal.read()
        if state.position and not branches.is_dropped(state):
            pool.journal.change(entry.op, lambda state: branches.drop_pool(self.clock.now()))
        folder = list(self.store.list(f"{pool.prefix}/"))
        self.remove(listed for listed in folder if not listed.key.startswith(f"{pool.prefix}/branches/"))
        return config

    def has_done(self, op: Id) -> bool:
        """Whether an operation under this id has created, renamed or dropped a pool."""
        return self._journal.done(op) is not None

    def _dropped(self, entry: Entry) -> PoolConfig:
        """The configuration that an entry has taken away."""
        ((ident, left),) = entry.changes.items()
        if left is not None:
            raise InvalidInput(f"{to_text(entry.op)}: this id is that of another operation (use a new one)")
        return parse_config(self._journal.at_position(entry.position - 1).entries[ident], ident)

    def remove(self, objects: Iterable[Listed]) -> None:
        """Delete objects that nothing needs. It can be done again after a crash."""
        for listed in objects:
            self.store.delete(listed.key)

    def leftovers(self, grace: float) -> list[Listed]:
        """What is outside of all pools and of no use: folders of pools that were dropped or never listed, and probes,
        which crashes left; and requests that are too old to be repeated.

        A folder goes as a whole, and only if nothing in it is younger than the grace period in seconds; each request
        goes by itself.
        """
        folders: dict[str, list[Listed]] = {}
        newest = 0.0
        for listed in self.store.list():
            newest = max(newest, listed.modified)
            folder, slash, _ = listed.key.partition("/")
            if slash and (folder == "probe" or as_id(folder) is not None):
                folders.setdefault(folder, []).append(listed)
            elif slash and folder == REQUESTS:
                folders[listed.key] = [listed]
        for config in self.configs():
            folders.pop(to_text(config.id), None)
        until = self.clock.age_limit(grace, newest)
        return [each for listed in folders.values() if max(x.modified for x in listed) <= until for each in listed]


def _configs(state: State) -> Iterable[PoolConfig]:
    return (parse_config(value, key) for key, value in state.entries.items())


def _set(entry: Entry) -> PoolConfig:
    """The configuration that an entry has set."""
    ((ident, value),) = entry.changes.items()
    if value is None:
        raise InvalidInput(f"{to_text(entry.op)}: this id is that of another operation (use a new one)")
    return parse_config(value, ident)


def unknown_pool(name: str, configs: Iterable[PoolConfig]) -> NotFound:
    """The error of a name that is not the name of a pool; it suggests one of those that the caller may know of."""
    names = (config.name for config in configs if not config.name.startswith("."))
    return NotFound(f"{name}: pool not found{did_you_mean(name, names)}")


def _find(state: State, name: str) -> PoolConfig:
    ident = as_id(name)
    for config in _configs(state):
        if config.name == name or config.id == ident:
            return config
    raise unknown_pool(name, _configs(state))


def _require_free(state: State, config: PoolConfig) -> None:
    if any(other.name == config.name or other.id == config.id for other in _configs(state)):
        raise AlreadyExists(f"{config.name}: pool already exists")


def _renamed(state: State, config: PoolConfig, name: str) -> PoolConfig:
    if config.name == name:
        return config
    if any(other.name == name for other in _configs(state)):
        raise AlreadyExists(f"{name}: pool already exists")
    return check_config(replace(config, name=name, ts=time.time_ns()))


def _format(info: LakeInfo) -> Value:
    features = Value(t.array(t.STRING), tuple(sorted(info.features)))
    return record([
        ("magic", string(MAGIC)),
        ("version", uint64(info.version)),
        ("features", features),
        ("id", id_value(info.id)),
        ("created", time_value(info.created)),
    ])  # fmt: skip


def _parse(value: Value, where: str) -> LakeInfo:
    if get_or(value, "magic", "") != MAGIC:
        raise CorruptData(f"{where}: not the root of a lake")
    return LakeInfo(
        id=get_id(value, "id", where),
        version=get_data(value, "version", where),
        features=frozenset(get_or(value, "features", ())),
        created=get_data(value, "created", where),
    )
