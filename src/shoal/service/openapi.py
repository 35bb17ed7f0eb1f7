"""The description of the service in OpenAPI, made from the table of routes."""

from __future__ import annotations

import json
import re
from typing import Any

from shoal.api.requests import Need, Param
from shoal.formats.registry import formats
from shoal.service.answers import Text
from shoal.service.calls import Call
from shoal.service.routes import ROUTES, Route
from shoal.version import VERSION

_IN_PATH = re.compile(r"{(\w+)}")
_WORDS = {
    "pool": "the name of a pool, or its id",
    "branch": "a branch",
    "revision": "a commitish: a branch, a tag, the id of a commit, or a time",
    "id": "the id of an operation or a transaction",
    "request": "the id of a request, as X-Request-ID gives it",
}
_ERRORS = {
    "400": "what was asked makes no sense",
    "401": "nobody knows who is asking",
    "403": "the caller may not do this",
    "404": "the named thing is not there, or the caller may not know of it",
    "409": "the name is taken, or another writer was first",
    "413": "the body is too large",
    "429": "too much is going on",
    "503": "the store failed, or did not say what it did: `commit` is the id to ask about",
}
_READ = [f.media_types[0] for f in formats() if f.reader is not None and f.media_types]
_WRITTEN = [f.media_types[0] for f in formats() if f.writer is not None and f.media_types]


def show(call: Call) -> Text:
    """This description."""
    return Text(json.dumps(document(), indent=2) + "\n", "application/json")


def document() -> dict[str, Any]:
    """The description."""
    paths: dict[str, dict[str, Any]] = {}
    for route in ROUTES:
        paths.setdefault(route.path, {})[route.method.lower()] = _operation(route)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Shoal",
            "version": VERSION,
            "description": "A Git-like data lake for data of any shape. Values are exchanged in the format that "
            "Accept and Content-Type name; without them it is ZSON.",
        },
        "paths": paths,
        "components": {
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
            "schemas": {"Error": _ERROR},
        },
    }


_ERROR: dict[str, Any] = {
    "type": "object",
    "required": ["type", "kind", "error"],
    "properties": {
        "type": {"const": "Error"},
        "kind": {"type": "string"},
        "error": {"type": "string"},
        "commit": {"type": "string"},
        "compilation_errors": {"type": "array"},
    },
}


def _operation(route: Route) -> dict[str, Any]:
    operation: dict[str, Any] = {
        "operationId": route.name,
        "summary": route.about,
        "description": f"Needs: {route.need.value}.",
        "parameters": [*map(_in_path, _IN_PATH.findall(route.path)), *map(_in_query, route.params), *_headers(route)],
        "responses": _responses(route),
    }
    if route.need is not Need.NOTHING:
        operation["security"] = [{"token": []}]
    if route.body != "none":
        operation["requestBody"] = {"required": False, "content": _content(route)}
    return operation


def _in_path(name: str) -> dict[str, Any]:
    about = _WORDS.get(name, f"a {name}")
    schema = {"type": "string", "minLength": 1}
    return {"name": name, "in": "path", "required": True, "description": about, "schema": schema}


def _in_query(param: Param) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": param.schema}
    if param.schema == "boolean":
        schema = {"type": "string", "enum": ["T", "F"]}
    return {"name": param.name, "in": "query", "required": False, "description": param.about, "schema": schema}


def _headers(route: Route) -> list[dict[str, Any]]:
    if not route.mutates:
        return []
    about = "the same key with the same request is carried out once"
    schema = {"type": "string", "minLength": 1, "maxLength": 200, "pattern": "^[!-~]+$"}
    return [{"name": "Idempotency-Key", "in": "header", "required": False, "description": about, "schema": schema}]


def _content(route: Route) -> dict[str, Any]:
    if route.body == "data":
        return {media: {"schema": {"type": "string", "format": "binary"}} for media in _READ}
    fields = {name: {"type": kind} for name, kind in route.fields}
    return {"application/json": {"schema": {"type": "object", "properties": fields}}}


def _responses(route: Route) -> dict[str, Any]:
    error = {"application/json": {"schema": {"$ref": "#/components/schemas/Error"}}}
    failed = {status: {"description": about, "content": error} for status, about in _ERRORS.items()}
    nothing = {"204": {"description": "done; there is nothing to tell"}}
    if route.is_empty:
        return {**nothing, **failed}
    kinds = route.media_types or tuple(_WRITTEN)
    good = {"200": {"description": "values", "content": {media: {} for media in kinds}}}
    return {**good, **(nothing if route.may_be_empty else {}), **failed}
