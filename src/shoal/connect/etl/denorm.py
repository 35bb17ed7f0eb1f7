"""The kind `denorm`: records of several topics that belong together are joined, once there is one of each topic.

All records of a key that came until then take part, in every combination. They are done with that: the next record with
their key waits for others again. A join of all records that ever come would have to keep them all at hand.
"""

from __future__ import annotations

from shoal.connect.etl.expiry import Limits
from shoal.connect.etl.gathering import Gather, GatheringWorker
from shoal.connect.etl.programs import (
    is_topic,
    require_compiled,
    require_expression,
    require_program,
    results_of,
    within,
)
from shoal.connect.etl.stateless import condition_of, parse_where
from shoal.connect.etl.steps import Common, Past, Transform, Worker
from shoal.connect.settings import Section
from shoal.errors import InvalidInput
from shoal.model.literals import quote
from shoal.model.node import frozen
from shoal.suggestions import did_you_mean


@frozen
class Denorm(Transform):
    """A program over `{TOPIC:record,…}`, for every combination of records with one key."""

    common: Common
    keys: tuple[tuple[str, str], ...]
    """The topics, and for each an expression over its records."""
    where: str | None = None

    @property
    def topics(self) -> tuple[str, ...]:
        return tuple(topic for topic, _ in self.keys)

    @property
    def condition(self) -> str:
        return condition_of(self.topics, self.where)

    def check(self) -> None:
        require_program(self.common.program, f"{self.common.where}.zed")
        gather = self.gather()
        require_compiled(gather.declarations + gather.text(self.condition), self.common.where)

    def open(self, takes: str, limits: Limits | None, past: Past) -> Worker:
        return GatheringWorker(self.gather(), takes, limits, past)

    def gather(self) -> Gather:
        """What it asks about its groups."""
        done = " and ".join(f"or({is_topic([topic])})" for topic in self.topics)
        choices = "".join(f"{is_topic([topic])} ? {within(key)} : " for topic, key in self.keys[:-1])
        return Gather(
            self.common, self.topics, f"{choices}{within(self.keys[-1][1])}", done, self._result(), repeats=True
        )

    def _result(self) -> str:
        """The combinations, first topic first, and of each topic in order of number."""
        last = len(self.keys) - 1
        records = (
            f"shoal_r{n}:(over shoal_records | where {is_topic([topic])} | collect(this))"
            for n, topic in enumerate(self.topics)
        )
        whole = ",".join(
            f"{quote(topic)}:{'this' if n == last else f'shoal_c{n}'}" for n, topic in enumerate(self.topics)
        )
        inner = f"yield {{{whole}}} | yield {results_of('this', self.common.program, self.common.key)}"
        inner += " | where this!=null | over this"
        for n in reversed(range(last + 1)):
            known = [f"shoal_c{m}" for m in range(n - 1)] + [f"shoal_c{n - 1}=this"] * (n > 0)
            awaited = [f"shoal_r{m}" for m in range(n + 1, last + 1)]
            names = f" with {','.join(known + awaited)}" if known or awaited else ""
            inner = f"over shoal_r{n}{names} => ({inner})"
        return f"(over [{{{','.join(records)}}}] | {inner} | collect(this))"


def parse(settings: Section, common: Common) -> Denorm:
    """The settings of this kind."""
    keys = _keys(settings)
    if len(keys) < 2:
        raise InvalidInput(f"{settings.where}: a denorm joins several topics (such as on: {{A: value.ID, B: value.A}})")
    checked = (
        (topic, require_expression(key, f"{settings.where}.{'on' if 'on' in settings else 'join-on'}"))
        for topic, key in keys.items()
    )
    return Denorm(common, tuple(checked), parse_where(settings))


def _keys(settings: Section) -> dict[str, str]:
    """The topics with their keys, in the spelling of ours or of zync."""
    if "on" in settings:
        return settings.section("on").pairs()
    left, right = settings.required("left"), settings.required("right")
    text = settings.required("join-on")
    names = {left: left, right: right, "left": left, "right": right}
    keys: dict[str, str] = {}
    for side in text.replace("==", "=").split("="):
        name = next(
            (name for name in sorted(names, key=len, reverse=True) if side.strip().startswith(f"{name}.")), None
        )
        if name is None:
            given = side.strip().partition(".")[0]
            hint = did_you_mean(given, names) or f" (such as {left}.value.ID={right}.value.ID)"
            raise InvalidInput(f"{settings.where}.join-on: no topic named {given!r}{hint}")
        keys[names[name]] = side.strip()[len(name) + 1 :]
    if len(keys) != 2:
        raise InvalidInput(f"{settings.where}.join-on: expecting {left}.value.ID={right}.value.ID, or the like")
    return {left: keys[left], right: keys[right]}
