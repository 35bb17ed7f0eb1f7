"""The session of this process.

`SHOAL_SPARK_MASTER` says where it runs (`local[*]`, `local-cluster[2,1,1024]`, `spark://host:7077`, `sc://host`),
`SHOAL_SPARK_CONF` adds settings, and `SHOAL_SPARK_LOG` shows the log from a level on.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from threading import Lock
from typing import TYPE_CHECKING
from warnings import filterwarnings

from shoal.engines.spark import jvm
from shoal.engines.spark.installation import find_java, remove_scratch_directory
from shoal.engines.spark.settings import Reach, configuration, is_remote, reach_of
from shoal.engines.stopping import current
from shoal.errors import Unsupported
from shoal.extras import require
from shoal.lazy import lazy, load

if TYPE_CHECKING:
    from py4j.java_gateway import JavaGateway
    from pyspark.sql import SparkSession

    from shoal.engines.spark import opening
else:
    opening = lazy("shoal.engines.spark.opening")

_ABOUT_PANDAS = "PySpark does not yet fully support pandas"
"""A warning of all that goes through Python, `mapInArrow` included, where no pandas is at work."""

_starting = Lock()
_acts: list[Callable[[SparkSession], None]] = []


def spark_session() -> SparkSession:
    """The session that a lake was opened with; else the active one; else a new one, at the master that the environment
    names or on this machine.
    """
    if (given := current().spark) is not None:
        return given
    require("pyspark")
    filterwarnings("ignore", _ABOUT_PANDAS, FutureWarning)
    with _starting:
        active = _active()
        if active is None:
            active = _start(_master())
            for act in _acts:
                act(active)
        return active


def when_opened(act: Callable[[SparkSession], None]) -> None:
    """What to do with each session that is started from here on."""
    _acts.append(act)


def end_jvm(gateway: JavaGateway) -> None:
    """End a JVM with all that runs in it, if this process started it. The next session gets another."""
    with _starting:
        opening.end_jvm(gateway)


def _active() -> SparkSession | None:
    if "pyspark.sql" not in sys.modules:
        return None
    from py4j.protocol import Py4JError  # noqa: PLC0415 - they are imported already, or there is no session
    from pyspark import SparkContext  # noqa: PLC0415
    from pyspark.sql import SparkSession  # noqa: PLC0415

    try:
        active = SparkSession.getActiveSession()
    except (Py4JError, OSError) as e:
        if opening.end_jvm(SparkContext._gateway):
            return None
        raise Unsupported("the JVM of Spark has ended, and with it the session (start this process again)") from e
    if active is None and (context := SparkContext._active_spark_context) is not None:
        if context._jsc.sc().isStopped():  # by the cluster
            context.stop()
            return None
        return SparkSession.builder.getOrCreate()  # of another thread; without options it stays as it is
    return active


def _master() -> str | None:
    """Where to start; None if spark-submit has decided that."""
    default = None if "PYSPARK_GATEWAY_PORT" in os.environ else "local[*]"
    return os.environ.get("SHOAL_SPARK_MASTER") or default


def _start(master: str | None) -> SparkSession:
    try:
        conf = configuration(master)
        booting = _boot(master, conf)
        load(opening)  # and with it pyspark, while the JVM boots
        if master and is_remote(master):
            return opening.open_remote(master, conf)
        return opening.open_session(master, conf, booting)
    finally:
        if jvm.is_needed():
            remove_scratch_directory()


def _boot(master: str | None, conf: Mapping[str, str]) -> jvm.Jvm | None:
    """A JVM that boots; None if there is one, or only Spark's scripts can start it."""
    if master is None or is_remote(master) or not jvm.is_needed():
        return None
    java = find_java()
    return jvm.start(java, master, conf) if reach_of(master) is Reach.MACHINE and jvm.can_start(conf) else None
