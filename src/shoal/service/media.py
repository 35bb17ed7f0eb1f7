"""Which format a body is in, and which one an answer is to have."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from shoal.errors import InvalidInput
from shoal.formats.json.writer import to_json
from shoal.formats.registry import Format, by_media_type, by_name
from shoal.formats.streams import Sink, WriteOptions, Writer
from shoal.model.types import Type
from shoal.model.values import Value

_UNSAID = ("", "*/*", "application/octet-stream", "application/x-www-form-urlencoded")
"""Media types that say nothing; the last is what curl says of anything."""
_PLAIN = WriteOptions()

OpenWriter = Callable[[Sink], Writer]


def format_of_body(content_type: str) -> str:
    """The name of the format of a body; `auto` where its type says nothing."""
    essence = content_type.partition(";")[0].strip().lower()
    return "auto" if essence in _UNSAID else by_media_type(essence).name


def format_of_answer(accept: str, default: Format) -> Format:
    """The first format in a list of media types that can be written."""
    accepted = [part.partition(";")[0].strip().lower() for part in accept.split(",")]
    for each in accepted:
        if each in _UNSAID or each.endswith("/*"):
            return default
        try:
            chosen = by_media_type(each)
        except InvalidInput:
            continue
        if chosen.writer is not None and chosen.media_types:
            return chosen
    raise InvalidInput(f"no format that can be written in Accept: {accept} (such as application/x-zson)")


def media_type(written: Format) -> str:
    """What a format is called in HTTP."""
    return written.media_types[0] if written.media_types else "text/plain"


def default_format(name: str) -> Format:
    """The format of answers to those who accept anything."""
    chosen = by_name(name)
    if chosen.writer is None or not chosen.media_types:
        raise InvalidInput(f"answers cannot have format {name!r} (such as zson, zng, ndjson)")
    return chosen


def open_writer(written: Format, is_one: bool = False, shape: Type | None = None) -> OpenWriter:
    """What writes values, which may be none of a known type: JSON of several is an array."""
    if written.name == "json" and not is_one:
        return _ArrayWriter
    make = written.load_writer()
    options = _PLAIN if shape is None else replace(_PLAIN, shape=shape)
    return lambda out: make(out, options)


class _ArrayWriter:
    """Writes values as one array of JSON, which grows as they come."""

    def __init__(self, out: Sink) -> None:
        self._out = out
        self._begin = b"["

    def write(self, value: Value) -> None:
        """Add an element."""
        self._out.write(self._begin + to_json(value).encode())
        self._begin = b","

    def close(self) -> None:
        """End the array."""
        self._out.write((b"[" if self._begin == b"[" else b"") + b"]\n")
