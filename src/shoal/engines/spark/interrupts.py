"""Ctrl-C while a job runs cancels the job, and then does what it did before there was a session.

The handler that pyspark installs talks to the JVM through the connection that waits for the job: that fails, the job
goes on, and py4j logs it at length.

Nor may py4j clean up after an interrupt in its own way. It asks the JVM to shut down the socket of the call that was
interrupted, by its two ports, and the JVM shuts down each connection with either of them: one of the two is the port
that it listens on, so all are lost, the one that is opened next as well if it comes before the request is carried out.
"""

from __future__ import annotations

import logging
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from threading import Thread, current_thread, main_thread
from types import FrameType

from py4j.clientserver import ClientServerConnection
from pyspark import SparkContext

from shoal.engines.spark import logs

_PATIENCE = 3.0
"""Seconds for a cancellation to be on its way."""

_Handler = Callable[[int, FrameType | None], object]


@contextmanager
def handled() -> Iterator[None]:
    """Within, a session is started; afterwards the handler of interrupts is ours and not pyspark's."""
    before = signal.getsignal(signal.SIGINT)
    try:
        yield
    finally:
        if current_thread() is main_thread() and before is not None:
            signal.signal(signal.SIGINT, _over(before))
        ClientServerConnection.shutdown_socket = _close  # type: ignore[method-assign, unused-ignore]
        if not logs.is_wanted():
            logging.getLogger().addFilter(_is_not_of_py4j)


def _over(before: _Handler | int) -> _Handler | int:
    """A handler that cancels and then calls another; one that ignores, or is ours already, stays."""
    is_ours = isinstance(before, partial) and before.func is _interrupt
    return before if is_ours or isinstance(before, int) else partial(_interrupt, before)


def _interrupt(before: _Handler, number: int, frame: FrameType | None) -> None:
    cancelling = Thread(target=_cancel, daemon=True)
    cancelling.start()
    cancelling.join(_PATIENCE)
    before(number, frame)


def _cancel() -> None:
    """Cancel all jobs, from a thread of its own: it has a connection of its own."""
    with suppress(Exception):
        if context := SparkContext._active_spark_context:
            context.cancelAllJobs()


def _close(connection: ClientServerConnection, *_: int) -> None:
    """Close an interrupted connection at this end, which the JVM finds out by itself once the job is cancelled."""
    connection.close()


def _is_not_of_py4j(record: logging.LogRecord) -> bool:
    """Drops what py4j logs of a lost connection; its caller gets an exception anyway."""
    return record.module != "java_gateway"
