"""Zip archives: their members are read one after the other, and nothing that a member claims is believed."""

from __future__ import annotations

import io
import struct
import warnings
import zipfile
from collections.abc import Mapping

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from shoal.api.options import MIB, ReadOptions
from shoal.errors import InvalidInput
from shoal.formats import compression
from shoal.formats.archives import Archive
from shoal.formats.columns.batches import values_of
from shoal.formats.detect import read_pieces, read_source
from shoal.formats.splits import read_split, split
from shoal.model.text import format_value


class Pipe(io.BytesIO):
    def seekable(self) -> bool:
        return False


def zipped(members: Mapping[str, bytes | str], method: int = zipfile.ZIP_DEFLATED) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", method) as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return out.getvalue()


def texts(data: bytes, name: str = "auto", options: ReadOptions = ReadOptions()) -> list[str]:
    """The values as text, read in all ways, which have to agree."""
    rows = [format_value(value) for value in read_source(io.BytesIO(data), name, options)]
    assert rows == [format_value(value) for value in read_source(Pipe(data), name, options)]
    assert rows == [format_value(value) for value in values_of(read_pieces(io.BytesIO(data), name, options))]
    return rows


def refusal(data: bytes, name: str = "auto", options: ReadOptions = ReadOptions()) -> str:
    with pytest.raises(InvalidInput) as caught:
        for _ in read_source(io.BytesIO(data), name, options):
            pass
    assert "\n" not in str(caught.value).partition(" (if it is ")[0]
    return str(caught.value)


@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
def test_members_are_read_one_after_the_other(method: int) -> None:
    assert texts(zipped({"a.csv": "a,b\nx,y\n", "b.csv": "a,b\nz,w\n"}, method)) == ['{a:"x",b:"y"}', '{a:"z",b:"w"}']
    assert texts(zipped({"x/a.json": '{"a":1}', "x/b.json": '{"b":2}'}, method)) == ["{a:1}", "{b:2}"]
    assert texts(zipped({"a.log": "one\n"}, method), "line") == ['"one"']
    assert texts(zipped({})) == []


def test_directories_blank_members_and_what_macos_adds_are_left_out() -> None:
    names = {"data/": "", "data/empty.csv": " \n", "data/a.csv": "a,b\nx,y\n"}
    assert texts(zipped({**names, "__MACOSX/data/._a.csv": b"\0\x05", "data/.DS_Store": b"\0\0"})) == ['{a:"x",b:"y"}']


def test_members_that_need_to_seek_are_put_on_disk() -> None:
    out = io.BytesIO()
    pq.write_table(pa.table({"a": [1]}), out)
    assert texts(zipped({"a.parquet": out.getvalue(), "b.parquet": out.getvalue()})) == ["{a:1}", "{a:1}"]


def test_members_have_an_encoding() -> None:
    packed = zipped({"a.csv": "a,b\né,y\n".encode("latin-1"), "b.csv": "a,b\nè,y\n".encode("latin-1")})
    assert texts(packed, options=ReadOptions(encoding="latin-1")) == ['{a:"é",b:"y"}', '{a:"è",b:"y"}']
    assert texts(zipped({"a.json": '{"a":"é"}'.encode("utf-16")})) == ['{a:"é"}']


def test_members_of_several_formats_are_refused_unless_one_is_named() -> None:
    packed = zipped({"a.csv": "a,b\nx,y\n", "b.json": '{"a":1}'})
    assert refusal(packed) == "zip: b.json: is json, but a.csv is csv (unpack the archive)"
    assert texts(packed, "line") == ['"a,b"', '"x,y"', '"{\\"a\\":1}"']


def test_errors_name_the_member_and_the_line() -> None:
    packed = zipped({"a.json": '{"a":1}\n', "b.json": '{"a":1}\noops\n'})
    assert refusal(packed, "json").startswith("zip: b.json: line 2, column 1: ")


@pytest.mark.parametrize("name", ["a.zip", "a.csv.gz"])
def test_archives_in_archives_are_refused(name: str) -> None:
    inner = zipped({"a.csv": "a,b\n1,2\n"}) if name == "a.zip" else b"\x1f\x8b\x08" + bytes(20)
    assert refusal(zipped({name: inner})) == (
        f"zip: {name}: holds compressed data, and only one layer of compression is read (unpack it first)"
    )


def test_encrypted_members_are_refused() -> None:
    packed = bytearray(zipped({"a.csv": "a,b\n1,2\n"}))
    for start in (packed.index(b"PK\x03\x04") + 6, packed.index(b"PK\x01\x02") + 8):
        packed[start] |= 1
    assert refusal(bytes(packed)) == "zip: a.csv: encrypted (decrypt it first)"


@pytest.mark.parametrize("method", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_rare_methods_are_refused(method: int) -> None:
    expected = f"zip: a.csv: compression method {method} (only stored and deflated members are read)"
    assert refusal(zipped({"a.csv": "a,b\n1,2\n" * 100}, method)) == expected


def test_an_office_document_is_named() -> None:
    assert refusal(zipped({"[Content_Types].xml": "<x/>", "xl/workbook.xml": "<x/>"})) == (
        "zip: an Office document, not an archive of data (save its data as CSV)"
    )


def test_damage_is_an_error() -> None:
    packed = zipped({"a.json": '{"a":1}\n' * 100}, zipfile.ZIP_STORED)
    assert refusal(packed[:-30]).startswith("zip: ")
    assert refusal(packed.replace(b'{"a":1}', b'{"a":2}', 1)) == "zip: a.json: Bad CRC-32 for file 'a.json'"
    assert refusal(b"PK\x03\x04" + bytes(100)) == "zip: File is not a zip file"


def test_damaged_archives_give_values_or_a_typed_error() -> None:
    packed = zipped({"a.json": '{"a":1}\n' * 20, "b/c.json": '{"a":"xyz"}\n' * 20})
    refused = 0
    for i in range(len(packed)):
        for byte in (0, 0xFF, packed[i] ^ 1):
            try:
                for value in read_source(io.BytesIO(packed[:i] + bytes((byte,)) + packed[i + 1 :]), "json"):
                    format_value(value)
            except InvalidInput as e:
                refused += 1
                assert str(e)
    assert refused > 100


def test_a_bomb_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compression, "FREE", MIB)
    packed = zipped({"a.txt": bytes(16 * MIB)})
    text = refusal(packed, "line", ReadOptions(max_ratio=100))
    assert text.startswith("zip: a.txt: deflate: expands more than 100 times, like a decompression bomb (raise -read")
    assert texts(zipped({"a.txt": b"1\n" * MIB}), "line", ReadOptions(max_ratio=1030))[:1] == ['"1"']


def test_members_that_share_their_bytes_count_each(monkeypatch: pytest.MonkeyPatch) -> None:
    """A directory may name the same bytes over and over."""
    monkeypatch.setattr(compression, "FREE", MIB)
    kernel = zipped({"a.txt": b"x" * 999 + b"\n"}, zipfile.ZIP_STORED)
    start = kernel.index(b"PK\x01\x02")
    entry = kernel[start : kernel.index(b"PK\x05\x06")]
    end = struct.pack("<4s4H2LH", b"PK\x05\x06", 0, 0, 30_000, 30_000, 30_000 * len(entry), start, 0)
    text = refusal(kernel[:start] + entry * 30_000 + end, "line", ReadOptions(max_ratio=10))
    assert "deflate: expands more than 10 times" in text or "Overlapped entries" in text


def test_a_directory_that_would_take_too_much_memory_is_refused() -> None:
    out = io.BytesIO()
    with warnings.catch_warnings(), zipfile.ZipFile(out, "w") as archive:
        warnings.simplefilter("ignore")
        for _ in range(25_000):
            archive.writestr("a", b"")
    text = refusal(out.getvalue(), "line", ReadOptions(max_memory=32 * MIB))
    assert text.startswith("zip: a directory of 1175000 bytes would take more than 16 MiB of memory")


def test_the_size_of_the_members_is_known_before_they_are_read() -> None:
    packed = zipped({"a.txt": bytes(1000), "b/": b"", "b/c.txt": bytes(500)})
    assert Archive(io.BytesIO(packed), ReadOptions()).size == 1500


def test_an_archive_is_not_split() -> None:
    packed = zipped({"a.csv": "a,b\n" + "x,y\n" * 1000}, zipfile.ZIP_STORED)
    (part,) = split(io.BytesIO(packed), "auto", ReadOptions(), 100)
    assert part.is_whole
    assert len(list(values_of(read_split(io.BytesIO(packed), part, ReadOptions())))) == 1000
