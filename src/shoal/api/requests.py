"""A verb is data: a frozen request type that says what it takes, what it gives, and how it travels over HTTP.

The route of the service, its entry in the OpenAPI document, the call of the client and the check of access are all
derived from the request type; `LakeExecutor.do` carries a request out, in a store or through a service.

    @verb("POST", "/pool/{pool}/branch/{branch}/revert/{commit}", Need.WRITE, COMMIT, event="branch-commit")
    class Revert(Request[str]):
        pool: str
        branch: str
        commit: str
        note: Note = Note()
        op: Op = None

A field whose name stands in braces is a part of the path. `note` and `op` travel in headers. Any other field says
where it travels: `in_query(...)` or `in_body(...)`.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable
from enum import Enum
from typing import Any, ClassVar, Generic, Literal, Protocol, TypedDict, TypeVar, dataclass_transform

from shoal.api.codecs import Codec
from shoal.model.node import frozen

R = TypeVar("R")
Method = Literal["GET", "POST", "PUT", "DELETE"]

Op = str | Callable[[], str | None] | None
"""The id of an operation: who repeats it with the same id does it once. A function gives the id after all data of the
request has been read."""


class Need(Enum):
    """What a caller must be allowed to do."""

    NOTHING = "open to everybody"
    IDENTITY = "any caller who is known; what is read is checked by the pools that it is in"
    READ = "read the pool"
    WRITE = "write to the pool"
    ADMIN = "administer the pool"
    LAKE = "administer the lake"
    GRANT = "administer the pool that the body names"


@frozen
class Note:
    """Author, message and metadata of a commit."""

    author: str | None = None
    """None: the user of this process."""
    message: str = ""
    meta: Any = None
    """A value, or a Python object that becomes one."""


class NoteArgs(TypedDict, total=False):
    """The fields of a Note as keyword arguments."""

    author: str | None
    message: str
    meta: Any


NO_NOTE = Note()


@frozen
class Http(Generic[R]):
    """How a request travels."""

    method: Method
    path: str
    need: Need
    result: Codec[R]
    name: str
    """The operation in the OpenAPI document, in metrics and logs."""
    event: str = ""
    """What listeners to `/events` are told once it is done."""
    outlives_pool: bool = False
    """Whether the pool may be gone, or have another name, because this very request has been carried out before."""

    @property
    def path_names(self) -> tuple[str, ...]:
        """The fields that are parts of the path."""
        return tuple(re.findall(r"{(\w+)}", self.path))


class Request(Generic[R]):
    """Something that can be asked of a lake."""

    __slots__ = ()
    http: ClassVar[Http[Any]]


class Executor(Protocol):
    """Carries out requests: in a store, or through a service."""

    def do(self, request: Request[R]) -> R:
        """Carry out a request."""


VERBS: list[type[Request[Any]]] = []
"""Every request type that travels over HTTP in the common way."""


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
    """Make a class a request type: frozen, and known to the service and the client."""

    def make(cls: type) -> Any:
        request: Any = frozen(cls)
        operation = name or cls.__name__[0].lower() + cls.__name__[1:]
        request.http = Http(method, path, need, result, operation, event, outlives_pool)
        VERBS.append(request)
        return request

    return make


# ---- where fields travel


@frozen
class Param:
    """A parameter in the query of a URL."""

    name: str
    about: str
    schema: Literal["string", "number", "boolean"] = "string"


@frozen
class BodyField:
    """A field of the record in the body."""

    name: str
    schema: Literal["string", "number", "integer", "boolean", "array", "object"] = "string"
    is_id: bool = False
    """Whether it may be an id in its binary form as well."""


def in_query(name: str, about: str, schema: Literal["string", "number", "boolean"] = "string") -> Any:
    """A field that is a parameter of the URL; None or False where it is not given."""
    default = False if schema == "boolean" else None
    return dataclasses.field(default=default, metadata={"param": Param(name, about, schema)})


def in_body(name: str, schema: Any = "string", *, is_id: bool = False, **default: Any) -> Any:
    """A field of the record in the body."""
    return dataclasses.field(metadata={"body": BodyField(name, schema, is_id)}, **default)


def params_of(request: type[Request[Any]]) -> dict[str, Param]:
    """The fields of a request that are parameters of the URL."""
    return {f.name: f.metadata["param"] for f in dataclasses.fields(request) if "param" in f.metadata}  # type: ignore[arg-type]


def body_of(request: type[Request[Any]]) -> dict[str, BodyField]:
    """The fields of a request that are in the body."""
    return {f.name: f.metadata["body"] for f in dataclasses.fields(request) if "body" in f.metadata}  # type: ignore[arg-type]
