from __future__ import annotations

import gzip
import io

import pytest

from shoal.errors import InvalidInput, details_of
from shoal.formats import registry
from shoal.formats.detect import detect, read_source
from shoal.formats.streams import WriteOptions
from shoal.model.parse import parse_value
from shoal.model.text import format_value
from shoal.testing.files import FILES

RECORDS = [parse_value("{a:1,b:2}"), parse_value("{a:3,b:4}")]


class Pipe(io.BytesIO):
    def seekable(self) -> bool:
        return False


@pytest.mark.parametrize(
    "name", ["zson", "zng", "json", "zjson", "vng", "csv", "tsv", "zeek", "parquet", "arrow", "arrows"]
)
def test_what_a_writer_wrote_is_recognised(name: str) -> None:
    out = io.BytesIO()
    writer = registry.by_name(name).load_writer()(out, WriteOptions())
    for record in RECORDS:
        writer.write(record)
    writer.close()
    found, source = detect(io.BytesIO(out.getvalue()))
    assert found.name == name
    assert source.read(4) == out.getvalue()[:4]
    if name not in ("vng", "parquet", "arrow"):
        assert detect(Pipe(out.getvalue()))[0].name == name


@pytest.mark.parametrize("name", FILES)
def test_files_of_other_programs_are_recognised(name: str) -> None:
    assert detect(io.BytesIO(FILES[name]))[0].name == name
    if not registry.by_name(name).needs_seek:
        assert detect(Pipe(FILES[name]))[0].name == name


@pytest.mark.parametrize(
    "text, name",
    [
        (b'{"a":1}\n{"b":2}\n', "json"),
        (b'{"a":1}\n' * 10 + b"{a:1}\n", "json"),
        (b'{"a":1}\n' * 9 + b"{a:1}\n", "zson"),
        (b"1.2.3.4\n", "zson"),
        (b'{"type":{"kind":"primitive","name":"int64"},"value":"1"}\n', "zjson"),
        (b"a,b\n1,2\n", "csv"),
        (b"a\tb\n1\t2\n", "tsv"),
        (b"ORCID,name\n1,x\n", "csv"),
        (b"FEA1,name\n1,x\n", "csv"),
        (b"#\tYear\n1\t2019\n", "tsv"),
        (b"#fields a\n#types int\n1\n", "zeek"),
        (b"[1,\n2,\n3]", "json"),
        (b" " * 100_000 + b"{a:1}", "zson"),
        (b'"' + b"x" * 200_000 + b'"', "json"),
    ],
)
def test_text_is_recognised(text: bytes, name: str) -> None:
    assert detect(io.BytesIO(text))[0].name == name
    assert detect(Pipe(text))[0].name == name


@pytest.mark.parametrize(
    "text",
    [
        b'[{"a":1},{"a":2},{"a"',
        b"[1,2\n",
        b'{"a":1,"b":2\n{"a":2,"b":3}\n',
        b'{"a":1e999,"b":1 x',
    ],
)
def test_broken_json_is_not_taken_for_a_table(text: bytes) -> None:
    with pytest.raises(InvalidInput, match=r"^format detection error \(if it is json: "):
        list(read_source(io.BytesIO(text)))


def test_a_value_longer_than_any_look_is_still_recognised() -> None:
    text = b'{"a":"' + b"x" * 11_000_000 + b'"}\n{"a":"y"}\n'
    for source in (io.BytesIO(text), Pipe(text)):
        assert [len(v.data[0]) for v in read_source(source)] == [11_000_000, 1]


@pytest.mark.parametrize(
    "name, head", [("tar", bytes(257) + b"ustar\0"), ("7z", b"7z\xbc\xaf\x27\x1c\0"), ("rar", b"Rar!\x1a\x07\0")]
)
def test_archives_that_are_not_read_are_named(name: str, head: bytes) -> None:
    for source in (io.BytesIO(head), io.BytesIO(gzip.compress(head))):
        with pytest.raises(InvalidInput, match=f"^a {name} archive \\(unpack it first; zip archives are read"):
            read_source(source)


def test_empty_input_has_no_values() -> None:
    assert list(read_source(io.BytesIO(b""))) == []


def test_what_is_no_format_names_what_each_reader_missed() -> None:
    with pytest.raises(InvalidInput) as caught:
        detect(io.BytesIO(b"This is not a detectable format.\n"))
    line = str(caught.value)
    assert line.startswith("format detection error (if it is zson: line 1, column 1: expected a value")
    assert "\n" not in line
    (details,) = details_of(caught.value)
    assert [line.partition(":")[0].strip() for line in details.splitlines()] == sorted(
        [each for each in registry.readable() if each != "ndjson"]
    )


def test_detection_loses_nothing_of_a_pipe() -> None:
    text = b"".join(b"{n:%d}\n" % i for i in range(100_000))
    values = list(read_source(Pipe(text)))
    assert len(values) == 100_000
    assert format_value(values[-1]) == "{n:99999}"


@pytest.mark.parametrize(
    "name, head, row",
    [
        ("csv", "a,b\n", "x{i},yyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyy\n"),
        ("tsv", "a\tb\n", "x{i}\tyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyy\n"),
        ("zson", "", "{{a:{i},b:10.0.0.1,c:|[1,2,3]|,d:'xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx'}}\n"),
        ("json", "", '{{"a":{i},"b":"yyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyy"}}\n'),
    ],
)
def test_a_long_file_is_taken_for_what_it_is(name: str, head: str, row: str) -> None:
    text = head + "".join(row.replace("'", '"').format(i=i) for i in range(180_000))
    assert len(text) > 11 << 20
    assert detect(io.BytesIO(text.encode()))[0].name == name


class Trickle(io.BytesIO):
    """A pipe: it gives little at a time, however much is asked for."""

    def read(self, size: int | None = -1, /) -> bytes:
        assert size is None or size < 1 << 30
        return super().read(min(size or 65536, 65536) if size and size > 0 else 65536)

    def seekable(self) -> bool:
        return False


def test_a_large_value_through_a_pipe() -> None:
    filler = "x" * 50
    text = "[" + ",".join(f'{{"i":{i},"s":"{filler}"}}' for i in range(100_000)) + "]"
    (value,) = read_source(Trickle(text.encode()))
    assert len(value.data) == 100_000
    with pytest.raises(InvalidInput, match="line 2, column 1: expecting value"):
        list(read_source(Trickle(b'{"a":1}\noops\n' + b'{"a":1}\n' * 500_000), "json"))
