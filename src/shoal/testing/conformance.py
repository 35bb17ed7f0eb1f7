"""The public conformance cases, which are outside of the repository, our documented exceptions, and a runner."""

from __future__ import annotations

import contextlib
import importlib.util
import io
import json
import os
import re
import sys
import tempfile
from pathlib import Path
from typing import Any
from unittest.mock import patch

from shoal.cli.main import main


def run(program: str, data: bytes, input_flags: list[str], output_flags: list[str]) -> tuple[bytes, bytes, int]:
    """Run `shoal zq`; returns standard output, standard error and exit status."""
    handle, path = tempfile.mkstemp(prefix="shoal-case-")
    os.write(handle, data)
    os.close(handle)
    out = io.TextIOWrapper(io.BytesIO(), encoding="utf-8")
    errors = io.StringIO()
    try:
        with patch.object(sys, "stdout", out), contextlib.redirect_stderr(errors):
            status = main(["zq", *output_flags, *input_flags, program, path])
        out.flush()
        return out.buffer.getvalue(), errors.getvalue().encode(), status
    finally:
        os.unlink(path)


ROOT = Path(__file__).parents[3]
SHARED = ROOT.parent / "shared" / "conformance"
ABSENT = "the conformance cases lie beside the project, in ../shared, and are not here"
Case = dict[str, Any]


def load(name: str) -> list[Case]:
    """The cases of a file; none where they are absent."""
    path = SHARED / f"{name}.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def runner(name: str) -> Any:
    """The module of the public runner."""
    spec = importlib.util.spec_from_file_location(name, SHARED / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def exceptions() -> set[str]:
    """The cases that `docs/conformance.md` lists as not passed, with a reason each."""
    page = (ROOT / "docs" / "conformance.md").read_text()
    return set(re.findall(r"^\| `([^`]+\.(?:yaml|md:\d+))` \| \S.*\|$", page, re.MULTILINE))
