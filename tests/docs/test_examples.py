"""The examples in the README and the guides are run, in order, in an empty directory."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")), *sorted((ROOT / "docs/language").glob("*.md"))]
BLOCK = re.compile(r"^```(\w+)(?: file=(\S+))?\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def blocks(page: Path) -> list[tuple[str, str, str]]:
    return [(m[1], m[2] or "", m[3]) for m in BLOCK.finditer(page.read_text())]


def run(command: str, directory: Path) -> str:
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        command,
        shell=True,
        cwd=directory,
        env={**os.environ, "PATH": path},
        capture_output=True,
        text=True,
        timeout=120,
    )
    return done.stdout + done.stderr


@pytest.mark.parametrize("page", PAGES, ids=[p.name for p in PAGES])
def test_every_example_prints_what_the_page_says(page: Path, tmp_path: Path) -> None:
    found = blocks(page)
    for _, name, text in found:
        if name:
            (tmp_path / name).write_text(text)
    ran = 0
    for i, (kind, _, text) in enumerate(found):
        if kind == "console":
            for example in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
                command, _, expected = example.partition("\n")
                assert run(command, tmp_path) == expected, command
                ran += 1
        if kind == "python":
            (tmp_path / "example.py").write_text(text)
            assert run(f"{sys.executable} -W error example.py", tmp_path) == found[i + 1][2]
            ran += 1
    assert ran


def test_links_between_pages_lead_somewhere() -> None:
    for page in [*PAGES, ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md"]:
        prose = re.sub(r"`[^`]*`", "", BLOCK.sub("", page.read_text()))
        for target in re.findall(r"\]\(([^)#:]+)\)", prose):
            assert (page.parent / target).exists(), (page.name, target)
