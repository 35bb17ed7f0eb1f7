"""Pages of the web in a browser on this machine: they reach a service on a loopback address, where nobody asks them.

A page may send some requests anywhere, whatever comes of them, and it may have its own name lead to this machine. So
where no token is asked for, a request has to name this machine, and the page that it comes from has to be known.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from urllib.parse import urlsplit

from shoal.errors import Forbidden
from shoal.service.auth.settings import is_loopback

ANY = "*"
_HOST = re.compile(r"(\[[0-9a-fA-F:.]+\]|[\w.-]+)(?::\d+)?", re.ASCII)
"""Nothing else than a host and its port: `localhost/@example.com` is neither."""


def origin_pattern(origins: Collection[str]) -> str:
    """The regular expression of known origins. In `https://*.example.com` the `*` stands for any name."""
    alternatives = ("[^/]*".join(map(re.escape, origin.split(ANY))) for origin in origins if origin)
    return f"(?i:{'|'.join(alternatives) or '(?!)'})"


def require_own(headers: Mapping[str, str], origins: Collection[str]) -> None:
    """Forbidden if a request may come from a page that is neither of a known origin nor of this service itself."""
    if ANY in origins:
        return
    host, origin = headers.get("host", ""), headers.get("origin")
    written = _HOST.fullmatch(host)
    name = "" if written is None else written[1]
    if not is_loopback(name) and not re.fullmatch(origin_pattern([_host(known) for known in origins]), name):
        raise Forbidden(f"{host[:100]!r} is not a name of this machine (use localhost, or name it with: -cors.origin)")
    if origin is None or re.fullmatch(origin_pattern(origins), origin):
        return
    if origin.partition("://")[2] != host:
        raise Forbidden(f"pages of {origin[:100]!r} may not call this service (allow them with: -cors.origin)")


def _host(url: str) -> str:
    """The host of a URL; "" if it has none."""
    try:
        return urlsplit(url).hostname or ""
    except ValueError:
        return ""
