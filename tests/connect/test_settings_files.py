"""Settings in YAML files, whose names are texts, whatever YAML takes them for."""

from __future__ import annotations

from pathlib import Path

import pytest

from shoal.connect.settings import read_settings
from shoal.errors import InvalidInput


def test_names_that_look_like_booleans_are_texts(tmp_path: Path) -> None:
    path = tmp_path / "a.yaml"
    path.write_text("join: {on: {no: value.ID, yes: value.N}, is-open: yes}\n")
    section = read_settings(str(path)).section("join")
    assert section.section("on").pairs() == {"no": "value.ID", "yes": "value.N"}
    assert section.text("is-open") == "true"


def test_a_file_that_is_not_yaml_says_where(tmp_path: Path) -> None:
    path = tmp_path / "a.yaml"
    path.write_text("a: [1\nb: 2\n")
    with pytest.raises(InvalidInput, match=r"a\.yaml: line 2, column 2: "):
        read_settings(str(path))
