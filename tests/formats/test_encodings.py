"""Text in other encodings reads like the same text in UTF-8."""

from __future__ import annotations

import io

import pytest

from shoal.api.options import ReadOptions
from shoal.errors import InvalidInput
from shoal.formats.columns.batches import values_of
from shoal.formats.detect import detect, read_pieces, read_source
from shoal.formats.encodings import as_utf8
from shoal.formats.splits import read_split, split
from shoal.formats.streams import CHUNK, NAME_ENCODING, peekable
from shoal.formats.zng import stream as zng
from shoal.model.text import format_value
from shoal.testing.samples import written

TEXTS = {
    "csv": "name,town\nJosé,Köln\nZoë,Århus\n",
    "tsv": "name\ttown\nJosé\tKöln\n",
    "json": '{"name":"José","town":"Köln"}\n{"name":"Zoë"}\n',
    "zson": '{name:"José",ip:10.0.0.1}\n',
    "zeek": "#separator \\x09\n#fields\tname\n#types\tstring\nJosé\n",
}


class Pipe(io.BytesIO):
    def seekable(self) -> bool:
        return False


def texts(data: bytes, name: str = "auto", encoding: str | None = None) -> list[str]:
    """The values as text, read in all ways, which have to agree."""
    options = ReadOptions(encoding=encoding)
    rows = [format_value(value) for value in read_source(io.BytesIO(data), name, options)]
    assert rows == [format_value(value) for value in read_source(Pipe(data), name, options)]
    assert rows == [format_value(value) for value in values_of(read_pieces(Pipe(data), name, options))]
    return rows


@pytest.mark.parametrize("name", [*TEXTS, "line"])
@pytest.mark.parametrize("encoding", ["latin-1", "cp1252", "utf-16", "utf-16-le", "utf-16-be", "utf-32", "utf-8-sig"])
def test_text_in_a_named_encoding_reads_like_utf8(name: str, encoding: str) -> None:
    text = TEXTS.get(name, "José\nKöln\n")
    expected = texts(text.encode(), name)
    assert any("é" in each for each in expected)
    assert texts(text.encode(encoding), name, encoding) == expected
    if name != "line":
        assert texts(text.encode(encoding), "auto", encoding) == expected


@pytest.mark.parametrize("name", [*TEXTS, "line"])
@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be", "utf-32-le", "utf-32-be"])
def test_a_byte_order_mark_names_the_encoding(name: str, encoding: str) -> None:
    text = TEXTS.get(name, "José\n")
    data = "\ufeff".encode(encoding) + text.encode(encoding)
    assert texts(data, name) == texts(text.encode(), name)
    if name != "line":
        assert texts(data) == texts(text.encode(), name)
    assert texts(data, name, encoding) == texts(text.encode(), name)


def test_the_encoding_matters_for_text_alone() -> None:
    values = list(read_source(io.BytesIO(TEXTS["json"].encode())))
    data = written(zng.Writer, values)
    assert texts(data, "zng", "utf-16") == texts(data, "zng")
    entry, _ = detect(io.BytesIO(b"VNG\0" + bytes(100)), ReadOptions(encoding="latin-1"))
    assert entry.name == "vng"


@pytest.mark.parametrize(
    "data, encoding, message",
    [
        ("é\n".encode() * 3 + b"\xff\n", "ascii", "line 1: invalid ascii (ordinal not in range(128))"),
        (b"\xff\xfea\0\n\0b\0\0\xdc", None, "line 2: invalid utf-16 (illegal encoding)"),
        (b"\xff\xfea\0\n\0b\0c", None, "line 2: invalid utf-16 (truncated data)"),
        (
            "あ\nい\n".encode("shift_jis") + b"\xff",
            "shift_jis",
            "line 3: invalid shift_jis (illegal multibyte sequence)",
        ),
    ],
)
def test_bytes_that_are_not_of_the_encoding_are_refused_with_their_line(
    data: bytes, encoding: str | None, message: str
) -> None:
    with pytest.raises(InvalidInput) as caught:
        list(read_source(io.BytesIO(data), "line", ReadOptions(encoding=encoding)))
    assert str(caught.value) == f"{message} {NAME_ENCODING}"


def test_the_line_of_an_error_counts_over_chunks() -> None:
    text = "x" * 9 + "\n"
    data = b"\xfe\xff" + (text * CHUNK).encode("utf-16-be") + b"\xdc\x00\x00a"
    with pytest.raises(InvalidInput, match=f"^line {CHUNK + 1}: invalid utf-16"):
        for _ in read_source(io.BytesIO(data), "line"):
            pass


def test_utf8_is_left_alone() -> None:
    source = peekable(io.BytesIO(b"abc"))
    for encoding in (None, "utf-8", "UTF8"):
        assert as_utf8(source, encoding) is source


@pytest.mark.parametrize("name", ["json", "ndjson", "csv", "tsv", "zson", "line"])
def test_invalid_utf8_tells_the_way_out(name: str) -> None:
    text = '{"a":"é"}' if "json" in name or name == "zson" else "a,b\tc\né,1\t2\n"
    with pytest.raises(InvalidInput, match=r"invalid UTF-8 .*name it: -encoding latin-1\)"):
        list(read_source(io.BytesIO(text.encode("latin-1")), name))
    with pytest.raises(InvalidInput, match=r"name it: -encoding latin-1\)"):
        list(read_source(io.BytesIO(text.encode("latin-1"))))


@pytest.mark.parametrize("name", ["latin-0", "", "base64", "rot13", "punycode", "idna", "a\0b", "unicode_escape", "nö"])
def test_what_is_not_an_encoding_of_text_is_refused(name: str) -> None:
    with pytest.raises(InvalidInput, match=r"^encoding: .* is not known \(such as utf-8, utf-16, latin-1"):
        ReadOptions(encoding=name)


def test_a_file_in_another_encoding_is_not_split() -> None:
    text = "name\n" + "José\n" * 1000
    for data, encoding in ((text.encode("latin-1"), "latin-1"), (text.encode("utf-16"), None)):
        options = ReadOptions(encoding=encoding)
        for name in ("auto", "csv"):
            (part,) = split(io.BytesIO(data), "csv", options, 100)
            assert part.is_whole, name
        assert len(list(values_of(read_split(io.BytesIO(data), part, options)))) == 1000
    assert len(split(io.BytesIO(text.encode()), "csv", ReadOptions(encoding="utf-8"), 1000)) > 1
