"""What a service holds while it runs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from anyio import CapacityLimiter

from shoal.access.limits import Gate
from shoal.local.access import LocalAccess
from shoal.local.lake import LocalLake
from shoal.local.manage import Level, Log
from shoal.service.auth.access import Access
from shoal.service.auth.authenticator import Authenticator
from shoal.service.auth.settings import AuthSettings
from shoal.service.events import Event, Events
from shoal.service.metrics import Metrics
from shoal.service.running import Running
from shoal.service.settings import Settings
from shoal.service.transactions import Transactions

THREADS = 128
"""Requests that are worked on at a time; more wait for their turn."""
READERS = 4
"""The same for questions about a lake on this machine: they never wait, and many at once take the processor from each
other, so that some are answered twice as late."""
OPEN_THREADS = 8
"""The same for what is open to everybody."""


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
