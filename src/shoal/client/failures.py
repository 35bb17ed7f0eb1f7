"""Turns error responses back into the exceptions that the service raised."""

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
    shortened,
)

HEADER = "Shoal-Error"
_STATUS = "http_status"
_BY_KIND: dict[str, type[ShoalError]] = {
    error.kind: error for error in vars(errors).values() if isinstance(error, type) and issubclass(error, ShoalError)
}
_BY_STATUS: dict[int, type[ShoalError]] = {
    400: InvalidInput, 401: Unauthenticated, 403: Forbidden, 404: NotFound, 409: Conflict, 413: TooLarge, 429: TooMany,
}  # fmt: skip
"""Errors for responses without a kind, such as those of a proxy."""


def error_of_kind(kind: str, text: str) -> ShoalError:
    """An error of a kind."""
    return _BY_KIND.get(kind, ShoalError)(text)


def error_of(url: str, status: int, kind: str, body: bytes) -> ShoalError:
    """The error that a response reports. It carries the status, unless the program is at fault, service or not."""
    details = _parse(body)
    error = _error_of(url, status, kind, details)
    notes = details.get("details")
    for note in notes if isinstance(notes, list) else ():
        error.add_note(shortened(str(note)))
    if "compilation_errors" not in details:
        vars(error)[_STATUS] = status
    return error


def status_of(error: BaseException) -> int | None:
    """The HTTP status with which a service reported an error; None if the error comes from elsewhere."""
    status: int | None = vars(error).get(_STATUS)
    return status


def _error_of(url: str, status: int, kind: str, details: dict[str, Any]) -> ShoalError:
    text = details.get("error")
    if not isinstance(text, str):
        return _BY_STATUS.get(status, StorageFailure)(f"{url}: {_reason(status)} ({status})")
    if kind == OutcomeUnknown.kind:
        return OutcomeUnknown(text, details.get("commit"))
    return error_of_kind(kind, text) if kind else _BY_STATUS.get(status, StorageFailure)(text)


def _parse(body: bytes) -> dict[str, Any]:
    try:
        details = json.loads(body)
    except ValueError:
        return {}
    return details if isinstance(details, dict) else {}


def _reason(status: int) -> str:
    try:
        return HTTPStatus(status).phrase.lower()
    except ValueError:
        return "error"
