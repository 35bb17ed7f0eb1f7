"""One request, as a handler sees it."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from io import BytesIO
from itertools import islice
from typing import TYPE_CHECKING, Any

from shoal.api.commitish import parse_head
from shoal.api.lake import Lake
from shoal.api.options import MAX_MEMORY, ReadOptions, decode_read_options
from shoal.api.pool import Pool
from shoal.api.requests import BodyField, Note, Param, Request, body_of, params_of
from shoal.errors import InvalidInput
from shoal.formats.detect import read_source
from shoal.formats.registry import Format
from shoal.formats.streams import Source, read_exactly
from shoal.frames.python_values import to_python
from shoal.ids import parse, to_text
from shoal.lake.branches import as_id
from shoal.lake.requests import claim_request, find_request
from shoal.model import types as t
from shoal.model.parse import parse_value
from shoal.model.values import Value
from shoal.service.auth.identity import Identity
from shoal.service.bodies import Body, plain
from shoal.service.media import format_of_body
from shoal.storage.store import ObjectStore

if TYPE_CHECKING:
    from shoal.service.state import Service

_TRUE = {"t", "true", "1", "yes"}
_FALSE = {"f", "false", "0", "no", ""}
_LARGEST_RECORD = 16 << 20
"""Bytes, without compression."""
_LONGEST_EXAMPLE = 200
"""Characters of a body that is quoted in an error."""
_OF_ONE_RECORD = ReadOptions(max_memory=256 << 20)
_TYPES: dict[str, type | tuple[type, ...]] = {
    "string": str,
    "number": (int, float),
    "integer": int,
    "boolean": bool,
    "array": list,
    "object": dict,
}
"""The types of fields in a body, by their schema."""
_OF_RECORDS = ("auto", "zson", "json", "zjson", "zng")
"""Formats of a body that is one record: those that are read from the front, value by value."""
_KEY = re.compile(r"[!-~]{1,200}")


@dataclass(slots=True)
class Call:
    """A request that was let in."""

    service: Service
    id: str
    """Of the request."""
    identity: Identity
    """Who is asking."""
    view: Callable[[], Lake]
    """Gives the lake as they see it. It may read the store."""
    request_line: str
    """Method, path and parameters."""
    path: Mapping[str, str]
    params: Mapping[str, str]
    headers: Mapping[str, str]
    body: Body
    answer_format: Format
    warnings: list[str] = field(default_factory=list)
    _lake: Lake | None = None
    _pool: Pool | None = None

    @property
    def lake(self) -> Lake:
        """The lake as the caller sees it."""
        if self._lake is None:
            self._lake = self.view()
        return self._lake

    @property
    def subject(self) -> str:
        """The name of who is asking."""
        return self.identity.subject

    def pool(self) -> Pool:
        """The pool that the path names, the same for all of the request."""
        if self._pool is None:
            self._pool = self.lake.pool(self.path["pool"])
        return self._pool

    def operation(self) -> str | None:
        """The id of what is to be done, if the request has an idempotency key. All of the body has to have come."""
        keyed = self.keyed()
        return None if keyed is None else keyed.operation(self.service.lake.root.store)

    def keyed(self) -> Keyed | None:
        """The request, if it has an idempotency key."""
        key = self.headers.get("idempotency-key")
        return None if key is None else Keyed(self.subject, _check_key(key), self.request_line, self.body.digest())

    def step(self) -> str | None:
        """The key of what is staged, if the request has one: it is staged once. All of the body has to have come."""
        keyed = self.keyed()
        return None if keyed is None else f"{keyed.key} {keyed.request} {keyed.body.hex()}"

    # ---- what is asked

    def is_set(self, name: str) -> bool:
        """Whether a switch among the parameters is on."""
        text = self.params.get(name, "").lower()
        if text not in _TRUE | _FALSE:
            raise InvalidInput(f"invalid value {text!r} for parameter {name} (T or F)")
        return text in _TRUE

    def number(self, name: str) -> float | None:
        """A number among the parameters."""
        text = self.params.get(name)
        try:
            return None if text is None else float(text)
        except ValueError:
            raise InvalidInput(f"invalid value {text!r} for parameter {name} (a number)") from None

    def source(self) -> Source:
        """What the body holds, without compression."""
        return self._plain(self.service.settings.largest_body)

    def _plain(self, limit: int) -> Source:
        encoding = self.headers.get("content-encoding", "").strip().lower()
        return plain(self.body, encoding, limit, self.service.settings.largest_ratio)

    def format_of_body(self) -> str:
        """The name of the format of the body."""
        return self.params.get("format") or format_of_body(self.headers.get("content-type", ""))

    def read_options(self) -> ReadOptions:
        """How the body is to be read: as the request asks, within the limits of the service."""
        asked, settings = decode_read_options(self.params), self.service.settings
        memory, ratio = settings.limits.query.memory or MAX_MEMORY, settings.largest_ratio
        return replace(
            asked,
            max_memory=min(memory, asked.max_memory) if "read.memory" in self.params else memory,
            max_ratio=min(ratio, asked.max_ratio) if "read.ratio" in self.params else ratio,
        )

    def record(self, expected: Mapping[str, type | tuple[type, ...]]) -> dict[str, Any]:
        """The body as one record, of which the fields and their types are known."""
        largest = min(_LARGEST_RECORD, self.service.settings.largest_body)
        data = read_exactly(self._plain(largest), largest + 1)
        try:
            name = self.format_of_body()
            if name not in _OF_RECORDS:
                raise InvalidInput(f"its format is not one of: {', '.join(_OF_RECORDS[1:])}")
            values = list(islice(read_source(BytesIO(data), "zson" if name == "auto" else name, _OF_ONE_RECORD), 2))
        except InvalidInput as e:
            raise InvalidInput(f"the body has to be a record{_such_as(data, expected)}: {e}") from None
        if len(values) > 1:
            raise InvalidInput(f"the body has to be one record{_such_as(data, expected)}")
        fields = to_python(values[0]) if values else {}
        if not isinstance(fields, dict):
            raise InvalidInput(f"the body has to be a record{_such_as(data, expected)}")
        for each, value in fields.items():
            if each in expected and value is not None and not isinstance(value, expected[each]):
                raise InvalidInput(f"field {each} of the body has a wrong value: {value!r}")
        return {each: value for each, value in fields.items() if each in expected and value is not None}

    def request(self, kind: type[Request[Any]]) -> Request[Any]:
        """The request of this type that the path, the parameters, the body and the headers make up."""
        given = self._fields(kind)
        if "op" in {f.name for f in fields(kind)}:  # type: ignore[arg-type]
            given["op"] = self.operation()
        if "pool" in given:
            given["pool"] = self.pool().id
        return _make(kind, given)

    def repeated(self, kind: type[Request[Any]], op: str) -> Request[Any]:
        """The request under the id of an operation that was carried out before; the pool may be gone."""
        return _make(kind, {**self._fields(kind), "op": op})

    def _fields(self, kind: type[Request[Any]]) -> dict[str, Any]:
        names = {f.name for f in fields(kind)}  # type: ignore[arg-type]
        given: dict[str, Any] = {name: text for name, text in self.path.items() if name in names}
        for name, param in params_of(kind).items():
            if param.name in self.params:
                given[name] = self._param(param)
        given |= self._body_fields(body_of(kind))
        if "note" in names:
            given["note"] = self.note()
        return given

    def _param(self, param: Param) -> Any:
        match param.schema:
            case "boolean":
                return self.is_set(param.name)
            case "number":
                return self.number(param.name)
            case "string":
                return self.params[param.name]

    def _body_fields(self, specs: Mapping[str, BodyField]) -> dict[str, Any]:
        if not specs:
            return {}
        record = self.record({spec.name: object if spec.is_id else _TYPES[spec.schema] for spec in specs.values()})
        given = {name: record[spec.name] for name, spec in specs.items() if spec.name in record}
        for name, spec in specs.items():
            if name in given and spec.schema == "array":
                read = texts if spec.has_texts else id_texts
                given[name] = tuple(read(given[name], spec.name))
            elif name in given and spec.name == "head":
                given[name] = head_text(given[name])
            elif name in given and spec.is_id and not isinstance(given[name], str):
                (given[name],) = id_texts([given[name]], spec.name)
        # Go sends fields that were not given as empty strings.
        return {name: value for name, value in given.items() if value not in ("", None)}

    def note(self) -> Note:
        """Author, message and metadata of the commit to be, from the header `Zed-Commit`."""
        # Without authentication the author is the user of the service.
        subject = None if self.identity.may_do_all else self.subject
        text = self.headers.get("zed-commit")
        if text is None:
            return Note(subject)
        note = _parse_note(text)
        return Note(
            note.get("author") or subject,
            note.get("body") or "",
            parse_value(meta) if (meta := note.get("meta")) else None,
        )


def _such_as(data: bytes, expected: Mapping[str, type | tuple[type, ...]]) -> str:
    """An example of the record that was meant: the body as the text in its first field, if it is short text."""
    try:
        text = data.decode()
    except UnicodeDecodeError:
        text = ""
    first = next(iter(expected), None)
    if first is None or expected[first] is not str or not 0 < len(text) <= _LONGEST_EXAMPLE or not text.isprintable():
        return f" (fields: {', '.join(expected)})"
    return f" (such as {json.dumps({first: text}, ensure_ascii=False, separators=(',', ':'))})"


def _make(kind: type[Request[Any]], given: dict[str, Any]) -> Request[Any]:
    try:
        return kind(**given)
    except TypeError:
        names = " and a ".join(field.name for field in body_of(kind).values())
        raise InvalidInput(f"the body has to have a {names}") from None


_NOTE_KEYS = ("author", "body", "meta")


def _parse_note(text: str) -> dict[str, str | None]:
    """The fields of a note. Clients spell them as they like: `Author`, as Go does, is `author`."""
    try:
        given = json.loads(text)
        json.dumps(given, ensure_ascii=False).encode()  # half a character, such as \ud800, cannot be encoded
    except (ValueError, RecursionError):
        raise InvalidInput("the Zed-Commit header is not valid JSON") from None
    if not isinstance(given, dict) or not all(isinstance(value or "", str) for value in given.values()):
        raise InvalidInput("the Zed-Commit header has to be a JSON object of strings: author, body, meta")
    note = {key.lower(): value for key, value in given.items()}
    unknown = next((key for key in given if key.lower() not in _NOTE_KEYS), None)
    if unknown is not None:
        raise InvalidInput(f"the Zed-Commit header has an unknown key {unknown!r} (author, body, meta)")
    return note


def head_text(head: Mapping[str, Any]) -> str | None:
    """The `pool@branch` that a program without a source reads."""
    pool, branch = head.get("pool") or "", head.get("branch") or ""
    if not isinstance(pool, str) or not isinstance(branch, str):
        raise InvalidInput("the head of a query is {pool,branch}, both strings")
    text = f"{pool}@{branch}" if branch else pool
    if text:
        parse_head(text)
    return text or None


def id_texts(given: Sequence[Any], what: str = "object_ids") -> list[str]:
    """Ids in a body, as bytes or as text, in the form that the api takes."""
    return [_id_text(each, what) for each in given]


def texts(given: Sequence[Any], what: str) -> list[str]:
    """Texts in a body."""
    for each in given:
        if not isinstance(each, str):
            raise InvalidInput(f"{what}: {each!r} is not a text")
    return list(given)


def _id_text(given: Any, what: str) -> str:
    if isinstance(given, Value) and given.type.under is t.BYTES and given.data is not None:
        given = given.data
    if isinstance(given, bytes) and len(given) == 20:
        return to_text(parse("0x" + given.hex()))
    if isinstance(given, str):
        return to_text(parse(given))
    raise InvalidInput(f"{what}: {given!r} is not a valid id")


# ---- requests that may be repeated


def _check_key(key: str) -> str:
    """The key itself, if it may be one."""
    if not _KEY.fullmatch(key):
        raise InvalidInput("the header Idempotency-Key has to be 1 to 200 letters, digits or signs of ASCII")
    return key


@dataclass(frozen=True, slots=True)
class Keyed:
    """A request with an idempotency key, which may be repeated."""

    subject: str
    key: str
    request: str
    """All of it but its body."""
    body: bytes
    """A hash of that."""

    def operation(self, store: ObjectStore) -> str:
        """The id of the operation; Conflict if the same key came with another request.

        A key that is an id becomes the id of the operation, so that a client that loses the answer can ask about it.
        """
        return to_text(claim_request(store, self.subject, self.key, self._digest(), as_id(self.key)).op)

    def begun(self, store: ObjectStore) -> str | None:
        """The id of the operation, if the same request was let in before."""
        op = find_request(store, self.subject, self.key, self._digest())
        return None if op is None else to_text(op)

    def _digest(self) -> bytes:
        return hashlib.sha256(self.request.encode() + b"\0" + self.body).digest()
