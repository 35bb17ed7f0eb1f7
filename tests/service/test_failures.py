"""Errors as callers see them: without the paths of the service's machine."""

from __future__ import annotations

import pytest

from shoal.errors import CorruptData, InvalidInput, ShoalError, StorageFailure
from shoal.service.failures import public_text

LAKE = "file:///srv/lakes/ours"
CASES: list[tuple[ShoalError, str]] = [
    (StorageFailure("/srv/lakes/ours/P/data/1.parquet: not a directory"), "P/data/1.parquet: not a directory"),
    (StorageFailure("file:///srv/lakes/ours/P/data/1: no space"), "P/data/1: no space"),
    (StorageFailure("file:///srv/lakes/ours: the outcome is unknown"), "the lake: the outcome is unknown"),
    (StorageFailure("/tmp/shoal-1/spill: no space left on device"), "spill: no space left on device"),
    (StorageFailure('DuckDB: cannot open "/var/tmp/a.db" for writing'), 'DuckDB: cannot open "a.db" for writing'),
    (CorruptData("P/data/1.parquet: checksum mismatch"), "P/data/1.parquet: checksum mismatch"),
    (StorageFailure("s3://bucket/a/b: 1/2 of it"), "s3://bucket/a/b: 1/2 of it"),
    (InvalidInput("get '/etc/passwd': not here"), "get '/etc/passwd': not here"),
    (InvalidInput("x: a link leads out of /srv/lakes/ours"), "x: a link leads out of the lake"),
]


@pytest.mark.parametrize(("failure", "text"), CASES, ids=[text for _, text in CASES])
def test_paths_are_relative_to_the_lake(failure: ShoalError, text: str) -> None:
    assert public_text(failure, LAKE) == text


def test_the_root_of_a_bucket_is_not_named_either() -> None:
    assert public_text(StorageFailure("s3://bucket/lake/P/x: denied"), "s3://bucket/lake") == "P/x: denied"
