"""A schema registry: schemas by their ids, over the REST interface that Confluent defined and others speak.

An id means one schema for ever, so what was fetched is kept and never asked for again. An id that is unknown today may
be known tomorrow, and is asked for again after a while.
"""

from __future__ import annotations

import json
import threading
import time
from base64 import b64encode
from dataclasses import field
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import quote, unquote, urlsplit

import urllib3
from urllib3.response import BaseHTTPResponse

from shoal.errors import Forbidden, InvalidInput, NotFound, ShoalError, StorageFailure, Unauthenticated, Unsupported
from shoal.model.node import frozen
from shoal.sources.http import naming_errors
from shoal.version import VERSION

_MEDIA_TYPE = "application/vnd.schemaregistry.v1+json"
_SECONDS = 10.0
_FORGET_AFTER = 10.0
"""Seconds for which an unknown id is not asked for again."""
_LARGEST_ANSWER = 64 << 20
_CHUNK = 64 << 10
_MOST_REFERENCES, _DEEPEST = 1000, 100
_LONGEST_REASON = 300
LEVELS = ("BACKWARD", "BACKWARD_TRANSITIVE", "FORWARD", "FORWARD_TRANSITIVE", "FULL", "FULL_TRANSITIVE", "NONE")


@frozen
class Schema:
    """A schema of a registry."""

    kind: str
    """AVRO, JSON or PROTOBUF."""
    text: str
    references: tuple[str, ...] = ()
    """The texts of the schemas that it refers to, in an order in which each comes after those that it refers to."""


@frozen
class Version:
    """A schema under the name of a subject."""

    id: int
    number: int
    schema: Schema


class Schemas(Protocol):
    """What decoders and encoders want of a registry."""

    @property
    def name(self) -> str:
        """Its URL without secrets, for messages."""

    def schema(self, ident: int) -> Schema:
        """The schema of an id. NotFound if there is none; other errors pass."""


@frozen
class Login:
    """What it takes to be let in: a user with a password, or a token, or nothing."""

    user: str | None = None
    password: str | None = field(default=None, repr=False)
    token: str | None = field(default=None, repr=False)

    def headers(self) -> dict[str, str]:
        """The header that says so."""
        if self.token is not None:
            return {"Authorization": f"Bearer {self.token}"}
        if self.user is not None:
            pair = f"{self.user}:{self.password or ''}"
            return {"Authorization": f"Basic {b64encode(pair.encode()).decode()}"}
        return {}


class Registry:
    """A registry behind a URL. It can be used by several threads."""

    def __init__(
        self, url: str, login: Login = Login(), *, ca_file: str | None = None, seconds: float = _SECONDS
    ) -> None:
        """A user and a password in the URL count, unless a login is given."""
        self.name, self._login = _checked(url, login)
        if ca_file is not None and not Path(ca_file).is_file():
            raise InvalidInput(f"{ca_file}: no file with certificates")
        self._seconds = seconds
        choices: dict[str, Any] = {} if ca_file is None else {"ca_certs": ca_file}
        self._manager = urllib3.PoolManager(maxsize=4, retries=False, **choices)
        self._schemas: dict[int, Schema] = {}
        self._unknown: dict[int, float] = {}
        self._registered: dict[tuple[str, Schema], int] = {}
        self._lock = threading.Lock()

    def __repr__(self) -> str:
        return f"Registry({self.name!r})"

    def close(self) -> None:
        """Close its connections."""
        self._manager.clear()

    # ---- reading

    def schema(self, ident: int) -> Schema:
        schema = self._schemas.get(ident)
        if schema is not None:
            return schema
        with self._lock:  # one request, however many threads want it
            schema = self._schemas.get(ident)
            if schema is None:
                schema = self._schemas[ident] = self._fetched(ident)
        return schema

    def _fetched(self, ident: int) -> Schema:
        missing = NotFound(f"{self.name}: no schema with id {ident}")
        if time.monotonic() < self._unknown.get(ident, 0.0):
            raise missing
        try:
            answer = self._ask("GET", f"/schemas/ids/{ident}")
        except NotFound:
            if len(self._unknown) >= _MOST_REFERENCES:
                self._unknown.clear()
            self._unknown[ident] = time.monotonic() + _FORGET_AFTER
            raise missing from None
        return self._schema_of(answer, f"schema {ident}")

    def latest(self, subject: str) -> Version | None:
        """The newest version of a subject; None if there is none."""
        try:
            answer = self._ask("GET", f"/subjects/{quote(subject, safe='')}/versions/latest")
        except NotFound:
            return None
        ident, number = answer.get("id"), answer.get("version")
        if not isinstance(ident, int) or not isinstance(number, int):
            raise self._odd(f"the latest version of {subject}")
        return Version(ident, number, self._schema_of(answer, f"the latest version of {subject}"))

    def _schema_of(self, answer: dict[str, Any], what: str) -> Schema:
        """The schema in an answer, with those that it refers to."""
        text, kind = answer.get("schema"), answer.get("schemaType", "AVRO")
        if not isinstance(text, str) or not isinstance(kind, str):
            raise self._odd(what)
        texts: dict[tuple[str, int], str | None] = {}
        self._fetch_references(answer, what, texts)
        return Schema(kind, text, tuple(each for each in texts.values() if each is not None))

    def _fetch_references(
        self, answer: dict[str, Any], what: str, texts: dict[tuple[str, int], str | None], depth: int = 0
    ) -> None:
        """Fetch what a schema refers to into `texts`, first what comes first; None stands for what is being fetched."""
        references = answer.get("references") or []
        if not isinstance(references, list):
            raise self._odd(what)
        for reference in references:
            try:
                place = str(reference["subject"]), int(reference["version"])
            except (TypeError, KeyError, ValueError):
                raise self._odd(what) from None
            if place in texts and texts[place] is not None:
                continue
            if place in texts or depth > _DEEPEST or len(texts) > _MOST_REFERENCES:
                raise InvalidInput(f"{self.name}: {what} refers to itself, or to too many others")
            texts[place] = None
            inner = self._ask("GET", f"/subjects/{quote(place[0], safe='')}/versions/{place[1]}")
            if not isinstance(inner.get("schema"), str):
                raise self._odd(f"version {place[1]} of {place[0]}")
            self._fetch_references(inner, what, texts, depth + 1)
            del texts[place]  # those that it refers to stand before it
            texts[place] = inner["schema"]

    # ---- writing

    def register(self, subject: str, schema: Schema) -> int:
        """The id of a schema under a subject, which gets it unless it has it. InvalidInput if it is not compatible."""
        ident = self._registered.get((subject, schema))
        if ident is None:
            answer = self._ask("POST", f"/subjects/{quote(subject, safe='')}/versions", _body(schema))
            ident = answer.get("id")
            if not isinstance(ident, int):
                raise self._odd(f"the registration of {subject}")
            self._registered[subject, schema] = ident
        return ident

    def is_compatible(self, subject: str, schema: Schema) -> bool:
        """Whether a schema may follow the latest one of a subject; true if there is none."""
        path = f"/compatibility/subjects/{quote(subject, safe='')}/versions/latest"
        try:
            answer = self._ask("POST", path, _body(schema))
        except NotFound:
            return True
        verdict = answer.get("is_compatible")
        if not isinstance(verdict, bool):
            raise self._odd(f"the compatibility of {subject}")
        return verdict

    def set_compatibility(self, subject: str, level: str) -> None:
        """What later schemas of a subject have to be compatible with, such as BACKWARD."""
        if level not in LEVELS:
            raise InvalidInput(f"compatibility {level!r} is not known (one of: {', '.join(LEVELS)})")
        self._ask("PUT", f"/config/{quote(subject, safe='')}", {"compatibility": level})

    # ---- requests

    def _ask(self, method: str, path: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
        """The JSON object that answers a request."""
        headers = {"Accept": f"{_MEDIA_TYPE}, application/json", "User-Agent": f"shoal/{VERSION}"}
        if body is not None:
            headers["Content-Type"] = _MEDIA_TYPE
        with naming_errors(self.name, self._seconds):
            response = self._manager.urlopen(
                method,
                self.name + path,
                body=None if body is None else json.dumps(body).encode(),
                headers={**headers, **self._login.headers()},
                timeout=urllib3.Timeout(connect=self._seconds, read=self._seconds),
                redirect=False,
                preload_content=False,
            )
            return self._answer(response.status, self._body_of(response), path)

    def _body_of(self, response: BaseHTTPResponse) -> bytes:
        deadline = time.monotonic() + self._seconds
        body = bytearray()
        for chunk in response.stream(_CHUNK):
            body += chunk
            if len(body) > _LARGEST_ANSWER or time.monotonic() > deadline:
                response.close()
                limits = f"{_LARGEST_ANSWER} bytes in {self._seconds:g} s"
                raise StorageFailure(f"{self.name}: an answer is too large or too slow ({limits})")
        response.release_conn()
        return bytes(body)

    def _answer(self, status: int, data: bytes, path: str) -> dict[str, Any]:
        try:
            answer = json.loads(data)
        except (ValueError, RecursionError):
            answer = None
        if 200 <= status < 300:
            if not isinstance(answer, dict):
                raise self._odd(path)
            return answer
        if status == 404 and not (isinstance(answer, dict) and "error_code" in answer):
            raise self._odd(path)  # of some other server
        message = answer.get("message") if isinstance(answer, dict) else None
        reason = " ".join(message.split())[:_LONGEST_REASON] if isinstance(message, str) else "no reason given"
        raise self._refusal(status, reason)

    def _refusal(self, status: int, reason: str) -> ShoalError:
        match status:
            case 401:
                return Unauthenticated(f"{self.name}: the registry does not know the caller (give a user or a token)")
            case 403:
                return Forbidden(f"{self.name}: the registry does not let this caller do that ({reason})")
            case 404:
                return NotFound(f"{self.name}: {reason} (404)")
            case 400 | 409 | 422:
                return InvalidInput(f"{self.name}: the registry refuses the schema: {reason} ({status})")
        return StorageFailure(f"{self.name}: the registry failed: {reason} ({status})")

    def _odd(self, what: str) -> StorageFailure:
        return StorageFailure(f"{self.name}: not an answer of a schema registry to {what} (check the URL)")


def _checked(url: str, login: Login) -> tuple[str, Login]:
    """A URL without secrets, and the login."""
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:
        host, port = None, None
    if not host or parts.scheme not in ("http", "https") or parts.query or parts.fragment:
        raise InvalidInput("not the URL of a schema registry (such as http://localhost:8081)")
    if login == Login() and parts.username is not None:
        login = Login(unquote(parts.username), unquote(parts.password or ""))
    _check_login(login)
    authority = f"[{host}]" if ":" in host else host
    return f"{parts.scheme}://{authority}{'' if port is None else f':{port}'}{parts.path.rstrip('/')}", login


def _check_login(login: Login) -> None:
    for what, secret in (("user", login.user), ("password", login.password), ("token", login.token)):
        if secret is not None and not (secret.isprintable() and (what != "token" or secret.isascii())):
            raise InvalidInput(f"the {what} of the schema registry has a character that no header can carry")
    if login.token is not None and login.user is not None:
        raise InvalidInput("give the schema registry a user or a token, not both")


def _body(schema: Schema) -> dict[str, Any]:
    if schema.references:
        raise Unsupported("a schema that refers to others is not registered (write it as one)")
    return {"schema": schema.text} | ({} if schema.kind == "AVRO" else {"schemaType": schema.kind})
