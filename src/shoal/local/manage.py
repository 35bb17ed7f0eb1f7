"""Compacts pools by a policy, once or at intervals.

A compaction does not choose the objects that an earlier one wrote, so that an idle lake comes to rest.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal, Protocol

from shoal.api.lake import Lake
from shoal.api.pool import Pool
from shoal.errors import InvalidInput, ShoalError
from shoal.model.literals import parse_duration
from shoal.model.node import frozen

DEFAULT_INTERVAL = 60.0
"""Seconds between rounds."""
_MAIN = "main"
Level = Literal["debug", "info", "warn", "error"]


@frozen
class PoolPolicy:
    """A pool to manage, by name or id, and the branch."""

    pool: str
    branch: str = _MAIN


@frozen
class Policy:
    """What to manage. Without pools, it is the branch main of every pool."""

    pools: tuple[PoolPolicy, ...] = ()
    interval: float = DEFAULT_INTERVAL
    engine: str | None = None
    """The engine; None is that of the environment, or else the faster one."""


class Log(Protocol):
    """Writes log entries."""

    def __call__(self, level: Level, message: str, **fields: str | int) -> None:
        """Write one entry."""


# ---- policies


def parse_policy(data: Any) -> Policy:
    """Parse the data of a YAML or JSON file: `interval`, `engine`, and `pools` with `pool` and `branch`."""
    if data is None:
        return Policy()
    fields = _fields(data, "the policy", {"interval": str, "engine": str, "vectors": bool, "pools": list})
    pools = tuple(_parse_pool(item) for item in fields.get("pools") or ())
    names = [policy.pool for policy in pools]
    for name in names:
        if names.count(name) > 1:
            raise InvalidInput(f"the policy names pool {name!r} twice")
    return Policy(pools, _parse_interval(fields.get("interval")), fields.get("engine"))


def _parse_pool(data: Any) -> PoolPolicy:
    fields = _fields(data, "a pool of the policy", {"pool": str, "branch": str, "vectors": bool})
    if not fields.get("pool"):
        raise InvalidInput("a pool of the policy has no name (write it as pool: NAME)")
    return PoolPolicy(fields["pool"], fields.get("branch") or _MAIN)


def _fields(data: Any, what: str, types: Mapping[str, type]) -> dict[str, Any]:
    if not isinstance(data, dict):
        raise InvalidInput(f"{what} is not a map of fields (one of: {', '.join(types)})")
    for name, value in data.items():
        if name not in types:
            raise InvalidInput(f"{what} has an unknown field {name!r} (one of: {', '.join(types)})")
        if value is not None and not isinstance(value, types[name]):
            raise InvalidInput(f"{what} has an invalid value in its field {name!r}: {value!r}")
    return data


def _parse_interval(text: str | None) -> float:
    seconds = DEFAULT_INTERVAL if text is None else parse_duration(text) / 1e9
    if seconds <= 0:
        raise InvalidInput(f"the interval of the policy must be positive, not {text} (such as 5m)")
    return seconds


# ---- rounds


def manage(lake: Lake, policy: Policy, log: Log, is_over: Callable[[], bool] = lambda: False) -> None:
    """Run one round over all pools. A failure does not stop the round; the first one is raised at the end."""
    pools = [(lake.pool(entry.pool), entry.branch) for entry in _pool_policies(lake, policy)]
    failures: list[ShoalError] = []
    for pool, branch in pools:
        try:
            _compact(pool, branch, policy.engine, log, is_over)
        except ShoalError as e:
            log("error", "update error", name=pool.name, id=pool.id, branch=branch, error=str(e))
            failures.append(e)
    if failures:
        raise failures[0]


def monitor(lake: Lake, policy: Policy, log: Log, wait: Callable[[float], bool]) -> None:
    """Run rounds until `wait`, which is called with the interval in seconds, returns True."""
    log("info", "monitoring", interval=f"{policy.interval:g}s")
    while True:
        try:
            manage(lake, policy, log, lambda: wait(0.0))
        except ShoalError as e:
            log("error", "round failed, will retry", error=str(e))
        if wait(policy.interval):
            log("info", "monitoring ended")
            return


def _pool_policies(lake: Lake, policy: Policy) -> tuple[PoolPolicy, ...]:
    return policy.pools or tuple(PoolPolicy(pool.id) for pool in lake.pools())


def _compact(pool: Pool, branch: str, engine: str | None, log: Log, is_over: Callable[[], bool]) -> None:
    labels = {"name": pool.name, "id": pool.id, "branch": branch}
    log("info", "updating pool", **labels)
    runs = compacted = 0
    for done in () if is_over() else pool.branch(branch).compact_all(engine=engine):
        if done.commit is None:
            log("warn", "left for the next round", **labels, error=done.error)
        else:
            runs += 1
            compacted += done.objects
            log("debug", "compacted", **labels, commit=done.commit, objects_compacted=done.objects)
        if is_over():
            break
    log("info", "compaction completed", **labels, runs_found=runs, objects_compacted=compacted)
