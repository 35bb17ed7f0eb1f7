"""The JVM of Spark's driver, started without Spark's scripts: those start another JVM first to build its command line.

It ends with this process, however that ends: the gateway in it reads its standard input, a pipe whose other end is
here, and exits when that is closed.
"""

from __future__ import annotations

import os
import shlex
import struct
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from shoal.engines.spark import archive, logs
from shoal.engines.spark.installation import cluster_variables, scratch_directory, spark_jars

_PATIENCE = 60.0
"""Seconds for the JVM to open its gateway; it takes one, on a busy machine ten."""

_OPENED = (
    "java.base/java.lang",
    "java.base/java.lang.invoke",
    "java.base/java.lang.reflect",
    "java.base/java.io",
    "java.base/java.net",
    "java.base/java.nio",
    "java.base/java.util",
    "java.base/java.util.concurrent",
    "java.base/java.util.concurrent.atomic",
    "java.base/jdk.internal.ref",
    "java.base/sun.nio.ch",
    "java.base/sun.nio.cs",
    "java.base/sun.security.action",
    "java.base/sun.util.calendar",
    "java.security.jgss/sun.security.krb5",
)
"""The packages of Java that Spark needs opened."""

OPTIONS = (
    "-XX:+IgnoreUnrecognizedVMOptions",
    *(f"--add-opens={package}=ALL-UNNAMED" for package in _OPENED),
    "-Dio.netty.tryReflectionSetAccessible=true",
    "-Dio.netty.allocator.type=pooled",
    "-Dio.netty.handler.ssl.defaultEndpointVerificationAlgorithm=NONE",
    "--sun-misc-unsafe-memory-access=allow",
    "--enable-native-access=ALL-UNNAMED",
)
"""What Spark's own launcher asks for, but for the incubating vector module: it warns, and only MLlib uses it."""

_FOR_SCRIPTS = ("SPARK_HOME", "SPARK_CONF_DIR", "PYSPARK_SUBMIT_ARGS", "SPARK_SUBMIT_OPTS", "SPARK_DIST_CLASSPATH")
_FOR_LAUNCHER = ("spark.driver.extraClassPath", "spark.driver.extraLibraryPath", "spark.driver.defaultJavaOptions")


class DidNotStart(Exception):
    """The JVM ended, or said nothing for long, before its gateway was open."""


@dataclass(frozen=True, slots=True)
class Jvm:
    """A JVM that boots. It ends when the pipe to its process is closed."""

    process: subprocess.Popen[bytes]
    address: Path

    def wait(self) -> tuple[int, str]:
        """Port and secret of its gateway; whatever keeps us from getting them ends it."""
        try:
            self._wait()
        except BaseException:
            self.process.kill()
            self.process.wait()
            raise
        data = self.address.read_bytes()
        self.address.unlink()
        port, length = struct.unpack_from("!ii", data)
        return port, data[8 : 8 + length].decode()

    def _wait(self) -> None:
        until = time.monotonic() + _PATIENCE
        while not self.address.exists():
            if self.process.poll() is not None or time.monotonic() > until:
                raise DidNotStart
            time.sleep(0.01)


def is_needed() -> bool:
    """Whether this process has no JVM of Spark yet: neither of an earlier session, nor from spark-submit."""
    context = sys.modules.get("pyspark.core.context")
    return "PYSPARK_GATEWAY_PORT" not in os.environ and (context is None or context.SparkContext._gateway is None)


def can_start(conf: Mapping[str, str]) -> bool:
    """Whether nothing is set up that only Spark's scripts know what to make of."""
    return os.name == "posix" and not any(map(os.environ.get, _FOR_SCRIPTS)) and not any(map(conf.get, _FOR_LAUNCHER))


def start(java: Path, master: str, conf: Mapping[str, str], options: Sequence[str] | None = None) -> Jvm:
    """Start the JVM of a driver for a master on this machine, and do not wait for it."""
    address = scratch_directory() / "gateway"
    cluster = cluster_variables() if master.startswith("local-cluster") else {}
    with logs.output() as sink:
        process = subprocess.Popen(  # noqa: S603 - what it starts is Java, as the user set it up
            _command(java, master, conf, archive.options(java) if options is None else options),
            env={**os.environ, **variables(java), **cluster, "_PYSPARK_DRIVER_CONN_INFO_PATH": str(address)},
            stdin=subprocess.PIPE,
            stdout=sink,
            stderr=sink,
            process_group=0,  # Ctrl-C cancels a job, but must not end the JVM
        )
    return Jvm(process, address)


def variables(java: Path) -> dict[str, str]:
    """The environment of driver and executors on this machine: its Python is ours, and so is its address."""
    return {
        "JAVA_HOME": str(java.parent.parent),
        "PYSPARK_PYTHON": os.environ.get("PYSPARK_PYTHON") or sys.executable,
        "PYTHONHASHSEED": os.environ.get("PYTHONHASHSEED") or "0",
        "SPARK_CONNECT_MODE": "0",
        "SPARK_LOCAL_IP": os.environ.get("SPARK_LOCAL_IP") or "127.0.0.1",
    }


def java_options(conf: Mapping[str, str]) -> list[str]:
    """The options of a driver's JVM that are ours, and then those that the user configured."""
    ours = [*logs.java_options(), f"-Djava.io.tmpdir={scratch_directory()}"]
    return ours + shlex.split(conf.get("spark.driver.extraJavaOptions", ""))


def _command(java: Path, master: str, conf: Mapping[str, str], options: Sequence[str]) -> list[str]:
    settings = [word for key, value in conf.items() for word in ("--conf", f"{key}={value}")]
    return [
        str(java),
        *("-cp", os.pathsep.join(map(str, spark_jars()))),
        f"-Xmx{conf.get('spark.driver.memory', '1g')}",
        *OPTIONS,
        *options,
        *java_options(conf),
        *("org.apache.spark.deploy.SparkSubmit", "--master", master, *settings, "pyspark-shell"),
    ]
