from __future__ import annotations

import io

import pytest

from shoal.formats import lake
from shoal.model.parse import parse_value


def written(text: str) -> str:
    out = io.BytesIO()
    writer = lake.Writer(out)
    writer.write(parse_value(text))
    writer.close()
    return out.getvalue().decode()


def test_a_kind_of_record_is_written_in_its_form(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(lake.KINDS, "pool", lambda value: f"{value.data[0]} has {value.data[1]} objects")
    assert written('{name:"logs",count:3}(=pool)') == "logs has 3 objects\n"


def test_any_other_value_is_written_as_zson() -> None:
    assert written('{name:"logs"}(=branch)') == '{name:"logs"}(=branch)\n'
    assert written("1.2.3.4") == "1.2.3.4\n"
