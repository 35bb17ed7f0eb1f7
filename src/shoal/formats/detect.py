"""Which format is this? The readers are tried on the first bytes, the strictest first.

A JSON reader that likes the first ten values wins over ZSON. `line` is never guessed, since it
likes everything.
"""

from __future__ import annotations

import io
from itertools import islice

from shoal.api.options import ReadOptions
from shoal.errors import InvalidInput
from shoal.formats import registry
from shoal.formats.compression import Peekable, unwrap
from shoal.formats.streams import Source

_FIRST_LOOK = 1 << 16
_LONGEST_LOOK = 10 << 20
_TRIED = {"zeek": 1, "zjson": 1, "json": 10, "zson": 1, "zng": 1, "csv": 1, "tsv": 1}
"""The formats to try, in this order, and how many values have to be readable."""
_ARROW_START = b"\xff\xff\xff\xff"


def open_source(
    source: Source, format_name: str = "auto", options: ReadOptions = ReadOptions()
) -> tuple[registry.Format, Source]:
    """The format of a source, as named or found out, and its plain bytes, compressed or not."""
    plain = unwrap(source)
    return detect(plain, options) if format_name == "auto" else (registry.by_name(format_name), plain)


def detect(source: Source, options: ReadOptions = ReadOptions()) -> tuple[registry.Format, Source]:
    """The format of `source`, and a source to read it from the start."""
    looker = _Seekable(source) if source.seekable() else source if isinstance(source, Peekable) else Peekable(source)
    size = _FIRST_LOOK
    while True:
        head = looker.peek(size)
        complete = len(head) < size
        longest = complete or size >= _LONGEST_LOOK
        _refuse_known_others(head)
        found = _by_magic(head, source.seekable())
        if found is None and head.isspace():
            found = registry.by_name("zson") if longest else None
        elif found is None:
            found = _by_trial(head, complete, longest, options)
        if found is not None:
            return found, looker
        size = min(8 * size, _LONGEST_LOOK)


def _refuse_known_others(head: bytes) -> None:
    """What is no input of ours, but easily told."""
    if head.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise InvalidInput("looks like UTF-16 text (make it UTF-8 first: iconv -f UTF-16 -t UTF-8)")
    if head.startswith(b"ARROW1"):
        raise InvalidInput("an Arrow file; only Arrow streams and Parquet are read (write it as one of these)")


class _Seekable:
    """A file, with a look ahead."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self.read, self.seek, self.tell, self.seekable = source.read, source.seek, source.tell, source.seekable

    def peek(self, size: int) -> bytes:
        """The next bytes, without moving."""
        start = self._source.tell()
        parts = []
        while size > 0 and (part := self._source.read(size)):
            parts.append(part)
            size -= len(part)
        self._source.seek(start)
        return b"".join(parts)


def _by_magic(head: bytes, seekable: bool) -> registry.Format | None:
    if head.startswith(b"PAR1") and seekable:
        return registry.by_name("parquet")
    if head.startswith(b"VNG\0") and seekable:
        return registry.by_name("vng")
    if head.startswith(_ARROW_START) and 0 < int.from_bytes(head[4:8], "little") < 1 << 20:
        return registry.by_name("arrows")
    return None


class _CutOff(Exception):
    """A reader wants more than the first bytes."""


class _Head(io.BytesIO):
    """The first bytes of something longer."""

    def read(self, size: int | None = -1, /) -> bytes:
        data = super().read(size)
        if not data and size != 0:
            raise _CutOff
        return data

    def seekable(self) -> bool:
        return False


def _by_trial(head: bytes, complete: bool, longest: bool, options: ReadOptions) -> registry.Format | None:
    """The first format whose reader takes the head; None to be given a longer head."""
    refusals: dict[str, str] = {}
    for name, count in _TRIED.items():
        source = io.BytesIO(head) if complete else _Head(head)
        try:
            _require_beginning(name, head.lstrip())
            if name in ("csv", "tsv"):
                _require_header(name, head, options)
            for _ in islice(registry.by_name(name).load_reader()(source, options), count):
                pass
            return registry.by_name(name)
        except _CutOff:
            return registry.by_name(name) if longest else None
        except InvalidInput as e:
            refusals[name] = str(e).removeprefix(f"{name}: ")
    for name in ("parquet", "vng"):
        refusals[name] = "requires seekable input" if head[:4] in (b"PAR1", b"VNG\0") else "no magic number"
    refusals["arrows"], refusals["line"] = "no magic number", "auto-detection not supported"
    likely = "json" if head.lstrip()[:1] in (b"{", b"[") else "csv" if b"," in head.partition(b"\n")[0] else "zson"
    details = "".join(f"\n\t{name}: {refusals[name]}" for name in sorted(refusals))
    raise InvalidInput(
        f"format detection error (if it is {likely}: {refusals[likely]}; say what it is with -i){details}"
    )


def _require_beginning(name: str, head: bytes) -> None:
    """What two formats begin with. Their readers take whole lines, and a line may be longer than any head."""
    if name == "zeek" and not head.startswith(b"#") and head:
        raise InvalidInput("line 1: not a zeek log: the first line does not begin with '#'")
    if name == "zjson" and b'"type"' not in head[:1000] and len(head) > 1000:
        raise InvalidInput("line 1: malformed ZJSON: no type at the beginning")


def _require_header(name: str, head: bytes, options: ReadOptions) -> None:
    """Any text would pass as a table of one column, and broken JSON as a header."""
    delimiter = options.csv_delimiter or ("," if name == "csv" else "\t")
    line = head.partition(b"\n")[0]
    if delimiter.encode() not in line:
        raise InvalidInput(f"line 1: delimiter {delimiter!r} not found")
    if line.lstrip(b"\xef\xbb\xbf \t")[:1] in (b"{", b"["):
        raise InvalidInput("line 1: begins like JSON, not like a header")
