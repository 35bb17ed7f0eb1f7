"""A format is one entry: what detects, splits, uploads or prints it asks the registry and needs no other place."""

from __future__ import annotations

import ast
import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import shoal
from shoal.api.options import ReadOptions
from shoal.cli.flags import parse
from shoal.cli.output import OUTPUT_FLAGS, open_writer
from shoal.cli.query_flags import INPUT_FLAGS
from shoal.errors import InvalidInput
from shoal.formats import registry
from shoal.formats.detect import detect, read_source
from shoal.formats.registry import Format, Lines, Trial
from shoal.formats.splits import read_split, split
from shoal.formats.streams import Sink, Source, WriteOptions, read_lines
from shoal.model import types as t
from shoal.model.values import Value
from shoal.service.bodies import plain

ROOT = Path(shoal.__file__).parent


class Shout:
    """Writes strings in capitals."""

    def __init__(self, out: Sink, options: WriteOptions) -> None:
        self._out = out

    def write(self, value: Value) -> None:
        self._out.write(f"!{value.data.upper()}\n".encode())

    def close(self) -> None:
        pass


def read_shout(source: Source, options: ReadOptions) -> Iterator[Value]:
    for line in read_lines(source):
        if not line.startswith(b"!"):
            raise InvalidInput("a line does not begin with '!'")
        yield Value(t.STRING, line[1:].decode().lower())


@pytest.fixture
def entries(monkeypatch: pytest.MonkeyPatch) -> dict[str, Format]:
    """The table, restored after the test."""
    table = dict(registry._FORMATS)
    monkeypatch.setattr(registry, "_FORMATS", table)
    return table


TEXT = Format(
    "shout",
    reader=lambda: read_shout,
    writer=lambda: Shout,
    media_types=("text/x-shout",),
    trial=Trial(values=2, resembles=lambda head: b"!" in head),
    splits=Lines(),
)
BINARY = Format(
    "sealed", reader=lambda: read_shout, writer=lambda: Shout, is_binary=True, magic=b"!SEALED\n", needs_seek=True
)


class Pipe(io.BytesIO):
    def seekable(self) -> bool:
        return False


def test_a_new_entry_is_detected_read_split_and_written(entries: dict[str, Format]) -> None:
    registry.register(TEXT)
    data = b"!HELLO\n!THERE\n" * 10
    assert detect(io.BytesIO(data))[0] is TEXT
    assert [value.data for value in read_source(Pipe(data))] == ["hello", "there"] * 10
    parts = split(io.BytesIO(data), "auto", ReadOptions(), 50)
    assert len(parts) == 3
    pieces = [piece for part in parts for piece in read_split(io.BytesIO(data), part, ReadOptions())]
    assert len(pieces) == 20
    assert registry.by_media_type("text/x-shout; charset=utf-8") is TEXT
    assert "shout" in registry.readable()
    assert "shout" in registry.writable()
    with pytest.raises(InvalidInput, match=r"\(if it is shout: a line does not begin with '!'"):
        detect(io.BytesIO(b"!HELLO\nthere\n"))


def test_a_new_entry_that_needs_a_file_is_put_on_disk_by_the_service(entries: dict[str, Format]) -> None:
    registry.register(BINARY)
    data = b"!SEALED\n!A\n"
    assert detect(io.BytesIO(data))[0] is BINARY
    with pytest.raises(InvalidInput, match="sealed: requires seekable input"):
        detect(Pipe(data))
    body: Any = Pipe(data)
    file: Any = plain(body, "", 1000, 500)
    assert file.seekable()
    assert not plain(Pipe(b"{a:1}\n"), "", 1000, 500).seekable()  # type: ignore[arg-type]


def test_a_new_binary_entry_is_not_written_to_a_terminal(
    entries: dict[str, Format], monkeypatch: pytest.MonkeyPatch
) -> None:
    registry.register(BINARY)
    args = parse(OUTPUT_FLAGS, [])
    args.values["f"] = "sealed"
    monkeypatch.setattr("shoal.cli.output._stdout", Terminal)
    with pytest.raises(InvalidInput, match="will not write sealed to a terminal"), open_writer(args):
        pass


class Terminal(io.BytesIO):
    def isatty(self) -> bool:
        return True


def test_entries_are_complete() -> None:
    for entry in registry.formats():
        assert entry.reader or entry.writer
        assert not (entry.magic and entry.trial), "detection looks at the magic bytes, or tries the reader"
        assert len(entry.magic) <= registry.MAGIC_SIZE
        assert entry.reader is None or entry.media_types or entry.name in ("lake",)
        for load in (entry.reader, entry.writer, entry.column_reader):
            assert load is None or callable(load())
    assert INPUT_FLAGS[0].help.endswith(", ".join(registry.readable()))


def test_modules_of_formats_import_each_other_without_a_cycle() -> None:
    """Lazy imports count: they are declared beside the others."""
    graph = {name: set(imports(tree)) for name, tree in modules()}
    graph = {name: {each for each in targets if each in graph and each != name} for name, targets in graph.items()}
    while leaves := {name for name, targets in graph.items() if not targets}:
        graph = {name: targets - leaves for name, targets in graph.items() if name not in leaves}
    assert sorted(graph) == []


def modules() -> Iterator[tuple[str, ast.Module]]:
    for path in sorted((ROOT / "formats").rglob("*.py")):
        name = ".".join(("shoal", *path.relative_to(ROOT).with_suffix("").parts)).removesuffix(".__init__")
        yield name, ast.parse(path.read_text())


def imports(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
