"""Runs the examples in the README and the guides, in order, in an empty directory that is also `HOME`.

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

ROOT = Path(__file__).parents[2]
FOLDERS = ("docs", "docs/language", "docs/howto")
PAGES = [ROOT / "README.md", *(page for folder in FOLDERS for page in sorted((ROOT / folder).glob("*.md")))]
BLOCK = re.compile(r"^```(\w+)(?: file=(\S+))?\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def blocks(page: Path) -> list[tuple[str, str, str]]:
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
        assignment = ASSIGNMENT.fullmatch(command)
        if assignment is not None:
            self._patch.setenv(assignment[1], self._execute(f"printf %s {assignment[2]}"))
            return ""
        if command.startswith("shoal ") and not SPECIAL.search(QUOTED.sub("", command)):
            _, out, err = call_shoal(shlex.split(command)[1:])
            return out.decode() + err
        return self._execute(command)

    def _execute(self, command: str) -> str:
        process = subprocess.run(
            command, shell=True, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120
        )
        return process.stdout + process.stderr


def normalize(text: str) -> str:
    """Replace ids, sizes and times, which vary from run to run, by placeholders."""
    for pattern, word in VARIABLE:
        text = pattern.sub(word, text)
    return text


@pytest.mark.parametrize("page", PAGES, ids=[p.name for p in PAGES])
def test_every_example_prints_what_the_page_says(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page_blocks = blocks(page)
    for _, name, text in page_blocks:
        if name:
            (tmp_path / name).write_text(text)
    ran, shell = 0, Shell(tmp_path, monkeypatch)
    for i, (kind, _, text) in enumerate(page_blocks):
        if kind == "console":
            for example in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
                command, _, expected = example.partition("\n")
                assert normalize(shell.run(command)) == normalize(expected), command
                ran += 1
        if kind == "python":
            (tmp_path / "example.py").write_text(text)
            assert normalize(shell.run(f"{sys.executable} -W error example.py")) == normalize(page_blocks[i + 1][2])
            ran += 1
    assert ran


def test_links_between_pages_lead_somewhere() -> None:
    for page in [*PAGES, ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md"]:
        prose = re.sub(r"`[^`]*`", "", BLOCK.sub("", page.read_text()))
        for target in re.findall(r"\]\(([^)#:]+)\)", prose):
            assert (page.parent / target).exists(), (page.name, target)
