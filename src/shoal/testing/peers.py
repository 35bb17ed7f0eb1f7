"""The real Zed tools, where they are installed: the binaries, a service, and sessions of a client with any service."""

from __future__ import annotations

import lzma
import os
import re
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from shoal.ids import parse, to_text
from shoal.testing.conformance import ROOT

VARIABLE = "ZED_PEERS"
"""Names a folder with `zed` and `zq`."""
_PACKED = ROOT.parent / "shared" / "peers"
_SECONDS = 60.0
_ID = re.compile(r"0x[0-9a-f]{40}|\b(?=[0-9A-Za-z]*\d)[0-9A-Za-z]{27}\b")
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z")
_SIZE = re.compile(r"\b(size:|bytes_read:|bytes_matched:|in )\d+")


def find_peer(name: str, folder: Path) -> Path | None:
    """The binary of this name, unpacked into a folder if need be; None if there is none."""
    if VARIABLE in os.environ:
        return Path(os.environ[VARIABLE]) / name
    packed = _PACKED / f"{name}.xz"
    if not packed.exists():
        return None
    binary = folder / name
    binary.write_bytes(lzma.decompress(packed.read_bytes()))
    binary.chmod(0o755)
    return binary


@contextmanager
def zed_serving(zed: Path, folder: Path) -> Iterator[str]:
    """The URL of a real Zed service with an empty lake; it ends with the block."""
    lake, port_file, log_file = folder / "zed-lake", folder / "zed-port", folder / "zed.log"
    subprocess.run([zed, "init", "-q", "-lake", lake], check=True, timeout=_SECONDS)  # noqa: S603
    command: list[str | Path] = [zed, "serve", "-lake", lake, "-l", "127.0.0.1:0", "-portfile", port_file]
    with log_file.open("wb") as log:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)  # noqa: S603
    try:
        until = time.monotonic() + _SECONDS
        while not (port_file.exists() and port_file.read_text().strip()):
            if process.poll() is not None or time.monotonic() > until:
                raise AssertionError(f"the Zed service did not start: {log_file.read_text()}")
            time.sleep(0.02)
        yield f"http://127.0.0.1:{port_file.read_text().strip()}"
    finally:
        process.kill()
        process.wait()


@dataclass(frozen=True, slots=True)
class Step:
    """A command of a session and what it wrote, without ids, times and sizes, which differ from run to run."""

    line: str
    output: str
    ours: str | None
    """What our side says where it differs on purpose; None where both say the same."""
    why: str


@dataclass
class Session:
    """Runs the commands of a client against one service and records what they write."""

    command: Sequence[str | Path]
    url: str
    home: Path
    steps: list[Step] = field(default_factory=list)
    _ids: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.home.mkdir(exist_ok=True)

    def run(
        self, line: str, *more: str, stdin: bytes = b"", ours: str | None = None, why: str = "", is_sorted: bool = False
    ) -> str:
        """Run a command; `more` are arguments with blanks, `ours` and `why` a difference between the two sides."""
        words = line.split()
        verbs = 2 if words[0] in ("auth", "vector") else 1
        status, text = self.execute([*words[:verbs], "-lake", self.url, *words[verbs:], *more], stdin)
        shown = "".join(sorted(text.splitlines(keepends=True), key=_masked)) if is_sorted else text
        output = f"{self._stable(shown)}exit {status}"
        self.steps.append(Step(self._stable(" ".join([line, *more])), output, ours, why))
        return text

    def execute(self, argv: Sequence[str], stdin: bytes) -> tuple[int, str]:
        """Run the command as a process; its exit status, and what it writes."""
        done = subprocess.run(  # noqa: S603 - the command of a test
            [*self.command, *argv],
            input=stdin,
            capture_output=True,
            env={**os.environ, "HOME": str(self.home), "TZ": "UTC"},
            timeout=_SECONDS,
            check=False,
        )
        return done.returncode, (done.stdout + done.stderr).decode(errors="backslashreplace")

    def ids(self, text: str) -> list[str]:
        """The ids in what a command wrote, as text."""
        return [to_text(parse(ident)) for ident in _ID.findall(text)]

    def _stable(self, text: str) -> str:
        text = _TIME.sub("TIME", text.replace(self.url, "URL").replace(str(self.home), "HOME"))
        return _SIZE.sub(r"\1SIZE", _ID.sub(lambda match: self._label(match[0]), text))

    def _label(self, text: str) -> str:
        ident = to_text(parse(text))
        if not any(parse(ident)):
            return "NO-ID"
        return self._ids.setdefault(ident, f"ID{len(self._ids) + 1}")


def _masked(line: str) -> str:
    return _TIME.sub("", _ID.sub("", line))


def require_same(reference: Session, ours: Session) -> None:
    """AssertionError with every step in which two sessions differ, unless the step says that they do and how."""
    problems = []
    for theirs, own in zip(reference.steps, ours.steps, strict=True):
        if own.ours is None:
            if theirs.output != own.output:
                problems.append(f"{own.line}\n--- Zed\n{theirs.output}\n--- Shoal\n{own.output}")
        elif own.ours not in own.output or theirs.output == own.output:
            problems.append(f"{own.line}\n--- Zed\n{theirs.output}\n--- Shoal, expected {own.ours!r}\n{own.output}")
    assert not problems, "\n\n".join(problems)
