"""Damage in a process that has read a file before: the answer is the same, or corrupt_data that names the object."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

import shoal
from shoal.errors import CorruptData, InvalidInput, ShoalError, StorageFailure
from shoal.lake import column_form
from shoal.local.lake import LocalLake
from shoal.model.text import format_value
from shoal.storage.verified_files import MAX_AGE, VerifiedFiles, signature_of
from shoal.testing import damaged_files
from shoal.testing.damaged_files import WAYS, verdict, write, wrong_answers
from shoal.testing.tiers import IS_LONG

SEED = random.SystemRandom().randrange(2**32) if IS_LONG else 20261116
ROUNDS = 2000 if IS_LONG else 16
"""For each pool and each question."""
PROGRAM = "from {} | sum(n), count(), union(s) by k:=n % 3 | sort k"
STATEMENT = "select n % 3 k, sum(n) total, count(*) many, max(s) s from {} group by 1 order by 1"
QUESTIONS: dict[str, tuple[str, str]] = {
    "interp": ("interp", PROGRAM),
    "duckdb": ("duckdb", PROGRAM),
    "duckdb, rows": ("duckdb", "from {} | where n > 3 | sort -r n | head 20"),
    "sql": ("sql", STATEMENT),
}


class Clock:
    """A clock that is set by hand. It begins late enough for files of now to be remembered."""

    def __init__(self) -> None:
        self.now = time.time() + 3600

    def __call__(self) -> float:
        return self.now


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(column_form, "VERIFIED", VerifiedFiles(clock=clock))
    return clock


@pytest.fixture
def root(tmp_path: Path) -> Path:
    lake = shoal.create(tmp_path / "lake")
    lake.create("plain", key="n").load([{"n": i, "s": f"s{i % 17}"} for i in range(400)])
    layouts = lake.create("layouts", key="n")
    layouts.load([{"n": i, "s": f"s{i % 17}"} for i in range(200)])
    layouts.load([{"n": i, "s": f"s{i % 17}", "other": {"x": i}} for i in range(100, 300)])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("shoal.lake.object_writer.MOST_SHAPES", 0)
        lake.create("rows", key="n").load([{"n": i, "s": f"s{i % 17}"} for i in range(400)])
    return tmp_path / "lake"


def files_of(root: Path, pool: str) -> list[Path]:
    return sorted((root / shoal.open(root).pool(pool).id / "data").iterdir())


def answer(root: Path, engine: str, text: str, pool: str) -> list[str]:
    """The answer of a new handle, which has read nothing; what the process remembers is the same."""
    lake = shoal.open(root)
    assert isinstance(lake, LocalLake)
    text = text.format(pool)
    return [format_value(v) for v in (lake.sql(text) if engine == "sql" else lake.query(text, engine=engine))]


@pytest.mark.parametrize("question", QUESTIONS)
@pytest.mark.parametrize("pool", ["plain", "layouts", "rows"])
def test_damage_between_two_questions_is_told(root: Path, pool: str, question: str) -> None:
    dice = random.Random(f"{SEED} {pool} {question}")
    ask = partial(answer, root, *QUESTIONS[question], pool)
    file = dice.choice(files_of(root, pool))
    wrong = wrong_answers(ask, file, ROUNDS, dice)
    assert not wrong, f"seed {SEED}: {len(wrong)} answers are wrong:\n" + "\n".join(wrong[:12])


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("question", ["duckdb", "duckdb, rows", "sql"])
def test_damage_after_the_check_is_told(root: Path, question: str, way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The engine may read something else than what was verified, or fail in its own words."""
    (file,) = files_of(root, "plain")
    good = file.read_bytes()
    ask = partial(answer, root, *QUESTIONS[question], "plain")
    right = ask()
    dice = random.Random(f"{SEED} {question} {way}")
    check = column_form.checked_file

    def checked(*args):  # type: ignore[no-untyped-def]
        verified = check(*args)
        texts.append(damaged_files.damage(file, way, dice))
        return verified

    for _ in range(ROUNDS // 2 if way == "flipped" else 2):
        texts: list[str] = []
        with monkeypatch.context() as patch:
            patch.setattr(column_form, "checked_file", checked)
            problem = verdict(ask, right, file)
        assert problem is None, f"seed {SEED}: {texts}: {problem}"
        write(file, good)


@pytest.mark.parametrize("way", WAYS[:3])
@pytest.mark.parametrize(
    "ask", [lambda lake: lake.query("from big", engine="duckdb"), lambda lake: lake.sql("from big")]
)
def test_damage_while_results_are_taken_is_told(
    tmp_path: Path, way: str, ask: Callable[[LocalLake], shoal.Results]
) -> None:
    lake = shoal.create(tmp_path / "lake")
    assert isinstance(lake, LocalLake)
    lake.create("big", key="n").load([{"n": i} for i in range(40_000)])
    (file,) = files_of(tmp_path / "lake", "big")
    values = iter(ask(lake))
    assert next(values).data == (0,)
    damaged_files.damage(file, way, random.Random(SEED))
    with pytest.raises(CorruptData, match=file.name):
        list(values)


def test_a_file_that_changed_and_is_whole_again_may_not_have_been_so_in_between(tmp_path: Path) -> None:
    lake = shoal.create(tmp_path / "lake")
    lake.create("big", key="n").load([{"n": i} for i in range(40_000)])
    (file,) = files_of(tmp_path / "lake", "big")
    values = iter(lake.query("from big", engine="duckdb"))
    next(values)
    write(file, file.read_bytes())
    with pytest.raises(StorageFailure, match=rf"{file.name}: .*repeat the query"):
        list(values)
    assert len(list(lake.query("from big", engine="duckdb"))) == 40_000


def test_a_link_to_a_file_and_its_removal_change_no_answer(tmp_path: Path) -> None:
    """A backup by links, and a vacuum of what an old commit reads."""
    lake = shoal.create(tmp_path / "lake")
    lake.create("big", key="n").load([{"n": i} for i in range(40_000)])
    (file,) = files_of(tmp_path / "lake", "big")
    changes: list[Callable[[], None]] = [partial((tmp_path / "backup").hardlink_to, file), file.unlink]
    for change in changes:
        values = iter(lake.query("from big", engine="duckdb"))
        next(values)
        change()
        assert sum(1 for _ in values) == 39_999


@pytest.mark.parametrize("question", ["duckdb", "sql"])
def test_a_flip_that_the_file_system_does_not_report_is_told_in_time(root: Path, question: str, clock: Clock) -> None:
    """A disk that loses a bit changes no time of modification: the remembered signature fits the damaged file."""
    (file,) = files_of(root, "plain")
    ask = partial(answer, root, *QUESTIONS[question], "plain")
    ask()
    damaged_files.damage(file, "flipped", random.Random(SEED))
    column_form.VERIFIED.remember(str(file), signature_of(str(file)))
    clock.now += MAX_AGE
    with pytest.raises(CorruptData, match=file.name):
        ask()


def test_an_error_of_a_statement_is_not_taken_for_damage(root: Path) -> None:
    for text in ("select cast(s as int) from plain", "select nothing from plain", "selec 1"):
        with pytest.raises(InvalidInput) as caught:
            answer(root, "sql", text, "plain")
        assert str(root) not in str(caught.value)


@pytest.mark.parametrize("engine", ["interp", "duckdb", "sql"])
def test_no_error_shows_where_files_are(root: Path, engine: str) -> None:
    for pool in ("plain", "rows"):
        (file,) = files_of(root, pool)
        for way in WAYS:
            good = file.read_bytes()
            damaged_files.damage(file, way, random.Random(SEED))
            with pytest.raises(ShoalError) as caught:
                answer(root, engine, STATEMENT if engine == "sql" else PROGRAM, pool)
            write(file, good)
            assert str(root) not in str(caught.value)
            assert "\n" not in str(caught.value)
