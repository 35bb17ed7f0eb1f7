"""The configuration of Shoal's sessions: one table, and what `SHOAL_SPARK_CONF` adds to it."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum

from shoal.engines.spark import shipping
from shoal.engines.spark.installation import cache_directory, scratch_directory
from shoal.errors import InvalidInput

_TASKS_PER_CORE = 3
_LOCAL = re.compile(r"local(?:\[(\*|\d+)(?:,\s*(?:\d+|\*)\s*)?\])?|local-cluster\[\s*(\d+)\s*,\s*(\d+)\s*,\s*\d+\s*\]")


class Reach(IntEnum):
    """How much of Spark is ours to configure; each includes those before it."""

    SESSION = 0
    """A session of a driver that others started: a Connect server, or spark-submit."""
    DRIVER = 1
    """A driver that we start, for executors elsewhere."""
    MACHINE = 2
    """Driver and executors on this machine."""


@dataclass(frozen=True, slots=True)
class Setting:
    """A line of the configuration; words in braces stand for what differs by process and master."""

    key: str
    value: str
    reach: Reach
    why: str


SETTINGS = (
    Setting("spark.sql.session.timeZone", "UTC", Reach.SESSION, "a time means the same on every machine"),
    Setting("spark.sql.caseSensitive", "true", Reach.SESSION, "a record may have the fields a and A"),
    Setting(
        "spark.sql.parquet.outputTimestampType", "TIMESTAMP_MICROS", Reach.SESSION, "the default, INT96, is obsolete"
    ),
    Setting("spark.sql.parquet.compression.codec", "zstd", Reach.SESSION, "what the lake writes"),
    Setting("spark.sql.timeType.enabled", "true", Reach.SESSION, "Parquet files with TIME columns can be read"),
    Setting("spark.sql.files.openCostInBytes", "65536", Reach.SESSION, "many small files go into few tasks"),
    Setting(
        "spark.sql.execution.arrow.maxRecordsPerBatch", "65536", Reach.SESSION, "fewer crossings between JVM and Python"
    ),
    Setting("spark.sql.python.filterPushdown.enabled", "true", Reach.SESSION, "Python sources see the filters"),
    Setting("spark.app.name", "shoal", Reach.DRIVER, "its name in the lists of a cluster"),
    Setting("spark.ui.enabled", "false", Reach.DRIVER, "no web server and no port for a library"),
    Setting("spark.ui.showConsoleProgress", "false", Reach.DRIVER, "nothing on the terminal but Shoal's own words"),
    Setting(
        "spark.sql.catalogImplementation", "in-memory", Reach.DRIVER, "the catalog is the lake's; no Hive, no Derby"
    ),
    Setting("spark.task.reaper.enabled", "true", Reach.DRIVER, "executors look whether cancelled tasks end"),
    Setting(
        "spark.task.reaper.killTimeout", "30s", Reach.DRIVER, "tasks that do not end are ended with their executor"
    ),
    Setting("spark.sql.warehouse.dir", "{scratch}/warehouse", Reach.DRIVER, "else it is created where the user stands"),
    Setting("spark.jars.ivy", "{cache}/ivy", Reach.DRIVER, "downloaded packages are kept with the rest of the cache"),
    Setting("spark.driver.host", "127.0.0.1", Reach.MACHINE, "the name of the machine may resolve to nothing of use"),
    Setting("spark.driver.bindAddress", "127.0.0.1", Reach.MACHINE, "nobody else can connect"),
    Setting(
        "spark.sql.sources.parallelPartitionDiscovery.threshold",
        "100000",
        Reach.MACHINE,
        "local files are listed at once; a job with a task for each takes seconds",
    ),
    Setting("spark.sql.shuffle.partitions", "{tasks}", Reach.MACHINE, "200, the default, is for a cluster"),
)


def configuration(master: str | None) -> dict[str, str]:
    """All that a session at a master is configured with; None is a driver that spark-submit started."""
    added = _added(os.environ)
    reach = reach_of(master)
    words = _words(master) if reach > Reach.SESSION else {}
    conf = {setting.key: setting.value.format_map(words) for setting in SETTINGS if setting.reach <= reach}
    libraries = shipping.settings() if reach is Reach.DRIVER else {}
    return {**conf, **libraries, **added}


def reach_of(master: str | None) -> Reach:
    """What a master lets us configure."""
    if master is None or is_remote(master):
        return Reach.SESSION
    return Reach.MACHINE if _LOCAL.fullmatch(master) else Reach.DRIVER


def is_remote(master: str) -> bool:
    """Whether a master is a server of Spark Connect."""
    return master.startswith("sc://")


def _words(master: str | None) -> dict[str, object]:
    return {
        "cache": cache_directory(),
        "scratch": scratch_directory(),
        "tasks": _cores(master) * _TASKS_PER_CORE,
    }


def _cores(master: str | None) -> int:
    local = _LOCAL.fullmatch(master or "")
    match local.groups() if local else ():
        case ("*", _, _):
            return os.cpu_count() or 1
        case (str(threads), _, _):
            return int(threads)
        case (_, str(workers), str(cores)):
            return int(workers) * int(cores)
    return 1


def _added(environment: Mapping[str, str]) -> dict[str, str]:
    """The pairs of `SHOAL_SPARK_CONF`; a comma belongs to a value unless a key follows it."""
    added = {}
    for pair in re.split(r",\s*(?=spark\.)", environment.get("SHOAL_SPARK_CONF", "").strip(" ,")):
        key, equals, value = pair.partition("=")
        if pair and not (equals and key.startswith("spark.")):
            raise InvalidInput(
                f"SHOAL_SPARK_CONF: {pair!r} is not a setting (write spark.key=value, with commas between)"
            )
        if pair:
            added[key.strip()] = value.strip()
    return added
