"""What `since` and `until` of a log or a change feed may be: a commitish, or a time, a date, a duration before now."""

from __future__ import annotations

import re

from shoal.errors import InvalidInput, NotFound
from shoal.ids import Id
from shoal.lake.branches import as_id, as_time
from shoal.lake.names import Warn
from shoal.lake.pools import Pool
from shoal.model.literals import parse_duration

_MIDNIGHT = "T00:00:00Z"
_DATE = re.compile(r"\d{4}-\d\d-\d\d")
_POSITION = re.compile(r".*/\d+")


def moment_of(pool: Pool, what: str, text: str) -> int | None:
    """The time that a text stands for, in nanoseconds since 1970; None for a branch, a tag or an id.

    `what` is the name of the parameter, for messages. NotFound for a text that is nothing of all that.
    """
    refs = pool.refs()
    if not text or refs.named(text) is not None or as_id(text) is not None:
        return None
    try:
        ns = as_time(text + _MIDNIGHT if _DATE.fullmatch(text) else text)
    except InvalidInput as e:
        raise InvalidInput(f"{what}: {e}") from None
    if ns is not None:
        return ns
    try:
        duration = parse_duration(text)
    except InvalidInput:
        position = "; a position is COMMIT/NUMBER, with the id of a commit" if _POSITION.fullmatch(text) else ""
        raise NotFound(
            f"{what}: {refs.unknown_branch(text)}{position} (or give a time, a date or a duration before now: "
            "2026-01-31T12:00:00Z, 2026-01-31 or 7d)"
        ) from None
    if duration < 0:
        raise InvalidInput(f"{what}: {text} is in the future (a duration before now has no sign: {text[1:]})")
    return pool.clock.now() - duration


def commit_at(pool: Pool, what: str, text: str, warn: Warn | None = None) -> Id | None:
    """The commit that a text stands for; None is the empty beginning. NotYet for a time before there was a branch."""
    ns = moment_of(pool, what, text)
    return pool.resolve(text, warn) if ns is None else pool.names.tip_at(ns, text, warn)
