"""Every operation of a lake, with something going wrong at every one of its calls to the store (F1-F7, P1-P6).

After each run the lake is opened anew, without faults: it opens, takes commits on every branch, and the operation
was done whole and once, or not at all. Then the operation is repeated. Nobody waits and all ids are the same in every
run, so that runs that left the same objects behind are judged once.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from hashlib import sha256

import pytest

from shoal.errors import AlreadyExists, OutcomeUnknown, ShoalError, StorageFailure
from shoal.ids import to_text
from shoal.lake import lake, sessions, vacuum
from shoal.lake.claims import Patience
from shoal.lake.commits import Note
from shoal.lake.pools import Pool
from shoal.storage.faults import Crash, Fault, FaultyStore
from shoal.storage.memory import MemoryStore
from shoal.storage.store import ObjectStore
from shoal.testing.lake_checks import (
    GONE,
    NO_POOL,
    BranchView,
    World,
    check_chain,
    check_growth,
    check_journal,
    check_markers,
    clean_up,
    copied,
    inspect,
    take_commits,
)
from shoal.testing.lake_scenes import (
    SCENES,
    THE_OPERATION,
    Act,
    Facts,
    Scene,
    Stage,
    in_miniature,
    littered,
    load,
    pond,
    small_pool,
    staged,
)
from shoal.testing.tiers import IS_LONG

HASTY = Patience(deadline=-1.0, refusals=0)
"""Gives up at the first doubt, so that outcomes are unknown."""
NEVER = 10**9
MOST_SEEN = 500
"""Worlds take memory, and pairs of faults make many."""
NAMES = [scene.name for scene in SCENES]
ALONE = [s.name for s in SCENES if s.rival is None and (s.is_named or not s.name.startswith("load"))]
"""Operations that can be done but once, and that nobody else is in the way of."""

# A read changes nothing, so that there is no difference between the ways in which its answer gets lost; and what a
# put or a delete is told by a store that refuses it is the same as by one that fails.
READ = (Fault.CRASH_BEFORE, Fault.ERROR)
WRITE = (Fault.CRASH_BEFORE, Fault.CRASH_AFTER, Fault.ERROR, Fault.LOST_ANSWER, Fault.LATE)
FAULTS: Mapping[str, tuple[Fault, ...]] = {
    **dict.fromkeys(("get", "get_range", "size", "list"), READ),
    **dict.fromkeys(("put", "delete"), WRITE),
    "create": tuple(Fault),
}


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a client was told."""

    value: object = None
    error: BaseException | None = None

    @property
    def is_done(self) -> bool:
        return self.error is None

    def __str__(self) -> str:
        if self.error is None:
            return f"returned {to_text(self.value) if isinstance(self.value, bytes) else self.value!r}"
        return f"{type(self.error).__name__}: {self.error}"


@dataclass(frozen=True, slots=True)
class Prepared:
    """A scene and what it comes to when nothing goes wrong."""

    scene: Scene
    stage: Stage
    store: MemoryStore
    facts: Facts
    tokens: int
    before: tuple[World, ...]
    """The legal worlds in which the operation was not done: with and without what its rival did."""
    after: tuple[World, ...]
    """The legal worlds in which it was; another one while a purge has not removed its bytes yet."""
    calls: tuple[tuple[str, str], ...]
    judged: dict[object, bool] = field(default_factory=dict)
    """Whether the operation was done, by what runs had left behind."""
    seen: dict[bytes, World] = field(default_factory=dict)
    """Worlds by the objects that they are made of."""
    alive: set[bytes] = field(default_factory=set)
    """The objects after which life was found to go on."""

    def look(self, store: MemoryStore) -> World:
        """The world in a store; the same objects are looked at once."""
        trace = trace_of(store)
        if trace not in self.seen:
            if len(self.seen) >= MOST_SEEN:
                self.seen.clear()
            self.seen[trace] = inspect(store, self.facts)
        return self.seen[trace]


def trace_of(store: MemoryStore) -> bytes:
    """What is left behind, in short."""
    digest = sha256()
    for key in sorted(listed.key for listed in store.list()):
        digest.update(b"%b %b " % (key.encode(), sha256(store.get(key)).digest()))
    return digest.digest()


def prepare(name: str, stage: Stage) -> Prepared:
    """The scene of this name."""
    scene = next(scene for scene in SCENES if scene.name == name)
    store = MemoryStore()
    stage.rewind()
    facts = scene.setup(store)
    tokens = stage.tokens
    before = [inspect(store, facts)]
    if scene.rival is not None:
        rivalled = copied(store)
        scene.rival(rivalled, facts)
        before.append(inspect(rivalled, facts))
    prepared = Prepared(scene, stage, store, facts, tokens, tuple(before), (), ())
    run = Run(prepared, {})
    outcome = run.attempt()
    assert outcome.is_done, outcome
    after = inspect(run.inner, facts)
    worlds = (after,) if not name.startswith("purge") else (after, World(after.pools, before[0].past, after.entries))
    return Prepared(scene, stage, store, facts, tokens, tuple(before), worlds, tuple(run.store.calls))


class Run:
    """Clients that do the operation one after the other, on one store, and what goes wrong with their calls."""

    def __init__(
        self,
        prepared: Prepared,
        faults: Mapping[int, Fault],
        landing: int = NEVER,
        meanwhile: tuple[int, Act] | None = None,
    ) -> None:
        prepared.stage.rewind(prepared.tokens)
        self._prepared = prepared
        self._faults = faults
        self._landing = landing
        self.rival = prepared.scene.rival
        """Who waits to be first."""
        self._meanwhile = meanwhile
        self.other: Outcome | None = None
        """What another client was told."""
        self.inner = copied(prepared.store)
        self.store = FaultyStore(self.inner, self._choose)

    def _choose(self, number: int, name: str, key: str) -> Fault | None:
        facts = self._prepared.facts
        if self.rival is not None and name == "create" and key.startswith(f"{to_text(facts.pool)}/branches/"):
            rival, self.rival = self.rival, None
            rival(self.inner, facts)
        if self._meanwhile is not None and number == self._meanwhile[0]:
            self.other = self._try(self._meanwhile[1], self.inner)
        if number == self._landing:
            self.store.land_late()
        return self._faults.get(number)

    def attempt(self) -> Outcome:
        """What a new client is told."""
        return self._try(self._prepared.scene.act, self.store)

    def _try(self, act: Act, store: ObjectStore) -> Outcome:
        """Whatever is no error of ours ends the test."""
        try:
            return Outcome(act(store, self._prepared.facts))
        except (ShoalError, Crash) as e:
            return Outcome(error=e)


def judge(prepared: Prepared, faults: Mapping[int, Fault], lands_first: bool = True, landing: int = NEVER) -> bool:
    """Whether the first client did the operation; AssertionError if it, or what follows, breaks a promise."""
    run = Run(prepared, faults, landing)
    first = run.attempt()
    if lands_first:
        run.store.land_late()
    may_change = landing != NEVER or (not lands_first and Fault.LATE in faults.values())
    is_over = not may_change and all(number < len(run.store.calls) for number in faults)
    told = (trace_of(run.inner), type(first.error), first.value, run.rival is None)
    if is_over and told in prepared.judged:
        return prepared.judged[told]
    is_done = check_outcome(prepared, run.inner, first)
    check_life_goes_on(prepared, run.inner)
    check_repeat(prepared, run, first, is_done)
    if is_over:
        prepared.judged[told] = is_done
    return is_done


def check_outcome(prepared: Prepared, store: MemoryStore, outcome: Outcome, was_done: bool = False) -> bool:
    """Whether the operation was done, which is what its client was told (P1, P2, P3, P6); an earlier one may have."""
    scene = prepared.scene
    world = prepared.look(store)
    done, undone = (
        any(world == legal and world.entries == legal.entries for legal in legals)
        for legals in (prepared.after, prepared.before)
    )
    assert done or undone, f"half done ({outcome}): {difference(world, prepared)}"
    check_growth(prepared.before[0], world, scene.moves)
    error = outcome.error
    if outcome.is_done:
        assert done, f"{outcome}, and was not done"
        check_returned(world, outcome)
    elif isinstance(error, OutcomeUnknown):
        op = to_text(prepared.facts.op)
        assert not scene.is_named or (op in str(error) and error.commit == op), f"names no id: {error}"
    elif not isinstance(error, Crash):
        assert isinstance(error, StorageFailure), f"the store failed, but was told: {outcome}"
        assert undone or was_done or isinstance(error, scene.after), f"{outcome}, and was done"
    return done


def check_returned(world: World, outcome: Outcome) -> None:
    """The commit that was returned is the one in the history."""
    for branch in world.branches().values():
        if THE_OPERATION in branch.log:
            assert branch.log.count(THE_OPERATION) == 1
            found = branch.chain[branch.log.index(THE_OPERATION)]
            returned = outcome.value if isinstance(outcome.value, tuple) else (outcome.value,)
            assert found in returned, f"{outcome}, but {to_text(found)} is in the history"


def difference(world: World, prepared: Prepared) -> str:
    """What is neither as before nor as after."""
    for legal in (*prepared.before, *prepared.after):
        if world == legal:
            return f"{world.entries} entries instead of {legal.entries}"
    found = {where: _short(branch) for where, branch in world.branches().items()}
    wanted = {where: _short(branch) for where, branch in prepared.after[0].branches().items()}
    return f"{[(where[1], view) for where, view in found.items() if wanted.get(where) != view]} {world.past}"


def _short(branch: BranchView) -> tuple[int, int, tuple[str, ...]]:
    return len(branch.values), len(branch.objects), branch.log


def check_life_goes_on(prepared: Prepared, store: MemoryStore) -> None:
    """What lies about can be cleaned up (F7), and every branch takes a commit (P5), which is there to stay when the
    operation is repeated after it (P1, P4)."""
    world, trace = prepared.look(store), trace_of(store)
    if world.pools is None or trace in prepared.alive:
        return
    cleaned = copied(store)
    clean_up(cleaned)
    assert prepared.look(cleaned).pools == world.pools, "a vacuum took more than what a crash had left behind"
    copy = copied(store)
    markers = take_commits(copy, world)
    marked = inspect(copy, prepared.facts)
    check_growth(world, marked)
    check_markers(marked, markers)
    error: ShoalError | None = None
    try:
        prepared.scene.act(copy, prepared.facts)
    except ShoalError as e:
        error = e
    again = inspect(copy, prepared.facts)
    check_markers(again, markers)
    check_growth(marked, again, prepared.scene.moves)
    if prepared.scene.is_named:
        assert error is None
        count = commits_of(again)
        assert count == commits_of(prepared.after[0]), f"done {count} times when it was repeated after other commits"
    prepared.alive.add(trace)


def commits_of(world: World) -> int:
    """How often the operation is in the history of a branch; a name that comes or goes is in none."""
    return sum(branch.log.count(THE_OPERATION) for branch in world.branches().values())


def check_repeat(prepared: Prepared, run: Run, first: Outcome, is_done: bool) -> None:
    """The operation is repeated until it succeeds, and then it was done once (P6).

    Who has an id repeats blindly; others look first whether it was done. A load without an id is never repeated
    when it was; all other operations are, and find nothing left to do.
    """
    scene, outcome = prepared.scene, first
    for _ in range(4):
        if outcome.is_done if scene.is_named else is_done:
            break
        outcome = run.attempt()
        is_done = check_outcome(prepared, run.inner, outcome, is_done)
    assert is_done
    if scene.is_named:
        outcomes = [run.attempt() for _ in range(2)]  # one of them may meet the last fault
        assert outcome in outcomes, f"{outcome}, and then {outcomes[-1]}"
    elif not scene.name.startswith("load"):
        run.attempt()
    run.store.land_late()
    world = prepared.look(run.inner)
    assert world == prepared.after[0], f"repeated: {difference(world, prepared)}"
    check_growth(prepared.before[0], world, scene.moves)


# ---- the sweeps


@dataclass
class Findings:
    """What a sweep came to."""

    runs: int = 0
    results: set[bool] = field(default_factory=set)
    broken: list[str] = field(default_factory=list)

    def judge(self, prepared: Prepared, faults: Mapping[int, Fault], lands_first: bool, landing: int = NEVER) -> None:
        self.runs += 1
        try:
            self.results.add(judge(prepared, faults, lands_first, landing))
        except (AssertionError, ShoalError) as e:
            when = (
                f", lands at call {landing}" if landing != NEVER else ", lands " + ("first" if lands_first else "last")
            )
            faulty = "; ".join(f"{fault.value} at {place(prepared, number)}" for number, fault in faults.items())
            late = when if Fault.LATE in faults.values() else ""
            self.broken.append(f"{faulty}{late}: {first_line(e)}")

    def check(self, prepared: Prepared) -> None:
        print(f"{self.runs} runs, {len(prepared.judged)} of them different", *prepared.calls, sep="\n")
        shown = "\n".join(self.broken[:20])
        assert not self.broken, f"{len(self.broken)} of {self.runs} runs broke a promise:\n{shown}"


def place(prepared: Prepared, number: int) -> str:
    """A call, by its number and, where it is still known, by what it does."""
    if number >= len(prepared.calls):
        return f"call {number}"
    name, key = prepared.calls[number]
    return f"call {number} ({name} {key})"


def singles(prepared: Prepared, calls: tuple[str, ...]) -> Iterator[tuple[int, Fault, bool]]:
    """Each fault of each call of these kinds; what is late lands before the repeat and after it."""
    for number, (name, _) in enumerate(prepared.calls):
        for fault in FAULTS[name] if name in calls else ():
            yield number, fault, True
            if fault is Fault.LATE:
                yield number, fault, False


@pytest.mark.parametrize("name", NAMES)
def test_commits_of_the_past_give_the_same_values_after_all_but_three_operations(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """P3. The three say so: there is no such commit or pool any more, or something is left out with a warning."""
    prepared = prepare(name, in_miniature(monkeypatch))
    before, after = prepared.before[0].past, prepared.after[0].past
    assert before.keys() == after.keys()
    changed = {message: after[message] for message in before if after[message] != before[message]}
    match name:
        case "vacate":
            assert changed == dict.fromkeys(("one", "two", "deletion"), GONE)
        case "drop pool" | "drop pool with an id":
            assert changed == dict.fromkeys(before, NO_POOL)
        case "purge" | "purge of inline data":
            assert changed.keys() == {"one", "two"}
            assert all("(2 records) was purged and is left out" in text for text in changed.values())
        case _:
            assert changed == {}


@pytest.mark.parametrize("name", NAMES)
def test_one_fault_at_any_call_leaves_an_operation_done_once_or_not_at_all(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    prepared = prepare(name, in_miniature(monkeypatch))
    findings = Findings()
    for number, fault, lands_first in singles(prepared, tuple(FAULTS)):
        findings.judge(prepared, {number: fault}, lands_first)
    findings.check(prepared)
    assert findings.runs >= 2 * len(prepared.calls)
    assert findings.results >= ({True} if name.startswith("vacuum") else {True, False})


@pytest.mark.parametrize("name", NAMES)
def test_one_fault_of_a_create_leaves_a_client_without_patience_in_doubt_and_the_lake_in_order(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    prepared = prepare(name, in_miniature(monkeypatch, HASTY))
    findings = Findings()
    for number, fault, lands_first in singles(prepared, ("create",)):
        findings.judge(prepared, {number: fault}, lands_first)
    findings.check(prepared)


@pytest.mark.parametrize("patience", [None, HASTY], ids=["patient", "hasty"])
@pytest.mark.parametrize("name", [scene.name for scene in SCENES if scene.is_named])
def test_a_late_create_that_lands_at_any_later_call_is_recognised(
    name: str, patience: Patience | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """F4: the first client is slow or has given up, and its entry lands while it, or the next one, is at work."""
    prepared = prepare(name, in_miniature(monkeypatch, patience))
    findings = Findings()
    for number, (call, _) in enumerate(prepared.calls):
        if call == "create":
            for landing in range(number + 1, len(calls_with(prepared, {number: Fault.LATE}))):
                findings.judge(prepared, {number: Fault.LATE}, False, landing)
    findings.check(prepared)


@pytest.mark.long
@pytest.mark.skipif(not IS_LONG, reason="the long tier: minutes")
@pytest.mark.timeout(3000)
@pytest.mark.parametrize("patience", [None, HASTY], ids=["patient", "hasty"])
@pytest.mark.parametrize("name", NAMES)
def test_two_faults_at_any_calls_leave_an_operation_done_once_or_not_at_all(
    name: str, patience: Patience | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second may strike the same client, or the one that repeats the operation."""
    prepared = prepare(name, in_miniature(monkeypatch, patience))
    findings = Findings()
    for number, fault, lands_first in singles(prepared, tuple(FAULTS)):
        names = calls_with(prepared, {number: fault})
        for second in range(number + 1, len(names)):
            if patience is HASTY and "create" not in (names[number], names[second]):
                continue  # patience makes no difference
            for other in FAULTS[names[second]]:
                findings.judge(prepared, {number: fault, second: other}, lands_first)
    findings.check(prepared)


# ---- others at work meanwhile


@pytest.mark.parametrize("name", ALONE)
def test_two_clients_that_do_the_same_at_once_do_it_once(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """F15: one client does all of it between two calls of the other. With an id both are told of the same commit."""
    prepared = prepare(name, in_miniature(monkeypatch))
    broken: list[str] = []
    for number in range(len(prepared.calls)):
        run = Run(prepared, {}, meanwhile=(number, prepared.scene.act))
        outcome = run.attempt()
        try:
            world = prepared.look(run.inner)
            assert world == prepared.after[0], difference(world, prepared)
            check_growth(prepared.before[0], world, prepared.scene.moves)
            if prepared.scene.is_named:
                check_returned(world, outcome)
                assert outcome == run.other, f"{outcome}, and the other one {run.other}"
            else:
                assert run.other is not None
                assert outcome.is_done or run.other.is_done, f"{outcome}, and the other one {run.other}"
        except AssertionError as e:
            broken.append(f"before {place(prepared, number)}: {first_line(e)}")
    assert not broken, "\n".join(broken[:20])


def drop_and_vacuum(pool: Pool, facts: Facts, until: float) -> None:
    """Drop a branch; all that was in it alone goes with a vacuum."""
    pool.names.drop_branch("side")
    vacuum.collect(pool, 0.0, until)


def vacate_and_vacuum(pool: Pool, facts: Facts, until: float) -> None:
    """Take the beginning of the history away, and all that was only there."""
    vacuum.vacate(pool, facts.commits["four"])
    vacuum.collect(pool, 0.0, until)


def purge_deleted(pool: Pool, facts: Facts, until: float) -> None:
    """Purge what a commit of the past has deleted."""
    vacuum.purge(pool, [facts.commits["one"]])


def taking(prepared: Prepared, take: Callable[[Pool, Facts, float], None]) -> Act:
    """As what another client does, for whom only what the operation itself has written is too young."""
    old = {listed.key for listed in prepared.store.list()}

    def act(store: ObjectStore, facts: Facts) -> object:
        until = max(listed.modified for listed in store.list() if listed.key in old)
        take(open_pool(store, facts), facts, until)
        return None

    return act


TAKERS = (drop_and_vacuum, vacate_and_vacuum, purge_deleted)
TOUCHED = [s.name for s in SCENES if s.setup in (pond, staged) and s.rival is None]


@pytest.mark.parametrize("take", TAKERS)
@pytest.mark.parametrize("name", TOUCHED)
def test_what_another_client_takes_away_meanwhile_is_not_built_upon(
    name: str, take: Callable[[Pool, Facts, float], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """F10: whichever of the two is first, afterwards every branch and tag can be read, whole."""
    prepared = prepare(name, in_miniature(monkeypatch))
    broken: list[str] = []

    for number in range(len(prepared.calls)):
        run = Run(prepared, {}, meanwhile=(number, taking(prepared, take)))
        outcome = run.attempt()
        try:
            prepared.look(run.inner)
        except (AssertionError, ShoalError) as e:
            broken.append(f"before {place(prepared, number)}: {outcome}, other {run.other}; then {first_line(e)}")
    assert not broken, "\n".join(broken[:20])


def first_line(error: BaseException) -> str:
    """What pytest adds to an error is left out."""
    return str(error).partition("\n")[0][:500]


def calls_with(prepared: Prepared, faults: Mapping[int, Fault]) -> list[str]:
    """The calls of a client that meets these faults, and of another one that repeats its operation."""
    run = Run(prepared, faults)
    for _ in range(2):
        run.attempt()
    return [name for name, _ in run.store.calls]


# ---- the shortest ways to what the sweeps have found


def on(call: str, part: str, fault: Fault) -> Callable[[int, str, str], Fault | None]:
    """The fault, at the first call of this kind whose key has this part."""
    faults = iter([fault])
    return lambda number, name, key: next(faults, None) if name == call and part in key else None


def test_a_client_whose_repeat_meets_its_own_late_entry_goes_on_from_that_entry(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The first attempt is unknown; its entry lands when the second is about to claim the same slot."""
    in_miniature(monkeypatch, HASTY)
    inner = MemoryStore()
    facts = staged(inner)
    assert facts.session is not None
    first = FaultyStore(inner, on("create", "/branches/", Fault.LATE))
    with pytest.raises(OutcomeUnknown):
        sessions.commit(open_pool(first, facts), facts.session, Note())
    second = FaultyStore(inner, lambda number, name, key: first.land_late() if name == "create" else None)
    pool = open_pool(second, facts)
    told = sessions.commit(pool, facts.session, Note())
    assert open_pool(inner, facts).resolve("main") == told
    after = load(pool, (99,), "after")
    assert check_chain(open_pool(inner, facts), after)[1] == told
    inspect(inner, facts)


@pytest.mark.parametrize("fault", [Fault.REFUSED, Fault.DROPPED, Fault.LATE])
def test_a_load_is_not_doubled_by_its_repeat_when_its_first_commit_was_never_stored(
    fault: Fault, monkeypatch: pytest.MonkeyPatch
) -> None:
    in_miniature(monkeypatch)
    inner = MemoryStore()
    facts = pond(inner)
    store = FaultyStore(inner, on("create", "/commits/", fault))
    told = load(open_pool(store, facts), (70,), "the operation", op=facts.op)
    assert load(open_pool(inner, facts), (70,), "the operation", op=facts.op) == told
    entries = check_journal(inner, f"{to_text(facts.pool)}/branches")
    assert [entry.op for entry in entries].count(facts.op) == 1


@pytest.mark.parametrize("fault", [Fault.REFUSED, Fault.DROPPED, Fault.LATE])
def test_an_init_that_the_store_did_not_answer_is_done_or_unknown_and_never_not_found(fault: Fault) -> None:
    inner = MemoryStore()
    store = FaultyStore(inner, on("create", "lake.zng", fault))
    try:
        made = lake.create(store)
    except OutcomeUnknown:
        return
    store.land_late()
    assert lake.open_lake(inner).info.id == made.info.id


@pytest.mark.parametrize("name", ["logs", "renamed"])
def test_a_pool_that_is_created_again_keeps_what_is_in_it(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """As by a client that was not told that it had created it; meanwhile others use it."""
    in_miniature(monkeypatch)
    store = MemoryStore()
    made = lake.create(store)
    config = small_pool("logs")
    commit = load(made.create_pool(config), (1, 2), "one")
    made.rename_pool("logs", name)
    with pytest.raises(AlreadyExists):
        lake.open_lake(store).create_pool(config)
    assert lake.open_lake(store).pool(name).resolve("main") == commit


def test_a_vacuum_leaves_what_is_not_of_the_lake_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    in_miniature(monkeypatch)
    store = MemoryStore()
    facts = pond(store)
    store.put(f"{to_text(facts.pool)}/data/README.txt", b"mine")
    found = vacuum.find_garbage(open_pool(store, facts), 0.0, time.time())
    assert [item.key for item in (*found.data, *found.metadata)] == []


def test_a_vacuum_whose_clock_is_an_hour_fast_keeps_nobody_from_loading(monkeypatch: pytest.MonkeyPatch) -> None:
    """F11: it lists what there is, and what is loaded later is not among that."""
    in_miniature(monkeypatch)
    store = MemoryStore()
    facts = littered(store)
    vacuum.collect(open_pool(store, facts), 0.0, time.time() + 3600)
    commit = load(open_pool(store, facts), (99,), "after the vacuum")
    assert open_pool(store, facts).resolve("main") == commit
    inspect(store, facts)


def open_pool(store: ObjectStore, facts: Facts) -> Pool:
    return lake.open_lake(store).pool(to_text(facts.pool))
