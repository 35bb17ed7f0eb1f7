"""Opening a session. Importing this module imports pyspark, which is done while the JVM boots."""

from __future__ import annotations

import atexit
import os
import shlex
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from importlib import import_module
from subprocess import Popen
from threading import Event, Timer
from warnings import catch_warnings

from py4j.java_gateway import JavaGateway
from py4j.protocol import Py4JError
from pyspark import SparkConf, SparkContext
from pyspark.errors import PySparkException
from pyspark.java_gateway import launch_gateway
from pyspark.sql import SparkSession

from shoal.engines.spark import logs
from shoal.engines.spark.addresses import patience, require_listening
from shoal.engines.spark.failures import ended_executors
from shoal.engines.spark.installation import find_java, remove_scratch_directory, require_version, scratch_directory
from shoal.engines.spark.interrupts import handled
from shoal.engines.spark.jvm import DidNotStart, Jvm, is_needed, java_options, variables
from shoal.engines.spark.settings import Reach, reach_of
from shoal.errors import Unsupported
from shoal.extras import require

with catch_warnings(action="ignore", category=FutureWarning):
    # pyspark imports this, and pandas with it, before the first value goes to the JVM.
    import_module("pyspark.testing.utils")

_ANY_SETTING = "spark.sql.session.timeZone"
"""Asking for one makes Spark look at all of them, and refuse what is wrong, now and not with the first query."""

_own: list[JavaGateway] = []
"""The gateway to the JVM that this process started, if there is one."""

_REMEDY = "check SHOAL_SPARK_MASTER and SHOAL_SPARK_CONF; SHOAL_SPARK_LOG=INFO shows Spark's log"


def open_session(master: str | None, conf: Mapping[str, str], jvm: Jvm | None) -> SparkSession:
    """A session with its driver in a JVM that boots or, if that fails, in one that Spark's scripts start."""
    if master:
        require_listening(master)
    try:
        with _set(_variables(master, conf)), handled():
            gateway = _gateway(master, conf, jvm) if is_needed() else None
            with _ended_when_late(gateway, master):
                SparkContext(conf=_spark_conf(master, conf), gateway=gateway)
            session = SparkSession.builder.config(map=dict(conf)).getOrCreate()
            session.conf.get(_ANY_SETTING)
            return session
    except (PySparkException, Py4JError, ValueError) as e:
        why = ended_executors() or (logs.last_words() if is_needed() else None)
        _stop()
        raise Unsupported(f"Spark does not start at {master}: {why or _reason(e)} ({_REMEDY})") from e


def open_remote(url: str, conf: Mapping[str, str]) -> SparkSession:
    """A session of a Spark Connect server."""
    require("grpc")
    require_listening(url)
    try:
        return SparkSession.builder.remote(url).config(map=dict(conf)).getOrCreate()
    except (PySparkException, ValueError) as e:
        raise Unsupported(f"there is no Spark at {url}: {_reason(e)} (check SHOAL_SPARK_MASTER)") from e
    finally:
        if SparkSession.getActiveSession() is None:
            os.environ.pop("SPARK_CONNECT_MODE_ENABLED", None)


def end_jvm(gateway: JavaGateway | None) -> bool:
    """Kill a JVM that this process started, and make pyspark forget it; returns whether it was one."""
    if gateway is None or gateway not in _own:
        return False
    process: Popen[bytes] = _own.pop().proc
    if context := SparkContext._active_spark_context:
        context._jsc = None  # so that it is not asked to stop
        context.stop()  # and with it the server of accumulators, which prints what happens if the JVM ends first
    process.kill()
    process.wait()
    SparkContext._gateway = SparkContext._jvm = None
    SparkSession._instantiatedSession = SparkSession._activeSession = None
    return True


@contextmanager
def _ended_when_late(gateway: JavaGateway | None, master: str | None) -> Iterator[None]:
    """A master that listens but does not answer costs the JVM, if it is ours: Spark would wait for a minute."""
    is_late = Event()

    def end() -> None:
        is_late.set()
        if gateway is not None and gateway.proc is not None:
            gateway.proc.kill()

    watch = Timer(patience(), end)
    watch.daemon = True
    watch.start()
    try:
        yield
    except Exception as e:
        if is_late.is_set():
            SparkContext._gateway = SparkContext._jvm = None
            raise Unsupported(f"{master} does not answer as a master of Spark ({_REMEDY})") from e
        raise
    finally:
        watch.cancel()


def _stop() -> None:
    """Stop a session that was started in part, so that the next one starts from the beginning."""
    with suppress(PySparkException, Py4JError):
        if context := SparkContext._active_spark_context:
            context.stop()


def _gateway(master: str | None, conf: Mapping[str, str], jvm: Jvm | None) -> JavaGateway:
    gateway = (_attach(jvm) if jvm else None) or _start_by_scripts(master, conf)
    # The JVM clears up, for it outlives this process; if it was killed, we do.
    scratch = gateway.jvm.java.io.File(str(scratch_directory()))
    gateway.jvm.org.apache.spark.util.ShutdownHookManager.registerShutdownDeleteDir(scratch)
    atexit.register(_clear_up_after, gateway.proc)
    _own[:] = [gateway]
    return gateway


def _clear_up_after(process: Popen[bytes]) -> None:
    if process.poll() is not None:
        remove_scratch_directory()


def _attach(jvm: Jvm) -> JavaGateway | None:
    """Connect to a JVM that boots; None if it does not get that far."""
    try:
        port, secret = jvm.wait()
    except DidNotStart:
        require_version(find_java())
        return None
    with _set({"PYSPARK_GATEWAY_PORT": str(port), "PYSPARK_GATEWAY_SECRET": secret}):
        gateway = launch_gateway()
    gateway.proc = jvm.process
    return gateway


def _start_by_scripts(master: str | None, conf: Mapping[str, str]) -> JavaGateway:
    options = {"spark.driver.extraJavaOptions": shlex.join(java_options(conf))}
    with logs.output() as sink, _set({"JAVA_HOME": str(find_java().parent.parent)}):
        return launch_gateway(_spark_conf(master, {**conf, **options}), {"stdout": sink, "stderr": sink})


def _variables(master: str | None, conf: Mapping[str, str]) -> dict[str, str]:
    """What pyspark looks for in the environment of this process; executors elsewhere have their own Python.

    Only spark-submit knows what to make of the setting for that.
    """
    if reach_of(master) is Reach.MACHINE:
        return variables(find_java())
    python = conf.get("spark.pyspark.python")
    return {} if python is None else {"PYSPARK_PYTHON": python}


def _spark_conf(master: str | None, conf: Mapping[str, str]) -> SparkConf:
    settings = SparkConf().setAll(list(conf.items()))
    return settings.setMaster(master) if master else settings


@contextmanager
def _set(values: Mapping[str, str]) -> Iterator[None]:
    """Set variables of the environment for a while: processes that are started later are not to see them."""
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            os.environ.pop(name, None)
            if value is not None:
                os.environ[name] = value


def _reason(error: Exception) -> str:
    """The first line of what Spark says."""
    thrown = getattr(error, "java_exception", None)
    text = (thrown.getMessage() or thrown.toString()) if thrown else error
    return str(text).strip().partition("\n")[0]
