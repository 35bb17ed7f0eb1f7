"""What LocalStore has acknowledged survives a loss of power at any moment, and what it has not is absent or whole.

The calls that a store makes are recorded, and every disk that a loss of power may leave is built and opened. The
surprise: a name that can be read is not yet a name that lasts.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from random import Random, SystemRandom
from typing import NamedTuple

import pytest

from shoal.errors import NotFound, StorageFailure
from shoal.storage import local
from shoal.storage.local import LocalStore
from shoal.storage.store import Created
from shoal.testing.disk import Disk, Event, Image, Named, Recorder, Synced, SyncFailed, Tree
from shoal.testing.tiers import IS_LONG

LIMIT = 100_000 if IS_LONG else 2_000
"""How many disks are built at most for one moment."""
OPERATIONS = 30 if IS_LONG else 20


class Began(NamedTuple):
    """From here on the object may be this; None is absent."""

    key: str
    data: bytes | None


class Settled(NamedTuple):
    """The caller was told: the object is this."""

    key: str
    data: bytes


class Dropped(NamedTuple):
    """The caller was told: this will not be seen."""

    key: str
    data: bytes


class Gone(BaseException):
    """The process was killed: no handler runs to its end."""


class Trial:
    """A store at work, the record of what it did to the disk, and of what it told its caller."""

    def __init__(self, top: Path, monkeypatch: pytest.MonkeyPatch, recorder: type[Recorder] = Recorder) -> None:
        top = Path(os.path.realpath(top))
        self.record: list[Event | Began | Settled | Dropped] = []
        self.os = recorder(top, self.record.append, chunk=9)
        monkeypatch.setattr(local, "os", self.os)
        self.root = top / "lake"
        self.store = LocalStore(self.root)

    def create(self, key: str, data: bytes) -> Created:
        self.record.append(Began(key, data))
        try:
            outcome = self.store.create(key, data)
        except StorageFailure:
            self.record.append(Dropped(key, data))
            raise
        if outcome is Created.LANDED:
            self.record.append(Settled(key, data))
        elif outcome is Created.LOST:
            self.record.append(Dropped(key, data))
        return outcome

    def put(self, key: str, data: bytes) -> None:
        self.record.append(Began(key, data))
        self.store.put(key, data)
        self.record.append(Settled(key, data))

    def delete(self, key: str) -> None:
        """A delete is not durable, and need not be."""
        self.record.append(Began(key, None))
        self.store.delete(key)

    def fail(self, number: int, error: BaseException) -> None:
        """Let a call fail: the one of this number, counted from now on. A killed process makes no calls after it."""
        last = len(self.os.calls) + number + 1

        def before(calls: list[str]) -> None:
            if len(calls) == last or (len(calls) > last and isinstance(error, Gone)):
                raise error

        self.os.before = before

    def interrupt(self, number: int, act: Callable[[], object]) -> None:
        """Let something happen before a call: the one of this number, counted from now on."""
        last = len(self.os.calls) + number + 1

        def before(calls: list[str]) -> None:
            if len(calls) == last:
                self.work()
                act()

        self.os.before = before

    def work(self) -> None:
        """Let calls succeed."""
        self.os.before = lambda calls: None

    def restart(self) -> None:
        """Let calls succeed, in a new process."""
        self.work()
        self.store = LocalStore(self.root)


class Promises:
    """What each object may be, by what the caller was told."""

    def __init__(self) -> None:
        self._settled: dict[str, bytes] = {}
        self._open: dict[str, list[bytes | None]] = {}

    def apply(self, mark: Began | Settled | Dropped) -> None:
        key, data = mark
        match mark:
            case Began():
                self._open.setdefault(key, []).append(data)
            case Settled():
                self._settled[key] = mark.data
                self._open.pop(key, None)
            case Dropped() if data in self._open.get(key, ()):
                self._open[key].remove(data)

    def broken_by(self, store: LocalStore) -> str | None:
        """What a store shows that it must not, or does not show that it must."""
        listed = {item.key: item.size for item in store.list()}
        if strange := listed.keys() - self._settled.keys() - self._open.keys():
            return f"{strange} listed"
        for key in {**self._settled, **self._open}:
            allowed = {self._settled.get(key), *self._open.get(key, ())}
            found = store.get(key) if key in listed else None
            if found not in allowed:
                return f"{key} is {found!r}, not one of {allowed}"
            if found is None:
                with pytest.raises(NotFound):
                    store.get(key)
            elif listed[key] != store.size(key):
                return f"{key} is listed with a size of {listed[key]}"
        return None

    def __str__(self) -> str:
        return f"{self._settled} {self._open}"


def losses(trial: Trial, limit: int, random: Random) -> Iterator[tuple[Tree, Promises]]:
    """What a loss of power may leave, at every moment, each once."""
    disk, promises = Disk(), Promises()
    seen: set[int] = set()
    for event in trial.record:
        if isinstance(event, Began | Settled | Dropped):
            promises.apply(event)
        else:
            disk.apply(event)
        for tree in disk.losses(limit, random):
            state = hash((frozenset(tree.items()), str(promises)))
            if state not in seen:
                seen.add(state)
                yield tree, promises


class Checked(NamedTuple):
    """How many disks were opened, and what was wrong with the last one."""

    disks: int
    wrong: str | None


def check(trial: Trial, scratch: Path, seed: int = 0) -> Checked:
    """Open every disk that a loss of power may leave, until something is wrong."""
    scratch.mkdir(exist_ok=True)
    image = Image(scratch)
    number = 0
    for number, (tree, promises) in enumerate(losses(trial, LIMIT, Random(seed)), 1):
        image.show(tree)
        if wrong := promises.broken_by(LocalStore(scratch / "lake")):
            return Checked(number, wrong)
    return Checked(number, None)


def mixed_work(trial: Trial, random: Random, operations: int) -> None:
    """Creates and puts, some of names that are taken, and deletes that nobody waits for."""
    for number in range(operations):
        key = random.choice(["head", "j/1", "j/2", "j/3", "d/a", "d/e/b", f"d/f/{number}"])
        data = random.randbytes(random.choice([0, 1, 9, 30]))
        kind = random.choice(["create", "create", "put", "delete"])
        if kind == "create":
            trial.create(key, data)
        elif kind == "put":
            trial.put(key, data)
        else:
            trial.delete(key)


@pytest.fixture
def scratch(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("scratch")


def a_seed(case: int) -> int:
    """The same every time in the quick tier, a new one in the long one; SHOAL_SEED replays either."""
    return int(os.environ.get("SHOAL_SEED") or (SystemRandom().getrandbits(32) if IS_LONG else case))


@pytest.mark.timeout(3000 if IS_LONG else 300)
@pytest.mark.parametrize("case", range(4))
def test_what_was_acknowledged_survives_a_loss_of_power_and_the_rest_is_absent_or_whole(
    tmp_path: Path, scratch: Path, monkeypatch: pytest.MonkeyPatch, case: int
) -> None:
    seed = a_seed(case)
    print(f"SHOAL_SEED={seed}")
    trial = Trial(tmp_path, monkeypatch)
    mixed_work(trial, Random(seed), OPERATIONS)
    checked = check(trial, scratch, seed)
    print(f"{len(trial.os.calls)} calls, {checked.disks} disks")
    assert checked.wrong is None
    assert checked.disks > 500


def test_a_store_takes_new_objects_after_a_loss_of_power(
    tmp_path: Path, scratch: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trial = Trial(tmp_path, monkeypatch)
    mixed_work(trial, Random(0), 8)
    monkeypatch.undo()
    found = list(losses(trial, 100, Random(0)))
    for number, (tree, _) in enumerate(found[:: len(found) // 50]):
        top = scratch / f"{number}"
        top.mkdir()
        Image(top).show(tree)
        store = LocalStore(top / "lake")
        assert store.create("j/new", b"new") is Created.LANDED
        assert store.create("d/e/new", b"new") is Created.LANDED
        store.sweep(older_than=0)
        assert sorted(item.key for item in store.list()) == files(top / "lake")


def files(root: Path) -> list[str]:
    return sorted(path.relative_to(root).as_posix() for path in root.rglob("*") if not path.is_dir())


def new_trial(top: Path, monkeypatch: pytest.MonkeyPatch, name: object) -> Trial:
    """A trial in a place of its own, with an object in it."""
    (top / f"{name}").mkdir()
    trial = Trial(top / f"{name}", monkeypatch)
    trial.put("j/first", b"first")
    return trial


Act = Callable[[Trial], object]


def create(trial: Trial) -> Created:
    return trial.create("j/created", b"a new object")


def put(trial: Trial) -> None:
    trial.put("j/first", b"first, again")


def create_in_new_directories(trial: Trial) -> Created:
    return trial.create("new/newer/created", b"a new object")


def calls_of(act: Act, top: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The calls to the disk that an act makes."""
    trial = new_trial(top, monkeypatch, f"calls of {act.__name__}")
    before = len(trial.os.calls)
    act(trial)
    return trial.os.calls[before:]


def create_other(trial: Trial) -> Created:
    return trial.create("j/created", b"another object")


def interrupted(trial: Trial, first: Act, number: int, second: Act) -> list[object]:
    """What comes of two acts, when the second happens as a whole before a call of the first."""
    outcomes: list[object] = []
    trial.interrupt(number, lambda: outcomes.append(second(trial)))
    outcomes.append(first(trial))
    return outcomes


@pytest.mark.parametrize("first, second", [(create, put), (put, create), (create, create_other)])
def test_writers_in_one_directory_at_the_same_time_keep_their_promises(
    tmp_path: Path, scratch: Path, monkeypatch: pytest.MonkeyPatch, first: Act, second: Act
) -> None:
    for number in range(len(calls_of(first, tmp_path, monkeypatch))):
        trial = new_trial(tmp_path, monkeypatch, number)
        assert interrupted(trial, first, number, second).count(Created.LANDED) == 1
        assert check(trial, scratch / f"{number}").wrong is None


def repeats_a_failed_sync(trial: Trial) -> bool:
    """Whether a file was synced once more after that had failed."""
    files = {event.node for event in trial.record if isinstance(event, Named) and not event.is_folder}
    failed: set[int] = set()
    for event in trial.record:
        if isinstance(event, Synced | SyncFailed) and event.node in failed & files:
            return True
        if isinstance(event, SyncFailed):
            failed.add(event.node)
    return False


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EIO])
def test_a_create_on_a_failing_disk_shows_nothing_or_is_unknown(
    tmp_path: Path, scratch: Path, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    calls = calls_of(create, tmp_path, monkeypatch)
    assert [name for name in calls if name not in ("open", "close", "write")] == ["fsync", "link", "fsync", "unlink"]
    for number, name in enumerate(calls):
        is_visible = number > calls.index("link")
        trial = new_trial(tmp_path, monkeypatch, number)
        trial.fail(number, OSError(code, os.strerror(code)))
        if is_visible:
            assert create(trial) is (Created.LANDED if name == "unlink" else Created.UNKNOWN)
            assert trial.store.get("j/created") == b"a new object"
        else:
            with pytest.raises(StorageFailure, match="j/created"):
                create(trial)
            assert files(trial.root) == ["j/first"]
            trial.work()
            assert create(trial) is Created.LANDED
        assert sorted(item.key for item in trial.store.list()) == ["j/created", "j/first"]
        assert not repeats_a_failed_sync(trial)
        assert check(trial, scratch / f"{number}").wrong is None


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EIO])
def test_a_put_on_a_failing_disk_leaves_the_old_object_or_the_new_one(
    tmp_path: Path, scratch: Path, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    calls = calls_of(put, tmp_path, monkeypatch)
    for number, name in enumerate(calls):
        trial = new_trial(tmp_path, monkeypatch, number)
        trial.fail(number, OSError(code, os.strerror(code)))
        if name == "unlink":  # of the file aside, which was renamed away
            put(trial)
        else:
            with pytest.raises(StorageFailure, match="j/first"):
                put(trial)
        is_new = number > calls.index("rename")
        assert trial.store.get("j/first") == (b"first, again" if is_new else b"first")
        assert files(trial.root) == ["j/first"]
        trial.work()
        if number > calls.index("rename") and name != "unlink":
            # The sync of the directory failed: this store promises nothing any more, a new one begins anew.
            with pytest.raises(StorageFailure, match="an earlier sync failed"):
                put(trial)
            trial.store = LocalStore(trial.root)
        put(trial)
        assert not repeats_a_failed_sync(trial)
        assert check(trial, scratch / f"{number}").wrong is None


def test_a_failing_disk_shows_nothing_of_an_object_in_new_directories(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = calls_of(create_in_new_directories, tmp_path, monkeypatch)
    assert calls.count("mkdir") == 2
    for number in range(calls.index("link") + 1):
        trial = new_trial(tmp_path, monkeypatch, number)
        trial.fail(number, OSError(errno.EIO, "bad disk"))
        with pytest.raises(StorageFailure, match="new/newer/created"):
            create_in_new_directories(trial)
        trial.work()
        assert files(trial.root) == ["j/first"]
        assert create_in_new_directories(trial) is Created.LANDED
        assert not repeats_a_failed_sync(trial)


@pytest.mark.parametrize("act", [create, put])
def test_a_process_that_was_killed_at_any_call_leaves_a_store_that_keeps_its_promises(
    tmp_path: Path, scratch: Path, monkeypatch: pytest.MonkeyPatch, act: Act
) -> None:
    for number in range(len(calls_of(act, tmp_path, monkeypatch))):
        trial = new_trial(tmp_path, monkeypatch, number)
        trial.fail(number, Gone())
        with pytest.raises(Gone):
            act(trial)
        trial.restart()
        assert trial.create("j/next", b"the next object") is Created.LANDED
        assert check(trial, scratch / f"{number}").wrong is None


# A directory that is there need not last: whoever made it may be just about to sync it into the one above, may
# have been killed before, or may have failed to.
@pytest.mark.parametrize("how", ["is about to sync", "was killed", "failed to sync"])
def test_a_directory_lasts_before_what_is_in_it_is_acknowledged(
    tmp_path: Path, scratch: Path, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    """The first writer makes a directory, and before it is synced a second one uses it."""
    calls = calls_of(create_in_new_directories, tmp_path, monkeypatch)
    trial = new_trial(tmp_path, monkeypatch, "trial")
    sync = calls.index("fsync")
    if how == "is about to sync":
        trial.interrupt(sync, lambda: trial.create("new/another", b"of another writer"))
    else:
        trial.fail(sync, Gone() if how == "was killed" else OSError(errno.EIO, "bad disk"))
    with suppress(Gone, StorageFailure):
        create_in_new_directories(trial)
    trial.restart()
    trial.create("new/another", b"of another writer")
    assert check(trial, scratch).wrong is None


# An object that can be read need not last: its writer was killed between the link and the sync of the directory, or
# that sync failed. So a create that is lost syncs the directory before it says so, a writer that finds its own entry
# creates it once more, and a store whose sync of a directory failed fails from then on.
@pytest.mark.parametrize("how", ["was killed", "failed to sync"])
def test_an_entry_that_a_repeat_finds_to_be_its_own_lasts(
    tmp_path: Path, scratch: Path, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    calls = calls_of(create, tmp_path, monkeypatch)
    trial = new_trial(tmp_path, monkeypatch, "trial")
    sync = len(calls) - 1 - calls[::-1].index("fsync")
    trial.fail(sync, Gone() if how == "was killed" else OSError(errno.EIO, "bad disk"))
    with suppress(Gone):
        assert create(trial) is Created.UNKNOWN
    if how == "was killed":
        trial.restart()
    trial.work()
    with suppress(StorageFailure):  # then the outcome stays unknown, which is right
        assert create(trial) is Created.LOST
        if trial.store.get("j/created") == b"a new object":
            trial.record.append(Settled("j/created", b"a new object"))
    assert check(trial, scratch).wrong is None


class ForgetsFiles(Recorder):
    """A planted mistake: files are not synced."""

    def fsync(self, file: int) -> None:
        if self.is_folder(file):
            super().fsync(file)


class ForgetsFolders(Recorder):
    """A planted mistake: directories are not synced."""

    def fsync(self, file: int) -> None:
        if not self.is_folder(file):
            super().fsync(file)


@pytest.mark.parametrize("mistake", [ForgetsFiles, ForgetsFolders])
def test_a_store_that_forgets_to_sync_is_caught(
    tmp_path: Path, scratch: Path, monkeypatch: pytest.MonkeyPatch, mistake: type[Recorder]
) -> None:
    trial = Trial(tmp_path, monkeypatch, mistake)
    trial.create("j/1", b"0123456789")
    checked = check(trial, scratch)
    print(checked)
    assert checked.wrong is not None
    assert checked.wrong.startswith("j/1 is ")


class CarelessStore(LocalStore):
    """Two planted mistakes."""

    def __init__(self, trial: Trial) -> None:
        super().__init__(trial.root)
        self._os = trial.os

    def _make_directory(self, directory: Path) -> None:
        """New directories are not synced into those above."""
        if not directory.is_dir():
            self._make_directory(directory.parent)
            self._os.mkdir(directory)

    def create(self, key: str, data: bytes) -> Created:
        """`O_EXCL` is not enough: the name is there before the bytes are."""
        path = self._path(key)
        super()._make_directory(path.parent)
        file = self._os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
        local._write(file, data)
        self._os.fsync(file)
        self._os.close(file)
        local._sync(path.parent)
        return Created.LANDED


@pytest.mark.parametrize("act, is_torn", [(Trial.put, False), (Trial.create, True)])
def test_a_careless_store_is_caught(
    tmp_path: Path,
    scratch: Path,
    monkeypatch: pytest.MonkeyPatch,
    act: Callable[[Trial, str, bytes], object],
    is_torn: bool,
) -> None:
    trial = Trial(tmp_path, monkeypatch)
    trial.store = CarelessStore(trial)
    act(trial, "j/1", b"0123456789")
    checked = check(trial, scratch)
    print(checked)
    assert checked.wrong is not None
    assert ("j/1 is None" in checked.wrong) != is_torn
