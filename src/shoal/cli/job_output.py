"""What a job that runs for long shows: lines for people, JSON for machines, and figures for Prometheus."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Protocol

from shoal.cli.flags import Flag, Parsed, UsageError
from shoal.cli.terminal import print_text
from shoal.errors import StorageFailure
from shoal.extras import require
from shoal.lazy import lazy
from shoal.model.literals import format_time

if TYPE_CHECKING:
    import prometheus_client
else:
    prometheus_client = lazy("prometheus_client")

JOB_FLAGS = (
    Flag("log", ("text", "json"), "text", "form of the lines that tell what happens"),
    Flag("metrics", str, None, "address at which figures for Prometheus are served", "HOST:PORT"),
)
_SHORTEST = 1.0
"""Seconds between two lines about commits, for people."""


class JobEvent(Protocol):
    """Something that a job tells."""

    @property
    def kind(self) -> str:
        """What happened: commit, waiting, resumed, warning and so on."""

    @property
    def facts(self) -> Mapping[str, Any]:
        """What there is to know of it."""


class Reporter:
    """Shows the events of a job."""

    def __init__(self, args: Parsed, job: str) -> None:
        self._is_quiet, self._is_json = args["q"], args["log"] == "json"
        self._job = job
        self._metrics = _Metrics(args["metrics"], job) if args["metrics"] else None
        self._commits = self._records = 0
        self._shown = time.monotonic()

    def __call__(self, event: JobEvent) -> None:
        if self._metrics is not None:
            self._metrics.count(event)
        if self._is_json:
            line = {"ts": format_time(time.time_ns()), "job": self._job, "event": event.kind, **event.facts}
            print_text(json.dumps(line, default=str), sys.stderr)
        elif event.kind == "commit":
            self._commits += event.facts.get("commits", 1)
            self._records += event.facts.get("records", 0)
            if time.monotonic() - self._shown >= _SHORTEST:
                self.flush()
        elif event.kind in _TEXTS and not (self._is_quiet and event.kind == "assigned"):
            self.flush()
            print_text(f"{self._job}: {_TEXTS[event.kind].format_map(event.facts)}", sys.stderr)

    def flush(self) -> None:
        """Show what was committed since the last line."""
        if self._commits and not self._is_quiet:
            print_text(f"{self._job}: {self._records:,} records in {self._commits:,} commits")
        self._commits = self._records = 0
        self._shown = time.monotonic()

    def close(self) -> None:
        """Show the rest, and serve no more figures."""
        self.flush()
        if self._metrics is not None:
            self._metrics.close()


_TEXTS = {
    "assigned": "reads {partitions} partitions",
    "backfill": "reads {missing} missing records by Spark",
    "waiting": "waiting for {for}: {error}",
    "resumed": "goes on",
    "warning": "{error}",
}


@contextmanager
def open_reporter(args: Parsed, job: str) -> Iterator[Reporter]:
    """What shows the events of a job, as long as it runs."""
    reporter = Reporter(args, job)
    try:
        yield reporter
    finally:
        reporter.close()


class _Metrics:
    """Figures of a job, served over HTTP."""

    def __init__(self, address: str, job: str) -> None:
        require("prometheus_client")
        host, _, port = address.rpartition(":")
        if not port.isdecimal():
            raise UsageError(f"-metrics: {address!r} is not an address (such as localhost:9400)")
        registry = prometheus_client.CollectorRegistry()
        name = job.replace("-", "_")
        self._records = prometheus_client.Counter(f"shoal_{name}_records", "Records committed.", registry=registry)
        self._bad = prometheus_client.Counter(f"shoal_{name}_bad", "Records not decoded.", registry=registry)
        self._commits = prometheus_client.Counter(f"shoal_{name}_commits", "Commits.", registry=registry)
        self._retries = prometheus_client.Counter(f"shoal_{name}_retries", "Commits tried again.", registry=registry)
        self._waits = prometheus_client.Counter(f"shoal_{name}_waits", "Waits for other parts.", registry=registry)
        self._lag = prometheus_client.Gauge(f"shoal_{name}_lag", "Records behind.", registry=registry)
        self._last = prometheus_client.Gauge(f"shoal_{name}_last_commit", "Unix time.", registry=registry)
        try:
            self._server, self._thread = prometheus_client.start_http_server(int(port), host or "", registry)
        except OSError as e:
            raise StorageFailure(f"-metrics {address}: {(e.strerror or str(e)).lower()}") from None

    def count(self, event: JobEvent) -> None:
        """Take an event into account."""
        facts = event.facts
        if event.kind == "commit":
            self._commits.inc(facts.get("commits", 1))
            self._records.inc(facts.get("records", 0))
            self._bad.inc(facts.get("bad", 0))
            self._retries.inc(facts.get("retries", 0))
            self._last.set_to_current_time()
        elif event.kind == "waiting":
            self._waits.inc()
        if "lag" in facts:
            self._lag.set(facts["lag"])

    def close(self) -> None:
        """Serve no more."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
