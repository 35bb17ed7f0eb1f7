"""Where a service is: its URL, written in one way, and the paths of what it serves."""

from __future__ import annotations

import re
from collections.abc import Mapping
from urllib.parse import quote, urlencode, urlsplit

from shoal.errors import InvalidInput

_SERVICE = re.compile(r"https?://", re.IGNORECASE)


def is_service(uri: str) -> bool:
    """Whether a lake is behind a service."""
    return _SERVICE.match(uri) is not None


def service_url(uri: str) -> str:
    """The URL of a service in the one way to write it, with no slash at the end."""
    try:
        parts = urlsplit(uri)
        host, port = parts.hostname, parts.port
    except ValueError as e:
        raise InvalidInput(f"{uri}: not the URL of a service: {e}") from None
    if parts.username is not None or parts.password is not None:
        raise InvalidInput(f"{parts.scheme}://{host}: a URL holds no secrets (put a token into SHOAL_TOKEN)")
    if not host or parts.query or parts.fragment:
        raise InvalidInput(f"{uri}: not the URL of a service (such as http://localhost:9867)")
    place = f"[{host}]" if ":" in host else host
    path = quote(parts.path.rstrip("/"), safe="/%~")
    return f"{parts.scheme.lower()}://{place}{'' if port is None else f':{port}'}{path}"


def make_path(*names: str) -> str:
    """The path of something: each name is one segment, whatever is in it."""
    return "".join(f"/{quote(name, safe='')}" for name in names)


def make_query(choices: Mapping[str, str | None]) -> str:
    """What follows the path; choices that are None are left out."""
    chosen = {name: value for name, value in choices.items() if value is not None}
    return f"?{urlencode(chosen)}" if chosen else ""
