from __future__ import annotations

import gzip
import json
import os
import random
import re
import socket
import ssl
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import obstore
import pytest
from obstore.store import S3Store

from shoal.api.options import ReadOptions
from shoal.cli.main import main
from shoal.errors import InvalidInput, NotFound, ShoalError, StorageFailure, Unsupported
from shoal.formats import zson
from shoal.formats.arrow import parquet
from shoal.formats.vng import files as vng
from shoal.model.parse import parse_value
from shoal.model.text import format_value
from shoal.model.values import Value
from shoal.sources import http
from shoal.sources.inputs import Forward, Ranged
from shoal.sources.reading import open_url, read_file, read_request
from shoal.storage.locations import public_name
from shoal.testing.moto_s3 import put_unsigned
from shoal.testing.samples import written

RECORDS = [parse_value(f'{{n:{i},s:"{"x" * (i % 50)}"}}') for i in range(2000)]
PARQUET = written(parquet.Writer, RECORDS)
VNG = written(vng.Writer, RECORDS)
LONG = b"".join(b'{"n":%d}\n' % i for i in range(200_000))


def texts(values: Iterator[Value]) -> list[str]:
    return [format_value(value) for value in values]


@pytest.fixture(autouse=True)
def _no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "https_proxy", "all_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)


# ---- an HTTP server


@dataclass
class Site:
    """What the server serves, and what it was asked."""

    url: str = ""
    files: dict[str, bytes] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)
    let_go: threading.Event = field(default_factory=threading.Event)
    version: str = "1"
    connections: int = 0
    drops: int = 0
    """Requests that are not answered but end their connection."""


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    site: Site

    def setup(self) -> None:
        self.site.connections += 1
        super().setup()

    def do_GET(self) -> None:
        if self.site.drops:
            self.site.drops -= 1
            self.close_connection = True
            return
        self.site.asked.append(f"{self.command} {self.path} {self.headers.get('Range', '')}".strip())
        kind, _, rest = self.path.removeprefix("/").partition("/")
        getattr(self, f"serve_{kind.partition('?')[0]}", self.serve_missing)(rest)

    do_POST = do_PUT = do_HEAD = do_GET  # noqa: N815

    def answer(self, status: int, body: bytes = b"", **headers: str) -> None:
        self.send_response(status)
        for name, value in {"Content_Length": str(len(body)), **headers}.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def serve_plain(self, rest: str) -> None:
        self.answer(200, self.site.files[rest])

    def serve_ranges(self, rest: str) -> None:
        data, etag = self.site.files[rest], f'"{self.site.version}"'
        wanted = re.fullmatch(r"bytes=(\d+)-(\d+)", self.headers.get("Range", ""))
        if wanted is None:
            return self.answer(200, data, Accept_Ranges="bytes", ETag=etag)
        first, last = int(wanted[1]), int(wanted[2])
        place = f"bytes {first}-{last}/{len(data)}"
        return self.answer(206, data[first : last + 1], Content_Range=place, ETag=etag)

    def serve_liar(self, rest: str) -> None:
        self.answer(200, self.site.files[rest], Accept_Ranges="bytes")

    def serve_gzip(self, rest: str) -> None:
        assert self.headers["Accept-Encoding"] == "gzip"
        self.answer(200, gzip.compress(self.site.files[rest]), Content_Encoding="gzip", Accept_Ranges="bytes")

    def serve_brotli(self, rest: str) -> None:
        self.answer(200, b"...", Content_Encoding="br")

    def serve_chunked(self, rest: str) -> None:
        self.send_response(200)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for piece in (self.site.files[rest][:5], self.site.files[rest][5:]):
            self.wfile.write(b"%x\r\n%s\r\n" % (len(piece), piece))
        self.wfile.write(b"0\r\n\r\n")

    def serve_hop(self, rest: str) -> None:
        count, _, goal = rest.partition("/")
        place = f"/hop/{int(count) - 1}/{goal}" if int(count) > 1 else f"/{goal}"
        self.answer(302, Location=place)

    def serve_status(self, rest: str) -> None:
        status, _, goal = rest.partition("/")
        self.answer(int(status), Location=goal)

    def serve_loop(self, rest: str) -> None:
        self.answer(301, Location="/loop")

    def serve_failing(self, rest: str) -> None:
        self.answer(500, b"the \x1b[31mdatabase is away\nand more\n")

    def serve_page(self, rest: str) -> None:
        self.answer(403, b"<html><body>Go away</body></html>")

    def serve_missing(self, rest: str) -> None:
        self.answer(404)

    def serve_short(self, rest: str) -> None:
        self.answer(200, self.site.files[rest], Content_Length="1000")
        self.close_connection = True

    def serve_stalled(self, rest: str) -> None:
        self.send_response(200)
        self.send_header("Content-Length", "1000")
        self.end_headers()
        self.wfile.write(b"{a:1}\n")
        self.site.let_go.wait(20)

    def serve_garbage(self, rest: str) -> None:
        self.wfile.write(b"SMTP ready\r\n\r\n")
        self.close_connection = True

    def serve_echo(self, rest: str) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", "0"))).decode()
        names = sorted({name.lower() for name in self.headers if name.lower().startswith(("x-", "auth", "cookie"))})
        seen = {name: self.headers.get_all(name) for name in names}
        told = {"method": self.command, "path": self.path, "headers": seen, "body": body}
        self.answer(200, json.dumps(told).encode(), Content_Type="application/json")

    def log_message(self, format: str, *args: object) -> None:
        pass


class Server(ThreadingHTTPServer):
    def handle_error(self, request: object, client_address: object) -> None:
        """A client that leaves early is what some tests are about."""


def serve(handler: type[Handler], tls: ssl.SSLContext | None = None) -> Iterator[Site]:
    site = Site()
    server = Server(("127.0.0.1", 0), type("Bound", (handler,), {"site": site}))
    if tls is not None:
        server.socket = tls.wrap_socket(server.socket, server_side=True)
    site.url = f"{'https' if tls else 'http'}://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield site
    site.let_go.set()
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def site() -> Iterator[Site]:
    yield from serve(Handler)


@pytest.fixture
def other() -> Iterator[Site]:
    yield from serve(Handler)


def failure(work: Callable[[], object]) -> ShoalError:
    with pytest.raises(ShoalError) as info:
        work()
    assert "\n" not in str(info.value)
    return info.value


@pytest.mark.parametrize("kind", ["plain", "ranges", "gzip", "chunked", "hop/5/plain"])
def test_a_file_over_http_is_read_like_any_other(site: Site, kind: str) -> None:
    site.files["x.json"] = b'{"a":1}\n{"a":2}\n'
    assert texts(read_file(f"{site.url}/{kind}/x.json")) == ["{a:1}", "{a:2}"]


def test_a_compressed_file_is_unwrapped_even_where_it_was_compressed_for_the_way(site: Site) -> None:
    site.files["x.gz"] = gzip.compress(b"{a:1}")
    for kind in ("plain", "ranges", "gzip"):
        assert texts(read_file(f"{site.url}/{kind}/x.gz")) == ["{a:1}"]


@pytest.mark.parametrize("kind", ["plain", "ranges"])
def test_reading_from_start_to_end_is_one_request(site: Site, kind: str) -> None:
    site.files["x.json"] = LONG
    assert sum(1 for _ in read_file(f"{site.url}/{kind}/x.json", "json")) == 200_000
    assert len(site.asked) == 1


@pytest.mark.parametrize("name, data", [("parquet", PARQUET), ("vng", VNG)])
def test_files_that_are_moved_in_are_read_by_ranges(site: Site, name: str, data: bytes) -> None:
    site.files["x"] = data
    for path in ("ranges/x", "hop/2/ranges/x"):
        for format_name in (name, "auto"):
            assert list(read_file(f"{site.url}/{path}", format_name)) == RECORDS


def test_only_the_ranges_that_are_needed_are_fetched(site: Site) -> None:
    site.files["x"] = random.Random(1).randbytes(5 << 20)
    file = open_url(f"{site.url}/ranges/x")
    assert file.seekable()
    for place in (4 << 20, 1 << 20, (5 << 20) - 7):
        assert file.seek(place) == place == file.tell()
        assert file.read(7) == site.files["x"][place : place + 7]
    assert file.seek(-3, 2) == len(site.files["x"]) - 3
    assert (file.read(), file.read(10)) == (site.files["x"][-3:], b"")
    file.close()
    assert site.asked[0] == "GET /ranges/x"
    assert all(re.search(r"bytes=\d+-\d+$", line) for line in site.asked[1:])
    assert (len(site.asked), site.connections) == (4, 2)


def test_a_parquet_file_from_a_server_without_ranges_is_refused_with_the_reason(site: Site) -> None:
    site.files["x"] = PARQUET
    for kind in ("plain", "gzip"):
        url = f"{site.url}/{kind}/x"
        error = failure(lambda url=url: list(read_file(url, "parquet")))  # type: ignore[misc]
        assert str(error) == f"{url}: parquet requires a seekable input"
        with pytest.raises(InvalidInput, match="if it is parquet: requires seekable input"):
            list(read_file(url))


def test_a_server_that_promises_ranges_and_sends_none_is_an_error(site: Site) -> None:
    site.files["x"] = LONG
    file = open_url(f"{site.url}/liar/x")
    file.seek(1000)
    assert str(failure(lambda: file.read(1))) == f"{site.url}/liar/x: the server does not serve ranges (200)"
    file.close()


def test_a_file_that_changes_meanwhile_is_an_error(site: Site) -> None:
    site.files["x"] = LONG
    file = open_url(f"{site.url}/ranges/x")
    site.version = "2"
    file.seek(1000)
    assert str(failure(lambda: file.read(1))) == f"{site.url}/ranges/x: changed while it was read"
    file.close()


@pytest.mark.parametrize(
    "path, kind, problem",
    [
        ("nothing", NotFound, "not found (404)"),
        ("failing", StorageFailure, "internal server error (500): the ?[31mdatabase is away"),
        ("page", StorageFailure, "forbidden (403)"),
        ("loop", StorageFailure, "more than 5 redirects"),
        ("hop/6/plain/x", StorageFailure, "more than 5 redirects"),
        ("status/302/ftp://there/x", StorageFailure, "redirects to ftp://there/x, which is not an http or https URL"),
        ("status/302/file:///x", StorageFailure, "redirects to file:///x, which is not an http or https URL"),
        ("short/x", StorageFailure, "ended after 6 of 1000 bytes"),
        ("garbage", StorageFailure, "not an HTTP answer (BadStatusLine)"),
        ("brotli", Unsupported, "content encoding 'br' (only gzip is read)"),
    ],
)
def test_what_goes_wrong_is_one_line_with_the_url(site: Site, path: str, kind: type[ShoalError], problem: str) -> None:
    site.files["x"] = b"{a:1}\n"
    error = failure(lambda: list(read_file(f"{site.url}/{path}", "zson")))
    assert (type(error), str(error)) == (kind, f"{site.url}/{path}: {problem}")


def test_nobody_at_home_is_one_line_with_the_url() -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    url = f"http://127.0.0.1:{port}/x"
    assert str(failure(lambda: list(read_file(url)))) == f"{url}: connection refused"


@pytest.mark.parametrize("url", ["http:///x", "http://a:port/x", "http://[::1/x", "http://a b/x"])
def test_what_is_no_url_is_said_to_be_none(url: str) -> None:
    with pytest.raises(InvalidInput):
        open_url(url)


def test_a_server_that_falls_silent_times_out_and_what_came_before_is_there(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http, "TIMEOUT", 0.2)
    values = read_file(f"{site.url}/stalled", "line")
    assert format_value(next(values)) == '"{a:1}"'
    assert str(failure(lambda: next(values))) == f"{site.url}/stalled: timed out after 0.2 s"


def test_another_host_is_not_told_what_was_meant_for_the_first(site: Site, other: Site) -> None:
    headers = (("Authorization", "secret"), ("Cookie", "a=b"), ("X-Kept", "1"))
    for host, kept in ((site, ["authorization", "cookie", "x-kept"]), (other, ["x-kept"])):
        url = f"{site.url}/status/302/{host.url}/echo"
        (told,) = read_request(url, "json", ReadOptions(), "GET", headers)
        assert re.findall(r'"?([\w-]+)"?:\[', format_value(told)) == kept


@pytest.mark.parametrize(
    "status, method, becomes, body",
    [
        (302, "POST", "GET", ""),
        (303, "PUT", "GET", ""),
        (307, "POST", "POST", "text"),
        (308, "PUT", "PUT", "text"),
        (301, "GET", "GET", "text"),
    ],
)
def test_redirects_keep_the_method_or_turn_it_into_get(
    site: Site, status: int, method: str, becomes: str, body: str
) -> None:
    url = f"{site.url}/status/{status}/{site.url}/echo"
    (told,) = read_request(url, "json", ReadOptions(), method, (), b"text")
    assert format_value(told) == f'{{method:"{becomes}",path:"/echo",headers:{{}},body:"{body}"}}'


def test_name_and_password_of_a_url_are_used_and_not_shown(site: Site) -> None:
    url = site.url.replace("://", "://ann:s%2Fcret@")
    (told,) = read_file(f"{url}/echo")
    assert 'authorization:["Basic YW5uOnMvY3JldA=="]' in format_value(told)
    shown = site.url.replace("://", "://ann:***@")
    assert str(failure(lambda: list(read_file(f"{url}/nothing")))) == f"{shown}/nothing: not found (404)"
    assert public_name("s3://bucket/a:b@c") == "s3://bucket/a:b@c"


def test_paths_and_queries_that_need_it_are_quoted(site: Site) -> None:
    (told,) = read_file(f"{site.url}/echo/ä b?q=x y&r=%20#part", "json")
    assert 'path:"/echo/%C3%A4%20b?q=x%20y&r=%20"' in format_value(told)


def test_a_header_cannot_carry_another() -> None:
    bad = (("X-A", "1\r\nX-B: 2"),)
    with pytest.raises(InvalidInput, match="Invalid header value"):
        list(read_request("http://127.0.0.1:9/", "json", ReadOptions(), "GET", bad))


def test_the_proxy_of_the_environment_is_used(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    site.files["x"] = b"{a:1}"
    monkeypatch.setenv("http_proxy", site.url)
    monkeypatch.setenv("https_proxy", site.url)
    with pytest.raises(NotFound):
        open_url("http://somewhere.example/x")
    assert site.asked == ["GET http://somewhere.example/x"]
    with pytest.raises(StorageFailure, match="tunnel connection failed: 501"):
        open_url("https://somewhere.example/x")
    monkeypatch.setenv("http_proxy", "127.0.0.1:9")
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    assert texts(read_file(f"{site.url}/plain/x")) == ["{a:1}"]


CERTIFICATE = (
    "openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=127.0.0.1 "
    "-addext subjectAltName=IP:127.0.0.1 -keyout key.pem -out cert.pem"
)


@pytest.fixture
def certificate(tmp_path: Path) -> Path:
    try:
        subprocess.run(CERTIFICATE.split(), cwd=tmp_path, check=True, capture_output=True)
    except FileNotFoundError:
        pytest.skip("there is no openssl to make a certificate with")
    return tmp_path / "cert.pem"


@pytest.fixture
def safe_site(certificate: Path) -> Iterator[Site]:
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(certificate, certificate.parent / "key.pem")
    yield from serve(Handler, tls)


def test_https_is_verified_and_never_left_for_http(
    safe_site: Site, site: Site, certificate: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    safe_site.files["x"] = b"{a:1}"
    url = f"{safe_site.url}/plain/x"
    assert f"{url}: the certificate is not trusted: self" in str(failure(lambda: list(read_file(url))))
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    assert texts(read_file(url)) == ["{a:1}"]
    url = f"{safe_site.url}/status/302/{site.url}/plain/x"
    problem = f"redirects from https to {site.url}/plain/x, which is not encrypted"
    assert str(failure(lambda: list(read_file(url)))) == f"{url}: {problem}"
    assert site.asked == []


def test_a_pinned_connection_is_verified_for_the_host_and_not_for_its_address(
    safe_site: Site, certificate: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The certificate is for 127.0.0.1: it does not make a server there `localhost`."""
    safe_site.files["x"] = b"{a:1}"
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    url = f"{safe_site.url}/plain/x"
    assert http.open_request(url, "GET", (), b"", lambda url: "127.0.0.1").read() == b"{a:1}"
    url = url.replace("127.0.0.1", "localhost")
    error = failure(lambda: http.open_request(url, "GET", (), b"", lambda url: "127.0.0.1"))
    assert str(error).startswith(f"{url}: the certificate is not trusted: Hostname mismatch")
    assert len(safe_site.asked) == 1


def test_a_range_is_asked_for_again_on_a_connection_that_the_server_has_closed(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    site.files["x"] = LONG
    file = open_url(f"{site.url}/ranges/x")
    file.seek(1 << 20)
    assert file.read(7) == LONG[1 << 20 :][:7]
    site.drops = 1
    file.seek(2)
    assert file.read(7) == LONG[2:9]
    site.drops = 2
    file.seek(1 << 20)
    assert str(failure(lambda: file.read(7))).startswith(f"{site.url}/ranges/x: ")
    file.close()
    assert len(site.asked) == 3


# ---- the two kinds of remote files


def test_pieces_grow_in_reading_on_and_are_small_again_after_a_move() -> None:
    data, sizes = random.Random(2).randbytes(40 << 20), []

    def fetch(start: int, size: int) -> bytes:
        sizes.append(size)
        return data[start : start + size]

    file = Ranged(fetch, len(data), lambda: None)
    assert file.read() == data
    assert sizes[:4] == [max(256 << 10, 8 << 20)] * 4
    sizes.clear()
    file.seek(0)
    while file.read(1000):
        pass
    assert sizes[:7] == [(256 << 10) << i for i in (0, 1, 2, 3, 4, 5, 5)]
    sizes.clear()
    file.seek(100)
    file.read(10)
    file.seek(50_000)
    file.read(10)
    assert sizes == [256 << 10]


def test_a_stream_knows_how_much_was_read_and_cannot_be_moved_in() -> None:
    pieces = iter([b"ab", b"c", b""])
    stream = Forward(lambda size: next(pieces), lambda: None)
    assert (stream.read(2), stream.tell(), stream.seekable()) == (b"ab", 2, False)
    assert (stream.read(), stream.tell()) == (b"c", 3)
    with pytest.raises(InvalidInput):
        stream.seek(0)


# ---- an S3 server


@pytest.fixture
def bucket(endpoint: str, monkeypatch: pytest.MonkeyPatch) -> S3Store:
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "test")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "test")
    monkeypatch.setenv("AWS_REGION", "us-east-1")
    monkeypatch.setenv("AWS_ENDPOINT_URL", endpoint)
    return S3Store("bucket", endpoint=endpoint, client_options={"allow_http": True})


def test_objects_are_read_like_any_file(bucket: S3Store) -> None:
    obstore.put(bucket, "dir/a b#1?.json", b'{"a":1}\n')
    obstore.put(bucket, "empty", b"")
    obstore.put(bucket, "x.gz", gzip.compress(b"{a:1}"))
    assert texts(read_file("s3://bucket/dir/a b#1?.json")) == ["{a:1}"]
    assert texts(read_file("s3://bucket/empty")) == []
    assert texts(read_file("s3://bucket/x.gz")) == ["{a:1}"]


@pytest.mark.parametrize("name, data", [("parquet", PARQUET), ("vng", VNG), ("zson", written(zson.Writer, RECORDS))])
def test_objects_of_all_kinds_of_formats_are_read(bucket: S3Store, name: str, data: bytes) -> None:
    obstore.put(bucket, "x", data)
    assert list(read_file("s3://bucket/x")) == list(read_file("s3://bucket/x", name)) == RECORDS


def test_a_large_object_is_read_to_the_end(bucket: S3Store) -> None:
    obstore.put(bucket, "long", LONG * 3)
    assert sum(1 for _ in read_file("s3://bucket/long", "json")) == 600_000


@pytest.mark.parametrize("name", ["AWS_ENDPOINT_URL_S3", "AWS_S3_ENDPOINT"])
def test_an_endpoint_for_s3_alone_comes_first(
    bucket: S3Store, endpoint: str, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    monkeypatch.setenv(name, endpoint)
    obstore.put(bucket, "x", b"{a:1}")
    assert texts(read_file("s3://bucket/x")) == ["{a:1}"]


@pytest.mark.parametrize("url", ["s3://bucket/does/not/exist", "s3://no-such-bucket/x"])
def test_a_missing_object_does_not_exist(bucket: S3Store, url: str) -> None:
    error = failure(lambda: list(read_file(url)))
    assert (type(error), str(error)) == (NotFound, f"{url}: file does not exist")


@pytest.mark.parametrize("url", ["s3://", "s3://bucket", "s3://bucket/", "s3:///x"])
def test_a_url_without_a_key_names_no_object(bucket: S3Store, url: str) -> None:
    assert str(failure(lambda: open_url(url))) == f"{url}: no object given (write s3://bucket/key)"


def test_an_object_that_changes_meanwhile_is_an_error(bucket: S3Store) -> None:
    obstore.put(bucket, "x", LONG)
    file = open_url("s3://bucket/x")
    obstore.put(bucket, "x", LONG[:-1] + b" ")
    assert str(failure(lambda: file.read(1))) == "s3://bucket/x: changed while it was read"


@pytest.mark.parametrize(
    "name, value, problem",
    [
        ("AWS_ENDPOINT_URL", "http://127.0.0.1:9", "connection refused"),
        ("AWS_ENDPOINT_URL", "not a url", "the endpoint 'not a url' is not an http or https URL"),
        ("AWS_SECRET_ACCESS_KEY", "", "no credentials (set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY,"),
    ],
)
def test_settings_that_cannot_work_are_told(
    bucket: S3Store, name: str, value: str, problem: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(name, value)
    assert str(failure(lambda: open_url("s3://bucket/x"))).startswith(f"s3://bucket/x: {problem}")


def test_what_is_public_needs_no_credentials(bucket: S3Store, endpoint: str, monkeypatch: pytest.MonkeyPatch) -> None:
    put_unsigned(endpoint, "/bucket/public", b"{a:1}", x_amz_acl="public-read")
    obstore.put(bucket, "private", b"{a:1}")
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    monkeypatch.setenv("AWS_SKIP_SIGNATURE", "true")
    assert texts(read_file("s3://bucket/public")) == ["{a:1}"]
    assert str(failure(lambda: open_url("s3://bucket/private"))) == "s3://bucket/private: permission denied"


def test_s3_without_the_library_says_what_to_install(bucket: S3Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "obstore", None)
    message = "s3://bucket/x: obstore is not installed (install it with: pip install 'shoal[s3]')"
    assert str(failure(lambda: open_url("s3://bucket/x"))) == message


# ---- by the command


def zq(capfd: pytest.CaptureFixture[str], *argv: str) -> tuple[int, str, str]:
    status = main(["zq", *argv])
    out, err = capfd.readouterr()
    return status, out, err


def test_the_command_reads_urls_of_all_kinds(
    site: Site, bucket: S3Store, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    site.files["x.csv"] = b"a,b\n2,x\n"
    obstore.put(bucket, "x.zson", b"{a:1}{a:2}{a:3}")
    obstore.put(bucket, "x.parquet", PARQUET)
    (tmp_path / "x.json").write_text('{"a":3}')
    assert zq(capfd, "-z", "count()", "s3://bucket/x.zson") == (0, "3(uint64)\n", "")
    assert zq(capfd, "-z", "sum(n)", "s3://bucket/x.parquet") == (0, f"{sum(range(2000))}\n", "")
    names = ("s3://bucket/x.zson", f"{site.url}/plain/x.csv", str(tmp_path / "x.json"))
    assert zq(capfd, "-z", "yield a", *names) == (0, "1\n2\n3\n2.\n3\n", "")
    assert zq(capfd, "-z", "s3://bucket/x.zson") == (0, "{a:1}\n{a:2}\n{a:3}\n", "")


def test_the_command_says_which_url_is_missing(site: Site, bucket: S3Store, capfd: pytest.CaptureFixture[str]) -> None:
    url = f"{site.url}/nothing"
    assert zq(capfd, "-z", "s3://bucket/no") == (1, "", "s3://bucket/no: file does not exist\n")
    assert zq(capfd, "-z", "*", url) == (1, "", f"{url}: not found (404)\n")
    no_input = "no input specified: use a command-line file or a Zed source operator"
    assert zq(capfd, "-z", "-e=false", "*", url) == (1, "", f"{url}: not found (404)\n{no_input}\n")
    assert zq(capfd, "-z", f"get {url}") == (1, "", f"{url}: not found (404)\n")


def test_get_sends_method_headers_and_body(site: Site, bucket: S3Store, capfd: pytest.CaptureFixture[str]) -> None:
    obstore.put(bucket, "x.zson", b"{a:1}")
    site.files["x.json"] = b'{"a":2}'
    query = f'get {site.url}/echo format json method POST headers {{"X-A":["1","2"],"X-B":["é"]}} body "some text"'
    told = '{method:"POST",path:"/echo",headers:{"x-a":["1","2"],"x-b":["é"]},body:"some text"}\n'
    assert zq(capfd, "-z", query) == (0, told, "")
    assert zq(capfd, "-z", f"get {site.url}/ranges/x.json | yield a") == (0, "2\n", "")
    assert zq(capfd, "-z", "get s3://bucket/x.zson | yield a") == (0, "1\n", "")


def test_reading_a_url_loads_no_heavy_library(site: Site, bucket: S3Store) -> None:
    site.files["x"] = b"{a:1}"
    obstore.put(bucket, "x.zson", b"{a:1}")
    code = (
        "import sys; from shoal.cli.main import main; main(sys.argv[1:]); "
        "print([m for m in ('pyspark', 'duckdb', 'pyarrow', 'numpy', 'pandas') if m in sys.modules], file=sys.stderr)"
    )
    for url in (f"{site.url}/plain/x", "s3://bucket/x.zson"):
        done = subprocess.run([sys.executable, "-c", code, "zq", "-z", "*", url], capture_output=True)
        assert (done.stdout, done.stderr) == (b"{a:1}\n", b"[]\n")


def test_a_local_file_is_read_without_an_http_library(tmp_path: Path) -> None:
    (tmp_path / "x.zson").write_text("{a:1}")
    code = (
        "import sys; from shoal.cli.main import main; main(sys.argv[1:]); "
        "print([m for m in ('urllib3', 'http.client', 'ssl', 'obstore') if m in sys.modules], file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code, "zq", "-z", "*", str(tmp_path / "x.zson")], capture_output=True)
    assert (done.stdout, done.stderr) == (b"{a:1}\n", b"[]\n")
