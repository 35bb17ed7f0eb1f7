"""A small schema registry for tests, behind real HTTP. It keeps schemas, checks nothing, and fails as it is told."""

from __future__ import annotations

import json
import ssl
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import unquote

from shoal.model.node import frozen


@frozen
class Answer:
    """What the registry answers, whatever it is asked."""

    status: int = 200
    body: bytes = b"{}"
    seconds: float = 0.0
    """How long it takes before it says anything."""


class SchemaRegistry:
    """The schemas, what was asked for, and what goes wrong."""

    def __init__(self) -> None:
        self.url = ""
        self.schemas: dict[int, dict[str, Any]] = {}
        """By id: `schema`, and `schemaType` and `references` where they are needed."""
        self.subjects: dict[str, list[int]] = {}
        """The ids of their versions."""
        self.requests: list[str] = []
        self.headers: list[dict[str, str]] = []
        self.levels: dict[str, str] = {}
        self.failure: Answer | None = None
        self.is_compatible = True

    def add(self, schema: Any, subject: str = "s", **more: Any) -> int:
        """The id of a schema, which becomes the newest version of a subject."""
        text = schema if isinstance(schema, str) else json.dumps(schema)
        entry = {"schema": text, **more}
        ident = next((each for each, other in self.schemas.items() if other == entry), len(self.schemas) + 1)
        self.schemas[ident] = entry
        versions = self.subjects.setdefault(subject, [])
        if ident not in versions:
            versions.append(ident)
        return ident

    def answer(self, method: str, path: str, body: Any) -> Answer:
        """The answer to a request."""
        match method, [unquote(part) for part in path.strip("/").split("/")]:
            case "GET", ["schemas", "ids", ident] if int(ident) in self.schemas:
                return _json(self.schemas[int(ident)])
            case "GET", ["schemas", "ids", _]:
                return _error(404, 40403, "Schema not found")
            case "GET", ["subjects", subject, "versions", version]:
                return self._version(subject, version)
            case "POST", ["subjects", subject, "versions"]:
                more = {key: value for key, value in body.items() if key != "schema"}
                return _json({"id": self.add(body["schema"], subject, **more)})
            case "POST", ["compatibility", "subjects", subject, "versions", "latest"]:
                if subject not in self.subjects:
                    return _error(404, 40401, "Subject not found")
                return _json({"is_compatible": self.is_compatible})
            case "PUT", ["config", subject]:
                self.levels[subject] = body["compatibility"]
                return _json(body)
        return _error(404, 404, "HTTP 404 Not Found")

    def _version(self, subject: str, version: str) -> Answer:
        versions = self.subjects.get(subject, [])
        number = len(versions) if version == "latest" else int(version)
        if not 1 <= number <= len(versions):
            return _error(404, 40401, "Subject not found")
        ident = versions[number - 1]
        return _json({"subject": subject, "version": number, "id": ident, **self.schemas[ident]})


def _json(content: Any, status: int = 200) -> Answer:
    return Answer(status, json.dumps(content).encode())


def _error(status: int, code: int, message: str) -> Answer:
    return _json({"error_code": code, "message": message}, status)


@contextmanager
def serving_registry(tls: ssl.SSLContext | None = None) -> Iterator[SchemaRegistry]:
    """A registry that is there for a while, over an encrypted connection if it is told how."""
    registry = SchemaRegistry()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._serve()

        def do_POST(self) -> None:
            self._serve()

        def do_PUT(self) -> None:
            self._serve()

        def _serve(self) -> None:
            size = int(self.headers.get("Content-Length", 0))
            body = json.loads(self.rfile.read(size)) if size else None
            registry.requests.append(f"{self.command} {self.path}")
            registry.headers.append(dict(self.headers))
            answer = registry.failure or registry.answer(self.command, self.path, body)
            time.sleep(answer.seconds)
            self.send_response(answer.status)
            self.send_header("Content-Length", str(len(answer.body)))
            self.end_headers()
            self.wfile.write(answer.body)

        def log_message(self, *args: Any) -> None:
            """Keep silent."""

    class Server(ThreadingHTTPServer):
        def handle_error(self, request: Any, client_address: Any) -> None:
            """Say nothing of clients that have gone."""

    with Server(("127.0.0.1", 0), Handler) as server:
        if tls is not None:
            server.socket = tls.wrap_socket(server.socket, server_side=True)
        registry.url = f"{'http' if tls is None else 'https'}://127.0.0.1:{server.server_port}"
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield registry
        finally:
            server.shutdown()
            thread.join()
