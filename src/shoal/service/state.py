"""What a service is started with, and what it holds while it runs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, fields

from anyio import CapacityLimiter

from shoal.access.limits import Limits
from shoal.errors import ShoalError
from shoal.formats.registry import Format, by_name
from shoal.local.access import LocalAccess
from shoal.local.lake import LocalLake
from shoal.local.manage import Level, Log
from shoal.service import failures
from shoal.service.auth.access import Access
from shoal.service.auth.authenticator import Authenticator
from shoal.service.auth.settings import AuthSettings
from shoal.service.events import Event, Events
from shoal.service.metrics import Metrics
from shoal.service.running import Running
from shoal.service.slots import Slots
from shoal.service.transactions import Transactions

GIB = 1 << 30


@dataclass(frozen=True, slots=True)
class QueryLimits:
    """What one query, and all queries of one caller, may take."""

    query: Limits = field(default_factory=lambda: Limits(seconds=300.0, memory=2 * GIB))
    at_once: int = 32
    """Queries that run at a time."""
    per_caller: int = 16
    stall: float = 60.0
    """Seconds without progress after which a client that should read or send is cut off."""


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
    largest_ratio: int = 500
    """How many times its size a body may expand."""
    limits: QueryLimits = field(default_factory=QueryLimits)


THREADS = 128
"""Requests that are worked on at a time; more wait for their turn."""
THREADS_PER_CALLER = 96
READERS = 4
"""Requests that only read a lake on this machine. They never wait for a store; more at a time would only share the
processor, and each would be answered later."""
OPEN_THREADS = 8
"""Requests that are open to everybody."""
WAITING, WAITING_PER_CALLER = 1024, 64
"""Requests that wait for something to happen, and listeners to events. They take no threads."""
_TURN_SECONDS = 30.0
"""How long a change waits for its turn: it needs no thread meanwhile."""


@dataclass(slots=True)
class Admissions:
    """Slots for everything that lasts: work that a client can draw out, and requests that wait."""

    queries: Slots
    """Streams of values of any kind, and what computes them."""
    changes: Slots
    """Changes whose bodies have arrived."""
    uploads: Slots
    """Requests whose bodies are still arriving: however slow they are, they take no threads from others."""
    waiting: Slots
    listeners: Slots

    @classmethod
    def of(cls, limits: QueryLimits) -> Admissions:
        """The slots of a service."""
        return cls(
            Slots("queries", limits.at_once, limits.per_caller),
            Slots("changes", THREADS, THREADS_PER_CALLER, _TURN_SECONDS),
            Slots("uploads", THREADS, THREADS_PER_CALLER, _TURN_SECONDS),
            Slots("waiting requests", WAITING, WAITING_PER_CALLER, patience=0),
            Slots("listeners", WAITING, WAITING_PER_CALLER, patience=0),
        )


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
    slots: Admissions = field(init=False)
    access: Access = field(init=False)
    authenticator: Authenticator = field(init=False)
    threads: CapacityLimiter = field(init=False)
    reading_threads: CapacityLimiter = field(init=False)
    upload_threads: CapacityLimiter = field(init=False)
    open_threads: CapacityLimiter = field(init=False)
    query_threads: CapacityLimiter = field(init=False)
    from_thread: Callable[..., object] = field(init=False)

    def __post_init__(self) -> None:
        self.slots = Admissions.of(self.settings.limits)
        for each in fields(self.slots):
            self.metrics.held.labels(each.name).set_function(getattr(self.slots, each.name).held)
        store = LocalAccess(self.lake)
        self.access = Access(store)
        self.authenticator = Authenticator(self.auth, store)

    @property
    def readers(self) -> int:
        """How many threads answer questions about the lake."""
        return READERS if self.lake.uri.startswith(("file:", "memory:")) else THREADS

    def public_text(self, failure: ShoalError) -> str:
        """The text of an error as callers may see it."""
        return failures.public_text(failure, self.lake.uri.rstrip("/"))

    def publish(self, name: str, pool: str, **fields: str) -> None:
        """Tell, from a thread, what has happened."""
        self.from_thread(self.events.publish, Event(name, pool, self.access.readers(pool), tuple(fields.items())))
