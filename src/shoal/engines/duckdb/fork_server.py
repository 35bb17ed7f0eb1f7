"""A process that forks children, each of which runs one statement within a memory limit of the kernel.

DuckDB counts neither the vectors of expressions nor what functions allocate, and an interrupt takes effect between
vectors: `list_sum(range(200000000))` takes 14 GB and a minute whatever its settings say. So a statement with limits
has a process of its own. Beyond RLIMIT_DATA it fails like any other that is out of memory, and it can be killed at any
time. To fork costs some milliseconds, where to start Python and to import DuckDB would cost several hundred; but it is
safe only in a process without threads, so a server does it that has none.

The server gets two sockets for each child: the channel of the child, and a lifeline. When the other end of the lifeline
is closed, because the statement is over, stopped, or its process has ended, the server kills the child. If the server
ends, Linux kills its children.
"""

from __future__ import annotations

import ctypes
import gc
import json
import os
import pickle
import resource
import select
import signal
import socket
import traceback
from contextlib import suppress
from pathlib import Path
from typing import NoReturn

import pyarrow as pa

from shoal.engines.duckdb.channels import Channel, Kind
from shoal.engines.duckdb.statement_job import Database, EngineFailure, Job
from shoal.engines.tables.row_sizes import RowTooLarge, pieces

ROOM_PER_THREAD = 48 << 20
"""What DuckDB takes beside the memory that it counts: vectors, copies for Arrow, and what is free but still mapped.

Measured with two threads: 32 MiB for sorts, joins and groups of five million rows with a limit of 128 MiB, nothing with
a limit of 512 MiB, and 73 MiB for a function on texts of 10 KiB.
"""
SHARES = 32
"""A row, and rows that are sent together, may take this part of the memory as values."""
_BATCH_ROWS = 1024
"""Rows that DuckDB makes columns of Arrow out of at a time: few, since these are copies of what may be large."""
_MEMORY = Path("/proc/self/statm")
_REAP_MILLISECONDS = 100
_PR_SET_PDEATHSIG = 1


def serve(control: socket.socket) -> None:
    """Fork a child for each pair of sockets that arrives, until the other end of `control` is closed."""
    children: dict[int, int] = {}
    dying: set[int] = set()
    poll = select.poll()
    poll.register(control, select.POLLIN)
    while True:
        for descriptor, _ in poll.poll(_REAP_MILLISECONDS if dying else None):
            if descriptor != control.fileno():
                poll.unregister(descriptor)
                os.close(descriptor)
                os.kill(children[descriptor], signal.SIGKILL)
                dying.add(children.pop(descriptor))
                continue
            data, sockets, _, _ = socket.recv_fds(control, 1, 2)
            if not data:
                return
            if (child := _forked(sockets, control)) is not None:
                lifeline = sockets[1]
                children[lifeline] = child
                poll.register(lifeline, select.POLLIN)
        dying = {child for child in dying if os.waitpid(child, os.WNOHANG)[0] == 0}


def _forked(sockets: list[int], control: socket.socket) -> int | None:
    """The process of a new child; None if there are too many processes or files, which the other end sees."""
    try:
        channel, _ = sockets
        child = os.fork()
    except (OSError, ValueError):
        for each in sockets:
            os.close(each)
        return None
    if child == 0:
        _be_child(channel, control)
    os.close(channel)
    return child


# ---- in a child


def _be_child(channel: int, control: socket.socket) -> NoReturn:
    try:
        _end_with_parent()
        control.close()  # if the server dies, nobody else may seem to listen
        run(Channel(socket.socket(fileno=channel)))
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(0)


def _end_with_parent() -> None:
    """Let Linux kill this process when the server ends."""
    with suppress(AttributeError):
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def run(channel: Channel) -> None:
    """Run the job that arrives. The database is open before, so that a child that waits answers sooner."""
    database = Database()
    try:
        kind, data = channel.receive()
        assert kind is Kind.JOB
        job, memory = pickle.loads(data)  # noqa: S301 - what the process sends that started the server
        _limit_memory(memory + database.threads * ROOM_PER_THREAD)
        _send_rows(channel, database, job, memory // SHARES)
    except (EOFError, ConnectionError):
        return  # nobody waits for it


def _limit_memory(size: int) -> None:
    """Let the process have `size` bytes more than it has now. Only Linux limits all kinds of memory this way."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with suppress(FileNotFoundError):
        data_pages = int(_MEMORY.read_text().split()[5])
        limit = data_pages * resource.getpagesize() + size
        resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))


def _send_rows(channel: Channel, database: Database, job: Job, share: int) -> None:
    try:
        database.start(job, _BATCH_ROWS)
        channel.send(Kind.STARTED)
        for batch in database.batches():
            for piece in pieces(batch, share):
                channel.send(Kind.ROWS, _stream(piece))
        channel.send(Kind.END)
    except EngineFailure as e:
        channel.send(Kind.FAILED, json.dumps([e.text, e.reason]).encode())
    except (MemoryError, pa.ArrowMemoryError):
        channel.send(Kind.OUT_OF_MEMORY)
    except RowTooLarge:
        channel.send(Kind.TOO_LARGE)


def _stream(batch: pa.RecordBatch) -> memoryview:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return memoryview(sink.getvalue())


def main() -> None:
    """Serve at standard input, which is a socket."""
    Database().close()  # what is initialized once in a process is shared with all children
    gc.collect()
    gc.freeze()
    serve(socket.socket(fileno=0))


if __name__ == "__main__":
    main()
    os._exit(0)
