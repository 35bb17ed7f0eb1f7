"""The README, the guides and the decisions are in plain English, and the package map matches the source.

The patterns are the habits of an earlier dialect of this project, which readers had to decode.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "CHANGELOG.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
CODE = re.compile(r"^```.*?^```$|`[^`\n]*`", re.MULTILINE | re.DOTALL)
BANNED = {
    r"(?<![Tt]here )\bis no\b(?! longer| more)": "say `is not a X`, or `not a valid X`",
    r"\banew\b": "say `again`",
    r"\bso many\b": "name the number",
    r"\b[Ww]hoever\b": "name the actor: a writer, a reader, a caller",
    r"\b(?:told|tells)\b": "say `shows`, `returns`, `reports`, `says`",
    r"\bfound out\b": "say `detected` or `determined`",
    r"(?<=[.:] )The same(?: (?:as|for|from|holds|in|is|of|through|to|with)\b|[.:,])": "name the thing",
}


@pytest.mark.parametrize("page", PAGES, ids=[str(page.relative_to(ROOT)) for page in PAGES])
def test_page_is_free_of_the_old_dialect(page: Path) -> None:
    prose = " ".join(CODE.sub("", page.read_text()).split())
    hits = [(match, advice) for pattern, advice in BANNED.items() for match in re.finditer(pattern, prose)]
    assert not [(prose[max(0, match.start() - 30) : match.end() + 30], advice) for match, advice in hits]


def test_glossary_is_linked_from_readme_and_architecture() -> None:
    assert "(docs/glossary.md)" in (ROOT / "README.md").read_text()
    assert "(glossary.md)" in (ROOT / "docs/architecture.md").read_text()


def test_package_map_names_every_package_and_no_other() -> None:
    page = (ROOT / "docs/architecture.md").read_text()
    rows = page.split("## Packages")[1].split("\n## ")[0]
    named = {name for row in re.findall(r"^\| (`.*?) \|", rows, re.MULTILINE) for name in re.findall(r"`(\w+)`", row)}
    source = ROOT / "src/shoal"
    present = {path.stem for path in source.iterdir() if (path / "__init__.py").exists() or path.suffix == ".py"}
    assert named == present - {"__init__", "__main__"}


def test_every_path_in_contributing_exists() -> None:
    page = (ROOT / "CONTRIBUTING.md").read_text()
    paths = re.findall(r"`((?:src|tests|docs|bench|tools|\.ci)/[\w./-]*|[\w-]+\.(?:md|lock))`", page)
    assert len(paths) > 20
    assert [path for path in paths if not (ROOT / path).exists()] == []
