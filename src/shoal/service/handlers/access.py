"""Who may do what: asked, granted, taken back."""

from __future__ import annotations

from shoal.access.records import show_grant, show_new_token, show_token
from shoal.errors import InvalidInput
from shoal.frames.python_values import from_python
from shoal.service.answers import Answer
from shoal.service.auth import handlers
from shoal.service.calls import Call

_GRANT = {"subject": str, "pool": str, "verb": str}


def method(call: Call) -> Answer:
    """How to prove who one is."""
    return from_python(handlers.method(call.service.auth))


def identity(call: Call) -> Answer:
    """Who asks, and what they were granted."""
    return from_python(handlers.whoami(call.service.access, call.identity))


def grants(call: Call) -> Answer:
    """The grants on pools that the caller is an admin of."""
    return [show_grant(each) for each in handlers.grants(call.service.access, call.identity)]


def grant(call: Call) -> Answer:
    """Let a subject do something to a pool."""
    return show_grant(handlers.grant(call.service.access, call.identity, *_asked(call)))


def revoke(call: Call) -> None:
    """Take a grant back."""
    handlers.revoke(call.service.access, call.identity, *_asked(call))


def _asked(call: Call) -> tuple[str, str, str]:
    asked = call.record(_GRANT)
    if set(asked) != set(_GRANT):
        raise InvalidInput(f"the body has to have these fields: {', '.join(_GRANT)}")
    return asked["subject"], asked["pool"], asked["verb"]


def tokens(call: Call) -> Answer:
    """All tokens, without their secrets."""
    return [show_token(each) for each in handlers.tokens(call.service.access, call.identity)]


def create_token(call: Call) -> Answer:
    """A new token; its secret is shown this once."""
    asked = call.record({"name": str, "subject": str, "expires": (int, float)})
    expires = None if "expires" not in asked else float(asked["expires"])
    token = handlers.create_token(
        call.service.access, call.identity, asked.get("name", ""), expires, asked.get("subject")
    )
    return show_new_token(token)


def revoke_token(call: Call) -> None:
    """Accept a token no longer."""
    handlers.revoke_token(call.service.access, call.identity, call.path["name"])
