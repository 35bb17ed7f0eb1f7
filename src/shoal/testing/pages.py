"""Runs the examples of a page in order, in an empty directory that is also `HOME`.

A command that sets a variable sets it for those after it. Ids and times of commits vary, so they are not compared.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from shoal.testing.scripts import call_shoal

BLOCK = re.compile(r"^```(\w+)(?: file=(\S+))?\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def blocks(page: Path) -> list[tuple[str, str, str]]:
    """The blocks of a page: kind, file name, text."""
    return [(m[1], m[2] or "", m[3]) for m in BLOCK.finditer(page.read_text())]


QUOTED = re.compile(r"'[^']*'|\"[^\"$`\\]*\"")
SPECIAL = re.compile(r"[|&;<>()$`\\\"'*?\[~#\n]")
"""Characters that a shell interprets outside of quotes."""
ASSIGNMENT = re.compile(r"(?:export )?(\w+)=(.*)")
VARIABLE = [(re.compile(r"\b[0-9A-Za-z]{27}\b"), "ID"), (re.compile(r"\b0x[0-9a-f]{40}\b"), "0xID")]
VARIABLE += [(re.compile(r"^bytes: \d+$", re.MULTILINE), "bytes: SIZE")]
VARIABLE += [(re.compile(r"(Date:   |\b(?:ts|date):\s?)[-\dTZ:.]+"), r"\1TIME")]


class Shell:
    """Runs commands one after the other, with the variables that earlier ones set: `shoal` alone in this process."""

    def __init__(self, directory: Path, patch: pytest.MonkeyPatch) -> None:
        self._patch = patch
        patch.chdir(directory)
        patch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
        patch.setenv("HOME", str(directory))
        patch.setenv("SHOAL_USER", "ada@example.com")

    def run(self, command: str) -> str:
        """What a command prints."""
        assignment = ASSIGNMENT.fullmatch(command)
        if assignment is not None:
            self._patch.setenv(assignment[1], self._execute(f"printf %s {assignment[2]}"))
            return ""
        if command.startswith("shoal ") and not SPECIAL.search(QUOTED.sub("", command)):
            _, out, err = call_shoal(shlex.split(command)[1:])
            return out.decode() + err
        return self._execute(command)

    def _execute(self, command: str) -> str:
        process = subprocess.run(  # noqa: S602 - the pages are ours
            command, shell=True, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120
        )
        return process.stdout + process.stderr


def normalize(text: str) -> str:
    """Replace ids, sizes and times, which vary from run to run, by placeholders."""
    for pattern, word in VARIABLE:
        text = pattern.sub(word, text)
    return text


def require_what_it_says(page: Path, directory: Path, patch: pytest.MonkeyPatch) -> None:
    """Every example of a page prints what the page says."""
    page_blocks = blocks(page)
    for _, name, text in page_blocks:
        if name:
            (directory / name).write_text(text)
    ran, shell = 0, Shell(directory, patch)
    for i, (kind, _, text) in enumerate(page_blocks):
        if kind == "console":
            for example in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
                command, _, expected = example.partition("\n")
                assert normalize(shell.run(command)) == normalize(expected), command
                ran += 1
        if kind == "python":
            (directory / "example.py").write_text(text)
            assert normalize(shell.run(f"{sys.executable} -W error example.py")) == normalize(page_blocks[i + 1][2])
            ran += 1
    assert ran
