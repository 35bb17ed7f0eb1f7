"""Folders of temporary files that do not outlive their process for long, however it ends.

A process that is killed, as Spark kills the workers of a cancelled job, cannot remove its files. So each folder has a
lock that its process holds, and which ends with it. The next process that needs a folder removes those that nothing
locks.
"""

from __future__ import annotations

import fcntl
import os
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from shoal.lazy import lazy

if TYPE_CHECKING:
    import shutil
    import tempfile
else:
    shutil = lazy("shutil")
    tempfile = lazy("tempfile")

_PREFIX = "shoal-spill-"
_UNFINISHED = "shoal-new-"
"""The name of a folder whose lock is not held yet: nobody may take it for one without a holder."""
_LOCK = "lock"


class TemporaryFolder:
    """A folder for the files of this process."""

    def __init__(self) -> None:
        remove_abandoned()
        folder = Path(tempfile.mkdtemp(prefix=_UNFINISHED))
        self._lock = os.open(folder / _LOCK, os.O_CREAT | os.O_RDWR, 0o600)
        fcntl.flock(self._lock, fcntl.LOCK_EX)
        self.path = folder.rename(folder.with_name(_PREFIX + folder.name.removeprefix(_UNFINISHED)))

    def remove(self) -> None:
        """Remove the folder with all that is in it."""
        shutil.rmtree(self.path, ignore_errors=True)
        os.close(self._lock)


def remove_abandoned() -> None:
    """Remove the folders of processes that have ended."""
    for folder in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
        with suppress(OSError):  # of another user, held, or removed meanwhile
            lock = os.open(folder / _LOCK, os.O_RDWR)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(folder, ignore_errors=True)
            finally:
                os.close(lock)
