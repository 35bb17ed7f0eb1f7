"""Pools that Shoal keeps for itself. Their names begin with a dot; lists leave them out, whoever wants one names it."""

from __future__ import annotations

from shoal.access.view import Pools
from shoal.errors import InvalidInput
from shoal.lake.pool_config import PoolConfig

ACCESS = ".access"
"""Who may do what."""


def is_reserved(name: str) -> bool:
    """Whether a name is none that people give to pools."""
    return name.startswith(".")


def require_unreserved(name: str) -> None:
    """InvalidInput for a name that people do not give to pools, nor take from them."""
    if is_reserved(name):
        raise InvalidInput(f"{name}: names of pools that begin with a dot are reserved (choose another)")


def shown_pools(lake: Pools) -> list[PoolConfig]:
    """The pools that lists show, by name."""
    return [config for config in lake.configs() if not is_reserved(config.name)]
