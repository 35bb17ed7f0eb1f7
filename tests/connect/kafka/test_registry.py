"""A registry is asked once for each schema, and its failures are told from bad records, without any secret."""

from __future__ import annotations

import pickle
import socket
import ssl
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from shoal.connect.kafka import registry as registries
from shoal.connect.kafka.registry import Login, Registry, Schema, Version
from shoal.errors import Forbidden, InvalidInput, NotFound, ShoalError, StorageFailure, Unauthenticated, Unsupported
from shoal.testing.schema_registry import Answer, SchemaRegistry, serving_registry

SECRET = "geheim"
CERTIFICATE = (
    "openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=127.0.0.1 "
    "-addext subjectAltName=IP:127.0.0.1 -keyout key.pem -out cert.pem"
)


@pytest.fixture
def served() -> Iterator[SchemaRegistry]:
    with serving_registry() as registry:
        yield registry


@pytest.fixture
def registry(served: SchemaRegistry) -> Iterator[Registry]:
    client = Registry(served.url)
    yield client
    client.close()


def failure(registry: Registry, kind: type[ShoalError], ident: int = 1) -> str:
    with pytest.raises(ShoalError) as caught:
        registry.schema(ident)
    assert type(caught.value) is kind
    assert "\n" not in str(caught.value)
    assert SECRET not in str(caught.value)
    return str(caught.value)


# ---- what it knows


def test_a_schema_is_fetched_once(served: SchemaRegistry, registry: Registry) -> None:
    ident = served.add("long")
    assert [registry.schema(ident) for _ in range(3)] == [Schema("AVRO", "long")] * 3
    assert served.requests == [f"GET /schemas/ids/{ident}"]


def test_several_threads_fetch_a_schema_once(served: SchemaRegistry, registry: Registry) -> None:
    ident = served.add("long")
    threads = [threading.Thread(target=registry.schema, args=(ident,)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(served.requests) == 1


def test_a_schema_says_its_kind(served: SchemaRegistry, registry: Registry) -> None:
    assert registry.schema(served.add("{}", "j", schemaType="JSON")) == Schema("JSON", "{}")


def test_schemas_that_it_refers_to_come_first(served: SchemaRegistry, registry: Registry) -> None:
    served.add("a", "a")
    served.add("b", "b/c", references=[{"name": "a", "subject": "a", "version": 1}])
    both = [{"name": "b", "subject": "b/c", "version": 1}, {"name": "a", "subject": "a", "version": 1}]
    assert registry.schema(served.add("c", "c", references=both)) == Schema("AVRO", "c", ("a", "b"))
    assert served.requests.count("GET /subjects/a/versions/1") == 1
    assert "GET /subjects/b%2Fc/versions/1" in served.requests


def test_schemas_that_refer_to_each_other_without_end_are_refused(served: SchemaRegistry, registry: Registry) -> None:
    ident = served.add("a", "a", references=[{"name": "a", "subject": "a", "version": 1}])
    message = f"{served.url}: schema {ident} refers to itself, or to too many others"
    assert failure(registry, InvalidInput, ident) == message


def test_the_latest_version_of_a_subject(served: SchemaRegistry, registry: Registry) -> None:
    assert registry.latest("orders-value") is None
    first = registry.register("orders-value", Schema("AVRO", '"int"'))
    second = registry.register("orders-value", Schema("AVRO", '"long"'))
    assert first != second
    assert registry.latest("orders-value") == Version(second, 2, Schema("AVRO", '"long"'))


def test_a_schema_is_registered_once(served: SchemaRegistry, registry: Registry) -> None:
    schema = Schema("JSON", '{"type":"object"}')
    assert registry.register("s", schema) == registry.register("s", schema)
    assert served.requests == ["POST /subjects/s/versions"]
    assert served.schemas[1] == {"schema": '{"type":"object"}', "schemaType": "JSON"}
    with pytest.raises(Unsupported, match="refers to others"):
        registry.register("s", Schema("AVRO", "x", ("y",)))


def test_compatibility_is_asked_for_and_set(served: SchemaRegistry, registry: Registry) -> None:
    schema = Schema("AVRO", '"int"')
    assert registry.is_compatible("new", schema)
    served.add("long", "s")
    assert registry.is_compatible("s", schema)
    served.is_compatible = False
    assert not registry.is_compatible("s", schema)
    registry.set_compatibility("s", "BACKWARD")
    assert served.levels == {"s": "BACKWARD"}
    with pytest.raises(InvalidInput, match=r"compatibility 'BACK' is not known \(one of: BACKWARD, "):
        registry.set_compatibility("s", "BACK")


# ---- what goes wrong


def test_an_unknown_id_is_asked_for_again_after_a_while(
    served: SchemaRegistry, registry: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    for _ in range(3):
        assert failure(registry, NotFound) == f"{served.url}: no schema with id 1"
    assert len(served.requests) == 1
    served.add("long")
    monkeypatch.setattr(registries, "_FORGET_AFTER", 0.0)
    registry._unknown.clear()
    assert registry.schema(1).text == "long"


@pytest.mark.parametrize(
    "answer, kind, message",
    [
        (Answer(401, b'{"error_code":401,"message":"Unauthorized"}'), Unauthenticated,
         "the registry does not know the caller (give a user or a token)"),
        (Answer(401, b""), Unauthenticated, "the registry does not know the caller (give a user or a token)"),
        (Answer(403, b'{"error_code":40301,"message":"User is denied\\nthat"}'), Forbidden,
         "the registry does not let this caller do that (User is denied that)"),
        (Answer(500, b'{"error_code":50001,"message":"store"}'), StorageFailure, "the registry failed: store (500)"),
        (Answer(503, b"<html>"), StorageFailure, "the registry failed: no reason given (503)"),
        (Answer(429), StorageFailure, "the registry failed: no reason given (429)"),
        (Answer(302), StorageFailure, "the registry failed: no reason given (302)"),
        (Answer(404, b"<html>not found"), StorageFailure,
         "not an answer of a schema registry to /schemas/ids/1 (check the URL)"),
        (Answer(404, b'{"error_code":40403}'), NotFound, "no schema with id 1"),
        (Answer(200, b"<html>"), StorageFailure,
         "not an answer of a schema registry to /schemas/ids/1 (check the URL)"),
        (Answer(200, b"[]"), StorageFailure, "not an answer of a schema registry to /schemas/ids/1 (check the URL)"),
        (Answer(200, b"{}"), StorageFailure, "not an answer of a schema registry to schema 1 (check the URL)"),
        (Answer(200, b"[" * 100_000), StorageFailure,
         "not an answer of a schema registry to /schemas/ids/1 (check the URL)"),
        (Answer(200, b'{"schema":"x","references":7}'), StorageFailure,
         "not an answer of a schema registry to schema 1 (check the URL)"),
        (Answer(200, b'{"schema":"x","references":[7]}'), StorageFailure,
         "not an answer of a schema registry to schema 1 (check the URL)"),
    ],
)  # fmt: skip
def test_each_failure_says_who_is_at_fault(
    served: SchemaRegistry, registry: Registry, answer: Answer, kind: type[ShoalError], message: str
) -> None:
    served.failure = answer
    assert failure(registry, kind) == f"{served.url}: {message}"
    served.failure = None
    registry._unknown.clear()
    served.add("long")
    assert registry.schema(1).text == "long"


def test_a_registry_that_says_nothing_is_not_waited_for(served: SchemaRegistry) -> None:
    served.failure = Answer(200, b'{"schema":"x"}', seconds=0.5)
    registry = Registry(served.url, seconds=0.1)
    assert failure(registry, StorageFailure) == f"{served.url}: timed out after 0.1 s"
    registry.close()


def test_a_registry_that_is_not_there_is_named() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    registry = Registry(f"http://ada:{SECRET}@127.0.0.1:{port}")
    assert failure(registry, StorageFailure) == f"http://127.0.0.1:{port}: connection refused"
    registry = Registry("http://no-such-host.invalid:8081")
    assert failure(registry, StorageFailure).startswith("http://no-such-host.invalid:8081: ")


def test_an_answer_that_drips_or_never_ends_is_cut_off(served: SchemaRegistry, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registries, "_LARGEST_ANSWER", 1000)
    served.failure = Answer(200, b'{"schema":"' + b"x" * 100_000 + b'"}')
    registry = Registry(served.url)
    assert failure(registry, StorageFailure) == f"{served.url}: an answer is too large or too slow (1000 bytes in 10 s)"
    registry.close()


def test_what_does_not_speak_http_is_named() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:

        def answer() -> None:
            connection, _ = server.accept()
            with connection:
                connection.recv(1000)
                connection.sendall(b"garbage\r\n\r\n")

        thread = threading.Thread(target=answer)
        thread.start()
        registry = Registry(f"http://127.0.0.1:{server.getsockname()[1]}")
        assert failure(registry, StorageFailure).startswith(f"{registry.name}: ")
        thread.join()


def test_a_schema_that_is_refused_says_why(served: SchemaRegistry, registry: Registry) -> None:
    served.failure = Answer(409, b'{"error_code":409,"message":"Incompatible: field a"}')
    with pytest.raises(InvalidInput) as caught:
        registry.register("s", Schema("AVRO", '"int"'))
    assert str(caught.value) == f"{served.url}: the registry refuses the schema: Incompatible: field a (409)"
    served.failure = None
    assert registry.register("s", Schema("AVRO", '"int"')) == 1


# ---- secrets


@pytest.mark.parametrize(
    "login, header",
    [
        (Login(), None),
        (Login("ada", SECRET), "Basic YWRhOmdlaGVpbQ=="),
        (Login(token=SECRET), f"Bearer {SECRET}"),
    ],
)
def test_the_caller_says_who_it_is(served: SchemaRegistry, login: Login, header: str | None) -> None:
    registry = Registry(served.url, login)
    registry.schema(served.add("long"))
    assert served.headers[0].get("Authorization") == header
    assert SECRET not in repr(registry)
    assert SECRET not in repr(login)
    registry.close()


def test_a_user_in_the_url_is_one_and_is_not_shown(served: SchemaRegistry) -> None:
    registry = Registry(served.url.replace("//", "//ada:geheim%20%40@") + "/")
    registry.schema(served.add("long"))
    assert served.headers[0]["Authorization"] == "Basic YWRhOmdlaGVpbSBA"
    assert registry.name == served.url
    assert repr(registry) == f"Registry({served.url!r})"
    registry.close()


def test_a_login_can_be_sent_to_another_process() -> None:
    login = Login("ada", SECRET)
    assert pickle.loads(pickle.dumps(login)) == login


@pytest.mark.parametrize(
    "url", ["", "localhost:8081", "ftp://x", "http://", "http://x:port", f"http://x/?key={SECRET}"]
)
def test_what_is_not_the_url_of_a_registry_is_refused(url: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        Registry(url)
    assert str(caught.value) == "not the URL of a schema registry (such as http://localhost:8081)"


def test_secrets_that_no_header_can_carry_are_refused_unseen() -> None:
    for login in (Login(token=f"{SECRET}\n"), Login("ada", f"{SECRET}\0"), Login(token=f"{SECRET}é")):
        with pytest.raises(InvalidInput) as caught:
            Registry("http://x", login)
        assert SECRET not in str(caught.value)
    with pytest.raises(InvalidInput, match="a user or a token, not both"):
        Registry("http://x", Login("ada", token=SECRET))


def test_a_certificate_is_trusted_if_a_file_says_so(tmp_path: Path) -> None:
    subprocess.run(CERTIFICATE.split(), cwd=tmp_path, check=True, capture_output=True)
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(tmp_path / "cert.pem", tmp_path / "key.pem")
    with serving_registry(tls) as served:
        ident = served.add("long")
        stranger = Registry(served.url, Login("ada", SECRET))
        assert failure(stranger, StorageFailure, ident).startswith(
            f"{served.url}: the certificate is not trusted: self"
        )
        assert served.headers == []
        friend = Registry(served.url, ca_file=str(tmp_path / "cert.pem"))
        assert friend.schema(ident).text == "long"
        friend.close()


def test_certificates_come_from_a_file_that_exists(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="no file with certificates"):
        Registry("https://x", ca_file=str(tmp_path / "ca.pem"))
