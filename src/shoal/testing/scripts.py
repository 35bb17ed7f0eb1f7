"""Runs scripts of commands in Markdown, as in the guides: `shoal` in this process, other commands in a shell.

A heading is the name of a script. A block with `file=NAME` is a file; a `console` block has commands and their output.
"""

from __future__ import annotations

import io
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import pytest

from shoal.cli.main import main

CASES = Path(__file__).parents[3] / "tests" / "cases"
_BLOCK = re.compile(r"^```(\w+)(?: file=(\S+))?\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_ASSIGNMENT = re.compile(r"([A-Z_]+)=(.*)")
_SUBSTITUTION = re.compile(r"\$\(([^()]*(?:\([^()]*\)[^()]*)*)\)")
_CHANGING = (
    (re.compile(r"\b[0-9A-Za-z]{27}\b"), "ID"),
    (re.compile(r"\b0x[0-9a-f]{40}\b"), "0xID"),
    (re.compile(r"shoal_ID_[\w-]{43}"), "TOKEN"),
    (re.compile(r"(Date:   |\b(?:ts|date|created|expires):\s?)[-\dTZ:.]+"), r"\1TIME"),
    (re.compile(r"\b\d{4}-\d\d-\d\dT[\d:.]+Z"), "TIME"),
    (re.compile(r"bytes: \d+"), "bytes: SIZE"),
    (re.compile(r"file:///\S*/(?=lake|nowhere)"), "file:///DIRECTORY/"),
    (re.compile(r"(?<![\w:/])/\S*/test_script_\w+/"), "/DIRECTORY/"),
)


class Step(NamedTuple):
    """A command and its output, then its errors, then `[exit N]` if it fails."""

    command: str
    printed: str


class Script(NamedTuple):
    """The files and commands under one heading."""

    name: str
    files: dict[str, str]
    steps: list[Step]


def load_scripts(folder: str) -> list[Script]:
    """The scripts in the files of a folder of `tests/cases`."""
    return [script for path in sorted((CASES / folder).glob("*.md")) for script in _scripts(path)]


def _scripts(path: Path) -> list[Script]:
    sections = re.split(r"^## ", path.read_text(), flags=re.MULTILINE)[1:]
    return [_script(path.stem, *section.split("\n", 1)) for section in sections]


def _script(file: str, title: str, text: str) -> Script:
    blocks = [(m[1], m[2], m[3]) for m in _BLOCK.finditer(text)]
    steps = [
        Step(*step.split("\n", 1))
        for kind, _, block in blocks
        if kind == "console"
        for step in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]
    ]
    return Script(f"{file}: {title}", {name: block for _, name, block in blocks if name}, steps)


def steady(text: str) -> str:
    """Replace ids, times and sizes, so that the text is the same in every run."""
    for pattern, word in _CHANGING:
        text = pattern.sub(word, text)
    return text


class ScriptShell:
    """Runs the commands of a script in a directory, which is also the home directory and contains the lake."""

    def __init__(self, directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self._monkeypatch = monkeypatch
        self._background: list[subprocess.Popen[bytes]] = []
        for name in os.environ:
            if name.startswith(("SHOAL_", "ZED_")) and name != "SHOAL_TESTS":
                monkeypatch.delenv(name)
        monkeypatch.setenv("HOME", str(directory))
        monkeypatch.setenv("SHOAL_LAKE", "lake")
        monkeypatch.setenv("SHOAL_USER", "ada")
        monkeypatch.chdir(directory)

    def run(self, command: str) -> str:
        """Run a command; returns what it prints."""
        assignment = _ASSIGNMENT.fullmatch(command)
        if assignment is not None:
            self._monkeypatch.setenv(assignment[1], self._expanded(assignment[2]))
            return ""
        if command.endswith(" &"):
            words = [sys.executable, "-m", *shlex.split(self._expanded(command[:-2]))]
            self._background.append(
                subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)  # noqa: S603
            )
            return ""
        status, out, err = self._pipeline(self._expanded(command))
        ending = "" if status == 0 else f"[exit {status}]\n"
        return out.decode() + err + ending

    def close(self) -> None:
        """Stop the background processes."""
        for process in self._background:
            process.terminate()
            process.wait()

    def _expanded(self, text: str) -> str:
        text = _SUBSTITUTION.sub(lambda match: self._pipeline(match[1])[1].decode().strip(), text)
        return re.sub(r"\$([A-Z_]+)", lambda match: os.environ.get(match[1], ""), text)

    def _pipeline(self, command: str) -> tuple[int, bytes, str]:
        lexer = shlex.shlex(command, posix=False, punctuation_chars="|")
        lexer.whitespace_split = True
        parts = [""]
        for word in lexer:
            parts = [*parts, ""] if word == "|" else [*parts[:-1], f"{parts[-1]} {word}"]
        status, data, errors = 0, b"", ""
        for part in parts:
            words = shlex.split(part)
            status, data, err = call_shoal(words[1:], data) if words[0] == "shoal" else _other(part, data)
            errors += err
        return status, data, errors


def call_shoal(argv: Sequence[str], stdin: bytes = b"") -> tuple[int, bytes, str]:
    """Run `shoal` in this process; returns its exit status, output and errors."""
    out, err = io.TextIOWrapper(io.BytesIO(), "utf-8"), io.StringIO()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin), "utf-8"))
        patch.setattr(sys, "stdout", out)
        patch.setattr(sys, "stderr", err)
        status = main(argv)
        out.flush()
    return status, out.buffer.getvalue(), err.getvalue()


def _other(command: str, stdin: bytes) -> tuple[int, bytes, str]:
    done = subprocess.run(["/bin/sh", "-c", command], input=stdin, capture_output=True, check=False)  # noqa: S603
    return done.returncode, done.stdout, done.stderr.decode()
