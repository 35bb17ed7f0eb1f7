from __future__ import annotations

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from shoal.errors import InvalidInput, ShoalError, Unsupported
from shoal.storage.local import LocalStore
from shoal.storage.memory import MemoryStore
from shoal.storage.uris import canonical_uri, open_store


@pytest.fixture(autouse=True)
def _keys(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith(("AWS_", "GOOGLE_", "AZURE_"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_SKIP_SIGNATURE", "true")
    monkeypatch.setenv("GOOGLE_SKIP_SIGNATURE", "true")
    monkeypatch.setenv("AZURE_SKIP_SIGNATURE", "true")
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_NAME", "account")


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return Path(os.path.realpath(tmp_path))


@pytest.mark.parametrize("name", ["lake", "./lake", "a b", "100%", "a%20b", "~", "~/lake", "s3:/x", "é", "a?b#c"])
def test_a_path_is_a_directory_and_taken_as_it_is(here: Path, name: str) -> None:
    for path in (name, str(here / name), f"file://{here / name}"):
        store = open_store(path)
        assert isinstance(store, LocalStore)
        assert store.uri == canonical_uri(path) == canonical_uri(store.uri) == f"file://{here / name}"
        store.put("k", b"x")
        assert (here / name / "k").read_bytes() == b"x"


def test_dots_and_links_lead_to_one_uri(here: Path) -> None:
    (here / "real").mkdir()
    (here / "link").symlink_to("real")
    for path in ("real", "link", "x/../real", f"file://{here}/link/", "."):
        expected = here if path == "." else here / "real"
        assert canonical_uri(path) == open_store(path).uri == f"file://{expected}"


@pytest.mark.parametrize(
    "uri, canonical",
    [
        ("s3://bucket", "s3://bucket"),
        ("s3://bucket/", "s3://bucket"),
        ("S3://bucket/a/b//", "s3://bucket/a/b"),
        ("gs://my_bucket.org/lake-1", "gs://my_bucket.org/lake-1"),
        ("az://box/year=2024/lake", "az://box/year=2024/lake"),
        ("memory://name", "memory://name"),
        ("memory://", "memory://"),
    ],
)
def test_a_uri_has_one_way_to_be_written(uri: str, canonical: str) -> None:
    assert canonical_uri(uri) == canonical_uri(canonical) == open_store(uri).uri == canonical


def test_a_name_in_memory_is_one_store_and_no_name_is_always_a_new_one() -> None:
    first = open_store("memory://test_uris")
    assert isinstance(first, MemoryStore)
    assert open_store("memory://test_uris") is first
    assert open_store("memory://test_uris2") is not first
    assert open_store("memory://") is not open_store("memory://")
    with ThreadPoolExecutor(8) as pool:
        assert len({id(store) for store in pool.map(open_store, ["memory://test_uris3"] * 100)}) == 1


@pytest.mark.parametrize(
    "uri, problem",
    [
        ("", "'': not a location (write a path, file:///path, s3://bucket/prefix,"),
        ("a\0b", r"'a\x00b': not a location ("),
        ("ftp://there/x", "ftp://there/x: unsupported scheme ftp:// (write a path, file:///path, s3://bucket/pre"),
        ("https://me:hush@there/x", "https://me:***@there/x: unsupported scheme https:// ("),
        ("file://there/x", "file://there/x: not an absolute path (write file:///path)"),
        ("file://", "file://: not an absolute path (write file:///path)"),
        ("s3://", "s3://: no bucket given (write s3://bucket/prefix)"),
        ("gs:///x", "gs:///x: no bucket given (write gs://bucket/prefix)"),
        ("s3://key:hush@bucket/x", "s3://key:***@bucket/x: no bucket given ("),
        ("s3://bucket//x", "s3://bucket//x: invalid prefix (letters, digits and _ . = + @ - between single slashes,"),
        ("s3://bucket/../x", "s3://bucket/../x: invalid prefix ("),
        ("az://box/a b", "az://box/a b: invalid prefix ("),
        ("s3://bucket/.x", "s3://bucket/.x: invalid prefix ("),
        ("s3://bucket/x?y", "s3://bucket/x?y: invalid prefix ("),
        ("s3://bucket/" + "x" * 121, "s3://bucket/" + "x" * 121 + ": the prefix is too long (at most 120 characters)"),
    ],
)
def test_what_names_no_store_is_told(uri: str, problem: str) -> None:
    for act in (open_store, canonical_uri):
        with pytest.raises(InvalidInput) as info:
            act(uri)
        assert str(info.value).startswith(problem)
        assert "\n" not in str(info.value)


def test_a_cloud_without_its_library_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "obstore", None)
    with pytest.raises(Unsupported) as info:
        open_store("gs://bucket/lake")
    assert str(info.value) == "gs://bucket/lake: obstore is not installed (install it with: pip install 'shoal[s3]')"
    assert canonical_uri("gs://bucket/lake/") == "gs://bucket/lake"


def test_a_cloud_without_keys_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AWS_SKIP_SIGNATURE")
    with pytest.raises(ShoalError, match="s3://bucket/lake: no credentials"):
        open_store("s3://bucket/lake")


def test_the_library_for_clouds_is_loaded_only_for_a_cloud(tmp_path: Path) -> None:
    code = (
        "import sys; from shoal.storage.uris import canonical_uri, open_store; open_store(sys.argv[1]); "
        "open_store('memory://x'); canonical_uri('s3://bucket/lake'); print('obstore' in sys.modules); "
        "open_store('s3://bucket/lake'); print('obstore' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "True"]
