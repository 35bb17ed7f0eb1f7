"""The kind `stateless`: each record by itself. A program gives any number of values of it, also none."""

from __future__ import annotations

from shoal.connect.etl.expiry import Limits
from shoal.connect.etl.programs import (
    is_topic,
    require_compiled,
    require_expression,
    require_program,
    results_of,
    single_value,
    within,
)
from shoal.connect.etl.raw import NUMBER, may_meet
from shoal.connect.etl.steps import Common, Output, Past, Round, Step, Transform, Worker
from shoal.connect.etl.values import elements, part
from shoal.connect.settings import Section
from shoal.model.node import frozen
from shoal.model.values import Value, is_quiet


@frozen
class Stateless(Transform):
    """A program over single records."""

    common: Common
    source: str | None
    """The topic that it reads; None for all."""
    where: str | None = None

    @property
    def topics(self) -> tuple[str, ...]:
        return () if self.source is None else (self.source,)

    @property
    def condition(self) -> str:
        return condition_of(self.topics, self.where)

    def check(self) -> None:
        require_program(self.common.program, f"{self.common.where}.zed")
        require_compiled(self.text(self.condition), self.common.where)

    def open(self, takes: str, limits: Limits | None, past: Past) -> Worker:
        return _Worker(self, self.text(takes))

    def text(self, takes: str) -> str:
        """The program that the lake runs."""
        value = single_value(self.common.program) if self.common.key is None else None
        if value is not None:
            return f"where {takes}\n| yield {{{NUMBER},value:{within(value)}}}"
        results = results_of("this", self.common.program, self.common.key)
        return f"where {takes}\n| yield {{{NUMBER},results:{results}}}\n| where results!=null"


class _Worker(Worker):
    def __init__(self, transform: Stateless, text: str) -> None:
        self._common, self._topics = transform.common, transform.topics
        self._text = text

    def step(self, work: Round) -> Step:
        step = Step()
        if not may_meet(self._topics, work.news.topics):
            return step
        for row in work.raw.run([work.news.leg], self._text):
            number, results = part(row, NUMBER).data, row.field("results")
            outputs = (
                output_of(self._common, number, each) for each in ([row] if results is None else elements(results))
            )
            step.outputs += [output for output in outputs if not is_quiet(output.value)]  # `yield` drops these
        return step


def condition_of(topics: tuple[str, ...], where: str | None) -> str:
    """Which records a transform takes."""
    pieces = [is_topic(topics)] if topics else []
    if where is not None:
        pieces.append(within(where))
    return " and ".join(pieces) or "true"


def output_of(common: Common, number: int, result: Value) -> Output:
    """What a transform gives, from a result `{value,key}` of its program."""
    return Output(number, common.place, common.topic, part(result, "value"), result.field("key"))


def parse(settings: Section, common: Common) -> Stateless:
    """The settings of this kind."""
    source = settings.text("in") or settings.text("left")
    return Stateless(common, source, parse_where(settings))


def parse_where(settings: Section) -> str | None:
    """The condition in some settings."""
    where = settings.text("where")
    return None if where is None else require_expression(where, f"{settings.where}.where")
