"""What a body holds: without its compression, within its limit, on disk where that is needed."""

from __future__ import annotations

import gzip
import io
import zipfile
from typing import Any

import pytest

from shoal.errors import InvalidInput, TooLarge
from shoal.service.bodies import plain


class Arriving(io.BytesIO):
    def seekable(self) -> bool:
        return False


def body(data: bytes) -> Any:
    return Arriving(data)


def zipped(data: bytes) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a.txt", data)
    return out.getvalue()


def test_an_archive_is_put_on_disk_as_it_is() -> None:
    data = zipped(b"x" * 1000)
    file = plain(body(data), "", 1000, 500)
    assert file.seekable()
    assert file.read() == data


def test_an_archive_may_hold_as_much_as_a_body_may_have() -> None:
    with pytest.raises(TooLarge, match="the body of the request holds more than 999 bytes"):
        plain(body(zipped(b"x" * 1000)), "", 999, 500)


def test_compressed_data_may_hold_as_much_as_a_body_may_have() -> None:
    source = plain(body(gzip.compress(b"x" * 1000)), "", 999, 500)
    with pytest.raises(TooLarge, match="the body of the request holds more than 999 bytes"):
        source.read()


def test_one_layer_of_compression_is_taken_off() -> None:
    with pytest.raises(InvalidInput, match="gzip: holds compressed data, and only one layer"):
        plain(body(gzip.compress(gzip.compress(b"x"))), "", 1000, 500)
    with pytest.raises(InvalidInput, match="gzip: holds compressed data, and only one layer"):
        plain(body(gzip.compress(zipped(b"x"))), "gzip", 1000, 500)
