"""Answers that tell of an error, as the very exception that the service raised."""

from __future__ import annotations

import json
from http import HTTPStatus
from typing import Any

from shoal import errors
from shoal.errors import (
    Conflict,
    Forbidden,
    InvalidInput,
    NotFound,
    OutcomeUnknown,
    ShoalError,
    StorageFailure,
    TooLarge,
    TooMany,
    Unauthenticated,
)

HEADER = "Shoal-Error"
_BY_KIND: dict[str, type[ShoalError]] = {
    found.kind: found for found in vars(errors).values() if isinstance(found, type) and issubclass(found, ShoalError)
}
_BY_STATUS: dict[int, type[ShoalError]] = {
    400: InvalidInput, 401: Unauthenticated, 403: Forbidden, 404: NotFound, 409: Conflict, 413: TooLarge, 429: TooMany,
}  # fmt: skip
"""What a status means where no kind is told, as by what stands between the service and us."""


def error_of_kind(kind: str, text: str) -> ShoalError:
    """An error of a kind."""
    return _BY_KIND.get(kind, ShoalError)(text)


def error_of(url: str, status: int, kind: str, body: bytes) -> ShoalError:
    """The error that an answer tells of.

    Its `status` says that it comes from a service, unless it is the program that is wrong: that it is anywhere.
    """
    told = _parse(body)
    found = _error_of(url, status, kind, told)
    found.status = None if "compilation_errors" in told else status
    return found


def _error_of(url: str, status: int, kind: str, told: dict[str, Any]) -> ShoalError:
    text = told.get("error")
    if not isinstance(text, str):
        return _BY_STATUS.get(status, StorageFailure)(f"{url}: {_reason(status)} ({status})")
    if kind == OutcomeUnknown.kind:
        return OutcomeUnknown(text, told.get("commit"))
    return error_of_kind(kind, text) if kind else _BY_STATUS.get(status, StorageFailure)(text)


def _parse(body: bytes) -> dict[str, Any]:
    try:
        found = json.loads(body)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _reason(status: int) -> str:
    try:
        return HTTPStatus(status).phrase.lower()
    except ValueError:
        return "error"
