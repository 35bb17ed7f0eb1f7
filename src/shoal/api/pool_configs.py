"""What is fixed of a pool: from what callers give, and as the protocol tells it."""

from __future__ import annotations

from collections.abc import Iterable

from shoal.api.protocol import PoolInfo
from shoal.errors import InvalidInput
from shoal.ids import to_text
from shoal.lake.keys import SortKey, parse_sort_key
from shoal.lake.pool_config import PoolConfig


def make_sort_key(key: str | Iterable[str], order: str | None) -> SortKey:
    """The key of a pool, of which the order may be in the text or beside it."""
    text = key if isinstance(key, str) else ",".join(key)
    if order is not None:
        if ":" in text:
            raise InvalidInput(f"the order is given twice: in {text!r} and as {order!r}")
        text = f"{text}:{order}"
    return parse_sort_key(text)


def pool_info(config: PoolConfig) -> PoolInfo:
    """A pool's configuration as the protocol gives it."""
    key = tuple(".".join(path) or "this" for path in config.key.paths)
    return PoolInfo(config.name, to_text(config.id), key, config.key.order, config.object_size, config.seek_stride)
