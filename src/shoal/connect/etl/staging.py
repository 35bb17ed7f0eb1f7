"""The output pools of a job: how far it has come by them, and the one commit of each round.

Two processes may run one job. Each commit of it writes past the last raw record that was read before, and begins with a
read of everything past that record: it finds what another process has committed, and in a serializable transaction,
what another commits meanwhile is a conflict. So one of them wins, and the other reads again where they are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from shoal.api.branch import Branch
from shoal.api.lake import GetPool, Lake
from shoal.api.requests import NoteArgs
from shoal.api.transaction import Transaction
from shoal.connect.etl.config import EtlConfig
from shoal.connect.etl.places import Place
from shoal.connect.etl.records import (
    COMPLETED,
    CURSOR,
    DONE,
    FIRST_OFFSET,
    Progress,
    Topic,
    Writer,
    parse_completed,
    parse_meta,
    parse_run,
)
from shoal.connect.etl.seqnos import Run
from shoal.connect.etl.steps import Write
from shoal.connect.etl.values import part
from shoal.errors import Conflict, InvalidInput, NotFound
from shoal.model.literals import quote
from shoal.model.values import Value

_RECENT = 100
"""How many commits are looked at for one of ours; behind that, records are."""


@dataclass(slots=True)
class State:
    """What a job knows of itself."""

    progress: Progress
    offsets: dict[Topic, int]
    """The next offset of each topic."""
    done: list[Run]
    """The records that are done, of those from the cursor on."""
    completed: Sequence[tuple[int, str, Value]]
    has_time: bool
    """Whether the newest timestamp is known."""


class Staging:
    """The output pools of a job."""

    def __init__(self, lake: Lake, config: EtlConfig, writer: Writer, note: NoteArgs) -> None:
        self._lake = lake
        self._config = config
        self._writer = writer
        self._note = note
        self._branches = {place: self._open(place) for place in config.places}
        if config.expire is not None:
            lake.pool(config.expire.place.pool)

    @property
    def home(self) -> Branch:
        """The branch that says how far the job is."""
        return self._branches[self._config.output]

    def _open(self, place: Place) -> Branch:
        pool = self._lake.pool(place.pool)
        info = self._lake.do(GetPool(pool.id))
        if info.paths[:1] != (("seqno",),) or info.order != "desc":
            raise InvalidInput(
                f"{place.pool}: a pool for results is sorted by seqno, descending, and this one is not "
                "(create one with: shoal create -orderby seqno:desc NAME)"
            )
        return pool.branch(place.branch)

    # ---- what is there

    def read(self) -> State:
        """How far the job is: by its newest commit that says so, or else by its records."""
        said = self._said()
        if said is None:
            progress, known = self._counted(), dict[tuple[str, str], int]()
        else:
            progress, known = said
        done = [parse_run(row) for row in self._records(DONE, f"seqno>={progress.cursor}")]
        topics = {(each.common.place, each.common.topic) for each in self._config.transforms}
        offsets = {topic: self._next_offset(topic, known) for topic in topics}
        return State(progress, offsets, done, self._completed(progress.read), said is not None)

    def _said(self) -> tuple[Progress, dict[tuple[str, str], int]] | None:
        try:
            for commit in self.home.log(limit=_RECENT):
                said = parse_meta(commit.meta, self._config.name)
                if said is not None:
                    return said
        except NotFound:
            return None  # history was cut off
        return None

    def _counted(self) -> Progress:
        cursor = next((part(row, "seqno").data for row in self._records(CURSOR, "true", "head 1")), 0)
        read = next((part(row, "seqno").data for row in self._records(DONE, f"seqno>={cursor}", "head 1")), cursor)
        return Progress(read, cursor)

    def _completed(self, read: int) -> list[tuple[int, str, Value]]:
        expire = self._config.expire
        if expire is None or expire.limits.records is None:
            return []
        return [parse_completed(row) for row in self._records(COMPLETED, f"seqno>={read - expire.limits.records}")]

    def _records(self, kind: str, where: str, then: str = "pass") -> list[Value]:
        with self.home.query(f"where {where} and {self._writer.condition(kind)} | {then}") as results:
            return list(results)

    def _next_offset(self, topic: Topic, known: Mapping[tuple[str, str], int]) -> int:
        place, name = topic
        if (str(place), name) in known:
            return known[str(place), name]
        is_topic = f"kafka.topic=={quote(name)} and has(kafka.offset)"
        branch = self._branches[place]
        for newest in branch.query(f"where {is_topic} | head 1"):
            number = part(newest, "seqno").data
            for row in branch.query(f"where seqno=={number} and {is_topic} | offset:=max(kafka.offset)"):
                return int(part(row, "offset").data) + 1
        return FIRST_OFFSET

    # ---- what is new

    def commit(self, writes: Sequence[Write], before: Progress, message: str, meta: Value) -> str:
        """Commit a round; returns its commit on the home branch. Conflict if another process was first."""
        note = NoteArgs(author=self._note.get("author"), message=self._note.get("message") or message, meta=meta)
        home = self._config.output
        places = list(dict.fromkeys((home, *(write.place for write in writes))))
        if places == [home]:
            single = self.home.begin(isolation="serializable")
            try:
                self._stage({home: single}, writes, before)
                return single.commit(**note)
            except BaseException:
                single.give_up()
                raise
        several = self._lake.begin([str(place) for place in places], isolation="serializable")
        try:
            self._stage({place: several.part(str(place)) for place in places}, writes, before)
            commits = several.commit(**note)
        except BaseException:
            several.give_up()
            raise
        return commits[str(home)]

    def _stage(self, parts: Mapping[Place, Transaction], writes: Sequence[Write], before: Progress) -> None:
        program = f"where seqno>{before.read} and {self._writer.condition(DONE)} | head 1"
        with parts[self._config.output].query(program) as others:
            if next(iter(others), None) is not None:
                raise Conflict(f"another process runs the etl {self._config.name} (it has gone on from {before.read})")
        for write in writes:
            part_ = parts[write.place]
            match write.mode:
                case "load":
                    part_.load(write.data)
                case "upsert":
                    part_.upsert(write.data)
                case "delete":
                    part_.delete(keys=write.data)
