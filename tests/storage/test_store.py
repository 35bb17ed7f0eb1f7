from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from shoal.errors import NotFound, StorageFailure, Unsupported
from shoal.storage.cloud import CloudStore, Timeouts
from shoal.storage.faults import Fault, FaultyStore
from shoal.storage.local import LocalStore
from shoal.storage.memory import MemoryStore
from shoal.storage.store import Created, ObjectStore, check_creates
from shoal.testing.scripted_s3 import ScriptedS3, ServerFault

CRASHES = (Fault.CRASH_BEFORE, Fault.CRASH_AFTER)
TIMEOUTS = Timeouts(silence=10, deadline=30, first_pause=0.01, longest_pause=0.05)


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[ScriptedS3]:
    for name in [name for name in os.environ if name.startswith("AWS_") or name.lower().endswith("_proxy")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "test")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "test")
    with ScriptedS3() as server:
        monkeypatch.setenv("AWS_ENDPOINT_URL", server.endpoint)
        yield server


def keys(store: ObjectStore) -> list[str]:
    return [item.key for item in store.list()]


def test_stores_that_keep_their_word_are_let_through_and_left_clean(tmp_path: Path, server: ScriptedS3) -> None:
    for store in (MemoryStore(), LocalStore(tmp_path / "lake"), CloudStore("s3://bucket/lake", TIMEOUTS)):
        store.put("mine", b"x")
        for _ in range(2):
            check_creates(store)
        assert keys(store) == ["mine"]


def test_each_check_takes_a_name_of_its_own(server: ScriptedS3) -> None:
    store = CloudStore("s3://bucket/lake", TIMEOUTS)
    check_creates(store)
    check_creates(store)
    names = [asked.key for asked in server.log if asked.call == "CREATE"]
    assert len(names) == 4
    assert len(set(names)) == 2
    assert all(name.startswith("lake/probe/") and len(name) == len("lake/probe/") + 32 for name in names)


class IgnoringStore(MemoryStore):
    """Takes a create for a put."""

    says = Created.LANDED

    def create(self, key: str, data: bytes) -> Created:
        self.put(key, data)
        return self.says


class LyingStore(IgnoringStore):
    """Does so from the second create on, and says the opposite."""

    def create(self, key: str, data: bytes) -> Created:
        return super().create(key, data) if self.count(key) else MemoryStore.create(self, key, data)

    def count(self, key: str) -> int:
        return sum(item.key == key for item in self.list())


class ForgetfulStore(MemoryStore):
    """Loses what was created."""

    def create(self, key: str, data: bytes) -> Created:
        return Created.LANDED if data == b"first" else Created.LOST


@pytest.mark.parametrize("says", Created)
def test_a_store_that_ignores_put_if_missing_is_refused_whatever_it_says(says: Created) -> None:
    store = LyingStore("bad")
    store.says = says
    with pytest.raises(Unsupported, match=r"^memory://bad: the store ignores put-if-missing, so Shoal would lose"):
        check_creates(store)
    assert keys(store) == []


def test_a_store_that_takes_every_create_for_a_put_is_refused() -> None:
    store = IgnoringStore("bad")
    with pytest.raises(Unsupported, match="ignores put-if-missing"):
        check_creates(store)
    assert keys(store) == []


def test_a_store_that_loses_what_was_created_is_refused() -> None:
    with pytest.raises(Unsupported, match=r"^memory://bad: a created object cannot be read back"):
        check_creates(ForgetfulStore("bad"))


def test_a_server_that_ignores_the_header_is_refused(server: ScriptedS3) -> None:
    server.ignores_conditions = True
    with pytest.raises(Unsupported, match=r"^s3://bucket/lake: the store ignores put-if-missing"):
        check_creates(CloudStore("s3://bucket/lake", TIMEOUTS))
    assert server.objects == {}
    assert [asked.call for asked in server.log] == ["CREATE", "CREATE", "GET", "DELETE"]


@pytest.mark.parametrize("at", range(4))
@pytest.mark.parametrize("fault", [fault for fault in Fault if fault not in CRASHES])
def test_one_fault_is_no_reason_to_refuse_a_good_store(at: int, fault: Fault) -> None:
    inner = MemoryStore()
    store = FaultyStore(inner, lambda number, name, key: fault if number == at else None)
    try:
        check_creates(store)
    except StorageFailure as e:
        assert "on command" in str(e)
        assert fault not in (Fault.DOUBLED, Fault.REFUSED) or store.calls[at][0] != "create"
    is_left = at == 3 and fault not in (Fault.DOUBLED, Fault.LOST_ANSWER)
    assert len(keys(inner)) <= is_left
    store.land_late()
    assert len(keys(inner)) <= (is_left or fault is Fault.LATE)


@pytest.mark.parametrize("fault", [Fault.DROPPED, Fault.LATE, Fault.REFUSED])
def test_a_store_that_never_says_is_given_up_after_a_few_names(fault: Fault) -> None:
    inner = MemoryStore("quiet")
    store = FaultyStore(inner, lambda number, name, key: fault if name == "create" else None)
    with pytest.raises(StorageFailure, match=r"^memory://quiet: the outcome of a create is unknown after 5 attempts"):
        check_creates(store)
    tried = [key for name, key in store.calls if name == "create"]
    assert len(tried) == len(set(tried)) == 5
    assert keys(inner) == []


def test_lost_answers_are_found_out_by_reading() -> None:
    inner = MemoryStore()
    first = iter([True])
    store = FaultyStore(
        inner, lambda number, name, key: Fault.LOST_ANSWER if name == "create" and next(first, False) else None
    )
    check_creates(store)
    assert [name for name, _ in store.calls] == ["create", "get", "create", "get", "modified", "delete"]
    assert keys(inner) == []


@pytest.mark.parametrize(
    "fault", [ServerFault.LAND_503, ServerFault.CONFLICT, ServerFault.UNAVAILABLE, ServerFault.LAND_CLOSE]
)
def test_one_fault_of_a_server_is_lived_through(server: ScriptedS3, fault: ServerFault) -> None:
    store = CloudStore("s3://bucket", TIMEOUTS)
    for faults in ([fault], [ServerFault.SLOW, fault]):
        server.script("CREATE", faults)
        check_creates(store)
        assert server.objects == {}


def test_keys_that_may_not_write_are_told_as_such(server: ScriptedS3) -> None:
    server.script("CREATE", [ServerFault.FORBIDDEN])
    with pytest.raises(StorageFailure, match=r"^s3://bucket/probe/\w+: permission denied$"):
        check_creates(CloudStore("s3://bucket", TIMEOUTS))


def test_a_bucket_that_is_not_there_is_told_as_such(server: ScriptedS3) -> None:
    server.script("CREATE", [ServerFault.NO_BUCKET])
    server.script("GET", [ServerFault.NO_BUCKET])
    with pytest.raises(StorageFailure, match=r"^s3://bucket/probe/\w+: no such bucket"):
        check_creates(CloudStore("s3://bucket", TIMEOUTS))


def test_a_store_that_forbids_to_delete_can_be_used(server: ScriptedS3) -> None:
    server.script("DELETE", [ServerFault.FORBIDDEN])
    check_creates(CloudStore("s3://bucket", TIMEOUTS))
    assert [name[:6] for name in server.objects] == ["probe/"]
    with pytest.raises(NotFound):
        CloudStore("s3://bucket", TIMEOUTS).get("probe")
