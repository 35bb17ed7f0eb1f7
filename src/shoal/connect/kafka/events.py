"""What a job tells while it runs: commits, waits, changes of its share. Commands print them, metrics count them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from shoal.model.node import frozen

Kind = Literal["assigned", "backfill", "commit", "resumed", "waiting", "warning"]


@frozen
class Event:
    """Something that happened."""

    kind: Kind
    facts: Mapping[str, Any]
