"""Files of tricky values go both ways between Shoal and the real `zq`: both read the same values from a file.

A file that either of them wrote is read by both. Where the reference is wrong, the file is listed with the reason.
"""

from __future__ import annotations

import io
import subprocess
from pathlib import Path

import pytest

from shoal.api.options import ReadOptions
from shoal.errors import InvalidInput
from shoal.formats import registry
from shoal.formats.streams import WriteOptions
from shoal.lake.sealed import seal
from shoal.model.parse import parse_value
from shoal.model.text import format_value

SECONDS = 60

PRIMITIVES = {
    "uint8": "255(uint8)",
    "uint16": "65535(uint16)",
    "uint32": "4294967295(uint32)",
    "uint64": "18446744073709551615(uint64)",
    "int8": "-128(int8)",
    "int16": "-32768(int16)",
    "int32": "-2147483648(int32)",
    "int64": "-9223372036854775808",
    "float16": "1.5(float16)",
    "float32": "0.1(float32)",
    "float64": "0.1",
    "duration": "-1h2m3.000000004s",
    "time": "2262-04-11T23:47:16.854775807Z",
    "bool": "false",
    "bytes": "0x00ff",
    "string": '"text"',
    "ip": "2001:db8::1",
    "net": "10.0.0.0/8",
    "type": "<{a:int64}>",
}
RECORDS = [
    *(f"{{a:{text},b:null({name})}}" for name, text in PRIMITIVES.items()),
    "{a:1677-09-21T00:12:43.145224192Z,b:1970-01-01T00:00:00Z}",
    "{a:2562047h47m16.854775807s,b:0s,c:1ns}",
    "{a:NaN,b:+Inf,c:-Inf,d:1.7976931348623157e+308,e:5e-324}",
    "{a:-0.,b:0.}",
    "{a:NaN(float32),b:-Inf(float16)}",
    "{a:1.2.3.4,d:0.0.0.0/0,e:2001:db8::/32}",
    "{a:::1}",
    "{a:::}",
    "{a:::ffff:1.2.3.4}",
    '{a:"",b:"héllo €😀",c:"a\\nb\\tc\\\\d\\"e\\u0000f",d:"\\u2028",e:"-",f:"(empty)"}',
    "{a:{b:{c:{d:1}}},e:{f:null({g:int64})}}",
    "{a:[]([int64]),b:|[]|(|[string]|),c:|{}|(|{string:int64}|)}",
    '{a:[1,null(int64),3],b:[["x"],[]([string])],c:[{d:1},{d:2}]}',
    '{a:|["x","y"]|,b:|[1,2]|}',
    '{a:|{"k":1,"l":null(int64)}|,b:|{{x:1}:[2]}|}',
    '{a:1((int64,string)),b:"x"((int64,string)),c:null((int64,string))}',
    '{a:[1,"x",{b:2}]}',
    '{a:"up"(enum(up,down)),b:null(enum(up,down))}',
    '{a:error("bad"),b:error({code:1}),c:null(error(string))}',
    "{a:<int64>,b:<{x:[string],y:|{int64:string}|}>,c:<error(string)>,d:<port=uint16>}",
    '{a:80(port=uint16),b:"x"(=name),c:{d:1}(=inner)}(=outer)',
    '{"odd name":1,"a.b":2,"":3,"tab\\tname":4,"quote\\"":5,"héé":6}',
    "{a:null,b:[null,null]}",
]
OTHERS = [
    "{a:{}}",
    '"top"',
    "1",
    "null",
    "null(string)",
    "[1,2]",
    "error(1)",
    "<int64>",
    "1.2.3.4",
    '"x"((int64,string))',
]


def run(zq: Path, data: bytes, *args: str) -> bytes:
    command = ["timeout", "-s", "KILL", str(SECONDS), str(zq), *args]
    result = subprocess.run(command, input=data, capture_output=True, check=False)
    assert result.returncode == 0, result.stderr.decode()
    return result.stdout


def read_by_zq(zq: Path, name: str, files: list[Path]) -> list[str]:
    return run(zq, b"", "-z", "-i", name, *map(str, files)).decode().split("\n")[:-1]


def read_by_us(name: str, file: Path) -> list[str]:
    with file.open("rb") as source:
        return [format_value(value) for value in registry.by_name(name).load_reader()(source, ReadOptions())]


def write_by_us(name: str, texts: list[str]) -> bytes:
    out = io.BytesIO()
    writer = registry.by_name(name).load_writer()(out, WriteOptions())
    for text in texts:
        writer.write(parse_value(text))
    writer.close()
    return out.getvalue()


MAPPED = "{a:::ffff:1.2.3.4}"
ZERO = "{a:-0.,b:0.}"
HALF = "{a:1.5(float16),b:null(float16)}"
HALVES = "{a:NaN(float32),b:-Inf(float16)}"
DURATIONS = "{a:2562047h47m16.854775807s,b:0s,c:1ns}"
DURATION = "{a:-1h2m3.000000004s,b:null(duration)}"
UINT64 = "{a:18446744073709551615(uint64),b:null(uint64)}"
ENUM = '{a:"up"(enum(up,down)),b:null(enum(up,down))}'
NULLS = "{a:null,b:[null,null]}"
NAMES = '{"odd name":1,"a.b":2,"":3,"tab\\tname":4,"quote\\"":5,"héé":6}'
STRINGS = '{a:"",b:"héllo €😀",c:"a\\nb\\tc\\\\d\\"e\\u0000f",d:"\\u2028",e:"-",f:"(empty)"}'

READ_OTHERWISE = {
    "*": {ZERO: "zq prints -0. as 0."},
    "parquet": {
        DURATION: "zq ignores the Arrow schema in the file and reads a duration as an integer",
        DURATIONS: "zq ignores the Arrow schema in the file and reads a duration as an integer",
    },
    "csv": {
        UINT64: "zq reads a long integer as a float and loses digits; we keep the text",
        STRINGS: "zq reads a cell with only a line separator as a null",
    },
}
"""By format, the values that zq reads otherwise than we do, and why."""
UNREADABLE = {
    "zson": {MAPPED: "zq does not parse the text that it prints for an IPv4 address mapped to IPv6"},
    "parquet": {HALF: "zq panics on float16", HALVES: "zq panics on float16"},
}
"""By format, the values that we write and zq cannot read."""
REFUSED = {
    "*": {MAPPED: "zq cannot parse the value itself"},
    "parquet": dict.fromkeys((HALF, HALVES, DURATION, DURATIONS), "zq does not write float16 and duration"),
    "zeek": {ENUM: "zq does not write enums, which Zeek has", NULLS: "zq does not write nulls without a type"},
}
"""By format, the values that we write and zq refuses to write."""
CORRUPT = {"zeek": {NAMES: "zq writes a tab in a field name as it is, and cannot read the file"}}
"""By format, the values that zq writes and neither can read."""


def listed(table: dict[str, dict[str, str]], name: str) -> dict[str, str]:
    return table.get("*", {}) | table.get(name, {})


MIXED = ["zng", "zson", "zjson", "vng"]
"""Formats of values of any type."""
UNIFORM = ["arrows", "parquet", "csv", "zeek"]
"""Formats of records, which may refuse some types."""


@pytest.mark.parametrize("name", MIXED)
def test_values_of_any_type_in_one_file(zq: Path, name: str, tmp_path: Path) -> None:
    texts = [text for text in RECORDS + OTHERS if text not in listed(UNREADABLE, name)]
    ours = tmp_path / "ours"
    ours.write_bytes(write_by_us(name, texts))
    assert read_by_us(name, ours) == [format_value(parse_value(text)) for text in texts]
    assert differences(name, texts, read_by_zq(zq, name, [ours]), read_by_us(name, ours)) == []
    texts = [text for text in texts if text not in listed(REFUSED, name)]
    theirs = tmp_path / "theirs"
    theirs.write_bytes(run(zq, "\n".join(texts).encode(), "-i", "zson", "-f", name, "-"))
    assert differences(name, texts, read_by_zq(zq, name, [theirs]), read_by_us(name, theirs)) == []


def differences(name: str, texts: list[str], theirs: list[str], ours: list[str]) -> list[str]:
    """The values that were read differently, but for those that are listed."""
    assert len(texts) == len(theirs) == len(ours)
    other = [text for text, a, b in zip(texts, theirs, ours, strict=True) if a != b]
    return [text for text in other if text not in listed(READ_OTHERWISE, name)]


@pytest.mark.parametrize("name", UNIFORM)
def test_records_that_we_write_are_read_alike(zq: Path, name: str, tmp_path: Path) -> None:
    files: dict[str, Path] = {}
    for number, text in enumerate(RECORDS):
        file = tmp_path / str(number)
        try:
            file.write_bytes(write_by_us(name, [text]))
        except InvalidInput:
            continue
        if text in listed(UNREADABLE, name):
            with pytest.raises(AssertionError):
                read_by_zq(zq, name, [file])
        else:
            files[text] = file
    ours = [value for file in files.values() for value in read_by_us(name, file)]
    assert differences(name, list(files), read_by_zq(zq, name, list(files.values())), ours) == []


@pytest.mark.parametrize("name", UNIFORM)
def test_records_that_zq_writes_are_read_alike(zq: Path, name: str, tmp_path: Path) -> None:
    files: dict[str, Path] = {}
    refused = set()
    for number, text in enumerate(RECORDS):
        try:
            data = run(zq, text.encode(), "-i", "zson", "-f", name, "-")
        except AssertionError:
            refused.add(text)
            continue
        if text in listed(CORRUPT, name):
            continue
        files[text] = tmp_path / str(number)
        files[text].write_bytes(data)
    ours = [value for file in files.values() for value in read_by_us(name, file)]
    assert differences(name, list(files), read_by_zq(zq, name, list(files.values())), ours) == []
    assert refused - {text for text in RECORDS if is_refused_by_us(name, text)} == set(listed(REFUSED, name))


def is_refused_by_us(name: str, text: str) -> bool:
    try:
        write_by_us(name, [text])
    except InvalidInput:
        return True
    return False


def test_zq_reads_a_sealed_object_to_its_end(zq: Path, tmp_path: Path) -> None:
    file = tmp_path / "sealed.zng"
    file.write_bytes(seal([parse_value(text) for text in ("{a:1}", '"x"')], "some/key"))
    assert read_by_zq(zq, "zng", [file]) == ["{a:1}", '"x"']


TEXT_VALUES = {
    '{s:"a\\nb\\tc\\\\d\\re\\u0000f"}': ("text", "table", "zeek", "csv"),
    '{s:"-",t:"(empty)",u:"",v:null(string)}': ("text", "table", "zeek", "csv"),
    '{a:["x,y","-",null(string),""],b:|["u","v"]|,c:[]([int64])}': ("text", "table", "zeek", "csv"),
    "{a:|[]|(|[int64]|),b:{c:[]([int64])}}": ("text", "table", "zeek", "csv"),
    "{a:0x00ff,b:null(bytes),c:[0x00]}": ("text", "table", "csv"),
    "{a:1,b:null(int64),c:{d:null(time),e:null({f:int64})}}": ("text", "table", "zeek", "csv"),
    "{a:1h2m3.5s,b:1970-01-01T00:00:00Z,c:10.0.0.1,d:10.0.0.0/8,e:true}": ("text", "table", "zeek", "csv"),
    "{a:NaN,b:+Inf,c:1e300,d:1.,e:1e-7}": ("text", "table", "zeek", "csv"),
    "{a:<{b:int64}>,b:error(1)}": ("text", "table", "csv"),
    '"top\\nlevel"': ("text",),
    '|["a\\nb"]|': ("text",),
    '{x:"\\u001b[0m"}': ("text", "table", "zeek", "csv"),
}


@pytest.mark.parametrize(("text", "name"), [(text, name) for text, names in TEXT_VALUES.items() for name in names])
def test_text_for_people_is_that_of_zq(zq: Path, text: str, name: str) -> None:
    assert write_by_us(name, [text]) == run(zq, text.encode(), "-i", "zson", "-f", name, "-")
