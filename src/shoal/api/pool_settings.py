"""Settings of a pool beside its key: what of it is a record of its own, where small data lies, how it is divided."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from shoal.errors import InvalidInput
from shoal.model import types as t
from shoal.model.fields import get_or
from shoal.model.node import frozen
from shoal.model.values import Value, int64, record, string

DEFAULT_INLINE = 64 << 10
"""Of new pools. Those of earlier versions have no such setting, and keep to what these versions read."""
MOST_INLINE = 1 << 20
_PATHS = t.array(t.array(t.STRING))
Path = tuple[str, ...]


@frozen
class PoolSettings:
    """Settings that most pools leave as they are."""

    inline: int = 0
    """Data of a commit up to this many bytes is part of the commit, and no object of its own."""
    primary: tuple[Path, ...] = ()
    """The fields of the primary key: a branch has at most one record with the same values in them."""
    partition: str = ""
    """An expression of the language: an object has records of one value of it."""
    policy: str = ""
    """A merge policy: what becomes of records with equal keys."""

    def __post_init__(self) -> None:
        if not 0 <= self.inline <= MOST_INLINE:
            raise InvalidInput(f"inline data of a commit has 0 to {MOST_INLINE} bytes, not {self.inline}")

    @property
    def is_plain(self) -> bool:
        """Whether a writer that knows nothing of settings does no harm to the pool."""
        return not (self.primary or self.partition or self.policy)


NO_SETTINGS = PoolSettings()
"""Those of pools that earlier versions have created."""


def new_settings(
    inline: int | None = None, primary: str | Iterable[str] = (), partition: str = "", policy: str = ""
) -> PoolSettings:
    """The settings of a new pool."""
    return PoolSettings(DEFAULT_INLINE if inline is None else inline, parse_paths(primary), partition, policy)


def parse_paths(fields: str | Iterable[str]) -> tuple[Path, ...]:
    """The paths of fields that are separated by commas, or given one by one; `a.b` is the field b in a."""
    names = fields.split(",") if isinstance(fields, str) else list(fields)
    paths = tuple(tuple(name.strip().split(".")) for name in names if name.strip())
    if any(not part for path in paths for part in path) or len(set(paths)) < len(paths):
        raise InvalidInput(f"invalid primary key: {','.join(names)} (name each field once, such as id or a.b,c)")
    return paths


def settings_of(fields: Mapping[str, Any]) -> PoolSettings:
    """The settings in the body of a request."""
    inline, primary = fields.get("inline"), fields.get("primary") or ()
    partition, policy = fields.get("partition") or "", fields.get("policy") or ""
    if not isinstance(inline, int | None) or not isinstance(partition, str) or not isinstance(policy, str):
        raise InvalidInput("the settings of a pool are {inline:1,primary:[['a','b'],...],partition:'',policy:''}")
    settings = new_settings(inline, (), partition, policy)
    return replace(settings, primary=tuple(tuple(map(str, path)) for path in primary))


def format_settings(settings: PoolSettings) -> list[tuple[str, Value]]:
    """Settings as a field of the stored record of a pool; none if it has none."""
    return [] if settings == NO_SETTINGS else [("settings", settings_record(settings))]


def parse_settings(value: Value) -> PoolSettings:
    """The settings in the stored record of a pool."""
    return _parse(value, NO_SETTINGS)


def show_settings(settings: PoolSettings) -> list[tuple[str, Value]]:
    """Settings as a field of the record of a pool that is shown; none if they are those of a new pool."""
    return [] if settings == new_settings() else [("settings", settings_record(settings))]


def read_settings(value: Value) -> PoolSettings:
    """The settings in the record of a pool that was shown."""
    return _parse(value, new_settings())


def settings_record(settings: PoolSettings) -> Value:
    """All settings."""
    return record([
        ("inline", int64(settings.inline)),
        ("primary", Value(_PATHS, settings.primary)),
        ("partition", string(settings.partition)),
        ("policy", string(settings.policy)),
    ])  # fmt: skip


def _parse(value: Value, default: PoolSettings) -> PoolSettings:
    settings = value.field("settings")
    if settings is None or settings.data is None:
        return default
    paths: Any = get_or(settings, "primary", ())
    return PoolSettings(
        get_or(settings, "inline", default.inline),
        tuple(tuple(path) for path in paths),
        get_or(settings, "partition", ""),
        get_or(settings, "policy", ""),
    )
