"""Pages of the web do not reach a service that asks nobody who they are."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
import urllib3

from shoal.errors import Forbidden
from shoal.service.auth.browsers import require_own
from shoal.testing.services import Served, serving

KNOWN = ("https://ui.example.com", "http://localhost:3000")


@pytest.mark.parametrize(
    ("host", "origin"),
    [
        ("localhost:9867", None),
        ("127.0.0.1:9867", None),
        ("[::1]:9867", None),
        ("LOCALHOST", None),
        ("localhost:9867", "http://localhost:9867"),
        ("localhost:9867", "http://localhost:3000"),
        ("localhost:9867", "https://ui.example.com"),
        ("ui.example.com", None),
        ("ui.example.com", "https://ui.example.com"),
    ],
)
def test_callers_of_this_machine_and_known_pages_may(host: str, origin: str | None) -> None:
    require_own({"host": host} | ({} if origin is None else {"origin": origin}), KNOWN)
    require_own({"host": "anything", "origin": "anything"}, ("*",))


@pytest.mark.parametrize(
    ("host", "origin"),
    [
        ("evil.example.com", None),
        ("evil.example.com:9867", "http://evil.example.com:9867"),
        ("localhost.evil.example.com", None),
        ("127.0.0.1.evil.example.com", None),
        ("evil.example.com@localhost.evil", None),
        ("", None),
        ("[", None),
        ("localhost:9867", "http://evil.example.com"),
        ("localhost:9867", "null"),
        ("localhost:9867", ""),
        ("localhost:9867", "http://localhost:9868"),
        ("localhost:9867", "https://ui.example.com.evil"),
        ("ui.example.com", "http://evil.example.com"),
    ],
)
def test_other_names_and_other_pages_may_not(host: str, origin: str | None) -> None:
    with pytest.raises(Forbidden) as e:
        require_own({"host": host} | ({} if origin is None else {"origin": origin}), KNOWN)
    assert "\n" not in str(e.value)


def test_a_star_in_an_origin_stands_for_any_name() -> None:
    origins = ("https://*.example.com", "http://b.org")
    allowed = "https://x.example.com", "https://x.y.example.com", "https://X.Example.com", "http://b.org"
    refused = (
        "https://example.com",
        "http://x.example.com",
        "https://x.example.com.evil.com",
        "https://evil/.example.com",
    )
    for origin in allowed:
        require_own({"host": "localhost:9867", "origin": origin}, origins)
    for origin in refused:
        with pytest.raises(Forbidden):
            require_own({"host": "localhost:9867", "origin": origin}, origins)
    require_own({"host": "x.example.com"}, origins)
    with pytest.raises(Forbidden):
        require_own({"host": "x.example.com.evil"}, origins)


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("open")
    with serving(folder / "lake", folder, ["-cors.origin", KNOWN[0], "-cors.origin", "https://*.star.org"]) as found:
        yield found


def status(served: Served, **headers: str) -> int:
    """The status of a request that a page may send without asking first."""
    body = json.dumps({"name": "made"}).encode()
    sent = {
        "Content-Type": "application/x-www-form-urlencoded",
        **{name.capitalize(): value for name, value in headers.items()},
    }
    answer = urllib3.request("POST", f"{served.url}/pool", body=body, headers=sent, retries=False)
    return answer.status


def test_a_page_changes_nothing_in_a_service_without_authentication(served: Served) -> None:
    assert status(served, origin="http://evil.example.com") == 403
    assert status(served, origin="null") == 403
    assert status(served, host="evil.example.com") == 403
    assert urllib3.request("GET", f"{served.url}/pool", headers={"Host": "evil.example.com"}).status == 403
    assert urllib3.request("GET", f"{served.url}/version", headers={"Host": "evil.example.com"}).status == 200
    assert status(served, origin=KNOWN[0]) == 200
    assert status(served) == 409


def test_answers_name_allowed_origins_with_the_usual_capitals(served: Served) -> None:
    def head(origin: str) -> dict[str, str]:
        answer = urllib3.request("GET", f"{served.url}/version", headers={"Origin": origin})
        return dict(answer.headers.iteritems())

    assert head("https://a.star.org")["Access-Control-Allow-Origin"] == "https://a.star.org"
    assert head(KNOWN[0])["Access-Control-Allow-Origin"] == KNOWN[0]
    names = set(head("https://evil.org"))
    assert "Access-Control-Allow-Origin" not in names
    assert {"Content-Length", "Content-Type", "Date", "X-Request-Id"} <= names
    streamed = urllib3.request("POST", f"{served.url}/query", body=b'{query:"yield 1"}')
    assert {"Transfer-Encoding", "X-Request-Id"} <= set(dict(streamed.headers.iteritems()))
