"""Where a lake lies in a cloud: scheme, bucket and prefix. Nothing in a URI is ever unescaped."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from shoal.errors import InvalidInput, Unsupported
from shoal.model.node import frozen

CLOUDS = ("s3", "gs", "az")
_BUCKET = re.compile(r"[A-Za-z0-9$][A-Za-z0-9._-]*", re.ASCII)
_SEGMENT = re.compile(r"(?!\.)[\w.=+@-]+", re.ASCII)
_LONGEST_PREFIX = 120
"""A key has up to 900 bytes, and no cloud takes a name of more than 1024."""


@frozen
class Location:
    """A bucket, or what begins with a prefix in it. Azure calls a bucket a container."""

    scheme: str
    bucket: str
    prefix: str = ""
    """Without a slash at either end; empty for the whole bucket."""

    @property
    def uri(self) -> str:
        """The one way to write it."""
        return f"{self.scheme}://{self.name_of(self.bucket, self.prefix)}"

    def path(self, key: str) -> str:
        """The name of an object in the bucket."""
        return self.name_of(self.prefix, key)

    @staticmethod
    def name_of(*parts: str) -> str:
        """Parts of a name put together, without the empty ones."""
        return "/".join(part for part in parts if part)


def parse_location(uri: str) -> Location:
    """The location that a URI of a cloud names; slashes at its end mean nothing."""
    scheme, _, rest = uri.partition("://")
    bucket, _, prefix = rest.partition("/")
    location = Location(scheme.lower(), bucket, prefix.rstrip("/"))
    if location.scheme not in CLOUDS or not _BUCKET.fullmatch(bucket):
        raise InvalidInput(f"{public_name(uri)}: names no bucket (write {location.scheme}://bucket/prefix)")
    if len(location.prefix) > _LONGEST_PREFIX:
        raise InvalidInput(f"{uri}: a prefix has at most {_LONGEST_PREFIX} characters")
    if location.prefix and not all(map(_SEGMENT.fullmatch, location.prefix.split("/"))):
        raise InvalidInput(
            f"{public_name(uri)}: not a prefix (letters, digits and _ . = + @ - between single slashes,"
            " no part that begins with a dot)"
        )
    return location


def public_name(url: str) -> str:
    """A URL as it may be shown: without a password."""
    user, at, place = url.partition("://")[2].partition("/")[0].rpartition("@")
    name, colon, _ = user.partition(":")
    return url.replace(f"{user}{at}{place}", f"{name}:***@{place}", 1) if colon else url


@contextmanager
def needing_obstore(uri: str) -> Iterator[None]:
    """Name the package to install if the library for clouds is missing."""
    try:
        yield
    except ModuleNotFoundError as e:
        if e.name != "obstore":
            raise
        raise Unsupported(f"{public_name(uri)}: needs the package obstore (pip install 'shoal[s3]')") from None
