"""Where Spark is, and where it may leave something: a cache that lasts, and a scratch directory for this process.

The JVM deletes the scratch directory when it ends, for the process may not live to do it.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import tempfile
from functools import cache
from pathlib import Path

from shoal.errors import Unsupported


def cache_directory() -> Path:
    """What is worth keeping between processes: `SHOAL_CACHE`, else `~/.cache/shoal`."""
    return Path(os.environ.get("SHOAL_CACHE") or os.path.expanduser("~/.cache/shoal"))


@cache
def scratch_directory() -> Path:
    """The directory of this process for all of Spark's temporary files; nobody else may read it."""
    return Path(tempfile.mkdtemp(prefix="shoal-spark-"))


def remove_scratch_directory() -> None:
    """Remove it, if there is one and no JVM to do so."""
    if scratch_directory.cache_info().currsize:
        shutil.rmtree(scratch_directory(), ignore_errors=True)
        scratch_directory.cache_clear()


def spark_jars() -> list[Path]:
    """The jars of the installed Spark in an order that is always the same, found without importing pyspark."""
    spec = importlib.util.find_spec("pyspark")
    homes = spec.submodule_search_locations if spec else None
    jars = sorted(Path(homes[0], "jars").glob("*.jar")) if homes else []
    if not jars:
        raise Unsupported("there is no Spark in this Python (install it with: pip install pyspark)")
    return sorted(jars, key=lambda jar: not jar.name.startswith("slf4j-api"))


def cluster_variables() -> dict[str, str]:
    """A Spark home in the scratch directory, for the workers of `local-cluster`, which write into theirs."""
    jars = spark_jars()
    home = scratch_directory() / "home"
    home.mkdir(exist_ok=True)
    (home / "jars").symlink_to(jars[0].parent, target_is_directory=True)
    core = next(jar.name for jar in jars if jar.name.startswith("spark-core_"))
    return {"SPARK_HOME": str(home), "SPARK_SCALA_VERSION": core.removeprefix("spark-core_").partition("-")[0]}
