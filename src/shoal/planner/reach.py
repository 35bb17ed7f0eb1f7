"""Whether the executors of a cluster reach a lake: asked once for each session and lake, before any work."""

from __future__ import annotations

from typing import Any
from weakref import WeakKeyDictionary

from shoal.engines.spark import checks
from shoal.engines.spark.session import spark_session
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


def see_lake(uri: str) -> None:
    """Fail if the lake is not there; runs in a task."""
    if not is_lake(reopen_store(uri)):
        raise Unsupported(f"there is no lake at {uri}")
