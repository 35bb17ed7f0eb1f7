"""Every format is one entry of a table. What other packages need to know about a format, they ask here.

The code of a format is imported when it is first used, so that `shoal` starts without Arrow. The table is ordered:
detection tries the readers from the strictest to the most lenient.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from shoal.api.options import ReadOptions
from shoal.errors import InvalidInput
from shoal.formats.streams import NullWriter, Sink, Source, WriteOptions, Writer
from shoal.lazy import lazy
from shoal.model.node import frozen
from shoal.model.values import Value

if TYPE_CHECKING:
    from shoal.formats import line, table, text, zson
    from shoal.formats.arrow import apart, parquet
    from shoal.formats.arrow import files as arrow_files
    from shoal.formats.arrow import stream as arrow_stream
    from shoal.formats.avro import reader as avro_reader
    from shoal.formats.columns.batches import Batch, Piece
    from shoal.formats.csv import column_reader as csv_column_reader
    from shoal.formats.csv import delimiters as csv_delimiters
    from shoal.formats.csv import parts as csv_parts
    from shoal.formats.csv import reader as csv_reader
    from shoal.formats.csv import typed_columns as csv_typed_columns
    from shoal.formats.csv import writer as csv_writer
    from shoal.formats.csv.parts import Header
    from shoal.formats.csv.tables import TableGuess
    from shoal.formats.json import column_reader as json_column_reader
    from shoal.formats.json import reader as json_reader
    from shoal.formats.json import writer as json_writer
    from shoal.formats.vng import files as vng_files
    from shoal.formats.zeek import reader as zeek_reader
    from shoal.formats.zeek import writer as zeek_writer
    from shoal.formats.zjson import reader as zjson_reader
    from shoal.formats.zjson import writer as zjson_writer
    from shoal.formats.zng import columns as zng_columns
    from shoal.formats.zng import stream as zng_stream
else:
    apart = lazy("shoal.formats.arrow.apart")
    arrow_files = lazy("shoal.formats.arrow.files")
    arrow_stream = lazy("shoal.formats.arrow.stream")
    avro_reader = lazy("shoal.formats.avro.reader")
    csv_column_reader = lazy("shoal.formats.csv.column_reader")
    csv_delimiters = lazy("shoal.formats.csv.delimiters")
    csv_parts = lazy("shoal.formats.csv.parts")
    csv_reader = lazy("shoal.formats.csv.reader")
    csv_typed_columns = lazy("shoal.formats.csv.typed_columns")
    csv_writer = lazy("shoal.formats.csv.writer")
    json_column_reader = lazy("shoal.formats.json.column_reader")
    json_reader = lazy("shoal.formats.json.reader")
    json_writer = lazy("shoal.formats.json.writer")
    line = lazy("shoal.formats.line")
    parquet = lazy("shoal.formats.arrow.parquet")
    table = lazy("shoal.formats.table")
    text = lazy("shoal.formats.text")
    vng_files = lazy("shoal.formats.vng.files")
    zeek_reader = lazy("shoal.formats.zeek.reader")
    zeek_writer = lazy("shoal.formats.zeek.writer")
    zjson_reader = lazy("shoal.formats.zjson.reader")
    zjson_writer = lazy("shoal.formats.zjson.writer")
    zng_columns = lazy("shoal.formats.zng.columns")
    zng_stream = lazy("shoal.formats.zng.stream")
    zson = lazy("shoal.formats.zson")

Read = Callable[[Source, ReadOptions], Iterator[Value]]
ReadPieces = Callable[[Source, ReadOptions], Iterator["Piece"]]
ReadFields = Callable[[Source, ReadOptions, Sequence[tuple[str, ...]] | None], Iterator["Piece"]]
Write = Callable[[Sink, WriteOptions], Writer]


@frozen
class Trial:
    """How detection finds out whether text is of a format: its reader has to accept the beginning."""

    values: int = 1
    """The number of values to read."""
    check: Callable[[bytes, ReadOptions], None] | None = None
    """Refuses a beginning that the reader would accept, or would need more bytes to refuse."""
    resembles: Callable[[bytes], bool] = lambda head: False
    """Whether text that no reader accepts was probably meant to be of this format."""


@frozen
class Lines:
    """A file is read in parts at the ends of lines."""

    header: Callable[[Source, ReadOptions], Header | None] | None = None
    """For a table: finds what is before its records. None, if the table cannot be read in parts."""
    survey: Callable[[Source, ReadOptions], TableGuess] | None = None
    """For a table: what the cells of a part say about its columns."""


@frozen
class Groups:
    """A file is read in parts of whole groups of rows."""

    sizes: Callable[[Source], list[int]]
    """The bytes of each group."""
    read: Callable[[Source, ReadOptions, range], Iterator[Batch]]


@frozen
class Format:
    """All there is to know about a format. `reader`, `writer` and `column_reader` load its code."""

    name: str
    reader: Callable[[], Read] | None = None
    writer: Callable[[], Write] | None = None
    media_types: tuple[str, ...] = ()
    column_reader: Callable[[], ReadPieces] | None = None
    """Reads into typed columns; formats without it are read value by value."""
    field_reader: Callable[[], ReadFields] | None = None
    """Like `column_reader`, but the columns may be those of the fields at some paths alone."""
    is_binary: bool = False
    """Whether a terminal cannot show it."""
    magic: bytes = b""
    """The first bytes of every file."""
    confirm: Callable[[bytes], bool] | None = None
    """A further look at a beginning that has the magic bytes."""
    needs_seek: bool = False
    """Whether it is read from the end."""
    trial: Trial | None = None
    """None where detection does not try the reader."""
    undetected: str = ""
    """Why detection leaves the format out, for the message that lists what was tried."""
    splits: Lines | Groups | None = None
    """How a large file is read in parts; None if it cannot be."""
    resumes: bool = False
    """Whether its reader can go on after a bad record."""
    takes_one_type: bool = False
    """Whether all values that are written have to be of one type."""
    is_table: bool = False
    """Whether it is a table of text, which the options of CSV are for."""
    growth: int = 64
    """How many bytes of memory a byte of input may become before it is a value. Readers that weigh values before they
    decode them, as `limits` does, may take more at once: 1 is as much as a value may take."""

    def load_reader(self) -> Read:
        """The generator function that reads this format."""
        if self.reader is None:
            raise InvalidInput(f"cannot read format {self.name!r} (one of: {', '.join(readable())})")
        return self.reader()

    def load_writer(self) -> Write:
        """The class that writes this format."""
        if self.writer is None:
            raise InvalidInput(f"cannot write format {self.name!r} (one of: {', '.join(writable())})")
        return self.writer()

    def load_columns(self) -> ReadPieces | None:
        """The function that reads this format into columns, if it has one."""
        return None if self.column_reader is None else self.column_reader()

    def has_magic(self, head: bytes) -> bool:
        """Whether bytes begin like a file of this format."""
        return bool(self.magic) and head.startswith(self.magic) and (self.confirm is None or self.confirm(head))


_FORMATS: dict[str, Format] = {}


def register(entry: Format) -> None:
    """Add a format. An entry of the same name is replaced."""
    _FORMATS[entry.name] = entry


def formats() -> tuple[Format, ...]:
    """All formats, in the order of the table."""
    return tuple(_FORMATS.values())


def by_name(name: str) -> Format:
    """The format of this name."""
    if name not in _FORMATS:
        raise InvalidInput(f"no format named {name!r} (one of: {', '.join(sorted(_FORMATS))})")
    return _FORMATS[name]


def by_media_type(media_type: str) -> Format:
    """The format of this media type; parameters such as a charset are ignored."""
    essence = media_type.partition(";")[0].strip().lower()
    entries = {each: entry for entry in formats() for each in entry.media_types}
    if essence not in entries:
        raise InvalidInput(f"no format has media type {essence!r} (one of: {', '.join(sorted(entries))})")
    return entries[essence]


def by_magic(head: bytes) -> Format | None:
    """The format whose magic bytes these are."""
    return next((entry for entry in formats() if entry.has_magic(head)), None)


def readable() -> list[str]:
    """Names of the formats that can be read."""
    return sorted(entry.name for entry in formats() if entry.reader)


def resumable() -> list[str]:
    """Names of the formats whose readers can go on after a bad record."""
    return sorted(entry.name for entry in formats() if entry.resumes)


def writable() -> list[str]:
    """Names of the formats that can be written."""
    return sorted(entry.name for entry in formats() if entry.writer)


MAGIC_SIZE = 64
"""Bytes that decide about magic."""
_CONTROLS = frozenset(range(0x20)) - frozenset(b"\t\n\f\r\x1b")
"""Bytes that text does not have."""
_ARROW_METADATA = 1 << 20
"""The schema of an Arrow stream is smaller."""


def _is_binary(head: bytes) -> bool:
    """Whether bytes that begin with letters are not the beginning of text."""
    return not _CONTROLS.isdisjoint(head[:MAGIC_SIZE])


for _entry in (
    Format(
        "zeek",
        reader=lambda: zeek_reader.read,
        writer=lambda: zeek_writer.Writer,
        media_types=("application/x-zeek",),
        trial=Trial(check=lambda head, _: zeek_reader.check_beginning(head)),
        resumes=True,
        growth=1,
    ),
    Format(
        "zjson",
        reader=lambda: zjson_reader.read,
        writer=lambda: zjson_writer.Writer,
        media_types=("application/x-zjson",),
        trial=Trial(check=lambda head, _: zjson_reader.check_beginning(head)),
        growth=1,
    ),
    Format(
        "json",
        reader=lambda: json_reader.read,
        writer=lambda: json_writer.Writer,
        media_types=("application/json",),
        column_reader=lambda: json_column_reader.read,
        field_reader=lambda: json_column_reader.read_fields,
        trial=Trial(values=10, resembles=lambda head: head.lstrip()[:1] in (b"{", b"[")),
        splits=Lines(),
        resumes=True,
        growth=1,
    ),
    Format(
        "ndjson",
        reader=lambda: json_reader.read,
        writer=lambda: json_writer.LineWriter,
        media_types=("application/x-ndjson",),
        column_reader=lambda: json_column_reader.read,
        field_reader=lambda: json_column_reader.read_fields,
        splits=Lines(),
        resumes=True,
        growth=1,
    ),
    Format(
        "zson",
        reader=lambda: zson.read,
        writer=lambda: zson.Writer,
        media_types=("application/x-zson",),
        trial=Trial(),
        resumes=True,
        growth=1,
    ),
    Format(
        "zng",
        reader=lambda: zng_stream.read,
        writer=lambda: zng_stream.Writer,
        media_types=("application/x-zng",),
        column_reader=lambda: zng_columns.read,
        field_reader=lambda: zng_columns.read,
        is_binary=True,
        trial=Trial(),
        growth=1,
    ),
    Format(
        "csv",
        reader=lambda: csv_reader.read,
        writer=lambda: csv_writer.Writer,
        takes_one_type=True,
        media_types=("text/csv",),
        column_reader=lambda: csv_column_reader.read,
        trial=Trial(
            check=lambda head, options: csv_reader.check_header(head, options, ",;|"),
            resembles=lambda head: b"," in head.partition(b"\n")[0],
        ),
        splits=Lines(
            lambda source, options: csv_parts.header_of(source, options, csv_delimiters.CANDIDATES),
            lambda source, options: csv_typed_columns.survey(source, options),
        ),
        is_table=True,
        resumes=True,
        growth=1,
    ),
    Format(
        "tsv",
        reader=lambda: csv_reader.read_tsv,
        writer=lambda: csv_writer.TsvWriter,
        takes_one_type=True,
        media_types=("text/tab-separated-values",),
        column_reader=lambda: csv_column_reader.read_tsv,
        trial=Trial(check=lambda head, options: csv_reader.check_header(head, options, "\t")),
        splits=Lines(
            lambda source, options: csv_parts.header_of(source, options, "\t"),
            lambda source, options: csv_typed_columns.survey(source, options),
        ),
        is_table=True,
        resumes=True,
        growth=1,
    ),
    Format(
        "vng",
        reader=lambda: vng_files.read,
        writer=lambda: vng_files.Writer,
        media_types=("application/x-vng",),
        is_binary=True,
        magic=b"VNG\0",
        needs_seek=True,
        growth=1,
    ),
    Format(
        "parquet",
        reader=lambda: parquet.read,
        writer=lambda: parquet.Writer,
        takes_one_type=True,
        media_types=("application/x-parquet",),
        column_reader=lambda: parquet.read_columns,
        field_reader=lambda: parquet.read_fields,
        is_binary=True,
        magic=b"PAR1",
        needs_seek=True,
        splits=Groups(
            lambda source: parquet.group_sizes(source),
            lambda source, options, groups: parquet.read_columns(source, options, groups),
        ),
        growth=1,
    ),
    Format(
        "arrow",
        reader=lambda: arrow_files.read,
        writer=lambda: arrow_files.Writer,
        takes_one_type=True,
        media_types=("application/vnd.apache.arrow.file",),
        column_reader=lambda: arrow_files.read_columns,
        is_binary=True,
        magic=b"ARROW1",
        needs_seek=True,
        splits=Groups(
            lambda source: arrow_files.block_sizes(source),
            lambda source, options, blocks: arrow_files.read_columns(source, options, blocks),
        ),
        growth=1,
    ),
    Format(
        "feather",
        reader=lambda: apart.read_feather,
        media_types=("application/x-feather",),
        column_reader=lambda: apart.read_feather_columns,
        is_binary=True,
        magic=b"FEA1",
        confirm=_is_binary,
        needs_seek=True,
        growth=1,
    ),
    Format(
        "orc",
        reader=lambda: apart.read_orc,
        media_types=("application/x-orc",),
        column_reader=lambda: apart.read_orc_columns,
        is_binary=True,
        magic=b"ORC",
        confirm=_is_binary,
        needs_seek=True,
        growth=1,
    ),
    Format(
        "avro",
        reader=lambda: avro_reader.read,
        media_types=("application/avro",),
        is_binary=True,
        magic=b"Obj\x01",
        growth=1,
    ),
    Format(
        "arrows",
        reader=lambda: arrow_stream.read,
        writer=lambda: arrow_stream.Writer,
        takes_one_type=True,
        media_types=("application/vnd.apache.arrow.stream",),
        column_reader=lambda: arrow_stream.read_columns,
        is_binary=True,
        magic=b"\xff\xff\xff\xff",
        confirm=lambda head: 0 < int.from_bytes(head[4:8], "little") < _ARROW_METADATA,
        growth=1,
    ),
    Format(
        "line",
        reader=lambda: line.read,
        writer=lambda: line.Writer,
        media_types=("application/x-line",),
        undetected="auto-detection not supported",
        splits=Lines(),
        resumes=True,
        growth=1,
    ),
    Format("text", writer=lambda: text.Writer),
    Format("table", writer=lambda: table.Writer),
    Format("null", writer=lambda: NullWriter),
):
    register(_entry)

FALLBACK = by_name("zson")
"""What blank input is, and text that resembles nothing else."""
