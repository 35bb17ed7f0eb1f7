"""Stored bytes that are not what was written (F8, F12): hints are passed over, all else is told by its key.

Every question is asked of a whole lake first, and which objects it reads is written down; then one of those objects
is damaged and the question is asked again, by a new client. The answer is the same or an error that names the
object. In the quick tier the dice fall the same way each time; the seed is printed.
"""

from __future__ import annotations

import random
import re
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial

import pytest

from shoal.errors import CorruptData, NotFound, ShoalError
from shoal.ids import Id, to_text
from shoal.lake import journal, lake, lineage, vacuum
from shoal.lake.journal import Journal
from shoal.lake.objects import DataObject, Form, key_of
from shoal.lake.pools import Pool
from shoal.lake.sealed import unseal
from shoal.model.fields import get_data
from shoal.storage.cache import CachedStore
from shoal.storage.memory import MemoryStore
from shoal.storage.store import ObjectStore
from shoal.testing.lake_checks import copied, inspect, show, values_at
from shoal.testing.lake_scenes import Facts, Stage, in_miniature, load, museum, number, pond, small_pool
from shoal.testing.lineage_checks import visible_rows
from shoal.testing.tiers import IS_LONG

SEED = random.SystemRandom().randrange(2**32) if IS_LONG else 20261115
ROUNDS = 2500 if IS_LONG else 125
"""For each kind of object and each way to damage it; of removals there are only as many as there are objects."""
LIMIT = 2.0
"""Seconds that a question may take."""

HINTS = ("HEAD", "snapshot of a journal", "checkpoint", "page")
DATA = ("data in columns", "data in rows", "data in rows with a seek index")
KINDS = (
    *HINTS, "lake.zng", "entry of a journal", "commit", "lineage", *DATA,
)  # fmt: skip
WAYS = ("truncated", "zeroed", "flipped", "replaced", "removed")

_KINDS = (
    (r"lake\.zng", "lake.zng"),
    (r".+/HEAD", "HEAD"),
    (r".+/\d{20}\.snap\.zng", "snapshot of a journal"),
    (r".+/\d{20}\.zng", "entry of a journal"),
    (r".+/commits/.+", "commit"),
    (r".+/checkpoints/.+", "checkpoint"),
    (r".+/pages/.+", "page"),
    (r".+/lineage/.+", "lineage"),
)


class Recorder(MemoryStore):
    """Notes which objects are asked for."""

    def __init__(self) -> None:
        super().__init__("museum")
        self.asked: set[str] = set()

    def get(self, key: str) -> bytes:
        self.asked.add(key)
        return super().get(key)


Ask = Callable[[ObjectStore], object]


@dataclass(frozen=True, slots=True)
class Museum:
    """A lake with everything in it, and what there is to know about it."""

    store: Recorder
    facts: Facts
    kinds: dict[str, list[str]]
    """Keys by kind."""
    questions: dict[str, Ask]
    answers: dict[str, object]
    readers: dict[str, list[str]] = field(default_factory=dict)
    """Which questions read an object, by its key."""


@pytest.fixture
def stage(monkeypatch: pytest.MonkeyPatch) -> Stage:
    return in_miniature(monkeypatch)


@pytest.fixture
def whole(stage: Stage) -> Museum:
    """The lake as it should be. It is made once."""
    if not _MADE:
        _MADE.append(make_museum())
    return _MADE[0]


_MADE: list[Museum] = []


def make_museum() -> Museum:
    store = Recorder()
    facts = museum(store)
    questions = dict(all_questions(store))
    made = Museum(store, facts, kinds_of(store), questions, {})
    for name, ask in questions.items():
        store.asked.clear()
        made.answers[name] = ask(store)
        for key in store.asked:
            made.readers.setdefault(key, []).append(name)
    return made


def kinds_of(store: ObjectStore) -> dict[str, list[str]]:
    """The keys of a lake by the kind of object."""
    found = {to_text(o.id): o for pool in pools(store) for o in all_objects(pool)}
    out: dict[str, list[str]] = {kind: [] for kind in KINDS}
    for key in sorted(listed.key for listed in store.list()):
        kind = next((kind for pattern, kind in _KINDS if re.fullmatch(pattern, key)), None)
        if kind is None:
            o = found[stem(key)]
            kind = DATA[0] if o.form is Form.COLUMNS else DATA[2] if o.index_size else DATA[1]
        out[kind].append(key)
    return out


def stem(key: str) -> str:
    """The name of an object without its folder and its ending: an id, or a position."""
    return key.rpartition("/")[2].partition(".")[0]


def pools(store: ObjectStore) -> list[Pool]:
    opened = lake.open_lake(store)
    return [opened.pool(config.name) for config in opened.configs()]


def all_commits(pool: Pool) -> list[Id]:
    found: set[Id] = set()
    todo = [ref.commit for ref in (*pool.refs().branches(), *pool.refs().tags()) if ref.commit is not None]
    while todo:
        ident = todo.pop()
        if ident not in found:
            found.add(ident)
            todo.extend(pool.commits.read(ident).parents)
    return sorted(found)


def all_objects(pool: Pool) -> list[DataObject]:
    return [o for ident in all_commits(pool) for o in pool.commits.read(ident).adds]


def all_questions(store: ObjectStore) -> Iterator[tuple[str, Ask]]:
    """What readers ask of a lake, each by a client of its own."""
    yield "the pools", lambda s: [config.name for config in lake.open_lake(s).configs()]
    for pool in pools(store):
        ident = to_text(pool.config.id)
        for ref in pool.refs().branches():
            yield f"values {ident} {ref.name}", partial(ask_values, pool=ident, at=ref.name)
            yield f"log {ident} {ref.name}", partial(ask_log, pool=ident, branch=ref.name)
        for ref in pool.refs().tags():
            yield f"values {ident} {ref.name}", partial(ask_values, pool=ident, at=ref.name)
        for o in all_objects(pool):
            if o.lineage is not None:
                yield f"rows {ident} {to_text(o.id)}", partial(ask_rows, pool=ident, o=o)
        for commit in all_commits(pool):
            yield f"values {ident} {to_text(commit)}", partial(ask_values, pool=ident, at=to_text(commit))
        for prefix in ("pools", f"{ident}/branches"):
            yield f"entries {prefix}", partial(ask_entries, prefix=prefix)
            for position in range(1, pool.journal.read().position + 1):
                yield f"state {prefix} {position}", partial(ask_state, prefix=prefix, position=position)


def ask_values(store: ObjectStore, pool: str, at: str) -> tuple[str, ...]:
    opened = lake.open_lake(store).pool(pool)
    return values_at(opened, opened.resolve(at))


def ask_rows(store: ObjectStore, pool: str, o: DataObject) -> object:
    """Which row each row of an object was first."""
    lineage.forget()
    return visible_rows(store, pool, o)


def ask_log(store: ObjectStore, pool: str, branch: str) -> object:
    opened = lake.open_lake(store).pool(pool)
    return [(commit.id, commit.note.message) for commit in opened.log(opened.resolve(branch))]


def ask_entries(store: ObjectStore, prefix: str) -> object:
    journal = Journal(store, prefix)
    found = [journal.entry(position) for position in range(1, journal.read().position + 1)]
    return [(entry.op, entry.at, dict(entry.changes)) for entry in found]


def ask_state(store: ObjectStore, prefix: str, position: int) -> object:
    journal = Journal(store, prefix)
    last = journal.read().position
    return journal.at_position(min(position, last)).entries


# ---- damage


def damage(store: MemoryStore, way: str, key: str, dice: random.Random) -> str:
    """Do something to an object; what it was."""
    good = store.get(key)
    bad = bytearray(good)
    match way:
        case "truncated":
            size = dice.choice((0, 1, len(good) // 2, len(good) - 1, dice.randrange(len(good))))
            del bad[size:]
            what = f"to {size} of {len(good)} bytes"
        case "zeroed":
            start, end = dice.choice(((0, len(good)), sorted(dice.sample(range(len(good) + 1), 2))))
            bad[start:end] = bytes(end - start)
            what = f"from {start} to {end}"
        case "flipped":
            place, bit = dice.randrange(len(good)), dice.randrange(8)
            bad[place] ^= 1 << bit
            what = f"bit {bit} of byte {place}"
        case "replaced":
            other = dice.choice([k for k in alike(store, key, dice) if k != key])
            bad[:] = store.get(other)
            what = f"by {other}"
        case _:
            store.delete(key)
            return "removed"
    store.put(key, bytes(bad))
    return f"{way} {what}"


def alike(store: MemoryStore, key: str, dice: random.Random) -> list[str]:
    """What an object may be mistaken for: half of the time another of its folder, where there is one."""
    keys = sorted(listed.key for listed in store.list())
    near = [k for k in keys if k.rpartition("/")[0] == key.rpartition("/")[0]]
    return near if len(near) > 1 and dice.random() < 0.5 else keys


def cases(whole: Museum, kind: str, way: str, dice: random.Random) -> Iterator[tuple[str, str]]:
    """Objects of a kind, each with a question that reads it."""
    keys = [key for key in whole.kinds[kind] if key in whole.readers]
    assert keys, f"nobody reads any {kind}"
    if way == "removed":
        yield from ((key, name) for key in keys for name in whole.readers[key])
        return
    for i in range(ROUNDS):
        key = keys[i % len(keys)]
        yield key, dice.choice(whole.readers[key])


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("kind", KINDS)
def test_damage_to_an_object_changes_no_answer(kind: str, way: str, whole: Museum) -> None:
    """Of a hint nobody notices it; all else is told as damage, with the key of the object."""
    dice = random.Random(f"{SEED} {kind} {way}")
    wrong: list[str] = []
    told = count = 0
    for key, name in cases(whole, kind, way, dice):
        store = copied(whole.store)
        what = damage(store, way, key, dice)
        if way != "removed" and store.get(key) == whole.store.get(key):
            continue
        count += 1
        verdict = asked(whole, store, key, name)
        told += verdict == TOLD
        if way == "removed" and is_last_entry(whole, key) and verdict.startswith((OTHER, UNNAMED)):
            continue
        if "TimeoutError" in verdict and sum("TimeoutError" in line for line in wrong) == 2:
            break  # to wait for more of them would take all day
        if verdict not in ((SAME,) if kind in HINTS else (SAME, TOLD)):
            wrong.append(f"{key} {what}, {name}: {verdict}")
    print(f"seed {SEED}: {count} times, {told} of them told")
    assert not wrong, f"seed {SEED}: {len(wrong)} of {count} answers are wrong:\n" + "\n".join(wrong[:12])
    assert count >= (1 if way == "removed" else ROUNDS // 3)


@contextmanager
def time_limit() -> Iterator[None]:
    """A question that hangs is an error like any other."""

    def stop(number: int, frame: object) -> None:
        raise TimeoutError(f"no answer in {LIMIT} seconds")

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, LIMIT)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


SAME, TOLD, OTHER, UNNAMED = "the same answer", "told", "another answer", "not named"


def is_last_entry(whole: Museum, key: str) -> bool:
    """A journal without its last entry is a journal that has not got it yet: nothing can tell the difference."""
    entries, folder = whole.kinds["entry of a journal"], key.rpartition("/")[0]
    return key in entries and key == max(k for k in entries if k.rpartition("/")[0] == folder)


def asked(whole: Museum, store: MemoryStore, key: str, name: str) -> str:
    """What becomes of a question when an object is damaged."""
    try:
        with time_limit():
            answer = whole.questions[name](store)
    except CorruptData as e:
        return TOLD if key in str(e) else f"{UNNAMED}: {e}"
    except NotFound as e:
        # An id that the caller gives may be anything, so that there is no such commit is a right answer.
        return TOLD if name.endswith(stem(key)) and stem(key) in str(e) else f"{UNNAMED}: {type(e).__name__}: {e}"
    except Exception as e:
        return f"{type(e).__name__}: {e}"
    return SAME if answer == whole.answers[name] else f"{OTHER}: {str(answer)[:300]}"


@pytest.mark.parametrize("kind", KINDS)
def test_what_was_damaged_is_right_again_once_it_is_restored(kind: str, whole: Museum) -> None:
    """In the process that saw the damage, too: its cache does not keep damaged bytes."""
    for key in whole.kinds[kind][:4]:
        for question in whole.readers.get(key, [])[:3]:
            store = copied(whole.store)
            cached = CachedStore(store, lake.is_immutable)
            good = store.get(key)
            store.put(key, good[:-2] + bytes((good[-2] ^ 1,)) + good[-1:])
            with suppress(CorruptData):
                whole.questions[question](cached)
            store.put(key, good)
            try:
                assert whole.questions[question](cached) == whole.answers[question]
            except CorruptData as e:
                pytest.fail(f"{question}: {e}")


def test_two_objects_of_the_same_size_are_not_taken_for_each_other(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a seek index a reader looks at parts only, and each part fits its own checksum."""
    monkeypatch.setattr("shoal.lake.object_writer.MOST_SHAPES", 0)
    store = MemoryStore()
    pool = lake.create(store).create_pool(small_pool("twins"))
    first, second = (load(pool, range(start, start + 6), f"{start}") for start in (200, 300))
    one, two = (pool.commits.read(commit).adds[0] for commit in (first, second))
    assert (one.size, one.index_size) == (two.size, two.index_size)
    assert one.index_size > 0
    store.put(key_of(pool.prefix, one), store.get(key_of(pool.prefix, two)))
    with pytest.raises(CorruptData, match=to_text(one.id)):
        values_at(lake.open_lake(store).pool("twins"), first)


@pytest.mark.parametrize("position", range(1, 12))
def test_a_hole_in_a_journal_is_told_before_somebody_writes_into_it(
    position: int, stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """There is no HEAD to lead past it: that an entry is missing which another one follows must be seen all the same.

    What the entries before a snapshot said is known without them.
    """
    monkeypatch.setattr(journal, "HEAD_EVERY", 1000)
    store = MemoryStore()
    facts = pond(store)
    prefix = f"{to_text(facts.pool)}/branches"
    assert Journal(store, prefix).read().position == 12
    slot = f"{prefix}/{position:020d}.zng"
    store.delete(slot)
    store.delete(f"{prefix}/{12:020d}.snap.zng")
    pool = lake.open_lake(store).pool(to_text(facts.pool))
    try:
        made = load(pool, (99,), "into the hole")
    except CorruptData as e:
        assert slot in str(e)
    else:
        assert position <= 8
        assert len(values_at(pool, made)) == 10
    assert slot not in {listed.key for listed in store.list()}


# ---- writing on what is damaged


def test_a_commit_to_a_damaged_lake_is_refused_or_right(whole: Museum) -> None:
    """And never refused for the sake of a hint."""
    dice = random.Random(f"{SEED} commit")
    wrong: list[str] = []
    for kind in KINDS:
        for i in range(ROUNDS // 3):
            key = whole.kinds[kind][i % len(whole.kinds[kind])]
            way = WAYS[i % len(WAYS)]
            if way == "replaced" or (way == "removed" and is_last_entry(whole, key)):
                continue
            store = copied(whole.store)
            what = damage(store, way, key, dice)
            verdict = committed(whole, store, kind, key)
            if verdict is not None:
                wrong.append(f"{key} {what}: {verdict}")
    assert not wrong, f"seed {SEED}: {len(wrong)} are wrong:\n" + "\n".join(wrong[:12])


def committed(whole: Museum, store: MemoryStore, kind: str, key: str) -> str | None:
    """What is wrong with a commit to a lake in which an object is damaged."""
    question = f"values {to_text(whole.facts.pool)} main"
    try:
        with time_limit():
            pool = lake.open_lake(store).pool(to_text(whole.facts.pool))
            made = load(pool, (999,), "on damage")
            values = set(values_at(pool, made))
    except (CorruptData, NotFound) as e:
        is_read = key in whole.readers or "/columns/" in key  # which only writers read
        return f"refused: {e}" if kind in HINTS or not is_read else None
    expected = whole.answers[question]
    assert isinstance(expected, tuple)
    return None if len(values) == len(expected) + 1 and values > set(expected) else f"{OTHER}: {sorted(values)}"


@pytest.mark.parametrize("way", ["truncated", "removed"])
@pytest.mark.parametrize("kind", KINDS)
def test_a_vacuum_of_a_damaged_lake_removes_no_data_and_no_commit(kind: str, way: str, whole: Museum) -> None:
    """What cannot be read might have told of more that is needed."""
    dice = random.Random(f"{SEED} vacuum {kind} {way}")
    looked = 0
    for key in whole.kinds[kind]:
        if way == "removed" and is_last_entry(whole, key):
            continue
        store = copied(whole.store)
        damage(store, way, key, dice)
        for ident in (to_text(pool.config.id) for pool in pools(whole.store)):
            try:
                with time_limit():
                    pool = lake.open_lake(store).pool(ident)
                    found = vacuum.find_garbage(pool, 0.0, time.time())
            except (CorruptData, NotFound):
                continue
            looked += 1
            lost = [
                item.key for item in (*found.data, *found.metadata) if "/data/" in item.key or "/commits/" in item.key
            ]
            assert not lost, f"{key} {way}, and {lost} would go"
    assert looked > 0 or kind == "lake.zng"


# ---- what is passed over is left behind


@pytest.mark.parametrize("way", ["truncated", "zeroed", "replaced", "removed"])
def test_a_bad_head_is_written_anew_by_one_of_the_next_commits(way: str, stage: Stage) -> None:
    store = MemoryStore()
    facts = pond(store)
    key = f"{to_text(facts.pool)}/branches/HEAD"
    damage(store, way, key, random.Random(SEED))
    for i in range(2):
        load(lake.open_lake(store).pool(to_text(facts.pool)), (500 + i,), f"after {i}")
    (head,) = unseal(store.get(key), key)
    assert get_data(head, "position", key) == 14
    inspect(store, facts)


@pytest.mark.parametrize("kind", ["snapshot of a journal", "checkpoint", "page"])
def test_damage_to_a_hint_is_out_of_the_way_once_newer_ones_were_written(kind: str, stage: Stage) -> None:
    """A reader of the newest commit does not come across it any more."""
    store = Recorder()
    museum(store)
    pool = next(p for p in pools(store) if p.config.name == "grains")
    question = partial(ask_values, pool=to_text(pool.config.id), at="main")
    store.asked.clear()
    question(store)
    bad = sorted(store.asked & set(kinds_of(store)[kind]))
    assert bad
    for key in bad:
        store.put(key, b"bad")
    values = {show(number(k)) for i in range(6) for k in range(10 * i, 10 * i + 4)}
    for i in range(8):
        load(lake.open_lake(store).pool("grains"), (600 + i,), f"after {i}")
        values.add(show(number(600 + i)))
    store.asked.clear()
    assert set(ask_values(store, to_text(pool.config.id), "main")) == values
    assert not store.asked & set(bad), "what is damaged is still read"


@pytest.mark.parametrize("kind", ["checkpoint", "page"])
def test_what_a_vacated_history_began_with_is_no_hint_any_more(kind: str, stage: Stage) -> None:
    """The commits that it was made of are gone: damage to it is told, and never a part taken for the whole."""
    store = Recorder()
    pool = lake.create(store).create_pool(small_pool("grains", object_size=1))
    commits = [load(pool, range(10 * i, 10 * i + 4), f"grains {i}") for i in range(6)]
    vacuum.vacate(pool, commits[4])
    vacuum.collect(pool, 0.0, time.time())
    question = partial(ask_values, pool=to_text(pool.config.id), at="main")
    store.asked.clear()
    answer = question(store)
    assert len(answer) == 24
    needed = sorted(listed.key for listed in store.list() if listed.key in store.asked and f"/{kind}s/" in listed.key)
    assert needed
    for key in needed:
        copy = copied(store)
        copy.put(key, b"bad")
        with pytest.raises(CorruptData, match=key):
            question(copy)
        copy.delete(key)
        with pytest.raises(CorruptData, match=key):
            question(copy)


def test_a_history_is_not_cut_off_behind_a_damaged_page(stage: Stage) -> None:
    """The commits know what the page said, as long as they are there."""
    whole = MemoryStore()
    pool = lake.create(whole).create_pool(small_pool("grains", object_size=1))
    commits = [load(pool, range(10 * i, 10 * i + 4), f"grains {i}") for i in range(6)]
    values = values_at(pool, commits[-1])
    lost: list[str] = []
    for key in kinds_of(whole)["page"]:
        store = copied(whole)
        store.put(key, b"bad")
        pool = lake.open_lake(store).pool("grains")
        with suppress(CorruptData):  # to refuse is right as well
            vacuum.vacate(pool, commits[4])
            vacuum.collect(pool, 0.0, time.time())
        try:
            assert values_at(lake.open_lake(store).pool("grains"), commits[-1]) == values
        except ShoalError as e:
            lost.append(f"{key}: {e}")
    assert lost == []
