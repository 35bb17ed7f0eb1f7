"""How a service finds out who asks, and where that may be left open."""

from __future__ import annotations

from dataclasses import dataclass
from ipaddress import IPv6Address, ip_address

from shoal.errors import InvalidInput


@dataclass(frozen=True, slots=True)
class AuthSettings:
    """What the flags `-auth.*` say. Without `jwkspath` only tokens of the lake are accepted."""

    enabled: bool = True
    audience: str = ""
    clientid: str = ""
    domain: str = ""
    jwkspath: str = ""
    """A file, or an https URL."""
    issuer: str = ""

    @property
    def expected_issuer(self) -> str:
        """The issuer that tokens must have: by default the domain with a slash at the end, as Auth0 writes it."""
        return self.issuer or (f"{self.domain.rstrip('/')}/" if self.domain else "")


def checked(settings: AuthSettings, host: str) -> AuthSettings:
    """The settings themselves, if a service at this host may run with them."""
    if not settings.enabled:
        if not is_loopback(host):
            raise InvalidInput(
                f"will not serve {host or 'all addresses'} without authentication: anybody there could change the lake "
                "(leave -auth.enabled on, or listen on 127.0.0.1)"
            )
        if settings != AuthSettings(enabled=False):
            raise InvalidInput("authentication is off, and there are flags for it (add -auth.enabled)")
        return settings
    if settings.domain and not settings.domain.startswith("https://"):
        raise InvalidInput(f"-auth.domain: {settings.domain!r} is not an https URL (such as https://example.auth0.com)")
    if settings.jwkspath:
        _require_claims(settings)
    elif settings != AuthSettings():
        raise InvalidInput("-auth.jwkspath: the keys of the identity provider are missing (a file or an https URL)")
    return settings


def _require_claims(settings: AuthSettings) -> None:
    if settings.jwkspath.startswith("http://"):
        raise InvalidInput(f"-auth.jwkspath: {settings.jwkspath!r} could be changed on its way (use an https URL)")
    if not settings.audience:
        raise InvalidInput("-auth.audience: tokens for other services would be accepted without it")
    if not settings.expected_issuer:
        raise InvalidInput("-auth.domain or -auth.issuer: it has to be known who makes the tokens")


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches a host. A name that is not known to be here may be anywhere."""
    name = host.removeprefix("[").removesuffix("]").lower()
    if name == "localhost":
        return True
    try:
        address = ip_address(name)
    except ValueError:
        return False
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return (mapped or address).is_loopback
