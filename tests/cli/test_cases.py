"""The scripts of formats and of verbs print what they say."""

from __future__ import annotations

from pathlib import Path

import pytest

from shoal.testing.scripts import Script, ScriptShell, load_scripts, steady

SCRIPTS = [*load_scripts("formats"), *load_scripts("verbs")]


@pytest.mark.parametrize("script", SCRIPTS, ids=[script.name for script in SCRIPTS])
def test_script(script: Script, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, text in script.files.items():
        (tmp_path / name).write_text(text)
    shell = ScriptShell(tmp_path, monkeypatch)
    try:
        for step in script.steps:
            assert steady(shell.run(step.command)) == steady(step.printed), step.command
    finally:
        shell.close()
