"""Connections to a service: encrypted ones, those that break, and servers that are something else."""

from __future__ import annotations

import datetime
import ipaddress
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import ClassVar

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

import shoal
from shoal.errors import Forbidden, InvalidInput, NotFound, StorageFailure
from shoal.testing.services import serving


def write_certificate(folder: Path) -> tuple[Path, Path]:
    """A certificate for this machine that nobody has signed but itself, and its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    now = datetime.datetime.now(datetime.UTC)
    hosts = [x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(hours=1))
        .not_valid_after(now + datetime.timedelta(hours=1))
        .add_extension(x509.SubjectAlternativeName(hosts), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    certificate, secret = folder / "cert.pem", folder / "key.pem"
    certificate.write_bytes(made.public_bytes(serialization.Encoding.PEM))
    secret.write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    return certificate, secret


def test_a_certificate_is_trusted_if_a_file_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    certificate, key = write_certificate(tmp_path)
    monkeypatch.delenv("SHOAL_CA_FILE", raising=False)
    flags = ["-tls.cert", str(certificate), "-tls.key", str(key), "-log.level", "warn"]
    with serving(tmp_path / "lake", tmp_path, flags) as served:
        assert served.url.startswith("https://")
        with pytest.raises(StorageFailure, match=r"no encrypted connection: .*certificate.*SHOAL_CA_FILE"):
            shoal.open(served.url)
        monkeypatch.setenv("SHOAL_CA_FILE", str(certificate))
        lake = shoal.open(served.url)
        lake.create("logs", key="ts").load([{"ts": 1}])
        assert lake.query("from logs").to_list() == [{"ts": 1}]
        monkeypatch.setenv("SHOAL_CA_FILE", str(tmp_path / "nope"))
        with pytest.raises(InvalidInput, match="no file with certificates"):
            shoal.open(served.url)
        del lake  # a service that ends waits for connections that are still open


class Other(BaseHTTPRequestHandler):
    """A server that is no service of a lake."""

    answers: ClassVar[dict[str, tuple[int, dict[str, str], bytes]]] = {}

    def do_GET(self) -> None:
        status, headers, body = self.answers[self.path.removesuffix("/lake")]
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        pass


ANSWERS: list[tuple[int, dict[str, str], bytes, type[Exception], str]] = [
    (
        200,
        {"Content-Type": "text/html"},
        b"<html>",
        StorageFailure,
        "not the service of a lake (it answers with text/html)",
    ),
    (
        200,
        {"Content-Type": "application/x-zng"},
        b"",
        StorageFailure,
        "not the service of a lake (it answers with 0 values",
    ),
    (404, {}, b"<html>not here", NotFound, "not found (404)"),
    (403, {}, b"", Forbidden, "forbidden (403)"),
    (302, {"Location": "http://localhost:1/"}, b"", StorageFailure, "found (302)"),
    (502, {}, b"", StorageFailure, "bad gateway (502)"),
    (500, {"Shoal-Error": "unknown_kind"}, b'{"error":"text"}', shoal.ShoalError, "text"),
    (404, {"Shoal-Error": "not_found"}, b'{"error":"logs: pool not found"}', NotFound, "logs: pool not found"),
]


@pytest.fixture
def other() -> Iterator[str]:
    Other.answers = {f"/{i}": (status, headers, body) for i, (status, headers, body, _, _) in enumerate(ANSWERS)}
    server = HTTPServer(("127.0.0.1", 0), Other)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    thread.join()
    server.server_close()


def test_a_server_that_is_something_else_is_told_in_a_line(other: str) -> None:
    for i, (_, _, _, kind, text) in enumerate(ANSWERS):
        with pytest.raises(shoal.ShoalError) as caught:
            shoal.open(f"{other}/{i}")
        assert type(caught.value) is kind, i
        assert text in str(caught.value)
        assert "\n" not in str(caught.value)
