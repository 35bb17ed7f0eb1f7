"""Damaged input gives values or one typed error: no crash, no hang, no memory without end."""

from __future__ import annotations

import io
import resource
import time

import pytest

from shoal.api.options import ReadOptions
from shoal.errors import InvalidInput
from shoal.formats import registry
from shoal.formats.detect import read_source
from shoal.formats.streams import WriteOptions
from shoal.model.parse import parse_value
from shoal.model.text import format_value
from shoal.model.values import Value
from shoal.testing.files import FILES
from shoal.testing.samples import damaged, every_kind, written

ROUNDS = 5000
APART = {"feather": 25, "orc": 25}
"""Formats that another process reads, which takes longer, and how often they are tried."""
SECONDS = 2.0
MEGABYTES = 512


def flat_records() -> list[Value]:
    return [
        parse_value(text)
        for text in (
            '{a:1,b:"x",c:true,d:1.5,e:{f:1.2.3.4,g:2020-01-01T00:00:00Z}}',
            '{a:null(int64),b:"line\\nbreak, \\"quoted\\"",c:false,d:-1.,e:{f:::1,g:null(time)}}',
        )
    ]


def example(name: str) -> bytes:
    if name in FILES:
        return FILES[name]
    values = flat_records() if name in ("csv", "tsv", "zeek", "parquet", "arrow", "arrows") else every_kind()
    return written(registry.by_name(name).load_writer(), values, WriteOptions(zng_frame_size=64))


@pytest.mark.parametrize("name", registry.readable())
def test_damaged_input_gives_values_or_a_typed_error(name: str) -> None:
    read = registry.by_name(name).load_reader()
    good = example(name)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    slowest = 0.0
    refused = 0
    for bad in damaged(good, APART.get(name, ROUNDS), seed=20):
        start = time.process_time()
        try:
            for value in read(io.BytesIO(bad), ReadOptions(max_value_size=1 << 20)):
                format_value(value)
        except InvalidInput as e:
            refused += 1
            assert str(e)
        slowest = max(slowest, time.process_time() - start)
    assert slowest < SECONDS
    assert refused or name == "line"
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < MEGABYTES * 1024


@pytest.mark.parametrize("name", ["zson", "zng", "json", "csv", "vng", "zjson"])
def test_damaged_input_of_unknown_format_gives_values_or_a_typed_error(name: str) -> None:
    for bad in damaged(example(name), 300, seed=7):
        try:
            for value in read_source(io.BytesIO(bad)):
                format_value(value)
        except InvalidInput as e:
            assert str(e)


DEEP = 100_000


@pytest.mark.parametrize(
    "name, text",
    [
        ("zson", "[" * DEEP),
        ("zson", "{a:" * DEEP),
        ("zson", "1" + "((int64,string))" * 10_000),
        ("zson", "<" + "[" * DEEP),
        ("zson", "|[" * DEEP),
        ("zson", "error(" * DEEP),
        ("zson", "1(x=" + "[" * DEEP),
        ("zson", "1" * DEEP),
        ("zson", "/*" * DEEP),
        ("json", "[" * DEEP),
        ("json", '{"a":' * DEEP),
        ("json", "[" * 900 + "]" * 900),
        ("json", "1" * DEEP),
        ("json", "-" * DEEP),
        ("zjson", '{"type":' * DEEP),
        ("zjson", '{"type":{"kind":"array","id":30,"type":' * DEEP),
        ("zeek", "#" * DEEP),
        ("csv", '"' * DEEP),
    ],
)
def test_deep_or_endless_input_is_refused_at_once(name: str, text: str) -> None:
    start = time.process_time()
    try:
        for value in registry.by_name(name).load_reader()(io.BytesIO(text.encode()), ReadOptions()):
            format_value(value)
    except InvalidInput as e:
        assert len(str(e)) < 300
    assert time.process_time() - start < SECONDS


def test_a_type_that_doubles_at_every_level_is_refused() -> None:
    text = "int64"
    lines = []
    for level in range(40):
        lines.append(f"null(t{level}={{a:{text},b:{text}}})")
        text = f"t{level}"
    with pytest.raises(InvalidInput, match="parts"):
        list(registry.by_name("zson").load_reader()(io.BytesIO("\n".join(lines).encode()), ReadOptions()))
