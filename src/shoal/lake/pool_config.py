"""The configuration of a pool: what the journal of the lake holds of it."""

from __future__ import annotations

from shoal.api.pool_settings import NO_SETTINGS, PoolSettings, format_settings, parse_settings, show_settings
from shoal.errors import InvalidInput
from shoal.ids import TEXT_SIZE, Id
from shoal.lake.keys import SortKey
from shoal.model import types as t
from shoal.model.fields import get, get_data, get_id, id_value, named, time_value
from shoal.model.node import frozen
from shoal.model.plain_names import require_plain_name
from shoal.model.values import Value, int64, string

DEFAULT_OBJECT_SIZE = 500 << 20
DEFAULT_SEEK_STRIDE = 64 << 10
ALL_POOLS = "*"
"""Stands for all pools in grants, and never for a pool of this name, which an older version may have created."""


@frozen
class PoolConfig:
    """What is fixed of a pool, but for its name."""

    id: Id
    name: str
    key: SortKey
    object_size: int = DEFAULT_OBJECT_SIZE
    seek_stride: int = DEFAULT_SEEK_STRIDE
    ts: int = 0
    """When it was created or renamed, in nanoseconds since 1970."""
    settings: PoolSettings = NO_SETTINGS


def check_config(config: PoolConfig) -> PoolConfig:
    """The configuration itself, if it makes sense."""
    require_plain_name(config.name, "pool name")
    if not config.name or len(config.name) > 500 or not config.name.isprintable() or config.name.strip() != config.name:
        raise InvalidInput(f"invalid pool name: {config.name[:100]!r}")
    if any(c in config.name for c in "@:") or config.name == "HEAD":
        raise InvalidInput(f"invalid pool name: {config.name!r} (@, : and HEAD have a meaning of their own)")
    if config.name == ALL_POOLS:
        raise InvalidInput(f"invalid pool name: {config.name!r} (it stands for all pools in grants)")
    if len(config.name) == TEXT_SIZE and config.name.isalnum():
        raise InvalidInput(f"invalid pool name: {config.name!r} (it could be taken for an id)")
    if config.object_size < 1 or config.seek_stride < 1:
        raise InvalidInput("the size of objects and the seek stride have to be positive")
    if config.settings.primary and config.settings.policy:
        raise InvalidInput("a pool has a primary key or a merge policy, not both")
    return config


def show_config(config: PoolConfig) -> Value:
    """The configuration of a pool as meta-queries show it."""
    return _record(config, show_settings(config.settings))


def format_config(config: PoolConfig) -> Value:
    """The configuration of a pool as it is stored."""
    return _record(config, format_settings(config.settings))


def _record(config: PoolConfig, settings: list[tuple[str, Value]]) -> Value:
    order = Value(t.named("order.Which", t.STRING), config.key.order)
    paths = t.named("field.List", t.array(t.named("field.Path", t.array(t.STRING))))
    layout = named("order.SortKey", ("order", order), ("keys", Value(paths, config.key.paths)))
    return named(
        "pools.Config",
        ("ts", time_value(config.ts)),
        ("name", string(config.name)),
        ("id", id_value(config.id)),
        ("layout", layout),
        ("seek_stride", int64(config.seek_stride)),
        ("threshold", int64(config.object_size)),
        *settings,
    )


def parse_config(value: Value, where: str) -> PoolConfig:
    """The configuration in a stored record."""
    layout = get(value, "layout", where)
    return PoolConfig(
        id=get_id(value, "id", where),
        name=get_data(value, "name", where),
        key=SortKey(get_data(layout, "keys", where), get_data(layout, "order", where)),
        object_size=get_data(value, "threshold", where),
        seek_stride=get_data(value, "seek_stride", where),
        ts=get_data(value, "ts", where),
        settings=parse_settings(value),
    )
