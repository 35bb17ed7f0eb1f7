"""What a service is started with, and what it holds while it runs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from anyio import CapacityLimiter

from shoal.access.limits import Gate, Limits
from shoal.formats.registry import Format, by_name
from shoal.local.access import LocalAccess
from shoal.local.lake import LocalLake
from shoal.local.manage import Level, Log
from shoal.service.auth.access import Access
from shoal.service.auth.authenticator import Authenticator
from shoal.service.auth.settings import AuthSettings
from shoal.service.events import Event, Events
from shoal.service.metrics import Metrics
from shoal.service.running import Running
from shoal.service.transactions import Transactions

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


THREADS = 128
"""Requests that are worked on at a time; more wait for their turn."""
READERS = 4
"""Requests that only read a lake on this machine. They never wait for a store; more at a time would only share the
processor, and each would be answered later."""
OPEN_THREADS = 8
"""Requests that are open to everybody."""


def _silent(level: Level, message: str, **fields: str | int) -> None:
    """Log nothing."""


@dataclass(slots=True)
class Service:
    """The lake, and what goes on."""

    lake: LocalLake
    settings: Settings = field(default_factory=Settings)
    auth: AuthSettings = field(default_factory=lambda: AuthSettings(enabled=False))
    log: Log = _silent
    events: Events = field(default_factory=Events)
    transactions: Transactions = field(default_factory=Transactions)
    queries: Running = field(default_factory=Running)
    metrics: Metrics = field(default_factory=Metrics)
    gate: Gate = field(init=False)
    access: Access = field(init=False)
    authenticator: Authenticator = field(init=False)
    threads: CapacityLimiter = field(init=False)
    reading_threads: CapacityLimiter = field(init=False)
    waiting_threads: CapacityLimiter = field(init=False)
    open_threads: CapacityLimiter = field(init=False)
    query_threads: CapacityLimiter = field(init=False)
    from_thread: Callable[..., object] = field(init=False)

    def __post_init__(self) -> None:
        limits = self.settings.limits
        self.gate = Gate(limits.at_once, limits.per_caller)
        store = LocalAccess(self.lake)
        self.access = Access(store)
        self.authenticator = Authenticator(self.auth, store)

    @property
    def readers(self) -> int:
        """How many threads answer questions about the lake."""
        return READERS if self.lake.uri.startswith(("file:", "memory:")) else THREADS

    def publish(self, name: str, pool: str, **fields: str) -> None:
        """Tell, from a thread, what has happened."""
        self.from_thread(self.events.publish, Event(name, pool, tuple(fields.items())))
