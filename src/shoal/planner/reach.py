"""Whether the executors of a cluster reach a lake: asked once for each session and lake, before any work."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any
from weakref import WeakKeyDictionary

from shoal.engines.spark import checks
from shoal.engines.spark.session import spark_session
from shoal.engines.spark.shipping import TASK_MODULES
from shoal.engines.spark.stages import is_on_this_machine
from shoal.errors import Unsupported
from shoal.lake.lake import is_lake
from shoal.storage.uris import reopen_store, require_reach

_reached: WeakKeyDictionary[Any, set[str]] = WeakKeyDictionary()


def require_lake(uri: str) -> None:
    """Unsupported if tasks cannot read the lake, or there is nobody to run them."""
    require_reach(uri)
    spark = spark_session()
    if is_on_this_machine(spark) or uri in _reached.setdefault(spark, set()):
        return
    for executor in checks.look(uri, see_lake):
        if executor.lake:
            raise Unsupported(f"executor {executor.host} does not reach the lake: {executor.lake}")
    _reached[spark].add(uri)


def look_from_executors(uri: str) -> tuple[list[checks.Executor], Callable[[checks.Executor], float]]:
    """What a task sees on each executor, and how far its clock is from ours at the least."""
    began = time.time()
    executors = checks.look(uri, see_lake, TASK_MODULES)
    ended = time.time()

    def offset(executor: checks.Executor) -> float:
        return min(executor.clock - began, 0.0) or max(executor.clock - ended, 0.0)

    return executors, offset


def see_lake(uri: str) -> None:
    """Fail if the lake is not there; runs in a task."""
    if not is_lake(reopen_store(uri)):
        raise Unsupported(f"there is no lake at {uri}")
