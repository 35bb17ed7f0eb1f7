from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal import ids
from shoal.errors import InvalidInput


@given(st.binary(min_size=20, max_size=20))
def test_ids_survive_as_text_and_order_alike(ident: bytes) -> None:
    text = ids.to_text(ident)
    assert len(text) == 27
    assert ids.parse(text) == ident
    assert ids.parse("0x" + ident.hex()) == ident
    assert (ids.to_text(bytes(20)) <= text) is True


def test_a_known_id_is_read() -> None:
    # The example that the format's own description gives.
    assert ids.parse("0ujtsYcgvSTl8PAuAdqWYSMnLOv").hex() == "0669f7efb5a1cd34b5f99d1154fb6853345c9735"


def test_new_ids_differ_and_tell_when_they_were_made() -> None:
    assert ids.new() != ids.new()
    assert ids.created_at(ids.new(1_700_000_000.9)) == 1_700_000_000
    assert ids.to_text(ids.new(1_600_000_000)) < ids.to_text(ids.new(1_700_000_000))


@pytest.mark.parametrize("text", ["", "x" * 27, "z" * 27, "0" * 26, "0x00", "0ujtsYcgvSTl8PAuAdqWYSMnLO!"])
def test_what_is_no_id_is_refused(text: str) -> None:
    with pytest.raises(InvalidInput, match="invalid id"):
        ids.parse(text)
