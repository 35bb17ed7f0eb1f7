"""Keys of an identity provider, from a file and over https."""

from __future__ import annotations

import json
import ssl
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from ipaddress import ip_address
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

from shoal.errors import CorruptData, NotFound, StorageFailure
from shoal.service.auth.jwks import Ages, KeySet, parse_keys
from shoal.testing import identity_provider as idp

ALWAYS = Ages(stale=1e9, between=-1.0)
"""Reads again whenever a key is not there."""


def as_file(*keys: dict[str, Any]) -> bytes:
    return json.dumps({"keys": keys}).encode()


# ---- what a set may hold


def test_keys_are_found_by_id_and_algorithm() -> None:
    found = parse_keys(as_file(*map(idp.jwk, idp.KIDS)), "here")
    assert set(found) == {(kid, algorithm) for algorithm, kid in idp.KIDS.items()}


def test_keys_for_something_else_are_left_out() -> None:
    good = idp.jwk("RS256")
    others: list[Any] = [
        {**idp.jwk("ES256"), "use": "enc"},
        {**idp.jwk("RS256", "pss"), "alg": "PS256"},
        {**idp.jwk("ES256", "curve"), "crv": "P-384"},
        {name: value for name, value in idp.jwk("EdDSA").items() if name != "kid"},
        {"kty": "oct", "kid": "shared", "k": "c2VjcmV0", "alg": "HS256"},
        {"kty": ["RSA"], "kid": "odd"},
        "no key",
    ]
    assert set(parse_keys(as_file(good, *others), "here")) == {("rsa-1", "RS256")}
    with pytest.raises(CorruptData, match="here: no key with an id for any of RS256, ES256, EdDSA"):
        parse_keys(as_file(*others), "here")


def test_a_private_key_in_the_set_is_read_as_a_public_one() -> None:
    whole = json.loads(jwks_of_private())
    (key,) = parse_keys(as_file({**whole, "kid": "k"}), "here").values()
    assert type(key) is type(idp.private_key("RS256").public_key())


def jwks_of_private() -> str:
    numbers = idp.private_key("RS256").private_numbers()
    d = numbers.d.to_bytes(256, "big")
    return json.dumps({**idp.jwk("RS256"), "d": d.hex()})


@pytest.mark.parametrize("data", [b"", b"{", b"[]", b"{}", b'{"keys":{}}', b"\xff", b"[" * 100_000])
def test_what_is_no_set_is_an_error(data: bytes) -> None:
    with pytest.raises(CorruptData, match=r"^here: "):
        parse_keys(data, "here")


@pytest.mark.parametrize("broken", [{"n": "!"}, {"n": None}, {"e": ""}, {"n": 3}])
def test_a_key_that_cannot_be_read_is_an_error(broken: dict[str, Any]) -> None:
    with pytest.raises(CorruptData, match="'rsa-1' cannot be read"):
        parse_keys(as_file({**idp.jwk("RS256"), **broken}), "here")


def test_a_short_key_is_an_error() -> None:
    n = "x" + "A" * 170  # 1026 bits
    with pytest.raises(CorruptData, match="too short"):
        parse_keys(as_file({"kty": "RSA", "kid": "k", "n": n, "e": "AQAB"}), "here")


# ---- files


def test_a_file_has_to_be_there_and_good_at_the_start(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match=r"none\.json: file does not exist"):
        KeySet(str(tmp_path / "none.json"))
    (tmp_path / "bad.json").write_text("{")
    with pytest.raises(CorruptData):
        KeySet(str(tmp_path / "bad.json"))
    with pytest.raises(StorageFailure):
        KeySet(str(tmp_path))


def test_a_new_key_is_found_without_a_restart(tmp_path: Path) -> None:
    path = idp.write_jwks(tmp_path / "jwks.json")
    keys = KeySet(str(path), ALWAYS)
    assert keys.find("new", "RS256") is None
    idp.write_jwks(path, idp.jwk("RS256", "new"))
    assert keys.find("new", "RS256") is not None
    assert keys.find("new", "ES256") is None


def test_the_place_is_not_asked_too_often(tmp_path: Path) -> None:
    path = idp.write_jwks(tmp_path / "jwks.json")
    keys = KeySet(str(path), Ages(between=3600.0))
    idp.write_jwks(path, idp.jwk("RS256", "new"))
    assert keys.find("new", "RS256") is None


def test_keys_that_got_old_are_read_again_and_do_as_long_as_that_fails(tmp_path: Path) -> None:
    path = idp.write_jwks(tmp_path / "jwks.json")
    keys = KeySet(str(path), Ages(stale=-1.0, between=-1.0))
    path.write_text("{")
    assert keys.find("rsa-1", "RS256") is not None
    path.write_bytes(as_file(idp.jwk("ES256")))
    assert keys.find("rsa-1", "RS256") is None
    expired = KeySet(str(idp.write_jwks(path)), Ages(stale=-1.0, between=-1.0, useless=-1.0))
    path.unlink()
    with pytest.raises(StorageFailure, match="file does not exist"):
        expired.find("rsa-1", "RS256")


# ---- over https


class Server(ThreadingHTTPServer):
    """One that does not mind when a client hangs up."""

    def handle_error(self, request: object, client_address: object) -> None:
        pass


class Provider:
    """A server with a certificate that is trusted in this test."""

    def __init__(self, directory: Path) -> None:
        self.answers: list[tuple[int, bytes, dict[str, str]]] = []
        self.asked: list[str] = []
        provider = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                provider.asked.append(self.path)
                status, body, headers = provider.answers.pop(0)
                self.send_response(status)
                for name, value in headers.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *args: object) -> None:
                pass

        self.server = Server(("127.0.0.1", 0), Handler)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(write_certificate(directory))
        self.server.socket = context.wrap_socket(self.server.socket, server_side=True)
        self.url = f"https://127.0.0.1:{self.server.server_port}/jwks.json"


def write_certificate(directory: Path) -> Path:
    key = idp.private_key("ES256", "tls")
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "127.0.0.1")])
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder(name, name, key.public_key(), 1, now - timedelta(hours=1), now + timedelta(hours=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    path = directory / "certificate.pem"
    private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    path.write_bytes(made.public_bytes(Encoding.PEM) + private)
    return path


@pytest.fixture
def provider(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Provider]:
    made = Provider(tmp_path)
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "certificate.pem"))
    thread = Thread(target=made.server.serve_forever, daemon=True)
    thread.start()
    yield made
    made.server.shutdown()
    made.server.server_close()
    thread.join()


def test_keys_are_fetched_when_they_are_needed_and_kept(provider: Provider) -> None:
    provider.answers = [(200, as_file(idp.jwk("RS256")), {})]
    keys = KeySet(provider.url)
    assert provider.asked == []
    assert keys.find("rsa-1", "RS256") is not None
    assert keys.find("rsa-1", "RS256") is not None
    assert keys.find("other", "RS256") is None
    assert provider.asked == ["/jwks.json"]


def test_an_unknown_key_is_looked_for_once_more(provider: Provider) -> None:
    provider.answers = [(200, as_file(idp.jwk("RS256")), {}), (200, as_file(idp.jwk("RS256", "new")), {})]
    keys = KeySet(provider.url, ALWAYS)
    assert keys.find("rsa-1", "RS256") is not None
    assert keys.find("new", "RS256") is not None
    assert len(provider.asked) == 2


def test_a_redirect_is_not_followed(provider: Provider) -> None:
    provider.answers = [(302, b"", {"Location": f"{provider.url}/elsewhere"})]
    with pytest.raises(StorageFailure, match="status 302"):
        KeySet(provider.url).find("rsa-1", "RS256")
    assert provider.asked == ["/jwks.json"]


def test_an_answer_that_is_too_large_is_not_read(provider: Provider) -> None:
    provider.answers = [(200, b" " * (1 << 20) + as_file(idp.jwk("RS256")), {})]
    with pytest.raises(StorageFailure, match="too large"):
        KeySet(provider.url).find("rsa-1", "RS256")


def test_a_provider_that_is_not_who_it_says_is_not_believed(
    provider: Provider, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SSL_CERT_FILE")
    with pytest.raises(StorageFailure, match="keys cannot be fetched"):
        KeySet(provider.url).find("rsa-1", "RS256")
    assert provider.asked == []


def test_a_provider_that_is_away_is_not_asked_by_every_request(provider: Provider) -> None:
    provider.answers = [(500, b"", {}), (500, b"", {})]
    keys = KeySet(provider.url)
    for _ in range(2):
        with pytest.raises(StorageFailure, match="status 500"):
            keys.find("rsa-1", "RS256")
    assert len(provider.asked) == 1
