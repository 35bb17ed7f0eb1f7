"""What is fixed of a pool: from what callers give, and as the protocol tells it."""

from __future__ import annotations

from collections.abc import Iterable

from shoal.api.protocol import PoolInfo
from shoal.errors import InvalidInput
from shoal.ids import new, to_text
from shoal.lake.keys import SortKey, parse_sort_key
from shoal.lake.pool_config import DEFAULT_OBJECT_SIZE, DEFAULT_SEEK_STRIDE, PoolConfig, check_config


def make_config(
    name: str, key: str | Iterable[str], order: str | None, object_size: int | None, seek_stride: int | None
) -> PoolConfig:
    """A new pool as callers describe it, if that makes sense."""
    config = PoolConfig(
        new(),
        name,
        _sort_key(key, order),
        DEFAULT_OBJECT_SIZE if object_size is None else object_size,
        DEFAULT_SEEK_STRIDE if seek_stride is None else seek_stride,
    )
    return check_config(config)


def pool_info(config: PoolConfig) -> PoolInfo:
    """A pool's configuration as the protocol gives it."""
    key = tuple(".".join(path) or "this" for path in config.key.paths)
    return PoolInfo(config.name, to_text(config.id), key, config.key.order, config.object_size, config.seek_stride)


def _sort_key(key: str | Iterable[str], order: str | None) -> SortKey:
    text = key if isinstance(key, str) else ",".join(key)
    if order is not None:
        if ":" in text:
            raise InvalidInput(f"the order is given twice: in {text!r} and as {order!r}")
        text = f"{text}:{order}"
    return parse_sort_key(text)
