"""`shoal grant`, `revoke`, `tokens` and `auth`, on a lake in a store."""

from __future__ import annotations

import json
import re
import stat

import pytest

from shoal.local.access import LocalAccess
from shoal.local.lake import open_local
from shoal.testing.shell import Shell

SERVICE = "http://127.0.0.1:1"
"""Nothing listens there."""


def columns(text: str, *names: str) -> list[tuple[str, ...]]:
    return [tuple(json.loads(line)[name] for name in names) for line in text.splitlines()]


def test_what_is_granted_is_listed_until_it_is_revoked(shell: Shell) -> None:
    assert shell.run("grant") == ""
    assert shell.run("grant", "ada", "write", "logs") == "granted write on logs to ada\n"
    assert shell.run("grant", "-q", "root", "admin", "*") == ""
    found = shell.run("grant", "-j")
    assert columns(found, "subject", "verb", "pool", "by") == [
        ("root", "admin", "*", "me"),
        ("ada", "write", "logs", "me"),
    ]
    assert shell.run("grant").split()[:3] == ["subject", "verb", "pool"]
    assert shell.run("revoke", "ada", "write", "logs") == "revoked write on logs from ada\n"
    assert columns(shell.run("grant", "-j"), "subject") == [("root",)]


def test_what_is_wrong_with_a_grant_is_told_in_a_line(shell: Shell) -> None:
    shell.run("grant", "-q", "root", "admin", "*")
    for verb in ("grant", "revoke"):
        assert shell.misuse(verb, "ada") == (
            f"a subject, a verb and a pool must be given (such as: shoal {verb} ada write logs)"
        )
        assert shell.fail(verb, "ada", "own", "logs") == "'own' cannot be granted (one of: read, write, admin)"
        assert shell.fail(verb, "ada", "read", "nothing") == "nothing: pool not found"
        assert "invalid subject" in shell.fail(verb, "*", "read", "logs")
    assert shell.fail("revoke", "ada", "read", "logs") == "ada was not granted read on logs (see: shoal grant)"
    assert "a subject, a verb and a pool" in shell.misuse("revoke")


def test_a_token_is_printed_once_and_kept_as_a_digest(shell: Shell) -> None:
    assert shell.run("tokens") == ""
    printed = shell.run("tokens", "create", "ci", "-expires", "24h", "-subject", "bot")
    assert re.fullmatch(r"shoal_[0-9A-Za-z]{27}_[\w-]{43}\n", printed)
    assert shell.run("-q", "tokens", "create", "laptop").startswith("shoal_")
    found = shell.run("tokens", "-j")
    assert columns(found, "name", "subject", "by") == [("ci", "bot", "me"), ("laptop", "laptop", "me")]
    assert [expires is None for (expires,) in columns(found, "expires")] == [False, True]
    held = LocalAccess(open_local(str(shell.lake))).holder(printed.strip())
    assert held is not None
    assert held.subject == "bot"
    secret = printed.strip().split("_", 2)[2].encode()
    assert all(secret not in path.read_bytes() for path in shell.lake.rglob("*") if path.is_file())
    assert shell.run("tokens", "revoke", "ci") == "token revoked: ci\n"
    assert columns(shell.run("tokens", "-j"), "name") == [("laptop",)]


def test_what_is_wrong_with_a_token_is_told_in_a_line(shell: Shell) -> None:
    shell.run("tokens", "create", "ci")
    assert shell.fail("tokens", "create", "ci").startswith("ci: token already exists")
    assert shell.fail("tokens", "revoke", "other") == "other: token not found"
    assert "invalid token name" in shell.fail("tokens", "create", "a b")
    assert "the lifetime of a token must be" in shell.fail("tokens", "create", "x", "-expires", "0s")
    for words in (["create"], ["create", "a", "b"], ["drop", "a"]):
        assert shell.misuse("tokens", *words).startswith("invalid arguments (write: shoal tokens")


def test_the_pool_behind_it_is_not_listed_but_has_a_log(shell: Shell) -> None:
    shell.run("grant", "-q", "ada", "write", "logs")
    assert shell.run("ls").count("\n") == 1
    assert "grant write on logs to ada" in shell.run("log", "-use", ".access")
    assert shell.run("ls", ".access").startswith(".access@main commit ")
    assert "reserved" in shell.fail("create", ".mine")
    assert "reserved" in shell.fail("rename", "logs", ".mine")


# ---- the token of this user


def test_a_token_is_kept_for_a_service_where_nobody_else_reads_it(bare: Shell) -> None:
    assert bare.run("auth", "-lake", f"{SERVICE}/", "store", "-access", "one") == f"{SERVICE}: token stored\n"
    bare.run("-q", "-lake", "https://Lake.Example.com", "auth", "store", "-access", "-", stdin="two\n")
    path = bare.directory / ".shoal" / "credentials.json"
    assert json.loads(path.read_text()) == {
        "services": {SERVICE: {"access": "one"}, "https://lake.example.com": {"access": "two"}}
    }
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert [each.name for each in path.parent.iterdir()] == ["credentials.json"]
    assert bare.run("auth", "-lake", SERVICE, "logout") == f"{SERVICE}: token removed\n"
    assert bare.run("auth", "-lake", SERVICE, "logout") == f"{SERVICE}: no token stored\n"
    assert "one" not in path.read_text()


def test_the_directory_of_settings_can_be_chosen(bare: Shell) -> None:
    bare.run("auth", "-q", "-configdir", "here/settings", "-lake", SERVICE, "store", "-access", "one")
    assert (bare.directory / "here" / "settings" / "credentials.json").exists()
    assert not (bare.directory / ".shoal").exists()


def test_a_file_that_others_can_read_is_not_used(bare: Shell) -> None:
    bare.run("auth", "-q", "-lake", SERVICE, "store", "-access", "one")
    path = bare.directory / ".shoal" / "credentials.json"
    path.chmod(0o640)
    for word in ("verify", "logout", "method"):
        assert "others can read your tokens" in failure(bare, "auth", "-lake", SERVICE, word)
    path.chmod(0o600)
    path.write_text("{")
    assert "does not contain tokens" in failure(bare, "auth", "-lake", SERVICE, "logout")


def failure(shell: Shell, *argv: str, status: int = 1) -> str:
    ended, out, err = shell.call(*argv)
    assert (ended, out, err.count("\n")) == (status, "", 1), (out, err)
    return err


def test_what_cannot_be_done_is_told_in_a_line(bare: Shell) -> None:
    for word in ("login", "logout", "method", "store", "verify"):
        assert "not a service, so it needs no token" in failure(bare, "auth", word)
    assert "no command given (one of: login, logout" in failure(bare, "auth", status=2)
    assert "unknown command 'x'" in failure(bare, "auth", "x", status=2)
    assert "no token given" in failure(bare, "auth", "-lake", SERVICE, "store", status=2)
    assert "this is not a token" in failure(bare, "auth", "-lake", SERVICE, "store", "-access", "a b")
    assert "this is not a token" in failure(bare, "auth", "-lake", SERVICE, "store", "-access", "-")
    assert "-access is for" in failure(bare, "auth", "-lake", SERVICE, "verify", "-access", "x", status=2)
    assert f"{SERVICE}: no token stored" in failure(bare, "auth", "-lake", SERVICE, "verify")
    for word in ("login", "method"):
        assert f"{SERVICE}: connection refused (is there a service?" in failure(bare, "auth", "-lake", SERVICE, word)


@pytest.mark.parametrize(
    "url", ["http://", "http://a:b@c", "http://ada:secret@host", "http://host?token=x", "http://h:x"]
)
def test_a_url_is_no_place_for_secrets(bare: Shell, url: str) -> None:
    said = failure(bare, "auth", "-lake", url, "store", "-access", "x")
    assert "not the URL of a service" in said or "do not put secrets into a URL" in said
    assert not (bare.directory / ".shoal").exists()


def test_access_through_a_service_that_is_not_there_fails_in_a_line(bare: Shell) -> None:
    calls = (
        ["grant"],
        ["grant", "a", "read", "p"],
        ["revoke", "a", "read", "p"],
        ["tokens"],
        ["tokens", "create", "a"],
    )
    for argv in calls:
        assert "connection refused (is there a service?" in failure(bare, "-lake", SERVICE, *argv)
