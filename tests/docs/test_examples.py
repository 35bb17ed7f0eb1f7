"""Runs the examples in the README and the guides. Those of the guide to Kafka need a broker: `tests/connect/kafka`."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from shoal.testing.pages import BLOCK, require_what_it_says

ROOT = Path(__file__).parents[2]
FOLDERS = ("docs", "docs/language", "docs/howto")
PAGES = [ROOT / "README.md", *(page for folder in FOLDERS for page in sorted((ROOT / folder).glob("*.md")))]
WITH_BROKER = ROOT / "docs" / "kafka.md"


@pytest.mark.parametrize("page", [page for page in PAGES if page != WITH_BROKER], ids=lambda page: page.name)
def test_every_example_prints_what_the_page_says(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    require_what_it_says(page, tmp_path, monkeypatch)


def test_links_between_pages_lead_somewhere() -> None:
    for page in [*PAGES, ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md"]:
        prose = re.sub(r"`[^`]*`", "", BLOCK.sub("", page.read_text()))
        for target in re.findall(r"\]\(([^)#:]+)\)", prose):
            assert (page.parent / target).exists(), (page.name, target)
