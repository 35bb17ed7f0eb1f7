"""Requests that nobody means well with: none crashes the service, makes it hang, or takes more memory than it may.

What is sent stands here as data; each is answered in time with an error of ours, or cut off.
"""

from __future__ import annotations

import bz2
import gzip
import io
import json
import lzma
import re
import socket
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zstandard
from tests.service.attacks import wait_until

from shoal.ids import parse, to_text
from shoal.service.state import THREADS_PER_CALLER
from shoal.testing.services import Served, serving

PATIENCE = 15.0
LARGEST_BODY = 32 << 20
MEMORY_MIB = 900
LOAD = "/pool/logs/branch/main"
SENT = tuple[str, bytes]


@dataclass(frozen=True, slots=True)
class Raw:
    """What came back on a connection."""

    data: bytes
    seconds: float

    @property
    def status(self) -> int:
        return int(self.data[9:12]) if self.data else 0

    @property
    def body(self) -> bytes:
        return self.data.partition(b"\r\n\r\n")[2]


class Attacker:
    """Sends any bytes to a service."""

    def __init__(self, served: Served) -> None:
        self.served = served
        self.port = int(served.url.rpartition(":")[2])

    def send(self, data: bytes, is_half_closed: bool = False, is_last: bool = False) -> Raw:
        began = time.monotonic()
        out = b""
        with socket.create_connection(("localhost", self.port), PATIENCE) as line:
            try:
                line.sendall(data)
                if is_half_closed:
                    line.shutdown(socket.SHUT_WR)
                while (is_last or not _is_whole(out)) and (part := line.recv(1 << 16)):
                    out += part
            except ConnectionError:
                pass  # cut off, which is an answer
        return Raw(out, time.monotonic() - began)

    def request(self, method: str, path: str, body: bytes = b"", **headers: str | bytes) -> Raw:
        lines = [f"{method} {path} HTTP/1.1".encode()]
        headers = {"Host": f"localhost:{self.port}", "Content-Length": str(len(body)), **headers}
        for name, text in headers.items():
            lines.append(name.replace("_", "-").encode() + b": " + (text.encode() if isinstance(text, str) else text))
        return self.send(b"\r\n".join(lines) + b"\r\n\r\n" + body)

    def is_well(self) -> bool:
        """Whether the service answers at once, and has not taken too much memory."""
        answer = self.request("GET", "/status")
        status = Path(f"/proc/{self.served.process.pid}/status").read_text()
        most = re.search(r"VmHWM:\s+(\d+)", status)
        assert most is not None
        return answer.status == 200 and answer.seconds < PATIENCE and int(most[1]) >> 10 < MEMORY_MIB

    def uploads(self) -> int:
        """The number of bodies that the service is reading."""
        figures = self.request("GET", "/metrics").body
        match = re.search(rb'shoal_slots_held{kind="uploads"} (\d+)', figures)
        assert match is not None, figures
        return int(match[1])

    def pools(self) -> list[str]:
        answer = self.request("GET", "/pool", Accept="application/json")
        return [pool["name"] for pool in json.loads(answer.body)]


def _is_whole(out: bytes) -> bool:
    head, end, body = out.partition(b"\r\n\r\n")
    length = re.search(rb"content-length: (\d+)", head, re.IGNORECASE)
    if not end:
        return False
    if head[9:12] in (b"204", b"100") or length is None:
        return head[9:12] == b"204" or out.endswith(b"0\r\n\r\n")
    return len(body) >= int(length[1])


@pytest.fixture(scope="module")
def attacker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Attacker]:
    folder = tmp_path_factory.mktemp("hostile")
    flags = ["-log.level", "warn", "-limit.body", str(LARGEST_BODY), "-cors.origin", "https://ours.example.com"]
    with serving(folder / "lake", folder, flags) as served:
        made = Attacker(served)
        assert made.request("POST", "/pool", b'{"name":"logs"}').status == 200
        yield made
        levels = [json.loads(line)["level"] for line in served.lines().splitlines()]
        assert set(levels) <= {"warn", "error"}, "the log is JSON, and nothing else is written"


@pytest.fixture(autouse=True)
def stays_well(attacker: Attacker) -> Iterator[None]:
    """After each test the service answers at once, within its memory."""
    yield
    assert attacker.served.process.poll() is None
    assert attacker.is_well()


# ---- paths and headers

PATHS = [
    "/pool/%00", "/pool/%2e%2e", "/pool/..", "/pool/%2F..%2F..", "/pool/%ff", "/pool/%c0%ae%c0%ae", "/pool/%zz",
    "/pool/%", "/pool/logs/branch/%ff", "/pool/logs/branch/..%2f..", "/pool/logs/revision/%ed%a0%80",
    "/pool/logs/revision/0x00", "/pool/logs/revision/main%00", "/pool/logs/branch/main/commit/zz",
    "/query/status/%ff", "/query/status/" + "x" * 5000, "/pool/logs/revision/" + "a" * 50000,
    "/pool/logs/diff?old=%ff&new=%00", "//evil.example.com/pool", "/pool//branch", "*",
]  # fmt: skip


@pytest.mark.parametrize("path", PATHS, ids=lambda path: path[:40])
def test_a_path_that_names_nothing_is_refused(attacker: Attacker, path: str) -> None:
    assert attacker.request("GET", path).status in (400, 404)


@pytest.mark.parametrize("name", ["../x", "a/../../b", ".access", "", "\0", "x" * 100_000, "\ud800"])
def test_no_name_of_a_pool_leads_out_of_the_lake(attacker: Attacker, name: str) -> None:
    lake = attacker.served.lake
    beside = sorted(lake.parent.iterdir())
    answer = attacker.request("POST", "/pool", json.dumps({"name": name}).encode())
    assert answer.status in (200, 400, 409)
    assert sorted(lake.parent.iterdir()) == beside


HEADERS: dict[str, list[str | bytes]] = {
    "X_Request_ID": ["a\rb", "a\nb", b"\xe9", "x" * 300, "a b", "<b>"],
    "Accept": [", ".join(["a/b"] * 10000), b"\xff\xfe", "text/html"],
    "Content_Type": [b"\xff", "text/plain", "multipart/form-data", "application/json" * 1000],
    "Content_Encoding": ["gzip, gzip", "br", b"\xff"],
    "Idempotency_Key": [b"\xff", b"\0", "a b", "", "x" * 10000],
    "Zed_Commit": ["{", "[" * 50000, "9" * 5000, '{"author":["x"]}', '{"body":"\\ud800"}',
                   '{"author":"\\udfff"}', '{"meta":"' + "[" * 50000 + '"}', '{"meta":"}{"}'],
    "Transfer_Encoding": ["gzip", "chunked, chunked", "\x0bchunked", "chunked"],
    "Content_Length": ["-1", "1e3", "99999999999999999999999", "0x10", "5, 6"],
}  # fmt: skip


@pytest.mark.parametrize(("name", "text"), [(n, each) for n, texts in HEADERS.items() for each in texts])
def test_a_header_that_says_nothing_is_refused_or_left_alone(attacker: Attacker, name: str, text: str | bytes) -> None:
    answer = attacker.request("POST", LOAD, b'{"ts":1}', **{name: text})
    assert answer.status in ((200, 400, 406) if name in ("X_Request_ID", "Accept") else (400, 406))
    given = re.findall(rb"\r\nx-request-id: ([^\r]*)", answer.data, re.IGNORECASE)
    assert all(re.fullmatch(rb"[\w.:/=+-]+", each) for each in given)


HEADS: list[SENT] = [
    ("a line without an end", b"GET /" + b"a" * 300_000),
    ("a header without an end", b"GET /pool HTTP/1.1\r\nHost: localhost\r\nX: " + b"a" * 8_000_000),
    ("a name without an end", b"GET /pool HTTP/1.1\r\nHost: localhost\r\n" + b"a" * 300_000),
    ("headers without an end", b"GET /pool HTTP/1.1\r\nHost: localhost\r\n" + b"X: a\r\n" * 50_000),
    ("a header that is too long", b"GET /pool HTTP/1.1\r\nHost: localhost\r\nX: " + b"a" * 200_000 + b"\r\n\r\n"),
    ("headers that are too long", b"GET /pool HTTP/1.1\r\nHost: localhost\r\n" + (b"X: " + b"a" * 999 + b"\r\n") * 70
     + b"\r\n"),
    ("a path that is too long", b"GET /" + b"a" * 70_000 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n"),
    ("lines without an end", b"\r\n" * 200_000),
    ("an extension without an end", b"POST /pool HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n1;"
     + b"a" * 4_000_000),
    ("trailers without an end", b"POST /pool HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n"
     + b"X: a\r\n" * 50_000),
    ("a chunk of no size", b"POST /pool HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n"),
    ("a chunk of any size", b"POST /pool HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
     + b"f" * 40 + b"\r\n"),
    ("two lengths", b"POST /pool HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n{}"),
    ("no HTTP", b"\x16\x03\x01" + bytes(500)),
    ("another HTTP", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"),
]  # fmt: skip


@pytest.mark.parametrize("head", [head for _, head in HEADS], ids=[name for name, _ in HEADS])
def test_a_request_that_cannot_be_read_is_cut_off(attacker: Attacker, head: bytes) -> None:
    answer = attacker.send(head)
    assert answer.status in (0, 400)
    assert answer.seconds < PATIENCE


@pytest.mark.parametrize("method", ["OPTIONS", "TRACE", "CONNECT", "PATCH", "PROPFIND", "FOO", "get"])
def test_a_method_that_nothing_has_is_refused(attacker: Attacker, method: str) -> None:
    assert attacker.request(method, "/pool").status in (400, 404, 405)


def test_requests_that_come_at_once_are_answered_in_turn(attacker: Attacker) -> None:
    one = f"GET /version HTTP/1.1\r\nHost: localhost:{attacker.port}\r\nAccept: application/json\r\n".encode()
    answer = attacker.send((one + b"\r\n") * 20 + one + b"Connection: close\r\n\r\n", is_last=True)
    assert answer.data.count(b"HTTP/1.1 200") == 21


def test_a_client_that_goes_away_in_the_middle_leaves_nothing_behind(attacker: Attacker) -> None:
    before = attacker.request("GET", LOAD).body
    for _ in range(20):
        head = f"POST {LOAD} HTTP/1.1\r\nHost: localhost:{attacker.port}\r\nContent-Length: 100\r\n\r\n"
        assert attacker.send(head.encode() + b'{"ts":1}', is_half_closed=True).status in (0, 400)
    assert attacker.request("GET", LOAD).body == before


# ---- web pages


@pytest.mark.parametrize("origin", ["https://evil.example.com", "null", "http://localhost:1", "http://localhost"])
def test_a_page_of_another_origin_cannot_use_a_service_without_authentication(attacker: Attacker, origin: str) -> None:
    before = attacker.pools()
    for kind in ("application/x-www-form-urlencoded", ""):  # a browser sends these without asking first
        answer = attacker.request("POST", "/pool", b'{"name":"taken"}', Origin=origin, Content_Type=kind)
        assert answer.status == 403
        assert b"-cors.origin" in answer.body
    assert attacker.request("GET", "/pool", Origin=origin).status == 403
    assert attacker.pools() == before


HOSTS = ["evil.example.com", "evil.example.com:80", "localhost.evil.example.com", "", "[", "[::1",
         "localhost@evil.example.com", "localhost/@evil.example.com", "169.254.169.254", "0.0.0.0", "\xff"]  # fmt: skip


@pytest.mark.parametrize("host", HOSTS)
def test_a_name_that_was_pointed_at_this_machine_is_not_answered(attacker: Attacker, host: str) -> None:
    answer = attacker.request("GET", "/pool", Host=host)
    assert answer.status == 403
    assert b"logs" not in answer.body


def test_pages_that_are_allowed_and_those_of_the_service_itself_may_call_it(attacker: Attacker) -> None:
    for origin in ("https://ours.example.com", f"http://localhost:{attacker.port}"):
        assert attacker.request("GET", "/pool", Origin=origin).status == 200
    for host in ("localhost", "127.0.0.1", f"127.0.0.1:{attacker.port}", "[::1]:80", "LOCALHOST"):
        assert attacker.request("GET", "/pool", Host=host).status == 200


# ---- bodies


def _parquet_bomb() -> bytes:
    out = io.BytesIO()
    column = pa.DictionaryArray.from_arrays(pa.array([0] * 20_000, pa.int32()), pa.array(["x" * 100_000]))
    pq.write_table(pa.table({"a": column}), out, compression="zstd")
    return out.getvalue()


def _arrow_stream() -> bytes:
    out = io.BytesIO()
    with pa.ipc.new_stream(out, pa.schema([("a", pa.int64())])) as writer:
        writer.write_batch(pa.record_batch({"a": [1, 2, 3]}))
    return out.getvalue()


LONG = b'{"a":"' + b"x" * (40 << 20) + b'"}'
BODIES: list[SENT] = [
    ("gzip bomb", gzip.compress(LONG)),
    ("zstd bomb", zstandard.compress(LONG, 3)),
    ("gzip in gzip", gzip.compress(gzip.compress(b'{"a":1}'))),
    ("gzip in zstd", zstandard.compress(gzip.compress(b'{"a":1}'))),
    ("zip in gzip", gzip.compress(b"PK\x03\x04" + bytes(40))),
    ("zip cut off", b"PK\x03\x04" + bytes(100)),
    ("bzip2 cut off", bz2.compress(b'{"a":1}' * 1000)[:30]),
    ("bzip2 bomb", bz2.compress(LONG)),
    ("xz bomb", lzma.compress(LONG)),
    ("xz of any size", lzma.compress(b'{"a":1}', filters=[{"id": lzma.FILTER_LZMA2, "dict_size": 1 << 30}])),
    ("lz4 cut off", b"\x04\x22\x4d\x18" + bytes(20)),
    ("UTF-16 cut off", '{"a":1}'.encode("utf-16")[:-1]),
    ("gzip cut off", gzip.compress(b'{"a":1}' * 1000)[:50]),
    ("zstd of any size", b"\x28\xb5\x2f\xfd\xe0" + b"\xff" * 8 + bytes(20)),
    ("arrays without an end", b"[" * 100_000),
    ("deep arrays", b"[" * 100_000 + b"]" * 100_000),
    ("deep records", b'{"a":' * 100_000),
    ("deep sets", b"|[" * 100_000),
    ("deep types", b"null(" + b"[" * 100_000),
    ("deep errors", b"error(" * 100_000),
    ("deep type values", b"<" + b"{a:" * 100_000 + b"int64" + b"}" * 100_000 + b">"),
    ("many digits", b'{"a":' + b"9" * 1_000_000 + b"}"),
    ("large exponent", b'{"a":1e' + b"9" * 100_000 + b"}"),
    ("long duration", b"1" * 100_000 + b"y"),
    ("long net", b"1.1.1.1/" + b"9" * 100_000),
    ("an open string", b'{"a":"' + b"x" * 2_000_000),
    ("backslashes", b'"' + b"\\" * 2_000_000),
    ("a long escape", b'"\\u{' + b"f" * 100_000 + b'}"'),
    ("ZNG frame of any size", b"\x0f\xff\xff\xff\xff\x7f" + bytes(100)),
    ("ZNG compressed frame of any size", b"\x5f\xff\xff\xff\x0f\x00\xff\xff\xff\xff\x0f" + bytes(100)),
    ("VNG of any size", b"VNG\0" + b"\xff" * 60),
    ("Parquet cut off", b"PAR1" + bytes(100)),
    ("Parquet footer of any size", b"PAR1" + bytes(100) + b"\xff\xff\xff\x7fPAR1"),
    ("Arrow of any size", b"\xff\xff\xff\xff\xff\xff\xff\x7f" + bytes(100)),
    ("Arrow cut off", _arrow_stream()[:-40]),
]  # fmt: skip
PLACES = [LOAD, "/pool", "/query"]


@pytest.mark.parametrize("body", [body for _, body in BODIES], ids=[name for name, _ in BODIES])
def test_a_body_that_cannot_be_read_is_refused(attacker: Attacker, body: bytes) -> None:
    for place in PLACES:
        answer = attacker.request("POST", place, body)
        assert answer.status in (400, 413), (place, answer.data[-300:])
        assert answer.seconds < PATIENCE


def test_values_in_any_number_take_time_in_proportion(attacker: Attacker) -> None:
    assert attacker.request("POST", LOAD + "?format=json", b'""' * 100_000).status == 200


def test_columns_that_grow_when_they_are_read_stay_within_memory(attacker: Attacker) -> None:
    body = _parquet_bomb()
    assert len(body) < 1 << 20
    assert attacker.request("POST", LOAD, body).status in (200, 400, 413)
    assert attacker.request("POST", "/query?format=parquet", body).status == 400


def test_a_body_beyond_the_limit_is_refused_although_it_does_not_say_its_length(attacker: Attacker) -> None:
    head = f"POST {LOAD} HTTP/1.1\r\nHost: localhost:{attacker.port}\r\nTransfer-Encoding: chunked\r\n\r\n".encode()
    chunk = b"100000\r\n" + b" " * (1 << 20) + b"\r\n"
    assert attacker.send(head + chunk * 40 + b"0\r\n\r\n").status in (0, 413)


def test_a_body_that_says_it_is_beyond_the_limit_is_refused_before_it_comes(attacker: Attacker) -> None:
    for length in (LARGEST_BODY + 1, 999999999999999):
        for place in PLACES:
            head = f"POST {place} HTTP/1.1\r\nHost: localhost:{attacker.port}\r\nContent-Length: {length}\r\n\r\n"
            answer = attacker.send(head.encode())
            assert (answer.status, answer.seconds < PATIENCE) == (413, True)
            assert b"larger than 33554432 bytes" in answer.body


def test_a_message_does_not_repeat_what_is_long(attacker: Attacker) -> None:
    long = "x" * 100_000
    programs = [
        f"from {long}",
        f"yield {long}(",
        f"from logs@{long}",
        f"sum({long} b)",
        f"{'a,' * 50_000} b(",
        long + "(",
    ]
    bodies = [{"query": program} for program in programs]
    answers = [attacker.request("POST", "/query", json.dumps(body).encode()) for body in bodies]
    answers += [attacker.request("POST", place, json.dumps({"name": "logs", "x": long}).encode()) for place in PLACES]
    answers.append(attacker.request("POST", "/pool", json.dumps({"name": [long]}).encode()))
    answers.append(attacker.request("POST", "/pool", json.dumps({"name": f"\0{long}"}).encode()))
    answers.append(attacker.request("POST", "/query/sql", json.dumps({"statement": f"select {long}"}).encode()))
    for answer in answers:
        assert len(answer.body) < 12_000, answer.body[:300]


def test_a_storage_error_names_objects_as_the_lake_does(attacker: Attacker) -> None:
    lake = attacker.served.lake
    answer = attacker.request("POST", "/pool", b'{"name":"lost","settings":{"inline":0}}', Accept="application/json")
    pool = to_text(parse(json.loads(answer.body)["pool"]["id"]))
    assert attacker.request("POST", "/pool/lost/branch/main", b'{"ts":1}').status == 200
    for name in ("data", "commits"):
        (lake / pool / name).rename(lake / pool / f"{name}-elsewhere")
        (lake / pool / name).write_text("a file in the place of a folder")
    failed = [attacker.request("POST", "/pool/lost/branch/main", b'{"ts":2}')]
    failed += [attacker.request("POST", f"/query?ctrl={ctrl}", b'{"query":"from lost | count()"}') for ctrl in "FT"]
    assert failed[0].status == 503
    assert b'"error":"%s/data/' % pool.encode() in failed[0].body
    for answer in failed:
        assert str(lake.parent).encode() not in answer.data
    assert f"{lake}/{pool}/data/" in attacker.served.lines()


def test_bodies_that_do_not_go_on_leave_room_for_others(attacker: Attacker) -> None:
    head = f"POST {LOAD} HTTP/1.1\r\nHost: localhost:{attacker.port}\r\nContent-Length: 9000000\r\n\r\n".encode()
    lines = []
    try:
        for _ in range(140):
            line = socket.create_connection(("localhost", attacker.port), PATIENCE)
            lines.append(line)
            line.sendall(head + b'{"ts":"' + b"x" * 1_100_000)
        wait_until(lambda: attacker.uploads() == THREADS_PER_CALLER, PATIENCE)
        assert attacker.is_well()
        assert attacker.pools()
    finally:
        for line in lines:
            line.close()
