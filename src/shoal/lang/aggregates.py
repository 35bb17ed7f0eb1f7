"""The aggregate functions by name, and what each asks of its call. Engines bring the code for each name."""

from __future__ import annotations

from typing import NamedTuple


class Signature(NamedTuple):
    """How an aggregate is called."""

    name: str
    needs_argument: bool = True


AGGREGATES: dict[str, Signature] = {
    signature.name: signature
    for signature in (
        Signature("and"),
        Signature("any"),
        Signature("avg"),
        Signature("collect"),
        Signature("collect_map"),
        Signature("count", needs_argument=False),
        Signature("dcount"),
        Signature("fuse"),
        Signature("max"),
        Signature("min"),
        Signature("or"),
        Signature("sum"),
        Signature("union"),
    )
}


def is_aggregate(name: str) -> bool:
    """Whether an aggregate has this name."""
    return name in AGGREGATES


def argument_complaint(name: str, has_argument: bool) -> str | None:
    """What is wrong with a call of this aggregate; None if nothing is."""
    if has_argument or not AGGREGATES[name].needs_argument:
        return None
    return f"{name}: argument required"
