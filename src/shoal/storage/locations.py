"""Locations in a cloud: scheme, bucket and prefix. Nothing in a URI is ever unescaped."""

from __future__ import annotations

import re

from shoal.errors import InvalidInput, Unsupported
from shoal.extras import require
from shoal.model.node import frozen

CLOUDS = ("s3", "gs", "az")
_BUCKET = re.compile(r"[A-Za-z0-9$][A-Za-z0-9._-]*", re.ASCII)
_SEGMENT = re.compile(r"(?!\.)[\w.=+@-]+", re.ASCII)
_LONGEST_PREFIX = 120
"""A key has up to 900 bytes, and clouds accept names of up to 1024."""


@frozen
class Location:
    """A bucket, or a prefix in it. Azure calls a bucket a container."""

    scheme: str
    bucket: str
    prefix: str = ""
    """Without a slash at either end; empty for the whole bucket."""

    @property
    def uri(self) -> str:
        """The canonical URI."""
        return f"{self.scheme}://{self.name_of(self.bucket, self.prefix)}"

    def path(self, key: str) -> str:
        """The name of an object in the bucket."""
        return self.name_of(self.prefix, key)

    @staticmethod
    def name_of(*parts: str) -> str:
        """Join the parts of a name that are not empty."""
        return "/".join(part for part in parts if part)


def parse_location(uri: str) -> Location:
    """Parse the URI of a cloud location; trailing slashes are ignored."""
    scheme, _, rest = uri.partition("://")
    bucket, _, prefix = rest.partition("/")
    location = Location(scheme.lower(), bucket, prefix.rstrip("/"))
    if location.scheme not in CLOUDS or not _BUCKET.fullmatch(bucket):
        raise InvalidInput(f"{public_name(uri)}: no bucket given (write {location.scheme}://bucket/prefix)")
    if len(location.prefix) > _LONGEST_PREFIX:
        raise InvalidInput(f"{uri}: the prefix is too long (at most {_LONGEST_PREFIX} characters)")
    if location.prefix and not all(map(_SEGMENT.fullmatch, location.prefix.split("/"))):
        raise InvalidInput(
            f"{public_name(uri)}: invalid prefix (letters, digits and _ . = + @ - between single slashes,"
            " no part that begins with a dot)"
        )
    return location


def public_name(url: str) -> str:
    """A URL without its password, for messages."""
    user, at, host = url.partition("://")[2].partition("/")[0].rpartition("@")
    name, colon, _ = user.partition(":")
    return url.replace(f"{user}{at}{host}", f"{name}:***@{host}", 1) if colon else url


def require_obstore(uri: str) -> None:
    """Unsupported if the library for clouds is not installed."""
    try:
        require("obstore")
    except Unsupported as e:
        raise Unsupported(f"{public_name(uri)}: {e}") from None
