"""Checks that executors can work, before anything is given to them.

A job waits for ever for executors that nobody has room for: one that does not begin in time ends with one line.
"""

from __future__ import annotations

import os
import platform
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from importlib import metadata
from typing import Any, NamedTuple

from shoal.engines.spark import jobs, logs
from shoal.engines.spark.addresses import patience
from shoal.engines.spark.failures import ended_executors
from shoal.engines.spark.stages import Cluster, cluster
from shoal.errors import ShoalError, Unsupported
from shoal.ids import new, to_text

CLOCK_LIMIT = 5.0
"""Seconds by which the clock of an executor may be off; commits carry the time of the driver."""


_EVERY = 0.5
"""Seconds between two looks whether executors can start at all."""


class Executor(NamedTuple):
    """What a task saw where it ran."""

    host: str
    process: int
    """Of the Python daemon, of which an executor has one."""
    python: str
    libraries: tuple[tuple[str, str], ...]
    memory: int
    """Bytes of memory of the machine."""
    clock: float
    """Seconds since 1970."""
    lake: str
    """What a look at the lake gave: empty if it could be reached."""


def run_within(patience_: float, payloads: list[Any], work: Callable[[Any], Iterable[Any]]) -> list[Any]:
    """The results of a job; Unsupported if executors do not begin, or do not end, with it in time."""
    on, group = cluster(), f"shoal-{to_text(new())}"
    stage = jobs.stage(work, payloads)
    with ThreadPoolExecutor(1) as thread:
        title = jobs.title_of(work, None)
        job = thread.submit(on.collect, stage, range(stage.count), group, title)
        until, since = time.monotonic() + patience_, logs.length()
        while not wait((job,), _EVERY).done:
            why = _late(on, patience_) if time.monotonic() > until else _hopeless(on, since)
            if why is not None:
                on.cancel(group)
                raise Unsupported(why)
        return [jobs.opened(row) for row in jobs.named(job.result)]


def look(lake: str, sees: Callable[[str], None], modules: tuple[str, ...] = ()) -> list[Executor]:
    """What tasks see on each executor; `sees` is a function of a module that fails if it cannot reach the lake."""
    on = cluster()
    seen = run_within(patience(), [(lake, sees, modules)] * (2 * on.cores), look_around)
    return sorted({(each.host, each.process): each for each in seen}.values())


def look_around(payload: tuple[str, Callable[[str], None], tuple[str, ...]]) -> Iterator[Executor]:
    """Report what is here; runs in a task."""
    lake, sees, modules = payload
    began = time.time()
    problem = ""
    if lake:
        try:
            sees(lake)
        except ShoalError as e:
            problem = str(e)
    time.sleep(0.3)  # so that the tasks of a job spread over all executors
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    versions = tuple(_versions(modules))
    yield Executor(platform.node(), os.getppid(), sys.version.split()[0], versions, memory, began, problem)


def _versions(modules: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    """The versions of libraries, by the names of their modules."""
    names = metadata.packages_distributions() if modules else {}
    for module in modules:
        yield module, metadata.version(names[module][0]) if module in names else "?"


def _hopeless(on: Cluster, since: int) -> str | None:
    """Why no executor will come; None if one may."""
    return ended_executors(since) if on.executors() == 0 else None


def _late(on: Cluster, seconds: float) -> str:
    there = on.executors()
    state = "no executor has registered" if there == 0 else "its executors are busy or do not answer"
    return (
        f"no task has run within {seconds:g} s: {state} (see whether the cluster has free cores and memory for"
        " spark.executor.memory; SHOAL_SPARK_PATIENCE waits longer)"
    )
