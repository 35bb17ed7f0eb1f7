"""One request, as a handler sees it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, Any, TypedDict

from shoal.api.options import ReadOptions
from shoal.errors import InvalidInput
from shoal.formats.detect import read_source
from shoal.formats.registry import Format
from shoal.formats.streams import Source
from shoal.frames.python_values import to_python
from shoal.ids import parse, to_text
from shoal.local.lake import LocalLake
from shoal.local.pool import LocalPool
from shoal.model import types as t
from shoal.model.parse import parse_value
from shoal.model.values import NULL, Value
from shoal.service.auth.identity import Identity
from shoal.service.bodies import Body, plain
from shoal.service.media import format_of_body
from shoal.service.operations import Keyed, check_key

if TYPE_CHECKING:
    from shoal.service.state import Service

_TRUE = {"t", "true", "1", "yes"}
_FALSE = {"f", "false", "0", "no", ""}
_LARGEST_RECORD = 16 << 20
"""Bytes, without compression."""
_OF_RECORDS = ("auto", "zson", "json", "zjson", "zng")
"""Formats of a body that is one record: those that are read from the front, value by value."""


class Note(TypedDict):
    """What is said of a commit."""

    author: str | None
    message: str
    meta: Value


@dataclass(slots=True)
class Call:
    """A request that was let in."""

    service: Service
    id: str
    """Of the request."""
    identity: Identity
    """Who is asking."""
    lake: LocalLake
    """The lake as they see it."""
    request: str
    """Method, path and parameters."""
    path: Mapping[str, str]
    params: Mapping[str, str]
    headers: Mapping[str, str]
    body: Body
    answer_format: Format
    warnings: list[str] = field(default_factory=list)
    _pool: LocalPool | None = None

    @property
    def subject(self) -> str:
        """The name of who is asking."""
        return self.identity.subject

    def pool(self) -> LocalPool:
        """The pool that the path names, the same for all of the request."""
        if self._pool is None:
            self._pool = self.lake.pool(self.path["pool"])
        return self._pool

    def operation(self) -> str | None:
        """The id of what is to be done, if the request has an idempotency key. All of the body has to have come."""
        keyed = self.keyed()
        return None if keyed is None else keyed.operation(self.service.lake.inner.store)

    def keyed(self) -> Keyed | None:
        """The request, if it has an idempotency key."""
        key = self.headers.get("idempotency-key")
        return None if key is None else Keyed(self.subject, check_key(key), self.request, self.body.digest())

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
        return plain(self.body, self.headers.get("content-encoding", "").strip().lower(), limit)

    def format_of_body(self) -> str:
        """The name of the format of the body."""
        return self.params.get("format") or format_of_body(self.headers.get("content-type", ""))

    def read_options(self) -> ReadOptions:
        """How the body is to be read."""
        delimiter = self.params.get("csv.delim")
        if delimiter is not None and len(delimiter) != 1:
            raise InvalidInput(f"invalid value {delimiter!r} for parameter csv.delim (one character)")
        return ReadOptions(csv_delimiter=delimiter)

    def record(self, known: Mapping[str, type | tuple[type, ...]]) -> dict[str, Any]:
        """The body as one record, of which the fields and their types are known."""
        name = self.format_of_body()
        if name not in _OF_RECORDS:
            raise InvalidInput(f"the body has to be a record in one of: {', '.join(_OF_RECORDS[1:])}")
        source = self._plain(min(_LARGEST_RECORD, self.service.settings.largest_body))
        values = list(islice(read_source(source, "zson" if name == "auto" else name), 2))
        if len(values) > 1:
            raise InvalidInput("the body has to be one record")
        fields = to_python(values[0]) if values else {}
        if not isinstance(fields, dict):
            raise InvalidInput(f"the body has to be a record (fields: {', '.join(known)})")
        for each, value in fields.items():
            if each in known and value is not None and not isinstance(value, known[each]):
                raise InvalidInput(f"field {each} of the body has a wrong value: {value!r}")
        return {each: value for each, value in fields.items() if each in known and value is not None}

    def note(self) -> Note:
        """What the header `Zed-Commit` says of the commit to be."""
        text = self.headers.get("zed-commit")
        # Who is not asked for a name is whoever runs the service.
        subject = None if self.identity.may_do_all else self.subject
        if text is None:
            return Note(author=subject, message="", meta=NULL)
        try:
            said = json.loads(text)
            json.dumps(said, ensure_ascii=False).encode()  # half a character, such as \ud800, is none
        except (ValueError, RecursionError):
            raise InvalidInput("the header Zed-Commit is no JSON") from None
        if not isinstance(said, dict) or not all(
            isinstance(said.get(k) or "", str) for k in ("author", "body", "meta")
        ):
            raise InvalidInput("the header Zed-Commit has to be a JSON object of texts: author, body, meta")
        meta = parse_value(said["meta"]) if said.get("meta") else NULL
        return Note(author=said.get("author") or subject, message=said.get("body") or "", meta=meta)


def id_texts(given: Sequence[Any], what: str = "object_ids") -> list[str]:
    """Ids in a body, as bytes or as text, in the form that the api takes."""
    return [_id_text(each, what) for each in given]


def _id_text(given: Any, what: str) -> str:
    if isinstance(given, Value) and given.type.under is t.BYTES and given.data is not None:
        given = given.data
    if isinstance(given, bytes) and len(given) == 20:
        return to_text(parse("0x" + given.hex()))
    if isinstance(given, str):
        return to_text(parse(given))
    raise InvalidInput(f"{what}: {given!r} is no id")
