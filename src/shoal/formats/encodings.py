"""Text in other encodings than UTF-8. It becomes UTF-8 on its way to a reader, so that readers know of one encoding.

UTF-16 and UTF-32 are recognised by their byte order mark. Any other encoding has to be named.
"""

from __future__ import annotations

import codecs
from collections.abc import Iterator

from shoal.errors import InvalidInput
from shoal.formats.streams import CHUNK, NAME_ENCODING, Peeks, Pieces, Source

_MARKS = (
    (codecs.BOM_UTF32_LE, "utf-32"),  # before UTF-16, whose mark is the beginning of this one
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_MARK_SIZE = 4
_UTF8 = "utf-8"


def as_utf8(source: Peeks, encoding: str | None) -> Peeks:
    """The text of a source in UTF-8; the source itself if its text is UTF-8 already.

    Without the name of an encoding, a byte order mark decides.
    """
    name = marked(source.peek(_MARK_SIZE)) if encoding is None else codecs.lookup(encoding).name
    return source if name is None or name == _UTF8 else Pieces(source, _recode(source, name))


def marked(head: bytes) -> str | None:
    """The encoding that a byte order mark names, unless that is UTF-8."""
    return next((name for mark, name in _MARKS if head.startswith(mark)), None)


def _recode(source: Source, name: str) -> Iterator[bytes]:
    decoder = codecs.getincrementaldecoder(name)()
    line, is_first, is_last = 1, True, False
    while not is_last:
        data = source.read(CHUNK)
        is_last = not data
        state = decoder.getstate()
        try:
            text = decoder.decode(data, is_last)
        except UnicodeDecodeError as e:
            decoder.setstate(state)
            line += decoder.decode(data[: max(0, e.start - len(state[0]))]).count("\n")
            raise InvalidInput(f"line {line}: invalid {name} ({e.reason}) {NAME_ENCODING}") from None
        line += text.count("\n")
        if is_first and text:
            text, is_first = text.removeprefix("\ufeff"), False
        if text:
            yield text.encode()
