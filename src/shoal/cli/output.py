"""Output flags, and the writer that they choose: to a terminal, to a file, or to one file per type."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from shoal.cli.command import plural
from shoal.cli.flags import Flag, Parsed, UsageError
from shoal.cli.terminal import TerminalSink
from shoal.errors import InvalidInput, StorageFailure
from shoal.formats import registry
from shoal.formats.streams import Sink, WriteOptions, Writer
from shoal.lazy import lazy
from shoal.model.types import Type
from shoal.model.values import Value

if TYPE_CHECKING:
    from shoal.cli import lake_writer, pager
    from shoal.formats import table
else:
    lake_writer = lazy("shoal.cli.lake_writer")
    pager = lazy("shoal.cli.pager")
    table = lazy("shoal.formats.table")

registry.register(registry.Format("lake", writer=lambda: lake_writer.Writer))
_FORMATS = ", ".join(registry.writable())
_PAINTED = ("zson", "json", "lake")
"""Formats that may have colors. They escape the strings in them, at least those with escape sequences."""
_PAGED = ("table", "lake")
"""Formats that people read from the beginning to the end."""
_DEFAULT_FORMAT = " (default zson on a terminal, else zng)"
_OTHER_FLAGS = (
    Flag("z", bool, False, "write ZSON, one line per value"),
    Flag("Z", bool, False, "write ZSON, indented"),
    Flag("j", bool, False, "write JSON, one line per value"),
    Flag("J", bool, False, "write JSON, indented"),
    Flag("B", bool, False, "allow binary output on a terminal"),
    Flag("pretty", "count", 4, "indentation of zson and json; 0 writes one line per value"),
    Flag("persist", str, None, "define named types that match this pattern once per stream", "RE"),
    Flag("color", bool, True, "use colors on a terminal"),
    Flag("wide", bool, False, "do not cut the columns of a table at the width of the terminal"),
    Flag("o", str, "", "write to this file; with -split, the prefix of file names", "FILE"),
    Flag("split", str, "", "write one file per type into this directory", "DIR"),
    Flag("splitsize", "size", 0, "split into files of at least this size, not by type"),
    Flag("unbuffered", bool, False, "write each value immediately"),
    Flag("zng.compress", bool, True, "compress ZNG frames"),
    Flag("zng.framethresh", "size", 512 * 1024, "size of a ZNG frame before compression"),
)


def output_flags(default: str = "") -> tuple[Flag, ...]:
    """The output flags. `default` is the output format; without it, the format depends on the terminal."""
    about = f"format of the output: {_FORMATS}{'' if default else _DEFAULT_FORMAT}"
    format_flag = Flag("f", ("", *registry.writable()), default, about, "FMT")
    return (format_flag, *_OTHER_FLAGS)


OUTPUT_FLAGS = output_flags()


def output_format(args: Parsed, terminal: bool) -> tuple[str, int]:
    """The name of the output format and its indentation."""
    is_zson, is_json = args["z"] or args["Z"], args["j"] or args["J"]
    if is_json and (is_zson or "f" in args.given):
        raise UsageError("cannot use -j or -J with -f, -z, or -Z")
    if is_zson and "f" in args.given and args["f"] not in ("", "zng"):
        raise UsageError("cannot use -z or -Z with -f")
    if is_zson or is_json:
        is_pretty = args["Z"] or args["J"]
        return "json" if is_json else "zson", args["pretty"] if is_pretty else 0
    name = args["f"] or ("zson" if terminal else "zng")
    return name, args["pretty"]


@contextmanager
def open_writer(
    args: Parsed,
    head: str = "",
    *,
    refuses_mixtures: bool = False,
    draws_graph: bool = False,
    shape: Type | None = None,
) -> Iterator[Writer]:
    """The writer that the flags choose; `head` is marked as HEAD. What was written before an error is kept.

    `shape` is the type of the values, if there are none.
    """
    if "/" in args["o"] and args["split"]:
        raise UsageError("with -split, -o is the prefix of file names (name the directory with -split)")
    to_terminal = not args["o"] and not args["split"] and _stdout().isatty()
    name, pretty = output_format(args, to_terminal)
    form = registry.by_name(name)
    if to_terminal and form.is_binary and not args["B"]:
        raise UsageError(f"will not write {name} to a terminal (choose another format with -f, or force it with -B)")
    options = lake_writer.LakeOptions(
        pretty=pretty,
        persist=args["persist"],
        color=to_terminal and args["color"] and "NO_COLOR" not in os.environ,
        zng_compress=args["zng.compress"],
        zng_frame_size=args["zng.framethresh"],
        width=_screen().columns if to_terminal and not args["wide"] else 0,
        shape=shape,
        refuses_mixtures=refuses_mixtures,
        head=head,
        draws_graph=draws_graph,
    )
    if args["split"]:
        splitter = Splitter(Path(args["split"]), form, options, args["splitsize"], args["o"])
        try:
            yield splitter
        finally:
            splitter.close()
    elif to_terminal and not form.is_binary:
        with _terminal(form, args["unbuffered"]) as sink:
            writer = _make(form, _Flushed(sink) if args["unbuffered"] else sink, options)
            try:
                yield writer
            finally:
                writer.close()
            if form.name == "table" and isinstance(writer, table.Writer):
                sink.write(f"{_footer(writer)}\n".encode())
    else:
        with _output_file(args["o"]) as file:
            counting = _Counting(_make(form, _Flushed(file) if args["unbuffered"] else file, options))
            try:
                yield counting
            finally:
                # After an error, keep the values before it; without any, leave an existing file as it is.
                if counting.count or sys.exc_info()[0] is None or not args["o"]:
                    counting.close()
                    file.flush()


def _make(form: registry.Format, sink: Sink, options: WriteOptions) -> Writer:
    """The writer of a format; UsageError if it does not take the options."""
    try:
        return form.load_writer()(sink, options)
    except InvalidInput as e:
        raise UsageError(str(e)) from e


@contextmanager
def _terminal(form: registry.Format, is_unbuffered: bool) -> Iterator[TerminalSink]:
    """The terminal, behind a pager if the format may be long."""
    lines = _screen().lines
    if form.name not in _PAGED or is_unbuffered or not lines:
        try:
            yield TerminalSink(_stdout(), form.name in _PAINTED)
        finally:
            _stdout().flush()
        return
    screen = pager.Pager(_stdout(), lines)
    try:
        yield TerminalSink(screen, form.name in _PAINTED)
    except pager.PagerClosed:
        pass  # the reader has seen enough
    finally:
        screen.close()


def _screen() -> os.terminal_size:
    """The size of the terminal that standard output is; zeros if it has none."""
    try:
        return os.get_terminal_size(_stdout().fileno())
    except OSError:
        return os.terminal_size((0, 0))


def _footer(written: table.Writer) -> str:
    rows = f"{written.rows:,} row{'' if written.rows == 1 else 's'}"
    left_out = written.columns_left_out
    return f"({rows}; {plural(left_out, 'column')} not shown: see -wide)" if left_out else f"({rows})"


@contextmanager
def _output_file(path: str) -> Iterator[BinaryIO]:
    """Standard output, or a file that replaces the old one when it is complete."""
    if not path:
        yield _stdout()
        return
    target = Path(path)
    if _is_stream(target):
        with _create(target) as stream:
            yield stream
        return
    target = target.resolve()  # a link stays a link
    part = target.with_name(f".{target.name}.{os.getpid()}.part")
    file = _create(part, Path(path))
    try:
        yield file
    finally:
        is_output = file.tell() > 0 or sys.exc_info()[0] is None
        file.close()
        if is_output:
            if target.exists():
                part.chmod(target.stat().st_mode)
            part.replace(target)
        part.unlink(missing_ok=True)


def _is_stream(path: Path) -> bool:
    """Whether a path is a device, a pipe, or a link to an open file of a process, as `/dev/stdout` is."""
    if not path.is_file():
        return path.exists()
    while path.is_symlink():
        if path.parent.resolve().is_relative_to("/proc"):
            return True
        path = path.parent / path.readlink()
    return False


def _stdout() -> BinaryIO:
    if sys.stdout is None:
        raise StorageFailure("standard output is closed")
    return sys.stdout.buffer


def _create(path: Path, name: Path | None = None) -> BinaryIO:
    try:
        return path.open("wb")
    except OSError as e:
        raise StorageFailure(f"{name or path}: {(e.strerror or str(e)).lower()}") from None


def _nothing_to_flush() -> None:
    """What is written value by value waits for nothing."""


class _Counting:
    """A writer that counts the values written to it."""

    def __init__(self, writer: Writer) -> None:
        self._writer = writer
        self.close = writer.close
        self.flush = getattr(writer, "flush", _nothing_to_flush)
        self.count = 0

    def write(self, value: Value) -> None:
        self._writer.write(value)
        self.count += 1


class _Flushed:
    """A file that is flushed after every write."""

    def __init__(self, file: BinaryIO | TerminalSink) -> None:
        self._file = file

    def write(self, data: bytes, /) -> None:
        self._file.write(data)
        self._file.flush()


class _Counted:
    """A file that counts the bytes written to it."""

    def __init__(self, file: BinaryIO) -> None:
        self.file = file
        self.count = 0

    def write(self, data: bytes, /) -> None:
        self.file.write(data)
        self.count += len(data)


class Splitter:
    """Writes one file per type; with a size, consecutive files of at least this size.

    Files of types are named after the `_path` of their first record and numbered as `zq` does. A `_path` cannot lead
    out of the directory.
    """

    def __init__(
        self, directory: Path, form: registry.Format, options: WriteOptions, size: int, prefix: str = ""
    ) -> None:
        self._directory = directory
        self._format = form
        self._options = options
        self._size = size
        self._prefix = prefix
        self._open: dict[Type | None, tuple[Writer, _Counted]] = {}
        self._names: set[str] = set()
        try:
            directory.mkdir(parents=True, exist_ok=True)
        except OSError as e:
            raise StorageFailure(f"{directory}: {(e.strerror or str(e)).lower()}") from None

    def write(self, value: Value) -> None:
        """Add a value to the file of its type, or to the current file."""
        typ = None if self._size else value.type
        if typ not in self._open:
            sink = _Counted(_create(self._directory / self._name(value)))
            self._open[typ] = self._format.load_writer()(sink, self._options), sink
        writer, sink = self._open[typ]
        writer.write(value)
        if self._size and sink.count >= self._size:
            self._finish(typ)

    def close(self) -> None:
        """Close all files."""
        for typ in list(self._open):
            self._finish(typ)

    def _finish(self, typ: Type | None) -> None:
        writer, sink = self._open.pop(typ)
        writer.close()
        sink.file.close()

    def _name(self, value: Value) -> str:
        path = None if self._size else value.field("_path")
        text = path.data if path is not None and isinstance(path.data, str) else ""
        base = "".join(c if c.isalnum() or c in "-_." else "_" for c in text).lstrip(".")
        parts = [part for part in (self._prefix, base) if part]
        number = len(self._names)
        name = "-".join(parts)
        while not base or name in self._names:
            name = "-".join([*parts, str(number)])
            if name not in self._names:
                break
            number += 1
        self._names.add(name)
        return f"{name}.{self._format.name}"
