"""NDJSON into columns: the hot path of loading. Exact, in chunks of lines, on as many threads as asked.

Input that does not keep one value to a line goes through the row reader from the first such line
on, with the same result.
"""

from __future__ import annotations

import io
import re
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np
import orjson
import pyarrow as pa

from shoal.api.options import ReadOptions
from shoal.errors import InvalidInput
from shoal.formats.bad_records import BadRecords
from shoal.formats.columns.batches import Batch, Part, Piece, Rows, batch_of, values_of
from shoal.formats.columns.parts import TooManyShapes, all_rows, merged, moved, selected
from shoal.formats.json import arrays
from shoal.formats.json import reader as json_reader
from shoal.formats.json.text_columns import OTHER, BadText, kinds_of
from shoal.formats.limits import LIGHT, LimitExceeded, check_text, chunk_size
from shoal.formats.streams import NAME_ENCODING, Source, read_at_least
from shoal.lazy import lazy
from shoal.model.values import Value

if TYPE_CHECKING:
    from concurrent import futures

    from shoal.formats.json import fields as json_fields
    from shoal.formats.json import shapes
else:
    futures = lazy("concurrent.futures")
    json_fields = lazy("shoal.formats.json.fields")
    shapes = lazy("shoal.formats.json.shapes")

_FEW = 32 * 1024
_CHUNK = 16 * 1024 * 1024
_BLOCK = 1 << 16
_NEWLINE = 10
_CASE = 0x20
_POSITION = re.compile(r"^line \d+(?:, column \d+)?: ")
_LOOK_AHEAD = 1 << 16
"""Bytes to look at for the end of a value that a line begins."""
_DEEPEST = 1024
"""Levels that the parsers of columns can take, and orjson as well. Fewer are valid."""


def _newlines(content: np.ndarray[Any, np.dtype[np.uint8]]) -> Rows:
    """Places of the line ends. Block by block, to stay in the processor's cache."""
    starts = range(0, len(content), _BLOCK)
    ends = [np.flatnonzero(content[start : start + _BLOCK] == _NEWLINE) + start for start in starts]
    return np.concatenate(ends) if ends else np.zeros(0, np.int64)


class _Chunk:
    """Some whole lines of the input."""

    def __init__(self, data: bytes, first_line: int, lines: Rows | None = None) -> None:
        """`lines` are those of the file, where these are elements of an array."""
        self.data = data
        self.first_line = first_line
        self.lines = lines
        ends = _newlines(np.frombuffer(data, np.uint8))
        if not data.endswith(b"\n"):
            ends = np.append(ends, len(data))
        self.starts = np.concatenate(([0], ends[:-1] + 1)).astype(np.int32) if len(ends) else np.zeros(0, np.int32)

    def __len__(self) -> int:
        return len(self.starts)

    def line(self, row: int) -> bytes:
        """The bytes of a line, without its end."""
        end = int(self.starts[row + 1]) if row + 1 < len(self.starts) else len(self.data)
        return self.data[int(self.starts[row]) : end].removesuffix(b"\n")

    def number(self, row: int) -> int:
        """The number of a line in the file."""
        return self.first_line + row if self.lines is None else int(self.lines[row])

    def before(self, row: int) -> _Chunk:
        """The lines before one of them."""
        lines = None if self.lines is None else self.lines[:row]
        return _Chunk(self.data[: int(self.starts[row])], self.first_line, lines)

    def check_lines(self, options: ReadOptions) -> None:
        """Refuse a line that is too long, or would take too much memory."""
        least = min(LIGHT, options.max_value_size)
        ends = np.append(self.starts[1:], len(self.data))
        for row in np.flatnonzero(ends - self.starts > least).tolist():
            check_text(self.data[self.starts[row] : ends[row]], options, f"line {self.first_line + row}")

    def check_depth(self) -> None:
        """BadText at a line that nests so deeply that the parsers of columns, which recurse, would end the process."""
        content = np.frombuffer(self.data, np.uint8)
        ends = np.append(self.starts[1:], len(self.data))
        for row in np.flatnonzero(ends - self.starts > 2 * _DEEPEST).tolist():
            line = slice(self.starts[row], ends[row])
            if np.count_nonzero((content[line] | _CASE) == ord("{")) > _DEEPEST:  # of { and [, which differ in case
                try:
                    orjson.loads(self.data[line])
                except orjson.JSONDecodeError:
                    raise BadText(row) from None

    def texts(self) -> pa.Array:
        """The lines as a column, without copying them; each but the last keeps its line end."""
        offsets = np.append(self.starts, np.int32(len(self.data)))
        column = pa.StringArray.from_buffers(len(self.starts), pa.py_buffer(offsets), pa.py_buffer(self.data))
        try:
            column.validate(full=True)
        except pa.ArrowInvalid:
            self._complain_of_utf8()
        return column

    def _complain_of_utf8(self) -> None:
        for i, line in enumerate(self.data.split(b"\n")):
            try:
                line.decode()
            except UnicodeDecodeError as e:
                where = f"line {self.first_line + i}, column {e.start + 1}"
                raise InvalidInput(f"{where}: invalid UTF-8 {NAME_ENCODING}") from None


def read(source: Source, options: ReadOptions = ReadOptions()) -> Iterator[Piece]:
    """The values of JSON text: batches of them, and single ones where there are too many shapes."""
    bad = BadRecords(source, options)
    if options.json_array == "records":
        source = arrays.elements_of(source, bad.first_line)
        if isinstance(source, arrays.Elements):
            return arrays.naming_elements(_read(source, options, bad, _refuse))
    return _read(source, options, bad, _read_freely)


def read_fields(source: Source, options: ReadOptions, fields: Sequence[tuple[str, ...]] | None) -> Iterator[Piece]:
    """Like `read`, but batches may lack the fields that are not used; None stands for all."""
    if fields is None or () in fields or options.json_array == "records":
        return read(source, options)
    return _read(
        source, options, BadRecords(source, options), _read_freely, list(dict.fromkeys(path[0] for path in fields))
    )


Decoded = Callable[[], Batch]
"""Waits for the values of a chunk."""
Fallback = Callable[["_Chunk", int, Iterator["_Chunk"], ReadOptions], Iterator[Piece]]
"""Reads on from a line that is not one value."""


def _read_freely(chunk: _Chunk, row: int, later: Iterator[_Chunk], options: ReadOptions) -> Iterator[Piece]:
    rest = _Joined(chunk.data[int(chunk.starts[row]) :], later)
    number = chunk.first_line + row
    return json_reader.read(rest, options, first_line=number, follows_lines=number > 1 and _has_values(chunk, row))


def _has_values(chunk: _Chunk, row: int) -> bool:
    """Whether there is something before a row, here or in an earlier chunk."""
    return chunk.first_line > 1 or bool(chunk.data[: int(chunk.starts[row])].strip())


def _refuse(chunk: _Chunk, row: int, later: Iterator[_Chunk], options: ReadOptions) -> Iterator[Piece]:
    """An element of an array is one value."""
    try:
        json_reader.decode_line(chunk.line(row).decode())
    except InvalidInput as e:
        reason = InvalidInput(_POSITION.sub("", str(e)))
    else:
        reason = InvalidInput("expected one JSON value")
    raise arrays.at_element(chunk.number(row), chunk.first_line + row, reason)


def _read(
    source: Source, options: ReadOptions, bad: BadRecords, fallback: Fallback, names: list[str] | None = None
) -> Iterator[Piece]:
    pool = _Pool(options.threads, names)
    chunks = _chunks(source, options, bad.first_line)
    waiting: deque[tuple[_Chunk, Decoded]] = deque()
    error: InvalidInput | None = None
    # With one chunk more than threads, none waits for its next chunk while the values of the last one are taken.
    ahead = options.threads + 1 if options.threads > 1 else 1
    try:
        while True:
            while error is None and len(waiting) < ahead:
                try:
                    chunk = next(chunks, None)
                except InvalidInput as e:
                    error = e  # what is before it comes first
                    break
                if chunk is None:
                    break
                waiting.append((chunk, pool.submit(chunk)))
            if not waiting:
                break
            if bad.are_fatal:
                yield from _finished(waiting, chunks, options, pool, fallback)
            else:
                yield from _tolerant_pieces(*waiting.popleft(), pool, bad)
        if error is not None:
            raise error
    finally:
        pool.close()


def _finished(
    waiting: deque[tuple[_Chunk, Decoded]],
    chunks: Iterator[_Chunk],
    options: ReadOptions,
    pool: _Pool,
    fallback: Fallback,
) -> Iterator[Piece]:
    """The chunk that has waited longest, or all that follows if it does not keep to lines."""
    chunk, decoded = waiting.popleft()
    try:
        yield from _pieces(chunk, decoded, pool)
    except BadText as e:
        later = chain([c for c, _ in waiting], chunks)
        waiting.clear()
        yield from fallback(chunk, e.row, later, options)


def _tolerant_pieces(chunk: _Chunk, decoded: Decoded, pool: _Pool, bad: BadRecords) -> Iterator[Piece]:
    """The values of a chunk, and what stands for its bad lines."""
    try:
        batch = decoded()
        if batch.length:
            yield batch
        return
    except TooManyShapes:
        pass
    except LimitExceeded:
        raise
    except (BadText, InvalidInput):
        good = _good_rows(chunk)
        if len(good):
            yield from _with_bad_lines(chunk, good, pool, bad)
            return
    for row in range(len(chunk)):
        yield from _values_of_line(chunk, row, bad)


def _values_of_line(chunk: _Chunk, row: int, bad: BadRecords) -> Iterator[Value]:
    line = chunk.line(row) if chunk.lines is None else chunk.line(row).strip()
    following = _Following(chunk, row)
    return json_reader.read_line(line, chunk.number(row), following, bad) if line.strip() else iter(())


class _Following:
    """Some lines after a row of a chunk."""

    def __init__(self, chunk: _Chunk, row: int) -> None:
        self._chunk, self._row = chunk, row

    def __call__(self) -> bytes:
        chunk = self._chunk
        if chunk.lines is not None or self._row + 1 == len(chunk):
            return b""
        start = int(chunk.starts[self._row + 1])
        return chunk.data[start : start + _LOOK_AHEAD]


def _good_rows(chunk: _Chunk) -> Rows:
    """The rows that are one value each."""
    good = []
    for row in range(len(chunk)):
        try:
            json_reader.decode_line(chunk.line(row).decode())
        except (InvalidInput, UnicodeDecodeError):
            continue
        good.append(row)
    return np.array(good, np.int64)


def _with_bad_lines(chunk: _Chunk, good: Rows, pool: _Pool, bad: BadRecords) -> Iterator[Piece]:
    """The values of the good rows in columns, and of the others one by one."""
    texts = pa.array([chunk.line(row).decode() for row in good.tolist()], pa.string())
    others = np.setdiff1d(np.arange(len(chunk)), good)
    singles = [(int(row), value) for row in others for value in _values_of_line(chunk, int(row), bad)]
    try:
        parts = pool.parts(texts)
    except (BadText, TooManyShapes, RecursionError):
        parts = list(batch_of([json_reader.decode_line(text) for text in texts.to_pylist()]).parts)
    batch = _merged(parts, good, singles)
    if batch.length:
        yield batch


def _merged(parts: list[Part], rows: Rows, singles: list[tuple[int, Value]]) -> Batch:
    """Values in columns that stand in some rows, and single ones that stand in others."""
    extra = np.array([row for row, _ in singles], np.int64)
    order = np.argsort(np.concatenate((rows, extra)), kind="stable")
    places: Rows = np.empty(len(order), np.int64)
    places[order] = np.arange(len(order))
    out = [Part(part.shape, part.column, places[: len(rows)][part.rows]) for part in parts]
    if singles:
        among = batch_of([value for _, value in singles])
        out += [Part(part.shape, part.column, places[len(rows) :][part.rows]) for part in among.parts]
    return Batch(tuple(out), len(order))


def _pieces(chunk: _Chunk, decoded: Decoded, pool: _Pool) -> Iterator[Piece]:
    """The values of a chunk, in columns if there are few shapes; up to a malformed line, which raises BadText."""
    try:
        batch = decoded()
        if batch.length:
            yield batch
    except TooManyShapes:
        yield from _line_by_line(chunk)
    except BadText as e:
        if e.row:
            before = chunk.before(e.row)
            yield from _pieces(before, pool.submit(before), pool)
        raise


class _Pool:
    """Threads with a shape reader each, and a reader of fields if just these are used."""

    def __init__(self, threads: int, names: list[str] | None) -> None:
        self._count, self._names = threads, names
        self._threads: futures.ThreadPoolExecutor | None = None
        self._local = threading.local()
        self._readers: list[shapes.ShapeReader | json_fields.FieldReader] = []

    def submit(self, chunk: _Chunk) -> Decoded:
        """Begin to decode a chunk. A few lines are read sooner than a thread starts."""
        if len(chunk.data) < _FEW:
            return partial(self.decode, chunk)
        if self._threads is None:
            self._threads = futures.ThreadPoolExecutor(self._count)
        return self._threads.submit(self.decode, chunk).result

    def decode(self, chunk: _Chunk) -> Batch:
        """The batch of a chunk of lines. Few lines are read faster one by one."""
        if len(chunk.data) < _FEW:
            return batch_of(list(_line_by_line(chunk)))
        chunk.check_depth()
        texts = chunk.texts()
        filled = _filled(texts)
        texts = selected(texts, filled)
        try:
            parts = self._fields(texts)
            if parts is None:
                parts = self.parts(texts)
        except (BadText, RecursionError):
            raise BadText(int(filled[_first_bad(texts)])) from None
        return Batch(tuple(parts), len(texts))

    def parts(self, texts: pa.Array) -> list[Part]:
        """Texts of one value each, in columns."""
        reader: shapes.ShapeReader | None = getattr(self._local, "shapes", None)
        if reader is None:
            reader = self._local.shapes = shapes.ShapeReader()
            self._readers.append(reader)
        return reader.decode(texts)

    def _fields(self, texts: pa.Array) -> list[Part] | None:
        """The fields that are used; None if the texts have to be decoded as a whole."""
        if self._names is None:
            return None
        reader: json_fields.FieldReader | None = getattr(self._local, "fields", None)
        if reader is None:
            reader = self._local.fields = json_fields.FieldReader(self._names)
            self._readers.append(reader)
        return reader.parts(texts)

    def close(self) -> None:
        """Stop the threads and let go of their readers."""
        if self._threads is not None:
            self._threads.shutdown(cancel_futures=True)
        for reader in self._readers:
            reader.close()


class RecordReader:
    """Reads runs of records that were never lines of a file, such as messages, into columns.

    One for each thread: it may hold a database connection.
    """

    def __init__(self, options: ReadOptions = ReadOptions()) -> None:
        self._options = options
        self._size = chunk_size(options, _CHUNK)
        self._pool = _Pool(1, None)

    def close(self) -> None:
        """Let go of the connection."""
        self._pool.close()

    def read(self, records: Sequence[bytes]) -> Batch | None:
        """The values of records in columns; None unless each is exactly one value, in one line, that suits columns."""
        parts: list[Part] = []
        start = 0
        while start < len(records):
            end, size = start + 1, len(records[start])
            while end < len(records) and (size := size + len(records[end])) < self._size:
                end += 1
            try:
                parts += moved(self._parts(records[start:end]), np.arange(start, end))
            except (BadText, InvalidInput, TooManyShapes, RecursionError):
                return None
            start = end
        return Batch(tuple(merged(parts)), len(records))

    def _parts(self, records: Sequence[bytes]) -> list[Part]:
        data = b"\n".join(records)
        if data.count(b"\n") != len(records) - 1 or not records[-1]:
            raise BadText  # one has a line end inside, or the last one is empty
        chunk = _Chunk(data, 1)
        chunk.check_lines(self._options)
        if len(chunk.data) >= _FEW:
            chunk.check_depth()
            return self._pool.parts(chunk.texts())
        batch = batch_of(list(_line_by_line(chunk)))
        if batch.length != len(records):  # one is blank
            raise BadText
        return list(batch.parts)


def _line_by_line(chunk: _Chunk) -> Iterator[Value]:
    """The values of a chunk. BadText at a line that is not one value."""
    for row, text in enumerate(chunk.texts().to_pylist()):
        if text.strip():
            try:
                value = json_reader.decode_line(text)
            except InvalidInput:
                raise BadText(row) from None
            yield value


def _first_bad(texts: pa.Array) -> int:
    """The row of the first text that is not valid JSON; called only when there is one."""
    for row, text in enumerate(texts.to_pylist()):
        try:
            json_reader.decode_line(text)
        except InvalidInput:
            return row
    raise AssertionError("every text is JSON")


def _filled(texts: pa.Array) -> Rows:
    """Places of the texts that are not blank."""
    doubtful = np.flatnonzero(kinds_of(texts) == OTHER)
    blank = [row for row in doubtful.tolist() if not texts[row].as_py().strip()]
    return np.setdiff1d(all_rows(texts), blank) if blank else all_rows(texts)


def _chunks(source: Source, options: ReadOptions, first_line: int) -> Iterator[_Chunk]:
    """The input in runs of whole lines, none of which is too much."""
    is_array = isinstance(source, arrays.Elements)
    line, rest = 1 if is_array else first_line, b""
    size = chunk_size(options, _CHUNK)
    while data := read_at_least(source, size) if len(rest) > LIGHT else source.read(size):
        if line == 1 and not rest:
            data = data.removeprefix(b"\xef\xbb\xbf")
        cut = data.rfind(b"\n") + 1
        if not cut:
            rest += data
            check_text(rest, options, f"line {line}")
            continue
        chunk = _Chunk(b"".join((rest, memoryview(data)[:cut])), line)
        chunk.check_lines(options)
        if isinstance(source, arrays.Elements):
            chunk.lines = source.lines(len(chunk))
        rest = data[cut:]
        line += len(chunk)
        yield chunk
    if rest:
        check_text(rest, options, f"line {line}")
        yield _Chunk(rest, line, source.lines(1) if isinstance(source, arrays.Elements) else None)


class _Joined(io.RawIOBase):
    """The bytes of chunks, end to end."""

    def __init__(self, head: bytes, chunks: Iterator[_Chunk]) -> None:
        self._head = head
        self._chunks = chunks

    def read(self, size: int = -1, /) -> bytes:
        if not self._head:
            following = next(self._chunks, None)
            self._head = following.data if following is not None else b""
        size = len(self._head) if size < 0 else size
        out, self._head = self._head[:size], self._head[size:]
        return out

    def seekable(self) -> bool:
        return False


def values(source: Source, options: ReadOptions = ReadOptions()) -> Iterator[Value]:
    """The values of JSON text by way of columns."""
    return values_of(read(source, options))
