"""Data on its way to a service takes little memory, and can be sent again."""

from __future__ import annotations

import io
import tracemalloc
from collections.abc import Iterator
from dataclasses import fields, replace
from pathlib import Path

import pytest

import shoal
from shoal.api.options import ReadOptions, decode_read_options, encode_read_options, read_params
from shoal.client import uploads
from shoal.client.uploads import Upload, make_uploads
from shoal.errors import InvalidInput
from shoal.formats.zng import stream as zng
from shoal.testing.services import Served

MANY = 64 << 20


class Pipe(io.RawIOBase):
    """Bytes that can be read once, made when they are read."""

    def __init__(self, size: int) -> None:
        self._left = size

    def read(self, size: int = -1) -> bytes:
        size = min(size, self._left)
        self._left -= size
        return bytes(size)


def made(data: object, format_name: str = "auto") -> Upload:
    (upload,) = make_uploads(data, format_name, ReadOptions())
    return upload


def peak_of(upload: Upload) -> tuple[int, int]:
    """Bytes that went, and the most memory that was taken meanwhile."""
    tracemalloc.start()
    try:
        size = sum(map(len, upload.open()))
        return size, tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_a_file_is_read_while_it_is_sent(tmp_path: Path) -> None:
    path = tmp_path / "big"
    with path.open("wb") as file:
        file.truncate(MANY)
    upload = made(path)
    for _ in range(2):
        assert upload.can_repeat
        size, peak = peak_of(upload)
        assert size == MANY
        assert peak < 4 << 20
        assert upload.is_sent


def test_a_pipe_is_kept_on_disk_and_sent_again(monkeypatch: pytest.MonkeyPatch) -> None:
    upload = made(Pipe(MANY))
    first, peak = peak_of(upload)
    again, peak_again = peak_of(upload)
    assert first == again == MANY
    assert max(peak, peak_again) < 24 << 20
    assert upload.can_repeat
    upload.close()
    monkeypatch.setattr(uploads, "_KEPT", MANY - 1)
    large = made(Pipe(MANY))
    assert sum(map(len, large.open())) == MANY
    assert not large.can_repeat
    large.close()


def test_a_pipe_that_broke_off_goes_on_where_it_was() -> None:
    upload = made(Pipe(3 << 20))
    begun = upload.open()
    next(begun)
    next(begun)
    del begun
    assert not upload.is_sent
    assert sum(map(len, upload.open())) == 3 << 20
    upload.close()


def test_values_of_any_number_are_made_while_they_are_sent() -> None:
    def records() -> Iterator[dict[str, object]]:
        for i in range(50_000):
            yield {"ts": i, "text": f"{i * 7919:050d}"}

    upload = made(records())
    size, peak = peak_of(upload)
    assert peak < 12 << 20
    assert size > 1 << 19
    data = b"".join(upload.open())
    assert len(data) == size
    assert sum(1 for _ in zng.read(io.BytesIO(data))) == 50_000
    upload.close()


@pytest.mark.parametrize(
    ("data", "count"),
    [([], 1), ([{"a": 1}, {"a": 2}], 1), ([b"1", b"2"], 2), ([{"a": 1}, b"1", {"a": 2}], 3), (b"", 1)],
)
def test_files_go_by_themselves_and_values_together(data: object, count: int) -> None:
    found = make_uploads(data, "auto", ReadOptions())
    assert len(found) == count
    for upload in found:
        assert b"" not in list(upload.open())
        upload.close()


def test_every_read_option_reaches_the_service(empty_service: Served) -> None:
    """A new field of ReadOptions needs a value here, and travels by its declaration."""
    options = ReadOptions(
        csv_delimiter=";",
        encoding="latin-1",
        csv_infer="text",
        csv_types="a=int64",
        csv_null="NA,-",
        csv_header="first",
        csv_quote="'",
        csv_comment="#",
        csv_skip=1,
        csv_encoding="latin-1",
        csv_ragged="fill",
        bad="skip",
        json_array="value",
        arrow_types="zed",
        zng_validate=False,
        max_value_size=1 << 20,
        max_memory=1 << 28,
        max_ratio=100,
        threads=2,
    )
    assert all(getattr(options, f.name) != f.default for f in fields(ReadOptions))
    assert all(f.metadata["param"] in read_params() for f in fields(ReadOptions))
    params = {name: text for name, text in encode_read_options(options).items() if text is not None}
    assert replace(decode_read_options(params), threads=2) == options
    assert set(encode_read_options(ReadOptions()).values()) == {None}

    pool = shoal.open(empty_service.url).create("options", key="a")
    table = "skipped\na;b\n#\n1;'ä;2'\n007;-;x\nbad\n".encode("latin-1")
    pool.load(table, format="csv", options=options)
    assert shoal.open(empty_service.url).query("from options | sort a").to_list() == [
        {"a": 1, "b": "ä;2", "c2": None},
        {"a": 7, "b": None, "c2": "x"},
    ]
    assert (pool.report().bad, pool.report().skipped) == (1, 1)
    large = b'{a:"' + b"x" * (2 << 20) + b'"}'
    with pytest.raises(InvalidInput):
        pool.load(large, format="zson", options=options)
    with pytest.raises(InvalidInput, match="one value would take more than 32 MiB"):
        pool.load(b"[" + b"1," * 600_000 + b"1]", format="zson", options=ReadOptions(max_memory=64 << 20))
    with pool.transaction() as transaction:
        transaction.load(b"\na;b\n3;4\n", format="csv", options=options)
        with pytest.raises(InvalidInput):
            transaction.load(large, format="zson", options=options)
    assert len(shoal.open(empty_service.url).query("from options").to_list()) == 3


@pytest.mark.parametrize(
    ("name", "text"), [("csv.delim", ";;"), ("zng.readmax", "0"), ("zng.threads", "x"), ("zng.validate", "maybe")]
)
def test_read_options_of_a_wrong_kind_are_refused(name: str, text: str) -> None:
    with pytest.raises(InvalidInput, match=f"invalid value '{text}' for parameter {name}"):
        decode_read_options({name: text})


def test_numbers_of_read_options_have_limits() -> None:
    options = decode_read_options({"zng.readmax": "9" * 30, "zng.threads": "9" * 30})
    assert options.max_value_size == ReadOptions().max_value_size
    assert options.threads <= 4096
