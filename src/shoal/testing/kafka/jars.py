"""Jars of real parts, brought by Maven: a pom in `poms/` pins versions, and the file beside it pins the bytes.

The pins are in the form of sha256sum. They name every file, also those that others bring along: a version of a
library that is only required by a library does not stay the same by itself. `python -m tools.jars` writes them.
"""

from __future__ import annotations

import os
import subprocess
import tarfile
from hashlib import file_digest
from pathlib import Path

from shoal.testing.kafka.cache import cached, find_program

POMS = Path(__file__).parent / "poms"
_COPY = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy-dependencies"
_SECONDS = 280
"""A test that has to bring jars ends within the five minutes of a test, with Maven's own message."""


class WrongJars(Exception):
    """What Maven brought is not what is pinned."""


def jars(name: str) -> Path:
    """The folder with the jars of a pom, and with what its archives hold."""
    pom, pins = POMS / f"{name}.xml", POMS / f"{name}.sha256"

    def bring(folder: Path) -> None:
        run_maven(pom, folder)
        _compare(name, parse_pins(pins.read_text()), digests(folder))
        for archive in folder.glob("*.tar.gz"):
            with tarfile.open(archive) as opened:
                opened.extractall(folder, filter="data")
            archive.unlink()

    return cached(name, pom.read_bytes() + pins.read_bytes(), bring)


def run_maven(pom: Path, folder: Path) -> None:
    """Copy what a pom names into a folder. Maven keeps its own copies in its repository."""
    if "JAVA_HOME" not in os.environ:
        find_program("java")
    options = ["--batch-mode", "--quiet", "--no-transfer-progress", "--strict-checksums", "--file", str(pom)]
    command = [str(find_program("mvn")), *options, _COPY, "-DincludeScope=runtime", f"-DoutputDirectory={folder}"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=_SECONDS, stdin=subprocess.DEVNULL)  # noqa: S603
    if done.returncode != 0:
        raise RuntimeError(f"Maven does not bring the jars of {pom.name}: {(done.stdout + done.stderr)[-2000:]}")


def digests(folder: Path) -> dict[str, str]:
    """The SHA-256 of each file of a folder, by name."""
    by_name = {}
    for path in sorted(folder.iterdir()):
        with path.open("rb") as opened:
            by_name[path.name] = file_digest(opened, "sha256").hexdigest()
    return by_name


def parse_pins(text: str) -> dict[str, str]:
    """Digests by name, from lines of sha256sum."""
    pairs = (line.split(maxsplit=1) for line in text.splitlines())
    return {name: digest for digest, name in pairs}


def format_pins(pins: dict[str, str]) -> str:
    """Lines of sha256sum."""
    return "".join(f"{digest}  {name}\n" for name, digest in sorted(pins.items()))


def _compare(name: str, pinned: dict[str, str], brought: dict[str, str]) -> None:
    wrong = sorted(file for file in pinned.keys() | brought.keys() if pinned.get(file) != brought.get(file))
    if wrong:
        raise WrongJars(f"the jars of {name} are not those that are pinned: {', '.join(wrong)}")
