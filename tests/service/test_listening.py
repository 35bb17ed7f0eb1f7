"""Where a service listens, and what it says about that."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import shoal
from shoal.errors import Unauthenticated
from shoal.testing.services import serving


@pytest.mark.parametrize(("address", "warns"), [("0.0.0.0:0", True), ("127.0.0.1:0", False)])
def test_who_listens_for_others_without_encryption_is_told_so(tmp_path: Path, address: str, warns: bool) -> None:
    with serving(tmp_path / "lake", tmp_path, ["-l", address, "-auth.enabled", "-log.level", "warn"]) as served:
        with pytest.raises(Unauthenticated):
            shoal.open(served.url).pools()
        said = [json.loads(line)["msg"] for line in served.lines().splitlines()]
    assert [message for message in said if "in the clear" in message] == said[:1] * warns
