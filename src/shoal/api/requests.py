"""A verb is data: a frozen request type with its fields, its result and its form over HTTP.

The route of the service, its entry in the OpenAPI document, the call of the client and the access check are all
derived from the request type. `Executor.do` executes a request, in a store or through a service.

    @verb("POST", "/pool/{pool}/branch/{branch}/revert/{commit}", Need.WRITE, COMMIT, event="branch-commit")
    class Revert(Request[str]):
        pool: str
        branch: str
        commit: str
        note: Note = Note()
        op: Op = None

A field whose name is in braces is part of the path. `note` and `op` are sent in headers. Any other field declares
where it is sent: `in_query(...)` or `in_body(...)`.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable
from enum import Enum
from typing import Any, ClassVar, Generic, Literal, Protocol, TypedDict, TypeVar, dataclass_transform

from shoal.api.codecs import Codec
from shoal.errors import InvalidInput
from shoal.model.node import frozen
from shoal.model.plain_names import require_plain_name

R = TypeVar("R")
Method = Literal["GET", "POST", "PUT", "DELETE"]

Op = str | Callable[[], str | None] | None
"""The id of an operation: retries with the same id happen once. A function is called for the id after all data of the
request has been read."""


class Need(Enum):
    """The right that a request needs."""

    NOTHING = "open to everybody"
    IDENTITY = "any authenticated caller; reads are checked per pool"
    READ = "read the pool"
    WRITE = "write to the pool"
    ADMIN = "administer the pool"
    LAKE = "administer the lake"
    GRANT = "administer the pool that the body names"
    PLACES = "write to every pool of the transaction"


@frozen
class Note:
    """Author, message and metadata of a commit."""

    author: str | None = None
    """None: the user of this process."""
    message: str = ""
    meta: Any = None
    """A value, or a Python object that is converted to one."""


class NoteArgs(TypedDict, total=False):
    """The fields of a Note as keyword arguments."""

    author: str | None
    message: str
    meta: Any


NO_NOTE = Note()


@frozen
class Http(Generic[R]):
    """The form of a request over HTTP."""

    method: Method
    path: str
    need: Need
    result: Codec[R]
    name: str
    """The name of the operation in the OpenAPI document, in metrics and logs."""
    event: str = ""
    """The event that `/events` sends when the request is done."""
    outlives_pool: bool = False
    """Whether a retry may find the pool gone or renamed, because the request was done before."""

    @property
    def path_names(self) -> tuple[str, ...]:
        """The fields that are part of the path."""
        return tuple(re.findall(r"{(\w+)}", self.path))


class Request(Generic[R]):
    """A request to a lake with a result of type R."""

    __slots__ = ()
    http: ClassVar[Http[Any]]


class Executor(Protocol):
    """Executes requests, in a store or through a service."""

    def do(self, request: Request[R]) -> R:
        """Execute a request."""


VERBS: list[type[Request[Any]]] = []
"""All request types with the common form over HTTP."""


@dataclass_transform(frozen_default=True, field_specifiers=(dataclasses.field,))
def verb(
    method: Method,
    path: str,
    need: Need,
    result: Codec[Any],
    *,
    name: str = "",
    event: str = "",
    outlives_pool: bool = False,
) -> Callable[[type], Any]:
    """Turn a class into a frozen request type and register it for the service and the client."""

    def define(cls: type) -> Any:
        request: Any = frozen(cls)
        operation = name or cls.__name__[0].lower() + cls.__name__[1:]
        request.http = Http(method, path, need, result, operation, event, outlives_pool)
        VERBS.append(request)
        return request

    return define


# ---- names

_EXISTING = frozenset(
    ("pool", "branch", "tag", "commit", "child", "onto", "revision", "old", "new", "id", "ids", "head", "op")
)
"""Fields that refer to what exists already, under a name that an older version may have accepted."""
_TEXTS = frozenset(("program", "statement", "where", "key", "includes", "data", "note", "partition"))
"""Fields that hold text in a language, data, or what a commit is described by."""


def require_names(request: Request[Any]) -> None:
    """InvalidInput if a name that a request gives contains control characters.

    Every text field counts as such a name, except for those of the two lists above: a new verb cannot forget it.
    """
    for field in names_of(type(request)):
        text = getattr(request, field)
        if isinstance(text, str):
            require_plain_name(text, field)


_NAMES: dict[type[Request[Any]], tuple[str, ...]] = {}


def names_of(request: type[Request[Any]]) -> tuple[str, ...]:
    """The fields of a request that may give a name to something."""
    names = _NAMES.get(request)
    if names is None:
        fields: Any = dataclasses.fields(request)  # type: ignore[arg-type]
        names = _NAMES[request] = tuple(f.name for f in fields if f.name not in _EXISTING | _TEXTS)
    return names


# ---- where fields are sent

WHEN = "a time, a date, a duration before now such as 7d, or a commitish"


@frozen
class Param:
    """A query parameter of the URL."""

    name: str
    about: str
    schema: Literal["string", "number", "boolean"] = "string"


@frozen
class BodyField:
    """A field of the record in the body."""

    name: str
    schema: Literal["string", "number", "integer", "boolean", "array", "object"] = "string"
    is_id: bool = False
    """Whether it may also be an id in binary form."""
    has_texts: bool = False
    """Whether an array has texts; others have ids."""


def in_query(name: str, about: str, schema: Literal["string", "number", "boolean"] = "string") -> Any:
    """A field that is a query parameter of the URL; None or False if it is not given."""
    default = False if schema == "boolean" else None
    return dataclasses.field(default=default, metadata={"param": Param(name, about, schema)})


def in_body(name: str, schema: Any = "string", *, is_id: bool = False, has_texts: bool = False, **default: Any) -> Any:
    """A field of the record in the body."""
    return dataclasses.field(metadata={"body": BodyField(name, schema, is_id, has_texts)}, **default)


def params_of(request: type[Request[Any]]) -> dict[str, Param]:
    """The fields of a request that are query parameters."""
    return {f.name: f.metadata["param"] for f in dataclasses.fields(request) if "param" in f.metadata}  # type: ignore[arg-type]


def require_texts(request: Request[Any]) -> None:
    """InvalidInput if a query parameter that is a text got something else from Python."""
    for name, param in params_of(type(request)).items():
        value = getattr(request, name)
        if param.schema == "string" and not isinstance(value, str | None):
            raise InvalidInput(f"{param.name}: not a text: {value!r} ({param.about})")


def body_of(request: type[Request[Any]]) -> dict[str, BodyField]:
    """The fields of a request that are sent in the body."""
    return {f.name: f.metadata["body"] for f in dataclasses.fields(request) if "body" in f.metadata}  # type: ignore[arg-type]
