"""Flags that say how a service finds out who asks."""

from __future__ import annotations

from shoal.cli.flags import Flag, Parsed
from shoal.service.auth.settings import AuthSettings, checked, is_loopback

AUTH_FLAGS = (
    Flag("auth.enabled", bool, None, "ask for a token (default true, but false on a loopback address)"),
    Flag("auth.audience", str, "", "audience that tokens of the identity provider have to be for", "AUDIENCE"),
    Flag("auth.clientid", str, "", "client id at the identity provider, which clients are told", "ID"),
    Flag("auth.domain", str, "", "identity provider as an https URL, which clients are told", "URL"),
    Flag("auth.issuer", str, "", "issuer that tokens have to be of (default the domain and a slash)", "ISSUER"),
    Flag("auth.jwkspath", str, "", "keys of the identity provider: a JSON Web Key Set, file or https URL", "PATH"),
)


def auth_settings(args: Parsed, host: str) -> AuthSettings:
    """What the flags say for a service that listens at a host, which is "" for all addresses.

    Whoever gives any of these flags wants to know who asks, also on a loopback address.
    """
    names = ("audience", "clientid", "domain", "jwkspath", "issuer")
    texts = {name: args[f"auth.{name}"] for name in names}
    enabled = args["auth.enabled"]
    if enabled is None:
        enabled = not is_loopback(host) or any(texts.values())
    return checked(AuthSettings(enabled=enabled, **texts), host)
