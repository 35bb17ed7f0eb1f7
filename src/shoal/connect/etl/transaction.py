"""The kind `transaction`: records of one id, gathered until an aggregate over them says that they are complete."""

from __future__ import annotations

from shoal.connect.etl.expiry import Limits
from shoal.connect.etl.gathering import Gather, GatheringWorker
from shoal.connect.etl.programs import require_compiled, require_expression, require_program, results_of
from shoal.connect.etl.stateless import condition_of, parse_where
from shoal.connect.etl.steps import Common, Past, Transform, Worker
from shoal.connect.settings import Section
from shoal.model.node import frozen


@frozen
class Transaction(Transform):
    """A program over `{txn,records,seqno,done}`."""

    common: Common
    sources: tuple[str, ...]
    """The topics that it reads; none stands for all."""
    id: str
    done: str
    where: str | None = None

    @property
    def topics(self) -> tuple[str, ...]:
        return self.sources

    @property
    def condition(self) -> str:
        return condition_of(self.sources, self.where)

    def check(self) -> None:
        require_program(self.common.program, f"{self.common.where}.zed")
        gather = self.gather(repeats=False)
        require_compiled(gather.declarations + gather.text(self.condition), self.common.where)

    def open(self, takes: str, limits: Limits | None, past: Past) -> Worker:
        return GatheringWorker(self.gather(repeats=limits is None), takes, limits, past)

    def gather(self, *, repeats: bool) -> Gather:
        """What it asks about its groups. If nothing ever expires, no id is remembered, and each may begin again."""
        whole = "{txn:shoal_txn,records:shoal_records,seqno:shoal_records[-1].seqno,done:true}"
        result = results_of(whole, self.common.program, self.common.key)
        return Gather(self.common, self.topics, self.id, self.done, result, repeats)


def parse(settings: Section, common: Common) -> Transaction:
    """The settings of this kind."""
    texts = {name: require_expression(settings.required(name), f"{settings.where}.{name}") for name in ("id", "done")}
    return Transaction(common, settings.texts("in"), texts["id"], texts["done"], parse_where(settings))
