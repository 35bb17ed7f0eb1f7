"""Work of Spark that goes on although it was cancelled.

Spark interrupts the thread of a cancelled task, and the task looks at that when it reads input, sorts or shuffles. A
join without an equality, or with a key that all rows have, does none of that for hours, and keeps a core. An executor
elsewhere ends itself then (`spark.task.reaper`). On this machine the executor is the JVM of the driver: it is ended
from here, with all other jobs in it, and the next query starts another. The same happens if the driver does not come
to an end with a plan, which may hold constants of gigabytes.
"""

from __future__ import annotations

import re
import time
from collections.abc import Collection
from typing import Any

from shoal.engines.spark.session import end_jvm
from shoal.engines.spark.stages import Cluster

_GRACE = 5.0
"""Seconds for cancelled work to end; most takes a few milliseconds."""
_EVERY = 0.05
"""Seconds between two looks at the tasks."""
_TASK = re.compile(r"Executor task launch worker for task \S+ in stage (\d+)\.")
"""The name of a thread that runs a task."""


class JobGroup:
    """The jobs of a query that can be stopped."""

    def __init__(self, spark: Any, on: Cluster, name: str) -> None:
        self._context: Any = getattr(spark, "_sc", None)
        self._gateway: Any = getattr(self._context, "_gateway", None)
        self._on, self._name = on, name
        self._cancelled: float | None = None

    @property
    def _has_jvm(self) -> bool:
        """Whether the driver is in a JVM of this process that has not ended; a server of Spark Connect is elsewhere."""
        return self._context is not None and self._context._jsc is not None

    def cancel(self) -> None:
        """Cancel what runs. Called again and again, it ends the JVM once that has not helped for long."""
        now = time.monotonic()
        self._cancelled = now if self._cancelled is None else self._cancelled
        if now - self._cancelled > _GRACE and self._gateway is not None:
            end_jvm(self._gateway)
        if self._context is None or self._has_jvm:
            self._on.cancel(self._name)

    def end(self) -> None:
        """Wait for the tasks that were cancelled, and end them with the JVM if they do not end."""
        if not self._has_jvm or not self._context._jsc.sc().isLocal():
            return
        stages = self._stages()
        until = time.monotonic() + _GRACE
        while self._is_running(stages):
            if time.monotonic() > until:
                end_jvm(self._gateway)
                return
            time.sleep(_EVERY)

    def _stages(self) -> set[int]:
        tracker = self._context.statusTracker()
        jobs = map(tracker.getJobInfo, tracker.getJobIdsForGroup(self._name))
        return {stage for job in jobs if job is not None for stage in job.stageIds}

    def _is_running(self, stages: Collection[int]) -> bool:
        threads = self._gateway.jvm.java.lang.Thread.getAllStackTraces().keySet()
        names = (_TASK.match(thread.getName()) for thread in threads)
        return any(name is not None and int(name[1]) in stages for name in names)
