"""A real cluster of Spark for tests: a master and two workers with an empty environment, and a server of Spark Connect.

Executors have the interpreter that this Python was made from, which has neither Shoal nor its libraries.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from shoal.engines.spark.installation import find_java, spark_jars
from shoal.engines.spark.jvm import OPTIONS
from shoal.engines.spark.shipping import LIBRARY_PATH
from shoal.engines.spark.worker_entry import LIBRARIES_FOLDER
from shoal.testing.ports import HOST, free_port

SHORT_LIVED = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")
"""Options of a JVM that ends before it pays to optimize what it runs."""
_PATIENCE = 120.0


def bare_python() -> str:
    """The interpreter without the libraries of this environment."""
    return os.path.realpath(getattr(sys, "_base_executable", sys.executable))


@dataclass
class SparkCluster:
    """A master and its workers, each with a folder of its own."""

    folder: Path
    port: int
    workers: list[subprocess.Popen[bytes]] = field(default_factory=list)

    @property
    def master(self) -> str:
        """Its address."""
        return f"spark://{HOST}:{self.port}"

    def start_worker(
        self, cores: int = 1, memory: str = "1g", hidden: Path | None = None, **variables: str
    ) -> subprocess.Popen[bytes]:
        """Add a worker and wait until it has registered. A hidden directory is empty for it, as on another machine.

        Variables are those of its environment that differ, and so of the executors that it starts.
        """
        name = f"worker{len(self.workers)}"
        options = ("--host", HOST, "--port", "0", "--webui-port", "0", "--cores", str(cores), "--memory", memory)
        folder = self.folder / name
        words = (*options, "-d", str(folder), self.master)
        worker = _start("deploy.worker.Worker", words, folder, hidden=hidden, variables=variables)
        self.workers.append(worker)
        _await(folder, "Successfully registered with master", worker)
        return worker

    def stop(self) -> None:
        """End all workers."""
        for worker in self.workers:
            _end(worker)


@contextmanager
def running_cluster(folder: Path, workers: int = 2) -> Iterator[SparkCluster]:
    """A master with some workers of one core each."""
    cluster = SparkCluster(folder, free_port())
    options = ("--host", HOST, "--port", str(cluster.port), "--webui-port", "0")
    master = _start("deploy.master.Master", options, folder / "master")
    with ExitStack() as ending:
        ending.callback(_end, master)
        ending.callback(cluster.stop)
        _await(folder / "master", "Starting Spark master at", master)
        for _ in range(workers):
            cluster.start_worker()
        yield cluster


@contextmanager
def running_connect(
    folder: Path, master: str, libraries: Path, conf: Mapping[str, str], port: int | None = None
) -> Iterator[str]:
    """A server of Spark Connect whose executors get an archive of libraries; yields its address."""
    port = port or free_port()
    settings = {
        "spark.connect.grpc.binding.address": HOST,
        "spark.connect.grpc.binding.port": str(port),
        "spark.driver.host": HOST,
        "spark.ui.enabled": "false",
        "spark.archives": f"{libraries}#{LIBRARIES_FOLDER}",
        "spark.executorEnv.PYTHONPATH": LIBRARY_PATH,
        **conf,
    }
    words = [word for key, value in settings.items() for word in ("--conf", f"{key}={value}")]
    options = ("--master", master, *words, "--class", "org.apache.spark.sql.connect.service.SparkConnectServer")
    server = _start("deploy.SparkSubmit", (*options, "spark-internal"), folder, "-Xmx1g")
    try:
        _await_port(port, server, folder)
        yield f"sc://{HOST}:{port}"
    finally:
        _end(server)


def _start(
    name: str,
    words: tuple[str, ...],
    folder: Path,
    memory: str = "-Xmx256m",
    hidden: Path | None = None,
    variables: Mapping[str, str] = {},
) -> subprocess.Popen[bytes]:
    """A program of Spark in an empty environment."""
    folder.mkdir(parents=True)
    java, jars = find_java(), spark_jars()
    scala = next(jar.name for jar in jars if jar.name.startswith("spark-core_")).split("_")[1].partition("-")[0]
    environment = {
        "PATH": "/usr/bin:/bin",
        "JAVA_HOME": str(java.parent.parent),
        "SPARK_HOME": str(jars[0].parent.parent),
        "SPARK_SCALA_VERSION": scala,
        "SPARK_LOCAL_IP": HOST,
        "PYSPARK_PYTHON": bare_python(),
        "PYTHONHASHSEED": "0",
        "TMPDIR": str(folder),
        **variables,
    }
    command = [str(java), "-cp", os.pathsep.join(map(str, jars)), memory, *OPTIONS, *SHORT_LIVED]
    command += [f"-Djava.io.tmpdir={folder}", f"org.apache.spark.{name}", *words]
    if hidden is not None:
        script = 'mount -t tmpfs tmpfs "$0" && exec "$@"'
        command = ["unshare", "--mount", "sh", "-c", script, str(hidden), *command]
    with (folder / "log").open("wb") as log:
        return subprocess.Popen(command, env=environment, cwd=folder, stdout=log, stderr=log, stdin=subprocess.DEVNULL)  # noqa: S603


def _await(folder: Path, line: str, process: subprocess.Popen[bytes]) -> None:
    until = time.monotonic() + _PATIENCE
    while line not in (folder / "log").read_text(errors="replace"):
        if process.poll() is not None or time.monotonic() > until:
            raise RuntimeError(f"{folder.name} did not start: {(folder / 'log').read_text(errors='replace')[-2000:]}")
        time.sleep(0.05)


def _await_port(port: int, process: subprocess.Popen[bytes], folder: Path) -> None:
    until = time.monotonic() + _PATIENCE
    while True:
        try:
            socket.create_connection((HOST, port), 1).close()
        except OSError:
            if process.poll() is not None or time.monotonic() > until:
                raise RuntimeError(f"no server: {(folder / 'log').read_text(errors='replace')[-2000:]}") from None
            time.sleep(0.1)
        else:
            return


def _end(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is None:
        process.terminate()
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
