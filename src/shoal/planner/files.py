"""Files that a query names: program text and sources. Imports no lake code, so that `zq` starts fast."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeAlias

from shoal.api.options import ReadOptions, Watch
from shoal.engines.interp.environment import Run
from shoal.errors import InvalidInput, NotFound, Unsupported
from shoal.formats.detect import read_source
from shoal.lang import plan
from shoal.lang.source import Part
from shoal.model.values import Value
from shoal.sources.policy import SourcePolicy
from shoal.sources.reading import open_input, read_opened, read_request


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
    """A file of program text, as one part of a program."""
    return Part(os.fsdecode(path), read_text(path))


Open: TypeAlias = Callable[[plan.Scan], Iterator[Value]]


def runs_plans(run: Run, open_other: Open) -> None:
    """Let a run open scans, those that are physical plans among them."""
    run.open_scan = lambda scan: scan.plan.run(run) if isinstance(scan, plan.Physical) else open_other(scan)


def scan_opener(options: ReadOptions, watch: Watch | None = None, policy: SourcePolicy | None = None) -> Open:
    """Opens the files and URLs that a program names; a policy limits which."""
    open_file = open_input if policy is None else policy.file

    def open_scan(scan: plan.Scan) -> Iterator[Value]:
        match scan:
            case plan.FileScan(path, format_name):
                return read_opened(read_source, lambda: open_file(path), format_name, options, watch)
            case plan.HttpScan(url, format_name, method, headers, body):
                return read_request(url, format_name, options, method, headers, body.encode(), watch, policy)
        raise Unsupported('"from pool" cannot be used without a lake')

    return open_scan
