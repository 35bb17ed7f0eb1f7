from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from shoal.errors import InvalidInput, StorageFailure
from shoal.storage.local import LocalStore
from shoal.storage.store import Created
from shoal.testing.store_contract import StoreContract


class TestLocalStore(StoreContract):
    @pytest.fixture
    def store(self, tmp_path: Path) -> LocalStore:
        return LocalStore(tmp_path / "lake")


def files(root: Path) -> list[str]:
    return sorted(str(path.relative_to(root)) for path in root.rglob("*") if not path.is_dir())


def test_directories_are_private_and_nothing_is_left_beside_an_object(tmp_path: Path) -> None:
    store = LocalStore(tmp_path / "lake")
    assert store.create("a/b", b"x") is Created.LANDED
    assert store.create("a/b", b"x") is Created.LOST
    store.put("a/c", b"x")
    assert files(tmp_path) == ["lake/a/b", "lake/a/c"]
    assert {oct((tmp_path / name).stat().st_mode & 0o777) for name in ("lake", "lake/a")} == {"0o700"}
    assert (tmp_path / "lake/a/b").stat().st_nlink == 1


def test_links_that_lead_out_are_not_followed(tmp_path: Path) -> None:
    (tmp_path / "secret").mkdir()
    (tmp_path / "secret" / "x").write_text("secret")
    store = LocalStore(tmp_path / "lake")
    store.put("a", b"x")
    (tmp_path / "lake" / "out").symlink_to(tmp_path / "secret")
    (tmp_path / "lake" / "file").symlink_to(tmp_path / "secret" / "x")
    for act in (store.get, store.delete, lambda key: store.put(key, b"y"), lambda key: store.create(key, b"y")):
        with pytest.raises(InvalidInput, match="leads out of"):
            act("out/x")
    with pytest.raises(StorageFailure):
        store.get("file")
    assert (tmp_path / "secret" / "x").read_text() == "secret"


FAULTS = [("write", errno.ENOSPC), ("fsync", errno.EIO), ("link", errno.EIO)]


@pytest.mark.parametrize("call, code", FAULTS)
def test_a_failing_disk_leaves_nothing_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str, code: int
) -> None:
    store = LocalStore(tmp_path)
    store.put("a/first", b"x")

    def fail(*_: object) -> None:
        raise OSError(code, os.strerror(code))

    with monkeypatch.context() as patch:
        patch.setattr(os, call, fail)
        with pytest.raises(StorageFailure, match="a/second"):
            store.create("a/second", b"y")
    assert files(tmp_path) == ["a/first"]
    assert store.create("a/second", b"y") is Created.LANDED


def test_an_object_whose_directory_cannot_be_synced_is_an_unknown_outcome(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = LocalStore(tmp_path)
    store.put("a/first", b"x")
    synced: list[int] = []
    real = os.fsync

    def fail_second(file: int) -> None:
        synced.append(file)
        if len(synced) == 2:
            raise OSError(errno.EIO, "bad disk")
        real(file)

    monkeypatch.setattr(os, "fsync", fail_second)
    assert store.create("a/second", b"y") is Created.UNKNOWN
    assert store.get("a/second") == b"y"


def test_syncs_come_in_the_order_that_survives_a_loss_of_power(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = LocalStore(tmp_path / "lake")
    calls: list[str] = []

    def traced(name: str) -> None:
        real = getattr(os, name)

        def call(*args: object, **kwargs: object) -> object:
            if name == "fsync":
                calls.append("fsync " + Path(os.readlink(f"/proc/self/fd/{args[0]}")).name.split("-")[0])
            else:
                calls.append(f"{name} " + Path(str(args[-1] if name == "link" else args[0])).name.split("-")[0])
            return real(*args, **kwargs)

        monkeypatch.setattr(os, name, call)

    for name in ("mkdir", "fsync", "link", "unlink"):
        traced(name)
    store.create("a/b", b"x")
    assert calls == [
        "mkdir lake", f"fsync {tmp_path.name.split('-')[0]}", "mkdir a", "fsync lake",
        "fsync .aside", "link b", "fsync a", "unlink .aside",
    ]  # fmt: skip


WRITER = """
import sys
from shoal.storage.local import LocalStore
store, name, i = LocalStore(sys.argv[1]), sys.argv[2], 0
print("go", flush=True)
while True:
    store.create(f"j/{name}-{i}", bytes([i % 251]) * 200_000)
    print(f"{name}-{i}", flush=True)
    i += 1
"""


def test_a_killed_writer_leaves_whole_objects_and_rubbish_that_can_be_swept(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    acknowledged: list[str] = []
    for round_ in range(12):
        writer = subprocess.Popen(
            [sys.executable, "-c", WRITER, str(tmp_path), str(round_)], stdout=subprocess.PIPE, text=True
        )
        assert writer.stdout is not None
        writer.stdout.readline()
        time.sleep(0.01 + 0.005 * round_)
        writer.send_signal(signal.SIGKILL)
        acknowledged += writer.stdout.read().split("\n")[:-1]
        writer.stdout.close()
        writer.wait()
    assert acknowledged
    for name in acknowledged:
        assert store.size(f"j/{name}") == 200_000
    for item in store.list():
        assert len(set(store.get(item.key))) == 1
        assert item.size == 200_000
    assert store.sweep(older_than=3600) == 0
    store.sweep(older_than=0)
    assert not any(".aside" in name for name in files(tmp_path))


@pytest.mark.parametrize("call", ["link", "rename"])
def test_a_write_survives_a_sweep_without_patience(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str) -> None:
    """A vacuum takes the temporary file just before it gets its name."""
    store, other = LocalStore(tmp_path / "lake"), LocalStore(tmp_path / "lake")
    real, swept = getattr(os, call), list[int]()

    def sweep_first(source: Path, target: Path) -> None:
        if not swept:
            swept.append(other.sweep(0))
        real(source, target)

    monkeypatch.setattr(os, call, sweep_first)
    try:
        if call == "link":
            assert store.create("a/b", b"data") is Created.LANDED
        else:
            store.put("a/b", b"data")
    except StorageFailure as e:
        pytest.fail(f"the write failed: {e}")
    assert swept == [1]
    assert other.get("a/b") == b"data"
    assert [path.name for path in (tmp_path / "lake" / "a").iterdir()] == ["b"]


def test_a_write_whose_temporary_files_vanish_each_time_is_a_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = LocalStore(tmp_path / "lake")
    real = os.link

    def always_sweep(source: Path, target: Path) -> None:
        store.sweep(0)
        real(source, target)

    monkeypatch.setattr(os, "link", always_sweep)
    with pytest.raises(StorageFailure, match="no such file"):
        store.create("a/b", b"data")
