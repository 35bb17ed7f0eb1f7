"""Tasks of Spark that die at the worst moment: when all is written, and before the driver knows."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

from shoal.engines.spark.jobs import cores, run_tasks
from shoal.engines.spark.shuffle import regroup
from shoal.lake.workers import Workers

Victim = Literal["task", "executor"]


class Deadly(NamedTuple):
    """Work that ends with a death, once."""

    work: Callable[..., Iterable[Any]]
    payload: Any
    victim: Victim
    mark: str
    """A file that says that it has happened."""


def deadly_workers(victim: Victim, mark: Path) -> Workers:
    """Tasks of Spark, the first of which dies after its work and before it returns."""

    def run(work: Callable[[Any], Iterable[Any]], payloads: Sequence[Any]) -> Generator[Any, None, None]:
        yield from run_tasks(work_and_die, [Deadly(work, payload, victim, str(mark)) for payload in payloads])

    def in_two_steps(
        part: Callable[[Any], Iterable[tuple[int, Any]]],
        payloads: Sequence[Any],
        join: Callable[[Any, Iterator[Any]], Iterable[Any]],
        piles: Sequence[Any],
    ) -> Generator[Any, None, None]:
        yield from regroup(part, payloads, work_and_die, [Deadly(join, pile, victim, str(mark)) for pile in piles])

    return Workers(run, in_two_steps, 2 * cores(), is_remote=True)


def work_and_die(task: Deadly, *pieces: Any) -> list[Any]:
    """What a task does."""
    results = list(task.work(task.payload, *pieces))
    try:
        os.close(os.open(task.mark, os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return results
    worker = os.getpid()
    # A worker is a child of the daemon that its executor has for Python.
    os.kill(worker if task.victim == "task" else _parent(_parent(worker)), signal.SIGKILL)
    return results


def _parent(process: int) -> int:
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return int(fields[1])
