"""The files that a command is given, looked at before anything is begun."""

from __future__ import annotations

from pathlib import Path

from shoal.errors import InvalidInput
from shoal.sources.inputs import STDIN, is_url
from shoal.sources.reading import open_input


def check_input(path: str, output: str = "", must_exist: bool = True) -> None:
    """An input that cannot be read is no reason to begin an output, least of all onto itself."""
    if path == STDIN or is_url(path):
        return
    if must_exist and (Path(path).is_file() or not Path(path).exists()):
        open_input(path)[1].close()
    if output and Path(output).exists() and Path(output).samefile(path):
        raise InvalidInput(f"{path}: is the output, too (write to another file)")
