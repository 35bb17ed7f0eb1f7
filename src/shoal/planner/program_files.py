"""Files with text of programs."""

from __future__ import annotations

import os
from pathlib import Path

from shoal.errors import InvalidInput, NotFound


def read_text(path: str | os.PathLike[str]) -> str:
    """What is in a file, which has to be text."""
    name = os.fsdecode(path)
    try:
        return Path(path).read_text()
    except FileNotFoundError:
        raise NotFound(f"{name}: file does not exist") from None
    except (OSError, UnicodeDecodeError) as e:
        raise InvalidInput(f"{name}: cannot be read as text: {e}") from None
