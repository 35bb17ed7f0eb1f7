"""Looking after a lake: what a policy names is compacted, once or again and again until told to stop.

What a compaction makes is not chosen again, so that a lake that nobody writes to comes to rest.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from shoal.api.lake import Lake
from shoal.api.pool import Pool
from shoal.errors import InvalidInput, ShoalError
from shoal.model.literals import parse_duration

DEFAULT_INTERVAL = 60.0
"""Seconds between two rounds."""
_MAIN = "main"
Level = Literal["debug", "info", "warn", "error"]


@dataclass(frozen=True, slots=True)
class PoolPolicy:
    """A pool to look after, by its name or id, and which of its branches."""

    pool: str
    branch: str = _MAIN


@dataclass(frozen=True, slots=True)
class Policy:
    """What to look after; without any pools named it is the branch main of all of them."""

    pools: tuple[PoolPolicy, ...] = ()
    interval: float = DEFAULT_INTERVAL
    engine: str | None = None
    """Where the work is done; None is the engine of the environment, or whichever is faster."""


class Log(Protocol):
    """Takes what happens."""

    def __call__(self, level: Level, message: str, **fields: str | int) -> None:
        """One line."""


# ---- policies


def parse_policy(data: Any) -> Policy:
    """The policy in the plain data of a YAML or JSON file: `interval`, `engine`; `pools` with `pool` and `branch`."""
    if data is None:
        return Policy()
    fields = _fields(data, "the policy", {"interval": str, "engine": str, "vectors": bool, "pools": list})
    pools = tuple(_parse_pool(item) for item in fields.get("pools") or ())
    names = [each.pool for each in pools]
    for name in names:
        if names.count(name) > 1:
            raise InvalidInput(f"the policy names pool {name!r} twice")
    return Policy(pools, _parse_interval(fields.get("interval")), fields.get("engine"))


def _parse_pool(data: Any) -> PoolPolicy:
    fields = _fields(data, "a pool of the policy", {"pool": str, "branch": str, "vectors": bool})
    if not fields.get("pool"):
        raise InvalidInput("a pool of the policy has no name (write it as pool: NAME)")
    return PoolPolicy(fields["pool"], fields.get("branch") or _MAIN)


def _fields(data: Any, what: str, known: Mapping[str, type]) -> dict[str, Any]:
    if not isinstance(data, dict):
        raise InvalidInput(f"{what} is no map of fields (one of: {', '.join(known)})")
    for name, value in data.items():
        if name not in known:
            raise InvalidInput(f"{what} has an unknown field {name!r} (one of: {', '.join(known)})")
        if value is not None and not isinstance(value, known[name]):
            raise InvalidInput(f"{what} has a wrong value in its field {name!r}: {value!r}")
    return data


def _parse_interval(text: str | None) -> float:
    seconds = DEFAULT_INTERVAL if text is None else parse_duration(text) / 1e9
    if seconds <= 0:
        raise InvalidInput(f"the interval of the policy has to be positive, not {text} (such as 5m)")
    return seconds


# ---- rounds


def manage(lake: Lake, policy: Policy, log: Log, is_over: Callable[[], bool] = lambda: False) -> None:
    """One round. A pool that fails does not keep the others from their turn; the first failure is raised at the end."""
    pools = [(lake.pool(each.pool), each.branch) for each in _chosen(lake, policy)]
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
    """Round after round, until `wait`, which is given the seconds between two, says that it is over."""
    log("info", "monitoring", interval=f"{policy.interval:g}s")
    while True:
        try:
            manage(lake, policy, log, lambda: wait(0.0))
        except ShoalError as e:
            log("error", "round failed and will be repeated", error=str(e))
        if wait(policy.interval):
            log("info", "monitoring ended")
            return


def _chosen(lake: Lake, policy: Policy) -> tuple[PoolPolicy, ...]:
    return policy.pools or tuple(PoolPolicy(pool.id) for pool in lake.pools())


def _compact(pool: Pool, branch: str, engine: str | None, log: Log, is_over: Callable[[], bool]) -> None:
    place = {"name": pool.name, "id": pool.id, "branch": branch}
    log("info", "updating pool", **place)
    found = compacted = 0
    for done in () if is_over() else pool.branch(branch).compact_all(engine=engine):
        if done.commit is None:
            log("warn", "left for the next round", **place, error=done.error)
        else:
            found += 1
            compacted += done.objects
            log("debug", "compacted", **place, commit=done.commit, objects_compacted=done.objects)
        if is_over():
            break
    log("info", "compaction completed", **place, runs_found=found, objects_compacted=compacted)
