"""Figures of a running service, in the form of Prometheus. Names of pools are not in them."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4

MEDIA_TYPE = CONTENT_TYPE_PLAIN_0_0_4
_SECONDS = (0.001, 0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300)


class Metrics:
    """The figures of one service."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        self.requests = Counter(
            "shoal_requests", "Requests that were answered.", ["operation", "status"], registry=self._registry
        )
        self.seconds = Histogram(
            "shoal_request_seconds",
            "Time until the answer began.",
            ["operation"],
            buckets=_SECONDS,
            registry=self._registry,
        )
        self.queries = Gauge("shoal_queries_running", "Queries that run now.", registry=self._registry)
        self.held = Gauge(
            "shoal_slots_held", "Requests that hold a slot now, by kind.", ["kind"], registry=self._registry
        )
        self.stopped = Counter(
            "shoal_queries_stopped", "Queries that ended early: the client left, or a limit.", registry=self._registry
        )
        self.loaded = Counter("shoal_loaded_bytes", "Bytes of bodies that were loaded.", registry=self._registry)

    def show(self) -> bytes:
        """All figures as text."""
        return generate_latest(self._registry)
