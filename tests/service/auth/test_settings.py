"""Where a service may run without asking who is there."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from shoal.cli.flags import parse
from shoal.cli.service_flags import AUTH_FLAGS, auth_settings
from shoal.errors import InvalidInput
from shoal.service.auth.settings import AuthSettings, is_loopback

HERE = ["127.0.0.1", "127.8.8.8", "localhost", "LocalHost", "::1", "[::1]", "::ffff:127.0.0.1"]
ANYWHERE = [
    "",
    "0.0.0.0",
    "::",
    "[::]",
    "192.168.1.1",
    "example.com",
    "localhost.example.com",
    "127.0.0.1.nip.io",
    "::ffff:8.8.8.8",
]
JWT = ["-auth.audience", "a", "-auth.jwkspath", "keys.json"]


def settings(argv: Sequence[str], host: str) -> AuthSettings:
    return auth_settings(parse(AUTH_FLAGS, argv), host)


@pytest.mark.parametrize("host", HERE)
def test_on_this_machine_it_is_off_unless_asked_for(host: str) -> None:
    assert is_loopback(host)
    assert settings([], host) == AuthSettings(enabled=False)
    assert settings(["-auth.enabled"], host) == AuthSettings(enabled=True)
    assert settings([*JWT, "-auth.domain", "https://d"], host).enabled


@pytest.mark.parametrize("host", ANYWHERE)
def test_elsewhere_it_is_on_and_stays_on(host: str) -> None:
    assert not is_loopback(host)
    assert settings([], host) == AuthSettings(enabled=True)
    with pytest.raises(InvalidInput, match="without authentication") as e:
        settings(["-auth.enabled=false"], host)
    assert "\n" not in str(e.value)


def test_the_flags_of_a_provider() -> None:
    found = settings([*JWT, "-auth.domain", "https://d.example.com", "-auth.clientid", "c"], "")
    assert found == AuthSettings(True, "a", "c", "https://d.example.com", "keys.json")
    assert found.expected_issuer == "https://d.example.com/"
    assert settings([*JWT, "-auth.issuer", "https://i/realm"], "").expected_issuer == "https://i/realm"
    both = settings([*JWT, "-auth.issuer", "https://i", "-auth.domain", "https://d/"], "")
    assert both.expected_issuer == "https://i"


@pytest.mark.parametrize(
    ("argv", "what"),
    [
        (["-auth.jwkspath", "k", "-auth.domain", "https://d"], "-auth.audience"),
        (["-auth.jwkspath", "k", "-auth.audience", "a"], "-auth.domain or -auth.issuer"),
        (["-auth.domain", "https://d"], "-auth.jwkspath"),
        ([*JWT, "-auth.domain", "d.example.com"], "not an https URL"),
        ([*JWT[:2], "-auth.domain", "https://d", "-auth.jwkspath", "http://d/keys"], "could be changed on its way"),
        (["-auth.enabled=false", "-auth.audience", "a"], "authentication is off"),
    ],
)
def test_flags_that_do_not_fit_together_are_refused_at_the_start(argv: list[str], what: str) -> None:
    with pytest.raises(InvalidInput, match=what) as e:
        settings(argv, "127.0.0.1")
    assert "\n" not in str(e.value)
