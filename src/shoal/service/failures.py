"""Errors as answers: the status, and the words of the Zed API for it. Our own kind is in the header `Shoal-Error`."""

from __future__ import annotations

import json
import re
from typing import Any

from starlette.responses import Response

from shoal.errors import InvalidInput, ShoalError, details_of
from shoal.lang.source import ProgramError

_STATUS: dict[str, tuple[int, str]] = {
    "invalid_input": (400, "invalid operation"),
    "unsupported": (400, "unsupported"),
    "stopped": (400, "limit exceeded"),
    "unauthenticated": (401, "unauthenticated"),
    "read_only": (403, "forbidden"),
    "forbidden": (403, "forbidden"),
    "not_found": (404, "item does not exist"),
    "already_exists": (409, "item already exists"),
    "conflict": (409, "conflict with pending operation"),
    "too_large": (413, "too large"),
    "too_many": (429, "too many requests"),
    "corrupt_data": (500, "corrupt data"),
    "storage_failure": (503, "storage failure"),
    "outcome_unknown": (503, "outcome unknown"),
}
_RETRY_SECONDS = 1
_ABSOLUTE_PATH = re.compile(r"(?:file://)?(?<![\w.:/-])/(?:[^\s/:'\"()]+/)+([^\s/:'\"()]*)")
"""The last part of a path is enough to find it in the log."""
UNEXPECTED = "the service failed (its log has the cause, by the id of the request)"


def status_of(failure: ShoalError) -> int:
    """The HTTP status of an error."""
    return _STATUS.get(failure.kind, (500, ""))[0]


def describe(failure: ShoalError, text: str) -> dict[str, Any]:
    """An error as the body of an answer."""
    body: dict[str, Any] = {"type": "Error", "kind": _STATUS.get(failure.kind, (500, "internal error"))[1]}
    body["error"] = text
    if isinstance(failure, ProgramError):
        body["compilation_errors"] = [{"Msg": failure.message, "Pos": failure.begin, "End": failure.end}]
    details = details_of(failure) if isinstance(failure, InvalidInput) else []
    if details:
        body["details"] = details
    commit = getattr(failure, "commit", None)
    if commit is not None:
        body["commit"] = commit
    return body


def respond(failure: ShoalError, text: str) -> Response:
    """The answer to a request that failed, with the text that its caller may see."""
    headers = {"Shoal-Error": failure.kind}
    status = status_of(failure)
    if status in (429, 503):
        headers["Retry-After"] = str(_RETRY_SECONDS)
    if status == 401:
        headers["WWW-Authenticate"] = "Bearer"
    body = json.dumps(describe(failure, text), ensure_ascii=False, separators=(",", ":")) + "\n"
    return Response(body, status, headers, "application/json")


def public_text(failure: ShoalError, lake: str) -> str:
    """The text of an error without paths of the service's machine. Objects of the lake are named relative to it."""
    text = str(failure)
    for root in (lake, lake.removeprefix("file://")):
        text = text.replace(f"{root}/", "").replace(root, "the lake")
    return _ABSOLUTE_PATH.sub(r"\1", text) if status_of(failure) >= 500 else text
