"""Web pages of others: a browser sends their requests to this machine as well, also where nobody is asked for a token.

A page of another origin says so in `Origin`, and one whose name was pointed at this machine (DNS rebinding) asks for
that name in `Host`. A service without authentication answers neither, unless the origin was allowed.
"""

from __future__ import annotations

import re
from collections.abc import Collection

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from shoal.errors import Forbidden
from shoal.service import failures
from shoal.service.auth.settings import is_loopback

_ANY = "*"
_HOST = re.compile(r"(\[[0-9a-fA-F:.]+\]|[\w.-]+)(?::\d+)?", re.ASCII)


class NoForeignPages:
    """Lets through what is no request of a page that is not allowed."""

    def __init__(self, app: ASGIApp, origins: Collection[str]) -> None:
        self._app = app
        self._origins = origins

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            try:
                _require_own(Headers(scope=scope), self._origins)
            except Forbidden as e:
                await failures.respond(e)(scope, receive, send)
                return
        await self._app(scope, receive, send)


def _require_own(headers: Headers, origins: Collection[str]) -> None:
    host, origin = headers.get("host", ""), headers.get("origin")
    if _ANY in origins or origin in origins:
        return
    if not is_loopback(_name(host)):
        raise Forbidden(
            f"{host[:200]!r} is no name of this machine, and nobody is asked for a token here "
            "(ask for localhost, or start the service with -auth.enabled)"
        )
    if origin is not None and origin.partition("://")[2] != host:
        raise Forbidden(f"pages of {origin[:200]!r} may not call this service (allow them with: -cors.origin ORIGIN)")


def _name(host: str) -> str:
    """The host without its port; "" if that is not how a host is written."""
    found = _HOST.fullmatch(host)
    return "" if found is None else found[1]
