"""`shoal auth`: manage the token that this user sends to a service."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from typing import Any

from shoal.cli.command import Verb, one_word, say
from shoal.cli.flags import Flag, Parsed, UsageError
from shoal.cli.lake import require_service, service_access
from shoal.cli.lake_flags import LAKE_FLAGS
from shoal.cli.terminal import print_text
from shoal.client.credentials import Credentials, find_token
from shoal.errors import InvalidInput

VERB = Verb(
    "auth [flags] login | logout | method | store | verify",
    "log in to a service: store, check or remove your token",
    (
        Flag("access", str, None, "token for `store`; - reads it from standard input", "TOKEN"),
        Flag("launchbrowser", bool, True, "accepted for scripts; no browser is opened"),
        *LAKE_FLAGS,
    ),
    "  login   explain how to get a token\n"
    "  store   store a token for the service that -lake names\n"
    "  logout  remove the token\n"
    "  method  show how the service authenticates its callers\n"
    "  verify  show which user the service takes you for\n\n"
    "Tokens are stored in credentials.json in -configdir.",
    (
        "shoal auth -lake https://lake.example.com login",
        "shoal tokens create ada | shoal auth -lake http://localhost:9867 store -access -",
        "shoal auth -lake http://localhost:9867 verify",
    ),
)


def run(args: Parsed) -> None:
    """Run the command."""
    word = one_word(args, f"no command given (one of: {', '.join(_ACTIONS)})")
    if word not in _ACTIONS:
        raise UsageError(f"shoal auth: unknown command {word!r} (one of: {', '.join(_ACTIONS)})")
    if "access" in args.given and word != "store":
        raise UsageError("-access is for: shoal auth store")
    _ACTIONS[word](args)


def _login(args: Parsed) -> None:
    url, method = require_service(args), service_access(args).method()
    store = f"shoal auth -lake {url} store -access -"
    details = method.get("auth0") or method.get("jwt") or {}
    if method.get("kind") in ("", "none"):
        print_text(f"{url} does not require a token.")
    elif details:
        provider = details.get("domain") or details.get("issuer")
        print_text(f"Get an access token for the audience {details.get('audience')} from {provider}, then: {store}")
    else:
        print_text(f"Ask an admin of the lake for a token (shoal tokens create NAME), then: {store}")


def _logout(args: Parsed) -> None:
    url = require_service(args)
    had_token = Credentials(args["configdir"]).remove(url)
    say(args, f"{url}: token removed" if had_token else f"{url}: no token stored")


def _method(args: Parsed) -> None:
    _print(service_access(args).method())


def _store(args: Parsed) -> None:
    url, access = require_service(args), args["access"]
    if access is None:
        raise UsageError("no token given (write: shoal auth store -access TOKEN, or -access - to read it)")
    token = sys.stdin.readline().strip() if access == "-" and sys.stdin is not None else access
    Credentials(args["configdir"]).store(url, token)
    say(args, f"{url}: token stored")


def _verify(args: Parsed) -> None:
    url = require_service(args)
    if find_token(url, args["configdir"]) is None:
        raise InvalidInput(f"{url}: no token stored (see: shoal auth login)")
    _print(service_access(args).identity())


def _print(document: Any) -> None:
    print_text(json.dumps(document, indent=4, ensure_ascii=False))


_ACTIONS: dict[str, Callable[[Parsed], None]] = {
    "login": _login,
    "logout": _logout,
    "method": _method,
    "store": _store,
    "verify": _verify,
}
