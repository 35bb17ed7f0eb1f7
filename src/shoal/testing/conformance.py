"""Runs a conformance case in this process: a program, an input and flags in; output and errors out."""

from __future__ import annotations

import contextlib
import io
import os
import sys
import tempfile
from unittest.mock import patch

from shoal.cli.main import main


def run(program: str, data: bytes, input_flags: list[str], output_flags: list[str]) -> tuple[bytes, bytes, int]:
    """Standard output, standard error and exit status of `shoal zq`."""
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
