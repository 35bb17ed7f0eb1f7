"""Programs as they are given: text from files and from the caller."""

from __future__ import annotations

import os

from shoal.lang.source import Part
from shoal.planner.program_files import read_text


def read_part(path: str | os.PathLike[str]) -> Part:
    """A file with program text."""
    return Part(os.fsdecode(path), read_text(path))
