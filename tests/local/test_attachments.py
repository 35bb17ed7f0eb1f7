"""Files that are attached in buckets, and through a service."""

from __future__ import annotations

import io
import os
from pathlib import Path
from typing import Any

import obstore
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from obstore.store import S3Store

from shoal.access.view import VisibleLake
from shoal.errors import CorruptData, Forbidden, NotFound
from shoal.local.lake import LocalLake, create_local, whole
from shoal.model.text import format_value
from shoal.sources.policy import NO_SOURCES, SourcePolicy


def parquet(**columns: Any) -> bytes:
    out = io.BytesIO()
    pq.write_table(pa.table(columns), out)
    return out.getvalue()


def values(lake: LocalLake, program: str, engine: str = "interp") -> list[str]:
    return [format_value(value) for value in lake.query(program, engine=engine)]


@pytest.fixture
def lake(tmp_path: Path) -> LocalLake:
    made = create_local(str(tmp_path / "lake"))
    made.create("logs", key="k")
    return made


# ---- buckets


@pytest.fixture
def bucket(endpoint: str, monkeypatch: pytest.MonkeyPatch) -> S3Store:
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "test")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "test")
    monkeypatch.setenv("AWS_REGION", "us-east-1")
    monkeypatch.setenv("AWS_ENDPOINT_URL", endpoint)
    return S3Store("bucket", endpoint=endpoint, client_options={"allow_http": True})


@pytest.mark.parametrize("engine", ["interp", "duckdb"])
def test_files_of_a_bucket_are_attached_with_the_fields_of_their_folders(
    lake: LocalLake, bucket: S3Store, engine: str
) -> None:
    pool = lake.pool("logs")
    obstore.put(bucket, "in/year=2024/a.parquet", parquet(k=[3, 1], s=["c", "a"]))
    obstore.put(bucket, "in/year=2023/b.parquet", parquet(k=[2], s=["b"]))
    obstore.put(bucket, "in/_SUCCESS", b"")
    obstore.put(bucket, "in-other/x.parquet", b"no")
    pool.attach("s3://bucket/in")
    assert values(lake, "from logs", engine) == [
        '{k:1,s:"a",year:2024}', '{k:2,s:"b",year:2023}', '{k:3,s:"c",year:2024}',
    ]  # fmt: skip
    obstore.put(bucket, "in/year=2023/b.parquet", parquet(k=[2], s=["x"]))
    with pytest.raises(CorruptData, match=r"s3://bucket/in/year=2023/b.parquet: this attached file has changed"):
        values(lake, "from logs", engine)
    obstore.delete(bucket, "in/year=2023/b.parquet")
    with pytest.raises(CorruptData, match=r"s3://bucket/in/year=2023/b.parquet: this attached file is gone"):
        values(lake, "from logs", engine)
    pool.detach("s3://bucket/in/year=2023/b.parquet")
    assert values(lake, "from logs | sum(k)", engine) == ["4"]


def test_of_a_file_in_a_bucket_only_the_end_is_read_to_attach_it(
    lake: LocalLake, bucket: S3Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = parquet(k=list(range(1_000_000)))
    obstore.put(bucket, "large.parquet", data)
    ranges: list[tuple[int, int]] = []
    get = obstore.get

    def noted(*args: Any, **kwargs: Any) -> Any:
        ranges.append(kwargs["options"]["range"])
        return get(*args, **kwargs)

    monkeypatch.setattr(obstore, "get", noted)
    lake.pool("logs").attach("s3://bucket/large.parquet")
    assert min(start for start, _ in ranges) >= len(data) - (64 << 10)


def test_a_file_that_is_not_in_the_bucket_does_not_exist(lake: LocalLake, bucket: S3Store) -> None:
    for uri in ("s3://bucket/missing.parquet", "s3://bucket/missing/"):
        with pytest.raises(NotFound, match=f"{uri}: file does not exist"):
            lake.pool("logs").attach(uri)


# ---- through a service


def seen_by(lake: LocalLake, policy: SourcePolicy) -> LocalLake:
    """The lake as a service shows it."""
    view = VisibleLake(whole(lake), lambda _: True, lambda *_: None, policy)
    return LocalLake(view)


def test_a_service_attaches_nothing_unless_its_policy_allows_it(lake: LocalLake, tmp_path: Path) -> None:
    inside, outside = tmp_path / "inside", tmp_path / "outside"
    for folder in (inside, outside):
        folder.mkdir()
        (folder / "x.parquet").write_bytes(parquet(k=[1]))
    (inside / "link.parquet").symlink_to(outside / "x.parquet")
    for dry_run in (True, False):
        with pytest.raises(Forbidden, match="a service attaches no files and no URLs"):
            seen_by(lake, NO_SOURCES).pool("logs").attach(str(inside), dry_run=dry_run)
    allowed = seen_by(lake, SourcePolicy(frozenset(("file",)), directories=(str(inside),))).pool("logs")
    for uri in (outside, outside / "x.parquet", inside / "link.parquet", inside, tmp_path, inside / ".." / "outside"):
        with pytest.raises(Forbidden):
            allowed.attach(str(uri))
    with pytest.raises(Forbidden, match="this service reads no buckets"):
        allowed.attach("s3://bucket/x.parquet")
    os.remove(inside / "link.parquet")
    allowed.attach(str(inside))
    assert values(seen_by(lake, NO_SOURCES), "from logs") == ["{k:1}"]
