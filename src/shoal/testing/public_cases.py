"""The public cases, which lie beside the project and not in it, and the exceptions that the docs own up to."""

from __future__ import annotations

import importlib.util
import json
import re
from pathlib import Path
from typing import Any

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
