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
