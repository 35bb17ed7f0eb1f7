"""Program text from files."""

from __future__ import annotations

import os
from pathlib import Path

from shoal.errors import InvalidInput, NotFound
from shoal.lang.source import Part


def read_text(path: str | os.PathLike[str]) -> str:
    """The contents of a text file."""
    name = os.fsdecode(path)
    try:
        return Path(path).read_text()
    except FileNotFoundError:
        raise NotFound(f"{name}: file does not exist") from None
    except (OSError, UnicodeDecodeError) as e:
        raise InvalidInput(f"{name}: cannot be read as text: {e}") from None


def read_part(path: str | os.PathLike[str]) -> Part:
    """A file of program text, as a part of a program."""
    return Part(os.fsdecode(path), read_text(path))
