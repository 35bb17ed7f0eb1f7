"""The kinds of transforms: an entry each, with what parses its settings. Each kind is a module of its own."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from shoal.connect.etl import denorm, stateless, transaction
from shoal.connect.etl.steps import Common, Transform
from shoal.connect.settings import Section

KINDS: Mapping[str, Callable[[Section, Common], Transform]] = {
    "stateless": stateless.parse,
    "transaction": transaction.parse,
    "denorm": denorm.parse,
}
