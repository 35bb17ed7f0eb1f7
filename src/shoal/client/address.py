"""Where a service is: its URL, written in one way, and the paths of what it serves."""

from __future__ import annotations

import re
from collections.abc import Mapping
from itertools import pairwise
from typing import TYPE_CHECKING
from urllib.parse import quote, urlencode, urlsplit

from shoal.errors import InvalidInput, NotFound, ShoalError
from shoal.lazy import lazy

if TYPE_CHECKING:
    import socket

    from shoal.sources import http
else:
    socket = lazy("socket")
    http = lazy("shoal.sources.http")

_SOON = 0.5
"""Seconds in which a service on this machine answers."""
_LARGEST_VERSION = 64 << 10
_SERVICE = re.compile(r"https?://", re.IGNORECASE)


def is_service(uri: str) -> bool:
    """Whether a lake is behind a service."""
    return _SERVICE.match(uri) is not None


def service_url(uri: str) -> str:
    """The URL of a service in the one way to write it, with no slash at the end."""
    try:
        parts = urlsplit(uri)
        host, port = parts.hostname, parts.port
    except ValueError:
        raise InvalidInput(f"{uri}: not the URL of a service (such as http://localhost:9867)") from None
    if parts.username is not None or parts.password is not None:
        raise InvalidInput("do not put secrets into a URL (keep a token with: shoal auth store)")
    if not is_service(uri) or not host or parts.query or parts.fragment:
        raise InvalidInput(f"{uri}: not the URL of a service (such as http://localhost:9867)")
    authority = f"[{host}]" if ":" in host else host
    path = quote(parts.path.rstrip("/"), safe="/%~")
    return f"{parts.scheme.lower()}://{authority}{'' if port is None else f':{port}'}{path}"


def answers(url: str) -> bool:
    """Whether a service answers within half a second. The HTTP library is loaded only if something listens there."""
    parts = urlsplit(url)
    try:
        socket.create_connection((parts.hostname or "", parts.port or 80), _SOON).close()
        http.fetch(f"{url}/version", _SOON, _LARGEST_VERSION)
    except (OSError, ShoalError):
        return False
    return True


def make_path(*names: str) -> str:
    """The path of something: each name is one segment, whatever is in it, and says what follows it."""
    for kind, name in pairwise(names):
        if not name:
            raise NotFound(f'"": {kind} not found')
    return "".join(f"/{quote(name, safe='')}" for name in names)


def make_query(choices: Mapping[str, str | None]) -> str:
    """What follows the path; choices that are None are left out."""
    chosen = {name: value for name, value in choices.items() if value is not None}
    return f"?{urlencode(chosen)}" if chosen else ""
