"""What is chosen when a service is started."""

from __future__ import annotations

from dataclasses import dataclass, field

from shoal.access.limits import Limits
from shoal.formats.registry import Format, by_name

GIB = 1 << 30


@dataclass(frozen=True, slots=True)
class QueryLimits:
    """What one query, and all queries of one caller, may take."""

    query: Limits = field(default_factory=lambda: Limits(seconds=300.0, memory=2 * GIB))
    at_once: int = 32
    """Queries that run at a time."""
    per_caller: int = 16


@dataclass(frozen=True, slots=True)
class Settings:
    """The choices."""

    default_format: Format = field(default_factory=lambda: by_name("zson"))
    origins: tuple[str, ...] = ()
    """Origins whose pages may call the service (CORS)."""
    root_content: bytes | None = None
    """What `GET /` gives."""
    largest_body: int = 100 * GIB
    """Bytes of a body, as it arrives and without its compression."""
    limits: QueryLimits = field(default_factory=QueryLimits)
