from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import time
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from email.utils import formatdate
from hashlib import sha256
from hmac import digest
from http.client import HTTPConnection
from secrets import token_hex

import pytest

from shoal.errors import InvalidInput, NotFound, ShoalError, StorageFailure
from shoal.storage.cloud import CloudStore, Timeouts
from shoal.storage.store import Created
from shoal.testing.scripted_s3 import CALLS, Call, Received, ScriptedS3, ServerFault
from shoal.testing.store_contract import StoreContract

PATIENT = Timeouts(silence=10, deadline=30, first_pause=0.01, longest_pause=0.05)
HASTY = Timeouts(silence=0.7, deadline=5, first_pause=0.01, longest_pause=0.05)
"""For what hangs."""
HANGING = (ServerFault.LAND_HANG, ServerFault.STALLED)
DATA = bytes(range(256)) * 40


@pytest.fixture(autouse=True)
def _bare(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith(("AWS_", "GOOGLE_", "AZURE_"))]:
        monkeypatch.delenv(name)
    for name in ("http_proxy", "https_proxy", "all_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)


def use_s3(monkeypatch: pytest.MonkeyPatch, endpoint: str) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "test")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "test")
    monkeypatch.setenv("AWS_REGION", "us-east-1")
    monkeypatch.setenv("AWS_ENDPOINT_URL", endpoint)


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[ScriptedS3]:
    with ScriptedS3() as server:
        use_s3(monkeypatch, server.endpoint)
        yield server


def failure(work: Callable[[], object]) -> ShoalError:
    with pytest.raises(ShoalError) as info:
        work()
    assert "\n" not in str(info.value)
    assert "secret" not in str(info.value)
    return info.value


# ---- the contract


class TestMoto(StoreContract):
    @pytest.fixture
    def store(self, endpoint: str, monkeypatch: pytest.MonkeyPatch) -> CloudStore:
        use_s3(monkeypatch, endpoint)
        return CloudStore(f"s3://bucket/{token_hex(8)}", PATIENT)


class TestScripted(StoreContract):
    @pytest.fixture
    def store(self, server: ScriptedS3) -> CloudStore:
        server.page = 2
        return CloudStore("s3://bucket/some/lake", PATIENT)


class TestWholeBucket(StoreContract):
    @pytest.fixture
    def store(self, server: ScriptedS3) -> CloudStore:
        return CloudStore("s3://bucket", PATIENT)


class TestGoogle(StoreContract):
    """Against our own server: the one to be had for Google's interface does not know that of XML for writing."""

    @pytest.fixture
    def store(self, monkeypatch: pytest.MonkeyPatch) -> Iterator[CloudStore]:
        with ScriptedS3(page=2) as server:
            monkeypatch.setenv("GOOGLE_BASE_URL", server.endpoint)
            monkeypatch.setenv("GOOGLE_BEARER_TOKEN", "test")
            yield CloudStore("gs://bucket/lake", PATIENT)


ACCOUNT = "devstoreaccount1"
ACCOUNT_KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
"""Not a secret: every Azurite has these."""


@pytest.fixture(scope="module")
def azurite() -> Iterator[str]:
    """The endpoint of an Azurite with a container called `box`."""
    program = shutil.which("azurite-blob")
    if program is None:
        pytest.skip("there is no azurite-blob on the path (npm install -g azurite)")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = [program, "--inMemoryPersistence", "--silent", "--skipApiVersionCheck", "--disableTelemetry"]
    with subprocess.Popen([*command, "--blobPort", str(port)], stdout=subprocess.DEVNULL) as process:
        try:
            until = time.monotonic() + 60
            while make_container(port, "box") != 201:
                assert time.monotonic() < until
                time.sleep(0.1)
            yield f"http://127.0.0.1:{port}/{ACCOUNT}"
        finally:
            process.terminate()


def make_container(port: int, name: str) -> int:
    """The status of the answer, 0 if nobody is there. The library has no call for this."""
    headers = {"x-ms-date": formatdate(usegmt=True), "x-ms-version": "2021-08-06"}
    signed = "".join(f"{key}:{value}\n" for key, value in headers.items())
    text = "PUT" + "\n" * 12 + f"{signed}/{ACCOUNT}/{ACCOUNT}/{name}\nrestype:container"
    signature = b64encode(digest(b64decode(ACCOUNT_KEY), text.encode(), sha256)).decode()
    headers |= {"Authorization": f"SharedKey {ACCOUNT}:{signature}", "Content-Length": "0"}
    connection = HTTPConnection("127.0.0.1", port, timeout=60)
    try:
        connection.request("PUT", f"/{ACCOUNT}/{name}?restype=container", headers=headers)
        return connection.getresponse().status
    except ConnectionRefusedError:
        return 0
    finally:
        connection.close()


class TestAzure(StoreContract):
    @pytest.fixture
    def store(self, azurite: str, monkeypatch: pytest.MonkeyPatch) -> CloudStore:
        monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_NAME", ACCOUNT)
        monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_KEY", ACCOUNT_KEY)
        monkeypatch.setenv("AZURE_STORAGE_ENDPOINT", azurite)
        return CloudStore(f"az://box/{token_hex(8)}", PATIENT)

    def test_a_container_that_is_not_there_is_no_empty_one(self, store: CloudStore) -> None:
        other = CloudStore("az://nothing", PATIENT)
        assert str(failure(lambda: other.get("k"))) == "az://nothing/k: no such bucket (create it first)"

    def test_a_large_object_is_put_in_parts_and_read_whole(self, store: CloudStore) -> None:
        data = os.urandom(1 << 20) * 33
        store.put("large", data)
        assert store.size("large") == len(data)
        assert store.get("large") == data


# ---- creates: three outcomes

CREATES = [
    (None, Created.LANDED, True),
    (ServerFault.CONFLICT, Created.LOST, False),
    (ServerFault.PHANTOM, Created.LOST, False),
    (ServerFault.UNAVAILABLE, Created.UNKNOWN, False),
    (ServerFault.THROTTLED, Created.UNKNOWN, False),
    (ServerFault.FORBIDDEN, StorageFailure, False),
    (ServerFault.NO_BUCKET, Created.UNKNOWN, False),
    (ServerFault.CLOSE, Created.UNKNOWN, False),
    (ServerFault.LAND_503, Created.UNKNOWN, True),
    (ServerFault.LAND_500, Created.UNKNOWN, True),
    (ServerFault.LAND_RESET, Created.UNKNOWN, True),
    (ServerFault.LAND_CLOSE, Created.UNKNOWN, True),
    (ServerFault.LAND_HANG, Created.UNKNOWN, True),
    (ServerFault.SLOW, Created.LANDED, True),
    (ServerFault.TRUNCATED, Created.LANDED, True),
    (ServerFault.STALLED, Created.LANDED, True),
    (ServerFault.LATE, Created.UNKNOWN, False),
]


def test_every_fault_of_a_create_is_in_the_table() -> None:
    assert {fault for fault, _, _ in CREATES} == {None, *ServerFault}


def create(store: CloudStore, data: bytes) -> object:
    """The outcome, or the kind of error."""
    try:
        return store.create("j/1", data)
    except StorageFailure as e:
        assert str(e) == "s3://bucket/lake/j/1: permission denied"
        return StorageFailure


@pytest.mark.parametrize("fault, outcome, is_there", CREATES)
def test_each_fault_of_a_create(server: ScriptedS3, fault: ServerFault | None, outcome: object, is_there: bool) -> None:
    store = CloudStore("s3://bucket/lake", HASTY if fault in HANGING else PATIENT)
    server.script("CREATE", [fault] if fault else [])
    assert create(store, DATA) is outcome
    assert server.objects == ({"lake/j/1": DATA} if is_there else {})
    assert server.log == [Received("CREATE", "lake/j/1", fault)]
    server.land_late()
    assert server.objects == ({"lake/j/1": DATA} if is_there or fault is ServerFault.LATE else {})


@pytest.mark.parametrize("fault, outcome, is_there", CREATES)
@pytest.mark.parametrize("uri", ["gs://bucket/lake", "az://bucket/lake"])
def test_each_fault_of_a_create_in_other_clouds(
    uri: str, monkeypatch: pytest.MonkeyPatch, fault: ServerFault | None, outcome: object, is_there: bool
) -> None:
    is_azure = uri.startswith("az")
    with ScriptedS3("account" if is_azure else "bucket") as server:
        monkeypatch.setenv("GOOGLE_BASE_URL", server.endpoint)
        monkeypatch.setenv("GOOGLE_BEARER_TOKEN", "test")
        monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_NAME", "account")
        monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_KEY", ACCOUNT_KEY)
        monkeypatch.setenv("AZURE_STORAGE_ENDPOINT", f"{server.endpoint}/account")
        name = "bucket/lake/j/1" if is_azure else "lake/j/1"
        store = CloudStore(uri, HASTY if fault in HANGING else PATIENT)
        server.script("CREATE", [fault] if fault else [])
        if outcome is StorageFailure:
            assert str(failure(lambda: store.create("j/1", DATA))) == f"{uri}/j/1: permission denied"
        else:
            assert store.create("j/1", DATA) is outcome
        assert server.objects == ({name: DATA} if is_there else {})
        assert server.log == [Received("CREATE", name, fault)]


@pytest.mark.parametrize("fault, outcome, is_there", CREATES)
def test_no_fault_of_a_create_harms_what_is_there(
    server: ScriptedS3, fault: ServerFault | None, outcome: object, is_there: bool
) -> None:
    store = CloudStore("s3://bucket/lake", HASTY if fault in HANGING else PATIENT)
    server.objects["lake/j/1"] = b"theirs"
    server.script("CREATE", [fault] if fault else [])
    if fault in (ServerFault.TRUNCATED, ServerFault.STALLED):
        outcome = Created.UNKNOWN  # it is the answer that it lost which is cut
    elif outcome is Created.LANDED:
        outcome = Created.LOST
    assert create(store, DATA) is outcome
    server.land_late()
    assert server.objects == {"lake/j/1": b"theirs"}
    assert len(server.log) == 1


def test_an_unknown_outcome_is_found_out_by_reading(server: ScriptedS3) -> None:
    store = CloudStore("s3://bucket", PATIENT)
    server.script("CREATE", [ServerFault.LAND_503, ServerFault.UNAVAILABLE])
    assert [store.create(f"j/{i}", b"%d" % i) for i in range(3)] == [
        Created.UNKNOWN,
        Created.UNKNOWN,
        Created.LANDED,
    ]
    assert store.get("j/0") == b"0"
    with pytest.raises(NotFound):
        store.get("j/1")


def test_a_late_create_loses_to_one_that_was_faster(server: ScriptedS3) -> None:
    store = CloudStore("s3://bucket", PATIENT)
    server.script("CREATE", [ServerFault.LATE])
    assert store.create("k", b"late") is Created.UNKNOWN
    assert store.create("k", b"fast") is Created.LANDED
    server.land_late()
    assert server.objects == {"k": b"fast"}


def test_of_creates_at_once_under_faults_one_is_there_and_nobody_else_thinks_so(server: ScriptedS3) -> None:
    store = CloudStore("s3://bucket", PATIENT)
    faults = [ServerFault.LAND_503, ServerFault.CONFLICT, ServerFault.LAND_CLOSE, ServerFault.UNAVAILABLE]
    for slot in range(20):
        server.script("CREATE", faults[slot % 4 :])
        with ThreadPoolExecutor(8) as pool:
            outcomes = list(pool.map(lambda i, slot=slot: store.create(f"j/{slot}", b"%d" % i), range(8)))
        holder = int(server.objects[f"j/{slot}"])
        landed = [i for i, outcome in enumerate(outcomes) if outcome is Created.LANDED]
        assert landed in ([], [holder])
        assert outcomes[holder] is not Created.LOST
    assert len(server.log) == 160


def test_nobody_at_home_is_unknown_for_a_create_and_an_error_for_the_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        use_s3(monkeypatch, f"http://127.0.0.1:{free.getsockname()[1]}")
    store = CloudStore("s3://bucket", Timeouts(silence=0.2, deadline=0.5, first_pause=0.01, longest_pause=0.05))
    assert store.create("k", b"x") is Created.UNKNOWN
    assert str(failure(lambda: store.get("k"))) == "s3://bucket/k: connection refused"
    assert str(failure(lambda: list(store.list()))) == "s3://bucket: connection refused"


def test_a_setting_of_the_environment_does_not_turn_conditions_off(
    server: ScriptedS3, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_CONDITIONAL_PUT", "disabled")
    store = CloudStore("s3://bucket", PATIENT)
    assert [store.create("k", b"1"), store.create("k", b"2")] == [Created.LANDED, Created.LOST]
    assert [asked.call for asked in server.log] == ["CREATE", "CREATE"]


# ---- all other calls: tried again until the deadline


def read(store: CloudStore) -> object:
    return store.get("k")


def read_part(store: CloudStore) -> object:
    return store.get_range("k", 100, 5000)


def measure(store: CloudStore) -> object:
    return store.size("k")


def listing(store: CloudStore) -> object:
    return [(item.key, item.size) for item in store.list()]


def write(store: CloudStore) -> object:
    store.put("new", DATA)
    return None


def remove(store: CloudStore) -> object:
    store.delete("k")
    return None


BEFORE = {"lake/k": DATA}
ACTS: list[tuple[Call, Callable[[CloudStore], object], object, dict[str, bytes]]] = [
    ("GET", read, DATA, BEFORE),
    ("GET", read_part, DATA[100:5100], BEFORE),
    ("HEAD", measure, len(DATA), BEFORE),
    ("LIST", listing, [("k", len(DATA))], BEFORE),
    ("PUT", write, None, {**BEFORE, "lake/new": DATA}),
    ("DELETE", remove, None, {}),
]
"""What is asked of the server, by what call, what that gives, and what is there then."""
AGAIN, ONCE = "again", "once"
OTHERS: dict[ServerFault, str] = {
    ServerFault.CONFLICT: "conflict (409): ConditionalRequestConflict",
    ServerFault.PHANTOM: AGAIN,
    ServerFault.UNAVAILABLE: AGAIN,
    ServerFault.THROTTLED: AGAIN,
    ServerFault.FORBIDDEN: "permission denied",
    ServerFault.NO_BUCKET: "no such bucket (create it first)",
    ServerFault.CLOSE: AGAIN,
    ServerFault.LAND_503: AGAIN,
    ServerFault.LAND_500: AGAIN,
    ServerFault.LAND_RESET: AGAIN,
    ServerFault.LAND_CLOSE: AGAIN,
    ServerFault.LAND_HANG: AGAIN,
    ServerFault.SLOW: ONCE,
    ServerFault.TRUNCATED: AGAIN,
    ServerFault.STALLED: AGAIN,
    ServerFault.LATE: AGAIN,
}


def test_every_fault_and_every_call_is_in_the_tables() -> None:
    assert set(OTHERS) == set(ServerFault)
    assert {"CREATE", *(call for call, *_ in ACTS)} == set(CALLS)


@pytest.mark.parametrize("fault", ServerFault)
@pytest.mark.parametrize("call, act, result, after", ACTS)
def test_each_fault_of_each_other_call(
    server: ScriptedS3,
    call: Call,
    act: Callable[[CloudStore], object],
    result: object,
    after: dict[str, bytes],
    fault: ServerFault,
) -> None:
    store = CloudStore("s3://bucket/lake", HASTY if fault in HANGING else PATIENT)
    server.objects.update(BEFORE)
    server.script(call, [fault])
    expected = OTHERS[fault]
    has_body = call in ("GET", "LIST")
    if fault in (ServerFault.TRUNCATED, ServerFault.STALLED) and not has_body:
        expected = ONCE
    if expected in (AGAIN, ONCE):
        assert act(store) == result
        assert server.objects == after
    else:
        error = failure(lambda: act(store))
        if call == "HEAD" and fault is ServerFault.NO_BUCKET:  # its answer has no body to tell the two apart
            assert isinstance(error, NotFound)
            expected = "no such object"
        else:
            assert isinstance(error, StorageFailure)
        assert str(error).startswith("s3://bucket/lake")
        assert expected.partition(": ")[0] in str(error)
        assert (expected in str(error)) == (call != "HEAD" or ":" not in expected)
        assert server.objects == BEFORE
    assert [asked.fault for asked in server.log] == [fault, None][: 2 if expected == AGAIN else 1]
    assert {asked.call for asked in server.log} == {call}
    server.land_late()
    assert server.objects == (after if expected in (AGAIN, ONCE) else BEFORE)


@pytest.mark.parametrize("call, act, result, after", ACTS)
@pytest.mark.parametrize(
    "fault, problem",
    [
        (ServerFault.UNAVAILABLE, "service unavailable (503)"),
        (ServerFault.CLOSE, "connection lost"),
        (ServerFault.LAND_HANG, "timed out"),
    ],
)
def test_a_store_that_stays_away_is_given_up_at_the_deadline(
    server: ScriptedS3,
    call: Call,
    act: Callable[[CloudStore], object],
    result: object,
    after: dict[str, bytes],
    fault: ServerFault,
    problem: str,
) -> None:
    store = CloudStore("s3://bucket/lake", Timeouts(silence=0.3, deadline=1, first_pause=0.01, longest_pause=0.05))
    server.objects.update(BEFORE)
    server.script(call, [fault] * 10_000)
    start = time.monotonic()
    error = failure(lambda: act(store))
    assert time.monotonic() - start < 20
    assert isinstance(error, StorageFailure)
    assert str(error).startswith("s3://bucket/lake")
    assert problem in str(error)
    assert len(server.log) >= 2
    server.script(call, [])
    assert act(store) == result
    assert server.objects == after


def test_a_body_that_is_always_cut_is_an_error_and_never_half_an_object(server: ScriptedS3) -> None:
    store = CloudStore("s3://bucket", Timeouts(silence=0.3, deadline=1, first_pause=0.01, longest_pause=0.05))
    server.objects["k"] = DATA
    server.script("GET", [ServerFault.TRUNCATED] * 10_000)
    for act in (store.get, lambda key: store.get_range(key, 5, 5000)):
        try:
            data = act("k")
        except StorageFailure as e:
            assert str(e).startswith("s3://bucket/k: ")
        else:  # it goes on where the body was cut, so that halves of halves may add up
            assert data in (DATA, DATA[5:5005])


def test_an_object_that_changes_between_two_halves_of_its_body_is_not_mixed(server: ScriptedS3) -> None:
    store = CloudStore("s3://bucket", PATIENT)
    server.objects["k"] = b"a" * 1000

    class Changing(dict[str, bytes]):
        def get(self, key: str, default: object = None) -> bytes:
            found = self[key]
            self[key] = b"b" * 1000
            return found

    server.objects = Changing(server.objects)
    server.script("GET", [ServerFault.TRUNCATED])
    assert store.get("k") == b"b" * 1000
    assert [asked.fault for asked in server.log] == [ServerFault.TRUNCATED, None, None]


# ---- ranges, names, listings


def test_a_range_past_the_end_costs_one_request(server: ScriptedS3) -> None:
    store = CloudStore("s3://bucket", PATIENT)
    server.objects.update({"k": b"0123", "empty": b""})
    assert [store.get_range("k", 4, 1), store.get_range("k", 100, 5), store.get_range("empty", 0, 1)] == [b""] * 3
    assert [asked.call for asked in server.log] == ["GET"] * 3


def test_objects_lie_under_the_prefix_and_others_are_not_seen(server: ScriptedS3) -> None:
    store = CloudStore("s3://bucket/my/lake=1/", PATIENT)
    assert store.uri == "s3://bucket/my/lake=1"
    store.put("a/k", b"x")
    assert server.objects == {"my/lake=1/a/k": b"x"}
    for name in ("my/lake=1/a b", "my/lake=12/k", "my/lake=1", "k", "my/lake=1/.hidden"):
        server.objects[name] = b""
    assert [item.key for item in store.list()] == ["a/k"]
    with pytest.raises(NotFound):
        store.get("k")


def test_a_listing_goes_on_over_many_pages_and_through_faults(server: ScriptedS3) -> None:
    store = CloudStore("s3://bucket/lake", PATIENT)
    server.page = 7
    keys = [f"d/{i:03}" for i in range(100)]
    server.objects.update({f"lake/{key}": b"x" for key in keys})
    server.script("LIST", [ServerFault.UNAVAILABLE, ServerFault.LAND_CLOSE, ServerFault.TRUNCATED])
    assert [item.key for item in store.list("d/")] == keys
    assert len(server.log) == 15 + 3
    assert {asked.key for asked in server.log} == {"lake/d/"}


@pytest.mark.parametrize("fault", [ServerFault.TRUNCATED, ServerFault.LAND_RESET, ServerFault.UNAVAILABLE])
def test_a_listing_that_is_cut_off_goes_on_where_it_was(server: ScriptedS3, fault: ServerFault) -> None:
    store = CloudStore("s3://bucket/lake", PATIENT)
    keys = [f"d/{i:04}" for i in range(3000)]
    server.objects.update({f"lake/{key}": b"x" for key in keys})
    server.script("LIST", [ServerFault.SLOW, fault])
    assert [item.key for item in store.list()] == keys
    assert len(server.log) == 4


def test_a_listing_that_fails_on_its_way_is_an_error_and_never_a_short_list(server: ScriptedS3) -> None:
    store = CloudStore("s3://bucket", PATIENT)
    server.page = 2
    server.objects.update({f"k{i}": b"" for i in range(5)})
    server.script("LIST", [ServerFault.SLOW, ServerFault.FORBIDDEN])
    assert str(failure(lambda: list(store.list()))) == "s3://bucket: permission denied"


def test_a_large_object_is_put_in_parts_and_read_whole(endpoint: str, monkeypatch: pytest.MonkeyPatch) -> None:
    use_s3(monkeypatch, endpoint)
    store = CloudStore(f"s3://bucket/{token_hex(8)}", PATIENT)
    data = os.urandom(1 << 20) * 33
    store.put("large", data)
    assert store.size("large") == len(data)
    assert store.get("large") == data
    assert store.get_range("large", len(data) - 3, 10) == data[-3:]


FORKED = """
import os, sys
from shoal.errors import ShoalError
from shoal.storage.cloud import CloudStore
store = CloudStore("s3://bucket")
for is_used in (False, True):
    if is_used:
        store.put("k", b"x")
    child = os.fork()
    if child == 0:
        for act in (store.get, store.delete, lambda k: list(store.list(k)), lambda k: store.create(k, b"")):
            try:
                act("k")
            except ShoalError as e:
                print(e.kind, e, flush=True)
        os._exit(0)
    os.waitpid(child, 0)
"""


def test_a_fork_of_a_process_that_used_a_cloud_is_told_instead_of_waiting_for_ever(server: ScriptedS3) -> None:
    command = [sys.executable, "-W", "ignore", "-c", FORKED]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    told = "unsupported s3://bucket: this process was forked from one that had used a cloud"
    lines = done.stdout.splitlines()
    assert lines[0] == "not_found s3://bucket/k: no such object"
    assert [line.partition(" (")[0] for line in lines[1:]] == [told] * 4


# ---- settings


@pytest.mark.parametrize(
    "uri, advice",
    [
        ("s3://bucket/lake", "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_SKIP_SIGNATURE=true"),
        ("gs://bucket/lake", "set GOOGLE_APPLICATION_CREDENTIALS to the file of a service account,"),
        ("az://box/lake", "set AZURE_STORAGE_ACCOUNT_NAME and AZURE_STORAGE_ACCOUNT_KEY"),
    ],
)
def test_without_keys_nothing_is_asked_of_anybody(uri: str, advice: str) -> None:
    error = failure(lambda: CloudStore(uri))
    assert isinstance(error, InvalidInput)
    assert str(error).startswith(f"{uri}: no credentials ({advice}")


@pytest.mark.parametrize(
    "uri, settings",
    [
        ("s3://bucket", {"AWS_ACCESS_KEY_ID": "a"}),
        ("az://box", {"AZURE_STORAGE_ACCOUNT_NAME": "a", "AZURE_CLIENT_ID": "b", "AZURE_CLIENT_SECRET": "c"}),
        ("az://box", {"AZURE_STORAGE_ACCOUNT_KEY": ACCOUNT_KEY}),
        ("gs://bucket", {"GOOGLE_APPLICATION_CREDENTIALS": ""}),
    ],
)
def test_half_of_the_keys_are_no_keys(uri: str, settings: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in settings.items():
        monkeypatch.setenv(name, value)
    assert str(failure(lambda: CloudStore(uri))).startswith(f"{uri}: no credentials (")


@pytest.mark.parametrize(
    "uri, settings",
    [
        ("s3://bucket", {"AWS_SKIP_SIGNATURE": "true"}),
        ("gs://bucket", {"GOOGLE_SKIP_SIGNATURE": "true"}),
        ("gs://bucket", {"GOOGLE_BEARER_TOKEN": "t"}),
        ("az://box", {"AZURE_STORAGE_ACCOUNT_NAME": "a", "AZURE_STORAGE_SAS_TOKEN": "sv=1&sig=x"}),
        ("az://box", {"AZURE_STORAGE_ACCOUNT_NAME": "a", "AZURE_STORAGE_TOKEN": "t"}),
        (
            "az://box",
            {
                "AZURE_STORAGE_ACCOUNT_NAME": "a",
                "AZURE_CLIENT_ID": "b",
                "AZURE_CLIENT_SECRET": "c",
                "AZURE_TENANT_ID": "d",
            },
        ),
    ],
)
def test_each_way_to_give_keys_will_do(uri: str, settings: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in settings.items():
        monkeypatch.setenv(name, value)
    assert CloudStore(uri).uri == uri


def test_a_file_of_keys_that_is_not_there_is_an_error_with_the_uri(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", "/nowhere/key.json")
    assert str(failure(lambda: CloudStore("gs://bucket/lake"))).startswith("gs://bucket/lake: ")


@pytest.mark.parametrize(
    "uri, name", [("s3://b", "AWS_ENDPOINT_URL"), ("gs://b", "GOOGLE_BASE_URL"), ("az://b", "AZURE_STORAGE_ENDPOINT")]
)
def test_what_is_no_endpoint_is_told(uri: str, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(name, "not a url")
    message = f"{uri}: the endpoint 'not a url' is not an http or https URL"
    assert str(failure(lambda: CloudStore(uri))) == message


def test_a_signature_in_the_url_of_a_request_is_not_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    with ScriptedS3("account") as server:
        monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_NAME", "account")
        monkeypatch.setenv("AZURE_STORAGE_SAS_TOKEN", "sv=2022-11-02&sig=verysecret")
        monkeypatch.setenv("AZURE_STORAGE_ENDPOINT", f"{server.endpoint}/account")
        store = CloudStore("az://box", Timeouts(0.3, 0.5, 0.01, 0.05))
        for faults in ([ServerFault.UNAVAILABLE] * 1000, [ServerFault.LAND_CLOSE] * 1000, [ServerFault.FORBIDDEN], []):
            for act in (lambda: list(store.list()), lambda: store.get("k"), lambda: store.size("k")):
                server.script("GET", faults)
                server.script("HEAD", faults)
                assert "sig=" not in str(failure(act))
