"""A real PostgreSQL whose changes can be read by others (`wal_level=logical`).

It refuses to run as root. Then it runs as the user that its package made, who may not look into folders of tests: so
its files lie in a folder of its own.
"""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from shoal.testing.kafka.cache import Unavailable
from shoal.testing.kafka.program import DidNotStart, Program, started_on_free_ports
from shoal.testing.ports import HOST, lasting_port

USER = "postgres"
"""The owner of the databases, and whom the server runs as if this process is root's. There are no passwords."""
_SECONDS = 60.0
_READY = "database system is ready to accept connections"
_PACKAGES = Path("/usr/lib/postgresql")
_SETTINGS = {
    "listen_addresses": HOST,
    "unix_socket_directories": "",
    "wal_level": "logical",
    "max_wal_senders": "20",
    "max_replication_slots": "20",
    "fsync": "off",
    "timezone": "UTC",
    "shared_buffers": "32MB",
    "lc_messages": "C",
}
"""Without fsync it keeps what it committed over its own end, though not over that of the machine."""


@dataclass
class Postgres:
    """A server with its files and port, which stay the same when it is started again."""

    port: int
    programs: Path
    program: Program

    def execute(self, sql: str, database: str = USER) -> list[tuple[str, ...]]:
        """The rows of all statements, as text; null is empty. Each is a transaction unless the text begins one."""
        address = ["-h", HOST, "-p", str(self.port), "-U", USER, "-d", database]
        options = ["--no-psqlrc", "--quiet", "--no-align", "--tuples-only", "--field-separator=\t"]
        command = [str(self.programs / "psql"), *address, *options, "--set=ON_ERROR_STOP=1"]
        done = subprocess.run(command, input=sql, capture_output=True, text=True, timeout=_SECONDS)  # noqa: S603
        if done.returncode != 0:
            raise RuntimeError(f"PostgreSQL does not run {sql!r}: {done.stderr}")
        return [tuple(line.split("\t")) for line in done.stdout.splitlines()]

    def create_database(self, name: str) -> None:
        """Create an empty database."""
        self.execute(f'create database "{name}"')

    def drop_database(self, name: str) -> None:
        """Remove a database, also while somebody is connected to it."""
        self.execute(f'drop database if exists "{name}" with (force)')

    def is_ready(self) -> bool:
        """Whether it takes connections."""
        return _READY in self.program.output()

    def kill(self) -> None:
        """End it at once, without writing anything: it recovers at its next start, as after a crash.

        After a SIGKILL of the first of its processes it could not start until the others have noticed.
        """
        self.program.stop(signal.SIGQUIT)

    def stop(self) -> None:
        """Let it end in order. Clients that are connected are cut off."""
        self.program.stop()

    def restart(self) -> None:
        """Start it again on its files and port; it is stopped first if it runs."""
        if self.program.is_running():
            self.stop()
        self.program.start(self.is_ready, _SECONDS)


def find_programs() -> Path:
    """The folder of the newest PostgreSQL that is installed."""
    versions = [folder for folder in _PACKAGES.glob("*/bin") if (folder / "postgres").exists()]
    if versions:
        return max(versions, key=lambda folder: float(folder.parent.name))
    if (server := shutil.which("postgres")) is not None:
        return Path(server).parent
    raise Unavailable("PostgreSQL is not installed")


@contextmanager
def running_postgres() -> Iterator[Postgres]:
    """Run a server with a database called `postgres`. Its files are removed at the end."""
    programs, user = find_programs(), _user()
    folder = Path(tempfile.mkdtemp(prefix="shoal-postgres-"))
    try:
        if user is not None:
            shutil.chown(folder, user, user)
        data = folder / "data"
        _format(data, programs, user)
        postgres = started_on_free_ports(lambda attempt: _start(data, programs, user, attempt))
        try:
            yield postgres
        finally:
            postgres.stop()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _user() -> str | None:
    """Whom the server runs as; None if that is who we are."""
    if os.geteuid() != 0:
        return None
    try:
        return pwd.getpwnam(USER).pw_name
    except KeyError:
        raise Unavailable(f"PostgreSQL does not run as root, and there is no user called {USER}") from None


def _format(data: Path, programs: Path, user: str | None) -> None:
    options = ["-A", "trust", "-U", USER, "--no-sync", "--encoding=UTF8", "--locale=C"]
    command = [str(programs / "initdb"), "-D", str(data), *options]
    done = subprocess.run(  # noqa: S603 - our own command
        command, cwd=data.parent, capture_output=True, text=True, timeout=_SECONDS, user=user, group=user
    )
    if done.returncode != 0:
        raise DidNotStart(f"PostgreSQL does not make its files: {done.stdout}{done.stderr}")


def _start(data: Path, programs: Path, user: str | None, attempt: int) -> Postgres:
    port, log = lasting_port(), data.parent / f"log{attempt}"
    words = [word for name, value in {**_SETTINGS, "port": str(port)}.items() for word in ("-c", f"{name}={value}")]
    server = [str(programs / "postgres"), "-D", str(data), *words]
    program = Program("PostgreSQL", server, log, data.parent, {"PATH": os.environ["PATH"]}, user, signal.SIGINT)
    postgres = Postgres(port, programs, program)
    postgres.restart()
    return postgres
