"""Objects of a bucket by plain requests to the server: what the damage is done with, and what the checker reads."""

from __future__ import annotations

import re
from html import unescape
from http.client import HTTPConnection
from pathlib import Path
from urllib.parse import quote, urlsplit

_SIGNED = {"Authorization": "AWS4-HMAC-SHA256 Credential=storm/20260101/us-east-1/s3/aws4_request, Signature=0"}
"""The server checks that there is a signature, and no more."""


def copy_bucket(endpoint: str, bucket: str, prefix: str, folder: Path) -> None:
    """Write each object below a prefix to a file."""
    connection = HTTPConnection(urlsplit(endpoint).netloc, timeout=60)
    token = ""
    while True:
        after = f"&continuation-token={quote(token, safe='')}" if token else ""
        page = request(connection, "GET", f"/{bucket}?list-type=2&prefix={quote(prefix, safe='')}{after}").decode()
        for key in map(unescape, re.findall("<Key>(.*?)</Key>", page)):
            path = folder / key.removeprefix(prefix)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(request(connection, "GET", f"/{bucket}/{quote(key)}"))
        match = re.search("<NextContinuationToken>(.*?)</NextContinuationToken>", page)
        if match is None:
            break
        token = unescape(match[1])
    connection.close()


def request(connection: HTTPConnection, method: str, path: str, body: bytes = b"") -> bytes:
    """The body of a response; ConnectionError if it is an error."""
    connection.request(method, path, body, _SIGNED)
    response = connection.getresponse()
    data = response.read()
    if response.status >= 300:
        raise ConnectionError(f"{method} {path}: {response.status}")
    return data
