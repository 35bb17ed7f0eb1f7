"""`shoal zq` splits its output into the files that the real `zq` writes."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from shoal.cli.main import main

VALUES = '{_path:"conn",a:1}{_path:"dns",b:"x"}{c:1}{_path:"conn",z:2}{c:2}{_path:1,r:1}1 "s"'


@pytest.mark.parametrize(
    ("format_name", "flags"),
    [
        ("zson", []),
        ("zson", ["-o", "pre"]),
        ("zson", ["-splitsize", "10B"]),
        ("zson", ["-splitsize", "20B", "-o", "pre"]),
        ("zng", []),
        ("zng", ["-o", "pre"]),
    ],
)
def test_split_writes_the_files_of_the_reference(
    zq: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, format_name: str, flags: list[str]
) -> None:
    source = tmp_path / "values.zson"
    source.write_text(VALUES)
    monkeypatch.chdir(tmp_path)
    command = ["-f", format_name, "-pretty", "0", *flags]
    reference: list[str | Path] = [zq, *command, "-split", "theirs", source]
    subprocess.run(reference, check=True, timeout=60)
    assert main(["zq", *command, "-split", "ours", str(source)]) == 0
    theirs, ours = ({path.name for path in Path(name).iterdir()} for name in ("theirs", "ours"))
    assert ours == theirs
    if format_name == "zson":
        assert all(Path("ours", name).read_text() == Path("theirs", name).read_text() for name in theirs)
