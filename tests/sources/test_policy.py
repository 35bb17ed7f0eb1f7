"""What queries behind a service may read beside pools: no more than is listed, however it is written."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from ipaddress import ip_address, ip_network
from pathlib import Path

import pytest

from shoal.access.view import Pools, VisibleLake
from shoal.api.lake import Describe
from shoal.errors import Forbidden, NotFound, ShoalError, TooLarge
from shoal.lake.lake import Lake
from shoal.local.lake import LocalLake, create_local, whole
from shoal.model.text import format_value
from shoal.planner.execute import Question, explain
from shoal.planner.lake_query import ask
from shoal.sources.policy import NO_SOURCES, SourcePolicy, is_public

ANY_HOST = SourcePolicy(frozenset({"http", "https"}), ("*", "*:1"))
"""All that is public."""
LOOPBACK = (ip_network("127.0.0.0/8"),)


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    made = create_local(str(tmp_path / "lake"))
    made.create("p", key="k").load([{"k": 1}])
    return whole(made)


def behind_a_service(lake: Lake, policy: SourcePolicy = NO_SOURCES) -> VisibleLake:
    return VisibleLake(lake, lambda pool: True, lambda pool, name: None, policy)


def texts(lake: Pools, program: str, policy: SourcePolicy | None = None) -> list[str]:
    return [format_value(value) for value in ask(lake, Question(program, policy=policy))]


READING = [
    "file '/etc/passwd' format line",
    "file /etc/passwd",
    "file -",
    "from (file /etc/passwd => count() pool p => count())",
    "fork (=> from p => file '/etc/passwd' format line)",
    "get 'http://127.0.0.1:1/'",
    "get 'https://example.com/'",
    "get 's3://bucket/key'",
    "file 's3://bucket/key'",
    "file 'http://169.254.169.254/latest/meta-data/'",
    "file 'file:///etc/passwd'",
    "from p | join (file '/etc/passwd' format line) on k=k",
    "file '/etc/passwd' format line | load p",
]


@pytest.mark.parametrize("program", READING)
def test_a_service_reads_nothing_but_pools_unless_it_is_told_to(lake: Lake, program: str) -> None:
    seen = behind_a_service(lake)
    for act in (lambda: texts(seen, program), lambda: explain(seen, Question(program))):
        with pytest.raises(Forbidden, match="reads pools, no files and no URLs"):
            act()
    assert texts(seen, "from p") == ["{k:1}"]


def test_what_was_compiled_for_one_question_is_checked_for_the_next(lake: Lake, tmp_path: Path) -> None:
    (tmp_path / "x.json").write_text('{"a":1}')
    program = f"file '{tmp_path / 'x.json'}'"
    assert texts(lake, program) == texts(lake, program) == ["{a:1}"]
    with pytest.raises(Forbidden):
        texts(lake, program, NO_SOURCES)


def test_transactions_and_descriptions_obey(lake: Lake) -> None:
    seen = LocalLake(behind_a_service(lake))
    with pytest.raises(Forbidden):
        seen.do(Describe("file '/etc/passwd'"))
    with seen.pool("p").transaction() as transaction, pytest.raises(Forbidden):
        list(transaction.query("file '/etc/passwd' format line"))


# ---- addresses

INSIDE = [
    "127.0.0.1", "127.1", "2130706433", "0x7f000001", "0177.0.0.1", "0", "0.0.0.0", "localhost", "LOCALHOST.",
    "[::1]", "[::]", "[::ffff:127.0.0.1]", "[::ffff:7f00:1]", "[::127.0.0.1]", "[64:ff9b::7f00:1]", "[2002:7f00:1::]",
    "169.254.169.254", "[fe80::1]", "[fd00:ec2::254]", "10.0.0.1", "172.16.0.1", "192.168.1.1", "100.64.0.1",
    "224.0.0.1", "[ff02::1]", "[fec0::1]", "255.255.255.255", "198.18.0.1", "[2001:0:4136:e378:8000:63bf:80ff:fffe]",
]  # fmt: skip


@pytest.mark.parametrize("host", INSIDE)
@pytest.mark.parametrize("form", ["get 'http://{}:1/'", "file 'http://{}:1/'", "get 'http://user:pw@{}:1/'"])
def test_addresses_that_are_not_public_are_not_reached(lake: Lake, host: str, form: str) -> None:
    with pytest.raises(ShoalError) as caught:
        texts(lake, form.format(host), ANY_HOST)
    # A machine without IPv6 may not know what to make of some; what counts is that nothing is connected to.
    told = str(caught.value)
    assert "is not public" in told or "no such host" in told
    assert "pw" not in told


@pytest.mark.parametrize("text", ["8.8.8.8", "1.1.1.1", "2606:4700:4700::1111", "64:ff9b::808:808", "::ffff:8.8.8.8"])
def test_public_addresses_are_public(text: str) -> None:
    assert is_public(ip_address(text))


NOT_LISTED = [
    "http://evil.example/", "http://data.example.evil.example/", "http://data.example@evil.example/",
    "http://evil.example#data.example/", "http://evil.example/?data.example", "http://xdata.example/",
    "http://data.example:8080/", "http://a.data.example/", "http://2130706433/", "http://[::1]/", "ftp://data.example/",
    "gopher://data.example/", "s3://other/key", "s3://listed.other/key", "s3://data@listed/key", "http://listed/",
]  # fmt: skip


@pytest.mark.parametrize("url", NOT_LISTED)
def test_hosts_and_buckets_that_are_not_listed_are_refused_before_anything_is_asked(lake: Lake, url: str) -> None:
    policy = SourcePolicy(frozenset({"http", "s3"}), ("data.example", "*.pages.example"), frozenset({"listed"}))
    with pytest.raises(Forbidden, match=r"reads no|does not read from there"):
        texts(lake, f"file '{url}'", policy)


@pytest.mark.parametrize("url", ["http://data.example/x", "http://DATA.example./x", "http://a.b.pages.example:80/x"])
def test_hosts_that_are_listed_are_asked_for(url: str) -> None:
    policy = SourcePolicy(frozenset({"http"}), ("data.example", "*.pages.example"))
    with pytest.raises(ShoalError, match="no such host"):
        policy.file(url)


# ---- a server on this machine


class Site(HTTPServer):
    """Answers `/x`, redirects from `/to/URL` to the URL, and counts."""

    asked = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class _Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        assert isinstance(self.server, Site)
        self.server.asked += 1
        if self.path.startswith("/to/"):
            self.send_response(302)
            self.send_header("Location", self.path[4:])
            self.end_headers()
            return
        body = b'{"host":"%s"}' % self.headers["Host"].encode() * (1 if self.path == "/x" else 1000)
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args: object) -> None:
        pass


@pytest.fixture
def site() -> Iterator[Site]:
    with Site(("127.0.0.1", 0), _Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.shutdown()


def allowed(site: Site, *hosts: str, **more: object) -> SourcePolicy:
    names = (f"127.0.0.1:{site.server_port}", *hosts)
    return SourcePolicy(frozenset({"http"}), names, networks=LOOPBACK, **more)  # type: ignore[arg-type]


def test_a_host_and_a_network_that_are_listed_are_read(lake: Lake, site: Site) -> None:
    assert texts(lake, f"get '{site.url}/x'", allowed(site)) == [f'{{host:"127.0.0.1:{site.server_port}"}}']
    assert texts(lake, f"get '{site.url}/to/{site.url}/x'", allowed(site)) != []
    assert site.asked == 3


def test_each_redirect_is_checked(lake: Lake, site: Site) -> None:
    with Site(("127.0.0.1", 0), _Handler) as other:
        threading.Thread(target=other.serve_forever, daemon=True).start()
        for target in (other.url, f"http://localhost:{site.server_port}", "http://169.254.169.254"):
            with pytest.raises(Forbidden, match="does not read from there"):
                texts(lake, f"get '{site.url}/to/{target}/x'", allowed(site))
        with pytest.raises(Forbidden, match="is not public"):
            texts(lake, f"get '{site.url}/to/http://10.0.0.1/x'", allowed(site, "10.0.0.1"))
        with pytest.raises(ShoalError, match="not an http or https URL"):
            texts(lake, f"get '{site.url}/to/file:///etc/passwd'", allowed(site))
        assert other.asked == 0
        other.shutdown()


def test_a_name_that_stands_for_another_address_a_moment_later_is_not_asked_again(
    lake: Lake, site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The address that was checked is the one that is connected to: the name is looked up once."""
    looked_up = []
    real = socket.getaddrinfo

    def look_up(host: str, *args: object, **more: object) -> object:
        if host == "rebinding.example":
            looked_up.append(host)
            return real("127.0.0.1" if len(looked_up) == 1 else "127.0.0.99", *args, **more)  # type: ignore[arg-type]
        return real(host, *args, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    policy = allowed(site, f"rebinding.example:{site.server_port}")
    told = texts(lake, f"get 'http://rebinding.example:{site.server_port}/x'", policy)
    assert told == [f'{{host:"rebinding.example:{site.server_port}"}}']
    assert looked_up == ["rebinding.example"]


def test_a_name_with_one_address_inside_is_not_reached(monkeypatch: pytest.MonkeyPatch) -> None:
    def look_up(host: str, port: int, **more: object) -> list[object]:
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (text, port)) for text in ("93.184.216.34", "127.0.0.1")]

    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    with pytest.raises(Forbidden, match=r"the address of mixed\.example is not public"):
        SourcePolicy(frozenset({"http"}), ("mixed.example",)).address_of("http://mixed.example/")


def test_proxies_of_the_environment_are_not_used(lake: Lake, site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    assert texts(lake, f"get '{site.url}/x'", allowed(site)) != []


def test_sources_are_limited_in_size_and_time(lake: Lake, site: Site, tmp_path: Path) -> None:
    with pytest.raises(TooLarge, match="larger than 1000 bytes"):
        texts(lake, f"get '{site.url}/large'", allowed(site, largest=1000))
    with pytest.raises(TooLarge, match="takes longer than 0s"):
        texts(lake, f"get '{site.url}/large'", allowed(site, seconds=0.0))
    (tmp_path / "x.json").write_bytes(b'{"a":1}\n' * 1000)
    policy = SourcePolicy(frozenset({"file"}), directories=(str(tmp_path),), largest=1000)
    with pytest.raises(TooLarge, match="larger than 1000 bytes"):
        texts(lake, f"file '{tmp_path / 'x.json'}'", policy)


# ---- files


@pytest.fixture
def shared(tmp_path: Path) -> Path:
    """A directory with a file, and one outside of it."""
    inside, outside = tmp_path / "shared", tmp_path / "secret"
    (inside / "below").mkdir(parents=True)
    outside.mkdir()
    (inside / "x.json").write_text('{"a":1}')
    (inside / "below" / "y.json").write_text('{"a":2}')
    (outside / "z.json").write_text('{"a":3}')
    (tmp_path / "shared-not").mkdir()
    (tmp_path / "shared-not" / "z.json").write_text('{"a":4}')
    (inside / "link.json").symlink_to(outside / "z.json")
    (inside / "inner.json").symlink_to(inside / "x.json")
    (inside / "linked").symlink_to(outside)
    os.mkfifo(inside / "pipe")
    return inside


def files_in(*directories: Path) -> SourcePolicy:
    return SourcePolicy(frozenset({"file"}), directories=tuple(map(str, directories)))


@pytest.mark.parametrize("name, a", [("x.json", 1), ("below/y.json", 2), ("below/../x.json", 1), ("inner.json", 1)])
def test_files_in_a_listed_directory_are_read(lake: Lake, shared: Path, name: str, a: int) -> None:
    assert texts(lake, f"file '{shared}/{name}'", files_in(shared)) == [f"{{a:{a}}}"]


OUTSIDE = [
    "../secret/z.json", "below/../../secret/z.json", "link.json", "linked/z.json", "../shared-not/z.json", "", ".",
    "..", "below/../../shared/../secret/z.json", "/../../../../../../../etc/passwd",
]  # fmt: skip


@pytest.mark.parametrize("name", OUTSIDE)
def test_files_outside_are_not_read(lake: Lake, shared: Path, name: str) -> None:
    with pytest.raises(Forbidden):
        texts(lake, f"file '{shared}/{name}' format line", files_in(shared))


@pytest.mark.parametrize("path", ["-", "file:///etc/passwd", "FILE:///etc/passwd", "/proc/self/environ", "/dev/stdin"])
def test_what_is_no_plain_path_is_not_read(lake: Lake, shared: Path, path: str) -> None:
    with pytest.raises(Forbidden):
        texts(lake, f"file '{path}' format line", files_in(shared))


def test_pipes_and_directories_are_no_files(lake: Lake, shared: Path) -> None:
    for name in ("pipe", "below"):
        with pytest.raises(Forbidden, match="not a regular file"):
            texts(lake, f"file '{shared}/{name}' format line", files_in(shared))


def test_a_file_that_is_not_there_is_not_found(lake: Lake, shared: Path) -> None:
    with pytest.raises(NotFound, match="file does not exist"):
        texts(lake, f"file '{shared}/nothing.json'", files_in(shared))


def test_a_file_that_becomes_a_link_after_it_was_checked_is_not_read(
    shared: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    policy = files_in(shared)
    checked = os.path.realpath(shared / "below" / "y.json")
    monkeypatch.setattr(os.path, "realpath", lambda path: checked if "y.json" in str(path) else str(path))
    (shared / "below" / "y.json").unlink()
    (shared / "below").rmdir()
    (shared / "below").symlink_to(shared.parent / "secret")
    (shared.parent / "secret" / "y.json").write_text("secret")
    with pytest.raises(ShoalError, match=r"too many levels of symbolic links|not a directory"):
        policy.file(str(shared / "below" / "y.json"))
