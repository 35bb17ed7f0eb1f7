"""From what callers give to what the lake takes: values as data objects, texts as ids, notes of commits."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from shoal.api.authors import default_author
from shoal.api.python_values import from_python
from shoal.errors import NotFound
from shoal.formats.files import Piece
from shoal.ids import Id, parse
from shoal.lake.commits import Note
from shoal.lake.objects import DataObject
from shoal.lake.pools import Pool
from shoal.model.values import NULL


def write_pieces(pool: Pool, pieces: Iterator[Piece]) -> list[DataObject]:
    """Values as data objects that nobody sees yet. If that fails, none of them stay."""
    writer = pool.writer()
    try:
        for piece in pieces:
            writer.write_piece(piece)
        return writer.close()
    except BaseException:
        writer.discard()
        raise


def object_ids(pool: Pool, texts: Sequence[str]) -> list[Id]:
    """The ids of objects; the id of a commit stands for those that it added."""
    out: list[Id] = []
    for text in texts:
        ident = parse(text)
        try:
            out.extend(o.id for o in pool.commits.read(ident).adds)
        except NotFound:
            out.append(ident)
    return out


def make_note(author: str | None, message: str, meta: Any) -> Note:
    """What is said of a commit; objects of Python become values."""
    value = NULL if meta is None else from_python(meta)
    return Note(default_author() if author is None else author, message, value)
