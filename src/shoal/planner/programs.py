"""Programs as they are given: text from files and from the caller, and whether they need any input."""

from __future__ import annotations

import os

from shoal.engines.interp.engine import evaluate
from shoal.lang import ast, plan
from shoal.lang.analyze import analyze, needs_input
from shoal.lang.catalog import Catalog
from shoal.lang.source import Part, Source
from shoal.planner.program_files import read_text


def read_part(path: str | os.PathLike[str]) -> Part:
    """A file with program text."""
    return Part(os.fsdecode(path), read_text(path))


def stands_alone(source: Source, tree: ast.Seq, catalog: Catalog | None = None) -> bool:
    """Whether a program has no need of input: it brings its own source, or it begins with a yield."""
    body = analyze(tree, source, evaluate, catalog).body
    if not isinstance(body[0], plan.DefaultScan):
        return True
    return not needs_input(body[1:]) or (len(body) > 1 and isinstance(body[1], plan.Yield))
