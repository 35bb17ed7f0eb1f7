"""A real schema registry: Apicurio, with the API of Confluent that clients of Kafka speak.

It keeps schemas in a file of its own and not in a topic, which it also could: from a topic it is ready after 14 seconds
and from a file after three. Writes go to the file at once, so that a SIGKILL loses nothing.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import urllib3

from shoal.testing.kafka.jars import jars
from shoal.testing.kafka.java import SHORT_LIVED, java
from shoal.testing.kafka.program import Program, started_on_free_ports
from shoal.testing.ports import HOST, lasting_port

NEEDED = 21
"""The Java that it needs at least."""
_SECONDS = 120.0
_MEDIA = {"Content-Type": "application/vnd.schemaregistry.v1+json"}


class RegistryError(Exception):
    """What the registry answers when it refuses."""

    def __init__(self, status: int, answer: Any) -> None:
        super().__init__(f"{status}: {answer}")
        self.status, self.answer = status, answer


@dataclass
class Registry:
    """A registry with its file and port, which stay the same when it is started again."""

    url: str
    """The address for clients of Confluent's registry."""
    program: Program

    def __post_init__(self) -> None:
        self._http = urllib3.PoolManager(retries=False, timeout=30)

    def register(self, subject: str, schema: str | dict[str, Any], kind: str = "AVRO") -> int:
        """Give a schema to a subject; its id. A schema that is there already keeps its id."""
        text = schema if isinstance(schema, str) else json.dumps(schema)
        number: int = self.request("POST", f"/subjects/{subject}/versions", {"schema": text, "schemaType": kind})["id"]
        return number

    def schema(self, number: int) -> str:
        """The text of the schema of an id."""
        text: str = self.request("GET", f"/schemas/ids/{number}")["schema"]
        return text

    def request(self, method: str, path: str, body: Any = None) -> Any:
        """The answer to a request; RegistryError if it is not one of success."""
        sent = None if body is None else json.dumps(body)
        response = self._http.request(method, self.url + path, body=sent, headers=_MEDIA)
        answer = json.loads(response.data or b"null")
        if response.status >= 300:
            raise RegistryError(response.status, answer)
        return answer

    def is_ready(self) -> bool:
        """Whether it answers."""
        with suppress(urllib3.exceptions.HTTPError, RegistryError, ValueError):
            return isinstance(self.request("GET", "/subjects"), list)
        return False

    def kill(self) -> None:
        """End it at once, as a crash does (SIGKILL)."""
        self.program.kill()

    def stop(self) -> None:
        """Let it end in order."""
        self.program.stop()

    def restart(self) -> None:
        """Start it again on its file and port; it is stopped first if it runs."""
        if self.program.is_running():
            self.stop()
        self.program.start(self.is_ready, _SECONDS)


@contextmanager
def running_registry(folder: Path) -> Iterator[Registry]:
    """Run a registry in a new folder. New versions of a schema must be able to read what older ones wrote."""
    registry = started_on_free_ports(lambda attempt: _start(folder / f"registry{attempt}"))
    try:
        registry.request("PUT", "/config", {"compatibility": "BACKWARD"})
        yield registry
    finally:
        registry.stop()


def _start(folder: Path) -> Registry:
    folder.mkdir(parents=True)
    port = lasting_port()
    variables = {
        "PATH": os.environ["PATH"],
        "QUARKUS_HTTP_HOST": HOST,
        "QUARKUS_HTTP_PORT": str(port),
        "QUARKUS_MANAGEMENT_HOST": HOST,
        "QUARKUS_MANAGEMENT_PORT": "0",  # nobody asks there, and two registries would have the same port
        "APICURIO_STORAGE_KIND": "sql",
        "APICURIO_STORAGE_SQL_KIND": "h2",
        "APICURIO_DATASOURCE_URL": f"jdbc:h2:file:{folder / 'schemas'};WRITE_DELAY=0",
    }
    memory = ["-Xms128m", "-Xmx512m"]
    command = [str(java(NEEDED)), *SHORT_LIVED, *memory, "-jar", str(jars("registry") / "quarkus-run.jar")]
    program = Program("the schema registry", command, folder / "log", folder, variables)
    registry = Registry(f"http://{HOST}:{port}/apis/ccompat/v7", program)
    registry.restart()
    return registry
